"""Let vLLM's own parser judge the flags of engines, in a child process: it takes long to import, and exits on an error.

    python -m testbed.engines.judge '{"NAME": ["--model", …]}'     prints {"version": …, "problems": {"NAME": …}}

Flags for GPUs are judged on a CPU build just the same: nothing is looked for but names and values.
"""

import contextlib
import io
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from testbed.engines.child import Talk, run_python
from testbed.engines.command import MODULE
from testbed.errors import SpecError

_LIMIT_S = 120.0

Parse = Callable[[Sequence[str]], object]


class Judged(msgspec.Struct, frozen=True):
    """The version of the judge, and what it does not take, by engine."""

    version: str
    problems: dict[str, str]


def flags_of_command(command: Sequence[str]) -> list[str]:
    """What stands behind the module in an engine's command."""
    return list(command[list(command).index(MODULE) + 1 :])


def judge_commands(commands: Mapping[str, Sequence[str]], talk: Talk) -> str:
    """Judge the commands of engines by name; return the version of the judge.

    Raises: SpecError with the parser's words on each that is not taken; DeployError where vLLM can't be asked.
    """
    order = json.dumps({name: flags_of_command(command) for name, command in commands.items()})
    text = run_python(["-m", __name__, order], what="vLLM's parser judges the flags", talk=talk, limit_s=_LIMIT_S)
    judged = msgspec.json.decode(text.splitlines()[-1], type=Judged)
    if judged.problems:
        said = "\n".join(f"{name}: {words}" for name, words in judged.problems.items())
        raise SpecError(said, where="engines.args", hint=f"vLLM {judged.version} does not take these flags")
    return judged.version


def problems_of(flags: Mapping[str, Sequence[str]], parse: Parse) -> dict[str, str]:
    """What `parse` says of each that it does not take: it exits, or raises ValueError."""
    found: dict[str, str] = {}
    for name, given in flags.items():
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said):
                parse(given)
        except SystemExit:
            found[name] = _last_line(said.getvalue())
        except ValueError as problem:
            found[name] = " ".join(str(problem).split())
    return found


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "not taken, without a word"


def _vllm() -> tuple[str, Any]:
    import vllm
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    return vllm.__version__, make_arg_parser(FlexibleArgumentParser())


def main(order: str) -> None:
    """Judge, and print the judgement as the last line."""
    version, parser = _vllm()
    problems = problems_of(json.loads(order), lambda flags: parser.parse_args(list(flags)))
    print(msgspec.json.encode(Judged(version, problems)).decode())


if __name__ == "__main__":
    main(sys.argv[1])
