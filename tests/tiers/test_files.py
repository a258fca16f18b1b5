"""The folder that vLLM's ExampleConnector saves to, asked as any tier is."""

import hashlib
import struct
from pathlib import Path

from testbed.journal.events import PATH_KEY
from testbed.spec.topology import LoadFailure
from testbed.tiers.files import Deleted, FileTier, transfer_config


def save(tier: FileTier, prompt: tuple[int, ...]) -> None:
    """As the connector does."""
    tier.folder_of(prompt).mkdir()
    (tier.folder_of(prompt) / "model.layers.0.safetensors").write_bytes(b"kv")


def test_the_engine_is_told_the_folder_and_the_policy() -> None:
    config = transfer_config("/site/kept", LoadFailure(policy="fail"), "/site/orders.json")
    assert config["kv_connector_extra_config"]["shared_storage_path"] == "/site/kept"
    assert config["kv_connector_extra_config"][PATH_KEY] == "file_read"
    assert config["kv_load_failure_policy"] == "fail"


def test_a_prompt_is_named_by_the_whole_blocks_of_all_its_tokens_but_the_last(tmp_path: Path) -> None:
    # 8 tokens in blocks of 4: of the first 7 one block is whole; each token is eight bytes
    name = hashlib.md5(struct.pack("<4q", 5, 6, 7, 8)).hexdigest()
    assert FileTier(tmp_path, 4).folder_of((5, 6, 7, 8, 9, 10, 11, 12)) == tmp_path / name


def test_one_prompt_is_deleted_and_no_other(tmp_path: Path) -> None:
    tier = FileTier(tmp_path, 4)
    first, second = tuple(range(10)), tuple(range(100, 110))
    save(tier, first)
    save(tier, second)
    assert tier.objects_in_memory() == 2
    assert tier.delete_prompt(first) == Deleted(1, 0)
    assert tier.delete_prompt(first) == Deleted(0, 0)
    assert tier.folder_of(second).is_dir()


def test_clearing_leaves_what_is_not_a_prompt(tmp_path: Path) -> None:
    tier = FileTier(tmp_path / "kept", 4)
    assert tier.objects_in_memory() == 0
    tier.clear_memory()
    (tmp_path / "kept").mkdir()
    save(tier, tuple(range(10)))
    (tmp_path / "kept" / "note.txt").write_text("not ours")
    tier.clear_memory()
    assert [one.name for one in (tmp_path / "kept").iterdir()] == ["note.txt"]
