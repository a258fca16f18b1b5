"""Ask a server what it has, and one plain question, before a schedule starts; what is wrong is told in two lines."""

import http.client
import json
from dataclasses import dataclass

from testbed.drive.endpoint import Endpoint
from testbed.errors import DeployError, RunError, SpecError, TestbedError
from testbed.missing import Missing
from testbed.spec.suggest import did_you_mean

MODELS_LIMIT_S = 10.0
QUESTION_LIMIT_S = 60.0
"""A cold engine may compile before its first answer."""
STAND_IN = ("stub", "testbed stand-in")
"""The model that our stand-in serves, and the owner that it tells: numbers made with it are none of an engine's."""
OTHER_SERVERS = (
    "--send-text for a server that takes no token ids; --extra-body '{\"return_token_ids\": null}' leaves a field out; "
    "--no-ignore-eos for one that can't force lengths"
)
_BODY_LIMIT_BYTES = 200_000
_SAID_CHARACTERS = 300


@dataclass(frozen=True)
class Reply:
    """An HTTP status, and as much of the body as matters."""

    status: int
    body: bytes

    @property
    def said(self) -> str:
        """The message of a JSON error, else the start of the text."""
        text = self.body.decode(errors="backslashreplace")
        try:
            content = json.loads(text)
        except ValueError:
            return text[:_SAID_CHARACTERS].strip()
        for key in ("error", "message", "detail"):
            content = content.get(key, content) if isinstance(content, dict) else content
        return (content if isinstance(content, str) else text)[:_SAID_CHARACTERS].strip()


@dataclass(frozen=True)
class Served:
    """The models of a server, the longest context of each that tells, and who says to own the server."""

    models: tuple[str, ...]
    contexts: tuple[int | None, ...]
    owners: tuple[str, ...] = ()

    def context(self, model: str) -> int | Missing:
        """Tokens that prompt and answer of `model` may have together."""
        found = dict(zip(self.models, self.contexts, strict=True)).get(model)
        return Missing("the server does not tell the length of its context") if found is None else found


def normal_url(text: str) -> str:
    """Users write host:port, and end a base URL with /v1 as other clients want it; both mean the same.

    Raises: SpecError for a URL with a password in it, which would stand in every file of the run.
    """
    url = text if "://" in text else f"http://{text}"
    if "@" in url:
        raise SpecError("has a name or a password in it", where="--url", hint="--api-key-env NAME sends a key")
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


def ask_models(endpoint: Endpoint) -> Served | Missing:
    """What the server lists at /v1/models; Missing where it has no such list.

    Raises: DeployError if it can't be reached, SpecError if it wants a key.
    """
    where = f"{endpoint.base_url}/v1/models"
    reply = _send(endpoint, "GET", "/v1/models", None, MODELS_LIMIT_S, {})
    if reply.status in (401, 403):
        raise _refused(endpoint, reply, where)
    if reply.status != 200:
        return Missing(f"/v1/models answers with status {reply.status}")
    try:
        listed = json.loads(reply.body)["data"]
        models = tuple(str(one["id"]) for one in listed)
        contexts = tuple(one.get("max_model_len") for one in listed)
        owners = tuple(str(one.get("owned_by")) for one in listed)
    except (ValueError, KeyError, TypeError):
        return Missing("/v1/models is no list of models")
    return Served(models, tuple(one if isinstance(one, int) else None for one in contexts), owners)


def choose_model(named: str | None, served: Served | Missing) -> str:
    """The model to ask for: the one that was named, else the first of the server.

    A name that the server does not list is let through: some serve more than they list, and the question will tell.
    Raises: SpecError
    """
    if named is not None:
        return named
    if isinstance(served, Missing) or not served.models:
        why = served.reason if isinstance(served, Missing) else "/v1/models is empty"
        raise SpecError(f"which model? {why}", where="--model", hint="name it")
    return served.models[0]


