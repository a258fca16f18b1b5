"""`testbed`: finds the verb, and turns what happened into an exit code.

0 all right, 1 a check failed, 2 files or flags are wrong, 3 this machine can't, 4 the run is not valid, 70 our own bug,
130 and 143 interrupted, 141 the reader of our output has left. Only here all errors are caught.
"""

import importlib
import signal
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Annotated, Literal

import typer
from typer.exceptions import TyperException

from testbed import __version__
from testbed.errors import TestbedError

Panel = Literal["deployment", "experiment", "result", "theory"]

EXIT_USAGE, EXIT_BUG, EXIT_INTERRUPTED, EXIT_PIPE_CLOSED, EXIT_TERMINATED = 2, 70, 130, 141, 143


@dataclass(frozen=True)
class Verb:
    """One verb. Its function has the verb's name (`-` as `_`) and stands in `module`.

    The module is imported for `testbed --help` already, so it imports at its top only what is quick, and the rooms that
    do the work inside the function. What the function returns as an int is the exit code. With `words`, flags that are
    not known come to it as words, so that it can say what to write instead.
    """

    name: str
    panel: Panel
    module: str
    words: bool = False


VERBS: tuple[Verb, ...] = (
    Verb("plan", "deployment", "testbed.cli.plan"),
    Verb("up", "deployment", "testbed.cli.up"),
    Verb("status", "deployment", "testbed.cli.up"),
    Verb("logs", "deployment", "testbed.cli.up"),
    Verb("restart", "deployment", "testbed.cli.up"),
    Verb("down", "deployment", "testbed.cli.up"),
    Verb("run", "experiment", "testbed.cli.run"),
    Verb("demo", "experiment", "testbed.cli.run"),
    Verb("load", "experiment", "testbed.cli.load", words=True),
    Verb("report", "result", "testbed.cli.report"),
    Verb("metrics", "result", "testbed.cli.metrics"),
    Verb("calibrate", "theory", "testbed.cli.calibrate"),
    Verb("trace", "theory", "testbed.cli.trace"),
)
"""All verbs, in the order of the help."""


class Terminated(BaseException):
    """SIGTERM came; unwinds like KeyboardInterrupt, so that what is open is closed."""


def build_app(verbs: Sequence[Verb]) -> typer.Typer:
    """The command line with `verbs` in their groups."""
    app = typer.Typer(
        name="testbed", add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_testbed)
    for verb in verbs:
        function = getattr(importlib.import_module(verb.module), verb.name.replace("-", "_"))
        settings = {"ignore_unknown_options": True} if verb.words else {}
        app.command(verb.name, rich_help_panel=verb.panel, context_settings=settings)(function)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"testbed {__version__}")
        raise typer.Exit


VersionFlag = Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print it.")]


def _testbed(version: VersionFlag = False) -> None:
    """What a KV-cache tier really buys, and what is left when it fails."""


def run(verbs: Sequence[Verb], arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; errors are told on stderr."""
    previous = signal.signal(signal.SIGTERM, _terminate)
    try:
        result = build_app(verbs)(list(arguments), prog_name="testbed", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except TyperException as problem:
        message = problem.format_message()
        if message:  # empty where no verb was given, for the help was shown instead
            _tell(f"error: {message}\nhint: testbed --help, or testbed VERB --help, shows what there is")
        return EXIT_USAGE
    except TestbedError as problem:
        _tell(f"error: {problem}")
        return problem.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return EXIT_INTERRUPTED
    except Terminated:
        return EXIT_TERMINATED
    except SystemExit as ended:
        # typer ends with 1 when the reader of our output has left; but 1 is ours for a failed check.
        is_pipe = isinstance(ended.__context__, BrokenPipeError)
        return EXIT_PIPE_CLOSED if is_pipe else ended.code if isinstance(ended.code, int) else EXIT_BUG
    except Exception:
        traceback.print_exc()
        _tell("this is a bug in testbed, not in your files; please report it with the lines above")
        return EXIT_BUG
    finally:
        signal.signal(signal.SIGTERM, previous)


def _terminate(signum: int, frame: FrameType | None) -> None:
    raise Terminated


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """The `testbed` command."""
    sys.exit(run(VERBS, sys.argv[1:]))
