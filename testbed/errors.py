"""The error tree: the class says who must act.

TestbedError
├── SpecError        the user's file or flags are wrong            exit 2
├── BoundError       a formula was given impossible numbers         exit 2
├── JournalError     the record of a run is not whole               exit 2
├── DeployError      this machine can't: port, memory, program      exit 3
└── RunError         it broke in flight; the run is not valid       exit 4

Only `cli/` catches the root. A traceback reaches the user for our own bugs alone (exit 70).
"""


class TestbedError(Exception):
    """A message for the user: what is wrong, where, and what to do.

    `where` is a file and line, a component or a flag; `hint` says what to do and is printed on its own line.
    """

    exit_code = 70

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text}\nhint: {self.hint}" if self.hint else text


class SpecError(TestbedError):
    """The user's file or flags are wrong."""

    exit_code = 2


class BoundError(TestbedError):
    """A formula was given impossible numbers."""

    exit_code = 2


class JournalError(TestbedError):
    """The record of a run is missing, foreign or damaged."""

    exit_code = 2


class DeployError(TestbedError):
    """This machine or cluster can't do what the plan asks."""

    exit_code = 3


class RunError(TestbedError):
    """Something broke in flight, so the run is not valid."""

    exit_code = 4
