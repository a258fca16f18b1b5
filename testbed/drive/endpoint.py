"""Where requests go: the address of an OpenAI server, and one plain question to it."""

import http.client
import json
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from testbed.errors import RunError, SpecError

REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]+")
"""What may stand in the X-Request-Id header."""

OURS = ("model", "prompt", "messages", "stream", "max_tokens")
"""Fields of a body that follow from the plan, so that nobody else may set them."""

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Endpoint:
    """`base_url` is scheme, host, port and what stands before /v1, such as http://127.0.0.1:8000.

    `api_key` goes out in the Authorization header and nowhere else. `extra_body` is added to each body; a field set to
    None is left out of it. `ca_file` has the certificates to trust with https, if not those of the system.
    Raises: SpecError if the address, the key or a field can't be sent.
    """

    base_url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    ca_file: str | None = None

    def __post_init__(self) -> None:
        if not _is_address(self.base_url):
            raise SpecError(
                f"{self.base_url!r} is not an address to send to",
                hint="write http://HOST:PORT or https://HOST/PREFIX, without /v1",
            )
        if self.api_key is not None and not (self.api_key.isascii() and self.api_key.isprintable()):
            raise SpecError("the API key has characters that can't stand in a header")
        ours = [name for name in self.extra_body if name in OURS]
        if ours:
            raise SpecError(f"the extra field {ours[0]!r} is not free: the workload and the model's name decide it")

    @property
    def host(self) -> str:
        """The name or address of the server."""
        return str(urlsplit(self.base_url).hostname)

    @property
    def port(self) -> int:
        """The port of the server; 80 or 443 where the URL names none."""
        parts = urlsplit(self.base_url)
        return parts.port or _PORTS[parts.scheme]

    @property
    def prefix(self) -> str:
        """What stands before /v1 in a path; often nothing."""
        return urlsplit(self.base_url).path.rstrip("/")

    @property
    def is_secure(self) -> bool:
        """Whether it is spoken to through TLS."""
        return urlsplit(self.base_url).scheme == "https"

    def tls(self) -> ssl.SSLContext | None:
        """How to check its certificate; None for plain http.

        Raises: SpecError if `ca_file` can't be read.
        """
        if not self.is_secure:
            return None
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except OSError as problem:
            raise SpecError(f"is no file of certificates: {problem}", where=self.ca_file) from problem

    def head(self, path: str) -> bytes:
        """The part of an HTTP request's head that is the same for all; `finish_head` adds the rest."""
        key = "" if self.api_key is None else f"Authorization: Bearer {self.api_key}\r\n"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return (
            f"POST {self.prefix}{path} HTTP/1.1\r\nHost: {host}:{self.port}\r\nAccept: text/event-stream\r\n"
            f"Content-Type: application/json\r\n{key}"
        ).encode()


def finish_head(head: bytes, request_id: str, body_bytes: int) -> bytes:
    """A whole head of a POST, up to its body."""
    return b"%bX-Request-Id: %b\r\nContent-Length: %d\r\n\r\n" % (head, request_id.encode(), body_bytes)


def check_request_id(request_id: str) -> str:
    """The same id.

    Raises: RunError if it would break the header.
    """
    if not REQUEST_ID.fullmatch(request_id):
        raise RunError(f"{request_id!r} can't travel as X-Request-Id", hint=f"allowed is {REQUEST_ID.pattern}")
    return request_id


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        known = parts.scheme in _PORTS and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    plain = not (parts.query or parts.fragment or parts.username) and url.isascii() and url.isprintable()
    return known and plain and " " not in url and not parts.path.rstrip("/").endswith("/v1")


def ask(
    endpoint: Endpoint, body: dict[str, Any], *, request_id: str, timeout_s: float, path: str = "/v1/completions"
) -> dict[str, Any]:
    """Post `body` once, without streaming or a retry, and return the JSON answer.

    `timeout_s` bounds each wait for the server, which for one plain answer is the whole of it.
    Raises: RunError with the server's message when there is no answer with status 200.
    """
    where = f"{endpoint.base_url}{path}"
    headers = {"Content-Type": "application/json", "X-Request-Id": request_id}
    if endpoint.api_key is not None:
        headers["Authorization"] = f"Bearer {endpoint.api_key}"
    connection = _connection(endpoint, timeout_s)
    try:
        connection.request("POST", f"{endpoint.prefix}{path}", json.dumps(body), headers)
        response = connection.getresponse()
        text = response.read()
    except (OSError, http.client.HTTPException) as problem:
        raise RunError(f"no answer to {request_id}: {problem or type(problem).__name__}", where=where) from problem
    finally:
        connection.close()
    if response.status != 200:
        said = text.decode(errors="backslashreplace")
        raise RunError(f"{request_id} got status {response.status}: {said}", where=where)
    return _json_object(text, request_id, where)


def _connection(endpoint: Endpoint, timeout_s: float) -> http.client.HTTPConnection:
    tls = endpoint.tls()
    if tls is None:
        return http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=timeout_s)
    return http.client.HTTPSConnection(endpoint.host, endpoint.port, timeout=timeout_s, context=tls)


def _json_object(text: bytes, request_id: str, where: str) -> dict[str, Any]:
    try:
        answer = json.loads(text)
    except ValueError as problem:
        raise RunError(f"the answer to {request_id} is not JSON: {problem}", where=where) from problem
    if not isinstance(answer, dict):
        raise RunError(f"the answer to {request_id} is not a JSON object", where=where)
    return answer
