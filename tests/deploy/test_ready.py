"""Ready is what answers right, not what merely listens."""

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from testbed.deploy.ready import answers, is_ready
from testbed.plan.component import Ready


class Answers(BaseHTTPRequestHandler):
    """200 for /health and for a POST of {"a":1} to /ask?now; 503 for all else."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/health" else 503)
        self.end_headers()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        right = self.path == "/ask?now" and body == b'{"a":1}' and self.headers["Content-Type"] == "application/json"
        self.send_response(200 if right else 503)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on the terminal."""


@pytest.fixture
def server() -> Iterator[str]:
    """The address of a small HTTP server."""
    with HTTPServer(("127.0.0.1", 0), Answers) as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield f"127.0.0.1:{made.server_port}"
        made.shutdown()
        thread.join()


def ready(url: str, body: str | None = None) -> bool:
    return is_ready(Ready(limit_s=5.0, url=url, body=body), limit_s=5.0)


def test_only_200_is_ready(server: str) -> None:
    assert ready(f"http://{server}/health")
    assert not ready(f"http://{server}/other")


def test_a_body_is_posted_as_json(server: str) -> None:
    assert ready(f"http://{server}/ask?now", '{"a":1}')
    assert not ready(f"http://{server}/ask?now", '{"a":2}')


def test_nobody_there_is_not_ready(port: int) -> None:
    assert not ready(f"http://127.0.0.1:{port}/health")
    assert not is_ready(Ready(limit_s=5.0, port=port), limit_s=5.0)


def test_an_accepting_port_is_ready(server: str) -> None:
    assert is_ready(Ready(limit_s=5.0, port=int(server.rpartition(":")[2])), limit_s=5.0)


def test_what_never_answers_is_not_ready(port: int) -> None:
    with socket.create_server(("127.0.0.1", port)):
        assert not is_ready(Ready(limit_s=5.0, url=f"http://127.0.0.1:{port}/"), limit_s=0.2)


def test_a_web_server_is_no_ray(server: str, port: int) -> None:
    assert not answers(server)
    assert not answers(f"127.0.0.1:{port}")
    assert not answers("nonsense")
