"""Whether the user has asked to end, and whether that can wait for a moment."""

from collections.abc import Iterator
from contextlib import contextmanager


class Stop:
    """While requests are driven, a wish to end is left to the drive; elsewhere it breaks off at once."""

    def __init__(self) -> None:
        self.asked = False
        self._driving = False

    def ask(self) -> None:
        """The user wants to end.

        Raises: KeyboardInterrupt, unless a drive is under way that has not been asked yet.
        """
        again, self.asked = self.asked, True
        if again or not self._driving:
            raise KeyboardInterrupt

    @contextmanager
    def driving(self) -> Iterator[None]:
        """Within it the first wish to end is left to the drive."""
        self._driving = True
        try:
            yield
        finally:
            self._driving = False