def ask_once(endpoint: Endpoint, path: str, body: bytes, request_id: str, *, served: Served | Missing) -> None:
    """Post one request like those of the schedule, and see that it is answered.

    Raises: DeployError if there is no answer, SpecError or RunError by what the answer says.
    """
    where = f"{endpoint.base_url}{path}"
    headers = {"Content-Type": "application/json", "X-Request-Id": request_id}
    reply = _send(endpoint, "POST", path, body, QUESTION_LIMIT_S, headers)
    if reply.status in (401, 403):
        raise _refused(endpoint, reply, where)
    if reply.status == 404:
        raise _not_found(endpoint, reply, served, where)
    if 400 <= reply.status < 500 and reply.status != 429:
        said = f"refuses a plain question: status {reply.status}: {reply.said}"
        raise SpecError(said, where=where, hint=OTHER_SERVERS)
    if reply.status != 200:
        raise RunError(f"answers a plain question with status {reply.status}: {reply.said}", where=where)
    if not _has_choices(reply.body):
        raise RunError(f"answers a plain question with no token: {reply.said}", where=where)


def _has_choices(body: bytes) -> bool:
    """Whether a stream holds a chunk with choices and no error."""
    return b'"choices"' in body and b'"error":{' not in body.replace(b" ", b"")


def _not_found(endpoint: Endpoint, reply: Reply, served: Served | Missing, where: str) -> SpecError:
    """No such model, or no such path: a server answers both with 404."""
    if isinstance(served, Missing) or endpoint.model in served.models:
        hint = "see --endpoint, --url and --model"
        return SpecError(f"is not there: status 404: {reply.said}", where=where, hint=hint)
    near = did_you_mean(endpoint.model, served.models)
    hint = near if near else f"it has {', '.join(served.models)}"
    return SpecError(f'has no model "{endpoint.model}": status 404: {reply.said}', where=where, hint=hint)


def _refused(endpoint: Endpoint, reply: Reply, where: str) -> TestbedError:
    if endpoint.api_key is None:
        hint = "--api-key-env NAME, with the variable that holds the key"
        return SpecError(f"wants a key: status {reply.status}: {reply.said}", where=where, hint=hint)
    return SpecError(f"does not take the key: status {reply.status}: {reply.said}", where=where)


def _send(
    endpoint: Endpoint, method: str, path: str, body: bytes | None, limit_s: float, headers: dict[str, str]
) -> Reply:
    """One request on a connection of its own; `limit_s` bounds each wait."""
    where = f"{endpoint.base_url}{path}"
    key = {} if endpoint.api_key is None else {"Authorization": f"Bearer {endpoint.api_key}"}
    connection = _connection(endpoint, limit_s)
    try:
        connection.request(method, f"{endpoint.prefix}{path}", body, {**headers, **key})
        response = connection.getresponse()
        return Reply(response.status, _without_key(response.read(_BODY_LIMIT_BYTES), endpoint.api_key))
    except TimeoutError as problem:
        raise DeployError(f"no answer within {limit_s:g} s", where=where) from problem
    except (OSError, http.client.HTTPException) as problem:
        told = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise DeployError(
            f"can't be reached: {told if told else type(problem).__name__}", where=where,
            hint="is the server up? see --url",
        ) from problem
    finally:
        connection.close()


def _connection(endpoint: Endpoint, limit_s: float) -> http.client.HTTPConnection:
    tls = endpoint.tls()
    if tls is None:
        return http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=limit_s)
    return http.client.HTTPSConnection(endpoint.host, endpoint.port, timeout=limit_s, context=tls)


def _without_key(body: bytes, key: str | None) -> bytes:
    """Some servers repeat a key that they don't take."""
    return body if not key else body.replace(key.encode(), b"(the key)")


def is_stand_in(served: Served | Missing) -> bool:
    """Whether this is our own stand-in and no engine."""
    model, owner = STAND_IN
    return not isinstance(served, Missing) and (model in served.models or owner in served.owners)
