"""The router of a live deployment: asked as an engine is, and told which journal its events belong to."""

from pathlib import Path

from testbed.engines.api import EngineApi
from testbed.errors import RunError


class RouterApi:
    """The router at `url`. Each call has a deadline and is made once."""

    def __init__(self, url: str, served_name: str, limit_s: float = 60.0) -> None:
        import httpx

        self.as_engine = EngineApi(url, served_name, limit_s)
        self._url = url
        self._client = httpx.Client(timeout=limit_s, transport=httpx.HTTPTransport(retries=0), trust_env=False)
        self._errors = httpx.HTTPError

    def enter(self, folder: Path, arm: str, repetition: int) -> None:
        """Events go to the journal in `folder`, as of this arm, from now on.

        Raises: RunError with the router's words where it can't.
        """
        order = {"folder": str(folder), "arm": arm, "repetition": repetition}
        try:
            answer = self._client.post(f"{self._url}/control/journal", json=order)
        except self._errors as problem:
            raise RunError(f"does not answer: {problem}", where=f"router at {self._url}") from problem
        if answer.status_code != 200:
            raise RunError(f"answered {answer.status_code}: {answer.text[:300]}", where=f"router at {self._url}")

    def close(self) -> None:
        """Give the connections back."""
        self.as_engine.close()
        self._client.close()
