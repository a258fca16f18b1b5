"""Addresses, keys and plain questions: one answer, or an error in the words of the server."""

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.clock import now_ns
from testbed.drive.endpoint import Endpoint, ask, check_request_id
from testbed.errors import RunError, SpecError
from tests.drive.conftest import Driver, request
from tests.drive.scripted import Scripted, plain, serving, whole

TLS = Path(__file__).resolve().parents[1] / "fixtures" / "tls"
KEY = "a key that is made up"


@pytest.fixture
def secure() -> Iterator[Scripted]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "loopback.cert.pem", TLS / "loopback.key.pem")
    with serving(lambda post: (whole(1) if post.body.get("stream") else plain(200, {"a": 1}),), context) as server:
        yield server


def test_an_id_that_would_break_the_header_is_refused() -> None:
    with pytest.raises(RunError, match="X-Request-Id"):
        check_request_id("a\r\nb: c")


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8000", "ftp://h:1", "http://h:1/v1", "http://h:1/a/v1/", "http://", "http://h:99999",
            "http://u:p@h:1", "http://h:1/?a=b", "http://h:1/a b", "http://h\r\n"],
)
def test_an_address_that_can_not_be_sent_to_is_refused(url: str) -> None:
    with pytest.raises(SpecError, match="not an address"):
        Endpoint(url, "m")


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("http://127.0.0.1:8000", ("127.0.0.1", 8000, "", False)),
        ("http://h", ("h", 80, "", False)),
        ("https://h/", ("h", 443, "", True)),
        ("https://h:1/a/b/", ("h", 1, "/a/b", True)),
        ("http://[::1]:5", ("::1", 5, "", False)),
    ],
)
def test_the_parts_of_an_address(url: str, parts: tuple[str, int, str, bool]) -> None:
    endpoint = Endpoint(url, "m")
    assert (endpoint.host, endpoint.port, endpoint.prefix, endpoint.is_secure) == parts


def test_the_head_names_the_host_as_http_wants_it() -> None:
    assert b"\r\nHost: [::1]:5\r\n" in Endpoint("http://[::1]:5", "m").head("/v1/completions")


def test_a_key_that_would_break_the_header_is_refused() -> None:
    with pytest.raises(SpecError, match="can't stand in a header"):
        Endpoint("http://h:1", "m", api_key="a\r\nb")


@pytest.mark.parametrize("name", ["model", "prompt", "messages", "stream", "max_tokens"])
def test_what_the_workload_decides_is_no_extra_field(name: str) -> None:
    with pytest.raises(SpecError, match=name):
        Endpoint("http://h:1", "m", extra_body={name: 1})


def test_the_key_goes_out_and_is_seen_nowhere_else(driven: Driver, tmp_path: Path) -> None:
    with serving(lambda post: (whole(1),)) as server:
        endpoint = Endpoint(server.base_url, "m", api_key=KEY)
        driven(endpoint, [request(0)])
    assert server.posts[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in repr(endpoint)
    written = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert written
    assert not any(KEY in text for text in written)


def test_requests_go_to_the_prefix_with_the_extra_fields(driven: Driver) -> None:
    with serving(lambda post: (whole(1),)) as server:
        extra = {"temperature": 0.5, "return_token_ids": None, "user": "me"}
        driven(Endpoint(f"{server.base_url}/some/where/", "m", extra_body=extra), [request(0)])
    body = server.posts[0].body
    assert server.posts[0].path == "/some/where/v1/completions"
    assert (body["temperature"], body["user"], body["model"]) == (0.5, "me", "m")
    assert "return_token_ids" not in body


def test_a_server_behind_tls_is_driven_and_asked(driven: Driver, secure: Scripted) -> None:
    endpoint = Endpoint(secure.base_url, "m", ca_file=str(TLS / "loopback.cert.pem"))
    run = driven(endpoint, [request(index, index * 0.02) for index in range(5)])
    assert run.reasons() == {"ok": 5}
    assert ask(endpoint, {}, request_id="g", timeout_s=5) == {"a": 1}


def test_a_certificate_that_is_not_trusted_is_a_failure_to_connect(driven: Driver, secure: Scripted) -> None:
    run = driven(Endpoint(secure.base_url, "m"), [request(0)])
    assert run.reasons() == {"failed/connect": 1}
    assert "certificate verify failed" in str(run.ended[0].error).lower()


def test_of_the_addresses_of_a_name_the_one_that_listens_is_taken(
    driven: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(lambda post: (whole(1),)) as server:
        port = int(server.base_url.rpartition(":")[2])
        two = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (host, port)) for host in ("127.0.0.2", "127.0.0.1")]
        monkeypatch.setattr("testbed.drive.client.socket.getaddrinfo", lambda *_, **__: two)
        run = driven(f"http://localhost:{port}", [request(0)])
    assert run.reasons() == {"ok": 1}


def test_a_file_of_certificates_that_is_not_there_is_named() -> None:
    with pytest.raises(SpecError, match="no file of certificates"):
        Endpoint("https://h:1", "m", ca_file="nowhere.pem").tls()


def test_ask_returns_the_whole_answer() -> None:
    with serving(lambda post: (plain(200, {"asked": post.body}),)) as server:
        answer = ask(Endpoint(f"{server.base_url}/p", "m", api_key=KEY), {"n": 1}, request_id="g", timeout_s=5)
    assert answer == {"asked": {"n": 1}}
    assert (server.posts[0].path, server.posts[0].headers["authorization"]) == ("/p/v1/completions", f"Bearer {KEY}")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (plain(500, {"error": "fails as told"}), r"g got status 500.*fails as told"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", "not JSON"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", "not a JSON object"),
    ],
)
def test_ask_raises_with_the_words_of_the_server(answer: bytes, said: str) -> None:
    with serving(lambda post: (answer,)) as server, pytest.raises(RunError, match=said):
        ask(Endpoint(server.base_url, "m"), {}, request_id="g", timeout_s=5)


def test_ask_gives_up_after_its_time() -> None:
    with serving(lambda post: ("hang",)) as server:
        began_ns = now_ns()
        with pytest.raises(RunError, match="no answer to g"):
            ask(Endpoint(server.base_url, "m"), {}, request_id="g", timeout_s=0.2)
        assert now_ns() - began_ns < 10e9
