"""The value that is not there, and why."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Missing:
    """Stands where a number would be if it had been measured; never 0, NaN or an empty cell."""

    reason: str

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return f"no value: {self.reason}"
