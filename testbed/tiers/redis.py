"""A Redis behind a tier: ours on loopback, or one that is already there.

Neither is ever flushed: all that is removed are keys with our own prefix.
"""

import re
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import urlsplit

from testbed.errors import RunError, SpecError

T = TypeVar("T")

NAME = "redis"
_WILDCARDS = "*?[]^\\"


def server_command(program: str, port: int, memory_bytes: int, folder: str) -> tuple[str, ...]:
    """A Redis of ours without persistence, which drops its oldest keys beyond `memory_bytes`."""
    return (
        program,
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "no",
        "--dir",
        folder,
        "--maxmemory",
        str(memory_bytes),
        "--maxmemory-policy",
        "allkeys-lru",
    )


def address(url: str) -> tuple[str, int]:
    """Host and port of `redis://HOST:PORT/DB`.

    Raises: SpecError for a URL of another form; a password belongs into a file, and is not supported by the tier yet.
    """
    parts = urlsplit(url)
    plain = re.fullmatch(r"[^@/:]+(?::\d{1,5})?", parts.netloc) is not None
    if parts.scheme != "redis" or not plain or parts.path not in ("", "/", "/0"):
        raise SpecError(
            "is not redis://HOST:PORT",
            where="tier.backing.url",
            hint="give host and port alone: the tier takes no credentials, and database 0",
        )
    host, _, port = parts.netloc.partition(":")
    if port and not 0 < int(port) < 65536:
        raise SpecError(f"has no port {port}", where="tier.backing.url")
    return host, int(port) if port else 6379


class RedisKeys:
    """The keys of one prefix in a Redis. Every call has a deadline of `limit_s` and is made once."""

    def __init__(self, url: str, prefix: str, limit_s: float = 5.0) -> None:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        self._client = redis.Redis.from_url(
            url, socket_timeout=limit_s, socket_connect_timeout=limit_s, retry=Retry(NoBackoff(), 0)
        )
        self._errors = redis.RedisError
        self._prefix = prefix

    def _keys(self) -> list[bytes]:
        pattern = "".join(f"\\{letter}" if letter in _WILDCARDS else letter for letter in self._prefix) + "*"
        return self._ask(lambda: list(self._client.scan_iter(match=pattern, count=500)))

    def _ask(self, question: Callable[[], T]) -> T:
        try:
            return question()
        except self._errors as problem:
            raise RunError(f"does not answer: {problem}", where="redis") from problem

    def close(self) -> None:
        """Give the connections back."""
        self._client.close()

    def count(self) -> int:
        """How many keys begin with the prefix."""
        return len(self._keys())

    def remove(self) -> int:
        """Remove all keys of the prefix; return how many there were."""
        keys = self._keys()
        return self._ask(lambda: sum(int(self._client.unlink(key)) for key in keys))
