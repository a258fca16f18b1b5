"""One look at whether a component is ready, or a Ray answers."""

import http.client
import socket
from urllib.parse import urlsplit

from testbed.plan.component import Ready

CONNECT_LIMIT_S = 1.0
OK = 200
ANSWER_LIMIT_S = 5.0
# The preface of an HTTP/2 connection and an empty SETTINGS frame; a live server sends its own SETTINGS back.
HTTP2_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)
FRAME_HEAD_BYTES = 9
SETTINGS_FRAME = 4


def is_ready(ready: Ready, *, limit_s: float) -> bool:
    """Ask once: the HTTP request is answered with 200 within `limit_s`, or the port accepts."""
    try:
        return _says_ok(ready.url, ready.body, limit_s) if ready.url else _accepts(ready.port)
    except (OSError, http.client.HTTPException):
        return False


def _says_ok(address: str, body: str | None, limit_s: float) -> bool:
    url = urlsplit(address)
    connection = http.client.HTTPConnection(str(url.hostname), url.port, timeout=limit_s)
    target = f"{url.path or '/'}?{url.query}" if url.query else (url.path or "/")
    try:
        if body is None:
            connection.request("GET", target)
        else:
            connection.request("POST", target, body=body, headers={"Content-Type": "application/json"})
        return connection.getresponse().status == OK
    finally:
        connection.close()


def _accepts(port: int | None) -> bool:
    if port is None:
        return True
    with socket.create_connection(("127.0.0.1", port), timeout=CONNECT_LIMIT_S):
        return True


def answers(address: str) -> bool:
    """Whether a gRPC server, as Ray's is, answers at HOST:PORT."""
    host, _, port = address.rpartition(":")
    if not port.isdigit():
        return False
    try:
        with socket.create_connection((host, int(port)), timeout=ANSWER_LIMIT_S) as connection:
            connection.sendall(HTTP2_GREETING)
            head = connection.recv(FRAME_HEAD_BYTES, socket.MSG_WAITALL)
    except OSError:
        return False
    return len(head) == FRAME_HEAD_BYTES and head[3] == SETTINGS_FRAME
