"""One request to an engine as bytes."""

from testbed.router.engine import Engine
from testbed.router.headers import Headers, header_lines


def message(
    engine: Engine, method: str, path: str, *, body: bytes = b"", headers: Headers | None = None,
    request_id: str | None = None,
) -> bytes:
    """A whole HTTP/1.1 request, with the headers of the client that are for the far end."""
    given = header_lines(headers) if headers else b""
    named = f"X-Request-Id: {request_id}\r\n" if request_id is not None else ""
    length = f"Content-Length: {len(body)}\r\n" if body or method == "POST" else ""
    head = f"{method} {path} HTTP/1.1\r\nHost: {engine.host}:{engine.port}\r\n{named}{length}"
    return b"%b%b\r\n%b" % (head.encode("latin-1"), given, body)
