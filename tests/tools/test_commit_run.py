"""A committed run names neither the machine that made it nor a path of it."""

from pathlib import Path

from tools.check_text import PATTERNS
from tools.commit_run import REFERENCE, placeholders, scrubbed

ROOT = Path(__file__).parents[2]


def test_paths_are_replaced_where_they_stand_and_nowhere_else() -> None:
    found = placeholders(Path("/home/someone/testbed"), Path("/home/someone"))
    text = '{"a": "/home/someone/testbed/.venv/bin/python", "b": "/home/someone/.cache", "c": "x/home/someones"}'
    assert scrubbed(text, found, "vm") == '{"a": "TREE/.venv/bin/python", "b": "HOME/.cache", "c": "x/home/someones"}'


def test_a_host_name_is_replaced_as_a_whole_string_only() -> None:
    assert scrubbed('{"host": "vm", "text": "vm of vllm"}', {}, "vm") == '{"host": "host-0", "text": "vm of vllm"}'


def test_the_reference_run_holds_no_path_and_no_host() -> None:
    for path in sorted((ROOT / REFERENCE).rglob("*")):
        if path.suffix in (".json", ".jsonl", ".md", ".html"):
            text = path.read_text(encoding="utf-8")
            assert not any(pattern.search(text) for pattern in PATTERNS.values()), path
            assert '"host":"' not in text.replace('"host":"host-0"', "")
