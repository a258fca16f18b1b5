"""Where requests go: the address of an OpenAI server, and one plain question to it."""

import http.client
import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from testbed.errors import RunError, SpecError

REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]+")
"""What may stand in the X-Request-Id header."""


@dataclass(frozen=True)
class Endpoint:
    """`base_url` is scheme, host and port, such as http://127.0.0.1:8000, without /v1.

    Raises: SpecError if it is anything else.
    """

    base_url: str
    model: str

    def __post_init__(self) -> None:
        parts = urlsplit(self.base_url)
        if parts.scheme != "http" or not parts.hostname or parts.path.strip("/"):
            raise SpecError(
                f"{self.base_url!r} is not an address to send to", hint="write http://HOST:PORT, without /v1"
            )

    @property
    def host(self) -> str:
        """The name or address of the server."""
        return str(urlsplit(self.base_url).hostname)

    @property
    def port(self) -> int:
        """The port of the server; 80 where the URL names none."""
        return urlsplit(self.base_url).port or 80

    def message(self, path: str, body: bytes, request_id: str) -> bytes:
        """A whole HTTP/1.1 POST.

        Raises: RunError if `request_id` would break the header.
        """
        if not REQUEST_ID.fullmatch(request_id):
            raise RunError(f"{request_id!r} can't travel as X-Request-Id", hint=f"allowed is {REQUEST_ID.pattern}")
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\nAccept: text/event-stream\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nX-Request-Id: {request_id}\r\n\r\n"
        )
        return head.encode() + body


def ask(
    endpoint: Endpoint, body: dict[str, Any], *, request_id: str, timeout_s: float, path: str = "/v1/completions"
) -> dict[str, Any]:
    """Post `body` once, without streaming or a retry, and return the JSON answer.

    `timeout_s` bounds each wait for the server, which for one plain answer is the whole of it.
    Raises: RunError with the server's message when there is no answer with status 200.
    """
    connection = http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=timeout_s)
    where = f"{endpoint.base_url}{path}"
    try:
        connection.request(
            "POST", path, json.dumps(body), {"Content-Type": "application/json", "X-Request-Id": request_id}
        )
        response = connection.getresponse()
        text = response.read()
    except (OSError, http.client.HTTPException) as problem:
        raise RunError(f"no answer to {request_id}: {problem or type(problem).__name__}", where=where) from problem
    finally:
        connection.close()
    if response.status != 200:
        said = text.decode(errors="backslashreplace")
        raise RunError(f"{request_id} got status {response.status}: {said}", where=where)
    try:
        answer = json.loads(text)
    except ValueError as problem:
        raise RunError(f"the answer to {request_id} is not JSON: {problem}", where=where) from problem
    if not isinstance(answer, dict):
        raise RunError(f"the answer to {request_id} is not a JSON object", where=where)
    return answer
