"""What a server is asked before a schedule starts, and what its refusals become: two lines and the right exit code."""

import json
import socket
from collections.abc import Iterator

import pytest

from testbed.drive.endpoint import Endpoint
from testbed.errors import DeployError, RunError, SpecError
from testbed.experiment.asking import Reply, Served, ask_models, ask_once, choose_model, is_stand_in, normal_url
from testbed.missing import Missing
from testbed.stub.process import RunningStub, running_stub

KEY = "made-up-key"
PATH = "/v1/completions"


@pytest.fixture(scope="module")
def guarded() -> Iterator[RunningStub]:
    """A stand-in that wants a key, and has one model with a short context."""
    with running_stub(
        "--ttft-ms", "1", "--itl-ms", "1", "--model", "m-one", "--api-key", KEY, "--context-limit", "64",
    ) as stub:
        yield stub


@pytest.fixture(scope="module")
def failing() -> Iterator[RunningStub]:
    """A stand-in that answers nothing but errors."""
    with running_stub("--fail-every", "1", "--status", "503") as stub:
        yield stub


def body(model: str, tokens: int = 3) -> bytes:
    """One streaming request."""
    fields = {"model": model, "prompt": list(range(tokens)), "max_tokens": 1, "stream": True}
    return json.dumps(fields).encode()


def refused(endpoint: Endpoint, content: bytes, served: Served | Missing, path: str = PATH) -> str:
    """What a user is told of a refused question."""
    with pytest.raises(SpecError) as caught:
        ask_once(endpoint, path, content, "load.question.0.0", served=served)
    return str(caught.value)


def test_the_server_tells_its_models_and_their_context(guarded: RunningStub) -> None:
    served = ask_models(Endpoint(guarded.base_url, "", KEY))
    assert isinstance(served, Served)
    assert (served.models, served.context("m-one")) == (("m-one",), 64)
    assert isinstance(served.context("other"), Missing)
    assert choose_model(None, served) == "m-one"


def test_a_plain_question_is_answered_and_nothing_is_said(guarded: RunningStub) -> None:
    endpoint = Endpoint(guarded.base_url, "m-one", KEY)
    ask_once(endpoint, PATH, body("m-one"), "load.question.0.0", served=Missing("not asked"))


def test_a_missing_and_a_wrong_key_are_told_and_the_key_is_not_repeated(guarded: RunningStub) -> None:
    told = refused(Endpoint(guarded.base_url, "m-one"), body("m-one"), Missing("not asked"))
    assert "wants a key: status 401" in told
    assert "--api-key-env NAME" in told
    told = refused(Endpoint(guarded.base_url, "m-one", "secret-of-mine"), body("m-one"), Missing("not asked"))
    assert "does not take the key: status 401" in told
    assert "secret-of-mine" not in told


def test_an_unknown_model_gets_the_nearest_that_is_there(guarded: RunningStub) -> None:
    served = Served(("m-one", "other"), (64, None))
    told = refused(Endpoint(guarded.base_url, "m-onf", KEY), body("m-onf"), served)
    assert 'has no model "m-onf": status 404' in told
    assert told.splitlines()[1] == 'hint: did you mean "m-one"?'


def test_a_wrong_path_is_no_wrong_model(guarded: RunningStub) -> None:
    served = Served(("m-one",), (64,))
    told = refused(Endpoint(f"{guarded.base_url}/nowhere", "m-one", KEY), body("m-one"), served)
    assert "is not there: status 404" in told
    assert "--endpoint" in told


def test_what_the_server_refuses_is_told_in_its_own_words(guarded: RunningStub) -> None:
    told = refused(Endpoint(guarded.base_url, "m-one", KEY), body("m-one", tokens=100), Missing("not asked"))
    assert "refuses a plain question: status 400" in told
    assert "64" in told
    assert "--send-text" in told.splitlines()[1]


def test_a_server_in_trouble_is_no_mistake_of_the_user(failing: RunningStub) -> None:
    with pytest.raises(RunError, match="answers a plain question with status 503: the stand-in fails as told"):
        ask_once(Endpoint(failing.base_url, "stub"), PATH, body("stub"), "q.0", served=Missing("not asked"))


def test_a_server_that_is_not_there_is_told_before_anything_starts() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(DeployError) as caught:
        ask_models(Endpoint(f"http://127.0.0.1:{port}", ""))
    assert "can't be reached: Connection refused\nhint: is the server up?" in str(caught.value)


def test_a_server_that_never_answers_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.experiment.asking.MODELS_LIMIT_S", 0.05)
    silent = socket.create_server(("127.0.0.1", 0))
    with silent, pytest.raises(DeployError, match=r"no answer within 0\.05 s"):
        ask_models(Endpoint(f"http://127.0.0.1:{silent.getsockname()[1]}", ""))


def test_a_server_without_a_list_of_models_needs_one_named(failing: RunningStub) -> None:
    served = ask_models(Endpoint(f"{failing.base_url}/nowhere", ""))
    assert isinstance(served, Missing)
    with pytest.raises(SpecError, match="which model"):
        choose_model(None, served)
    assert choose_model("named", served) == "named"


def test_the_stand_in_is_known_whatever_its_model_is_called(guarded: RunningStub, failing: RunningStub) -> None:
    assert is_stand_in(ask_models(Endpoint(guarded.base_url, "", KEY)))
    assert is_stand_in(ask_models(Endpoint(failing.base_url, "")))
    assert not is_stand_in(Served(("llama",), (None,)))
    assert not is_stand_in(Missing("no list"))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("localhost:8000", "http://localhost:8000"), ("http://h:1/", "http://h:1"), ("http://h:1/v1", "http://h:1"),
        ("https://h/prefix/v1/", "https://h/prefix"),
    ],
)
def test_an_address_is_read_as_other_clients_write_it(written: str, meant: str) -> None:
    assert normal_url(written) == meant


def test_a_password_in_the_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(SpecError) as caught:
        normal_url("http://me:hidden@h:1")
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b'{"error": {"message": "no", "code": 1}}', "no"), (b'{"error": "no"}', "no"), (b'{"detail": "no"}', "no"),
        (b'{"message": "no"}', "no"), (b"<html>no", "<html>no"), (b'["no"]', '["no"]'), (b"\xff", "\\xff"),
    ],
)
def test_the_message_of_an_error_is_found_in_each_form(sent: bytes, said: str) -> None:
    assert Reply(400, sent).said == said
