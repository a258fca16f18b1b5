"""Apart in more than name: what the decode engines count and their probes saw decides, and nothing else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from testbed.errors import RunError
from testbed.experiment import handoff_proof
from testbed.experiment.handoff_proof import TRIES, proof_prompt, prove_handoff
from testbed.experiment.live import Live
from testbed.journal.events import KvLoadEnded
from testbed.journal.writer import JournalWriter
from tests.plan.sites import planned

# Blocks of 64 tokens: a prompt of three blocks and five tokens more has 197.
TOKENS = tuple(range(1000, 2000))


@dataclass
class FakePair:
    """Decode behind a router: of each prompt it loads what `loads` says, and computes the rest."""

    journal: JournalWriter
    loads: list[int] = field(default_factory=list)
    bytes_a_token: int = 8
    answers: int | None = None
    ok: bool = True
    counts: dict[str, float] = field(default_factory=lambda: {"loaded_tokens": 0.0, "computed_tokens": 0.0})
    prompts: list[Sequence[int]] = field(default_factory=list)

    def complete(self, prompt: Sequence[int], max_tokens: int, request_id: str, extra: Mapping[str, Any]) -> Any:
        self.prompts.append(prompt)
        loaded = self.loads.pop(0) if self.loads else len(prompt) - 5
        self.counts["loaded_tokens"] += loaded
        self.counts["computed_tokens"] += len(prompt) - loaded
        self.journal.write(
            KvLoadEnded, request_id=f"{request_id}.decode", attempt=1, ok=self.ok, blocks=3, failed_blocks=0,
            load_bytes=loaded * self.bytes_a_token, path="somewhere",
        )
        return {"choices": [{"token_ids": [7] * (max_tokens if self.answers is None else self.answers)}]}

    def gauges(self) -> dict[str, float]:
        return dict(self.counts)

    @property
    def as_engine(self) -> "FakePair":
        return self


class Silent:
    """The prefill engine, which nobody may ask for the proof."""


def pair(folder: Path, **changes: Any) -> tuple[Live, FakePair]:
    journal = JournalWriter(folder / "events", "driver")
    fake: Any = FakePair(journal, **changes)
    prefill: Any = Silent()
    live = Live(
        planned("pd_tier").deployable, prefill, folder, journal, folder, others=(fake,), router=fake
    )
    return live, fake


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handoff_proof, "_SEEN_LIMIT_S", 0.15)


def test_a_load_with_bytes_and_a_rest_of_a_block_is_the_proof_for_one_token_and_for_two(tmp_path: Path) -> None:
    live, fake = pair(tmp_path)
    handed = prove_handoff(live, TOKENS, "up")
    # 197 tokens, of which three blocks, 192, come with 8 bytes each and five are computed
    assert [(one.prompt_tokens, one.loaded_tokens, one.computed_tokens) for one in handed] == [(197, 192, 5)] * 2
    assert [(one.load_bytes, one.asked, one.answered) for one in handed] == [(1536, 1, 1), (1536, 2, 2)]
    assert len({prompt[0] for prompt in fake.prompts}) == 2, "the second must not find what the first has left"


def test_a_first_transfer_that_was_given_up_is_tried_again_with_another_prompt(tmp_path: Path) -> None:
    live, fake = pair(tmp_path, loads=[0, 192, 192])
    prove_handoff(live, TOKENS, "up")
    assert len(fake.prompts) == 3
    assert len({prompt[0] for prompt in fake.prompts}) == 3


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"loads": [0] * TRIES}, r"in name only: of a prompt of 197 tokens decode loaded 0 \(0 bytes\)"),
        # 197 - 128 = 69 is more than a block of 64
        ({"loads": [128] * TRIES}, "computed 69; allowed is one block of 64"),
        ({"bytes_a_token": 0}, r"decode loaded 192 \(0 bytes\)"),
        ({"ok": False}, r"decode loaded 192 \(0 bytes\)"),
        ({"answers": 2}, "max_tokens 1 gave 2 tokens"),
    ],
)
def test_what_is_apart_in_name_only_is_refused(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    live, _ = pair(tmp_path, **changes)
    with pytest.raises(RunError, match=said):
        prove_handoff(live, TOKENS, "up")


def test_a_whole_block_may_be_computed_and_a_token_more_may_not(tmp_path: Path) -> None:
    live, _ = pair(tmp_path, loads=[197 - 64, 197 - 64])
    prove_handoff(live, TOKENS, "up")
    live, _ = pair(tmp_path / "other", loads=[197 - 65] * TRIES)
    with pytest.raises(RunError, match="computed 65"):
        prove_handoff(live, TOKENS, "up")


def test_engines_that_do_both_have_nothing_to_prove(tmp_path: Path) -> None:
    nobody: Any = Silent()
    live = Live(planned("colocated").deployable, nobody, tmp_path, JournalWriter(tmp_path, "driver"), tmp_path)
    assert prove_handoff(live, TOKENS, "up") == ()


def test_a_prompt_is_some_whole_units_long_and_fits_the_context() -> None:
    found = planned("pd_tier", tier__chunk_blocks=4).deployable
    # units of 4 x 64 = 256 tokens: three and five more
    assert len(proof_prompt(found, TOKENS, 0)) == 773
    wide = planned("pd_tier", tier__chunk_blocks=16).deployable
    # three units of 1,024 and five do not fit 2,048: less two tokens of answer and one more
    assert len(proof_prompt(wide, TOKENS, 0)) == 2045
