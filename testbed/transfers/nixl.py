"""NIXL between two engines: prefill first, and decode gets the parameters of its answer and pulls the blocks.

The prefill engine keeps the blocks for a lease of some 30 s; where decode never comes, they are released after it.
"""

import msgspec

from testbed.transfers.handoff import Body, Handoff, HandoffError, Link, one_token, with_params

_ASKED = {
    "do_remote_decode": True, "do_remote_prefill": False, "remote_engine_id": None, "remote_block_ids": None,
    "remote_host": None, "remote_port": None,
}


class _Params(msgspec.Struct, frozen=True):
    remote_engine_id: str


class _Answer(msgspec.Struct, frozen=True):
    kv_transfer_params: msgspec.Raw = msgspec.Raw(b"null")


def _params_of(answer: bytes) -> msgspec.Raw:
    try:
        params = msgspec.json.decode(answer, type=_Answer).kv_transfer_params
    except msgspec.MsgspecError as problem:
        raise HandoffError(f"prefill's answer is not understood: {problem}") from problem
    if bytes(params).strip() == b"null":
        raise HandoffError("prefill's answer has no transfer parameters: decode would compute the whole prompt again")
    return params


def _prefill(body: Body, link: Link) -> Body:
    return with_params(one_token(body), _ASKED)


def _decode(body: Body, link: Link, answer: bytes) -> Body:
    return with_params(body, _params_of(answer))


def _peer(link: Link, answer: bytes) -> str | None:
    try:
        return msgspec.json.decode(_params_of(answer), type=_Params).remote_engine_id
    except msgspec.MsgspecError as problem:
        raise HandoffError(f"prefill's transfer parameters do not say who it is: {problem}") from problem


HANDOFF = Handoff("nixl", together=False, single=True, question=None, prefill=_prefill, decode=_decode, peer=_peer)
