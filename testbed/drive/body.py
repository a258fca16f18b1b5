"""The JSON body of a planned request: token ids, text or a chat."""

import msgspec

from testbed.drive.endpoint import Endpoint
from testbed.drive.options import Wording
from testbed.workload.request import PlannedRequest

COMPLETIONS = "/v1/completions"
CHAT = "/v1/chat/completions"


def path_of(wording: Wording | None) -> str:
    """Where requests of this wording are posted."""
    return CHAT if wording is not None and wording.chat else COMPLETIONS


def body_of(request: PlannedRequest, endpoint: Endpoint, wording: Wording | None) -> bytes:
    """One streaming request: greedy, with token ids and usage, forced to its length if so planned.

    What not every server knows, the ids of the answer and a forced length among it, can be left out or changed by the
    endpoint's `extra_body`.
    """
    body: dict[str, object] = {
        "model": endpoint.model, **_prompt(request, wording), "max_tokens": request.max_tokens, "temperature": 0,
        "stream": True, "stream_options": {"include_usage": True}, "return_token_ids": True,
    }
    if request.stop == "forced":
        body |= {"ignore_eos": True, "min_tokens": request.max_tokens}
    if request.cache_salt is not None:
        body["cache_salt"] = request.cache_salt
    if request.priority:
        body["priority"] = request.priority
    body |= endpoint.extra_body
    return msgspec.json.encode({name: value for name, value in body.items() if value is not None})


def _prompt(request: PlannedRequest, wording: Wording | None) -> dict[str, object]:
    if wording is None:
        return {"prompt": request.prompt}
    text = wording.text_of(request.prompt)
    return {"messages": [{"role": "user", "content": text}]} if wording.chat else {"prompt": text}
