"""Mooncake between two engines: both legs leave at once, and find each other by a transfer id.

Decode is told where the prefill engine's bootstrap server is and which engine answers there; prefill pushes the blocks
when it has them. Its answer carries no parameters. The bootstrap server tells who it is: `{"0": {"engine_id": …}}`.
"""

import msgspec

from testbed.transfers.handoff import Body, Handoff, HandoffError, Link, PeerQuestion, one_token, with_params

BOOTSTRAP_PATH = "/query"


class _Worker(msgspec.Struct, frozen=True):
    engine_id: str


def engine_id_of(answer: bytes) -> str:
    """Who the prefill engine is, out of the answer to `BOOTSTRAP_PATH`.

    Raises: HandoffError where no engine has registered, or the answer is another.
    """
    try:
        workers = msgspec.json.decode(answer, type=dict[str, _Worker])
    except msgspec.MsgspecError as problem:
        raise HandoffError(f"the bootstrap server's answer is not understood: {problem}") from problem
    if "0" not in workers:
        raise HandoffError("no engine has registered at the bootstrap server")
    return workers["0"].engine_id


def _prefill(body: Body, link: Link) -> Body:
    params = {"do_remote_decode": True, "do_remote_prefill": False, "transfer_id": link.transfer_id}
    return with_params(one_token(body), params)


def _decode(body: Body, link: Link, answer: bytes) -> Body:
    if link.peer_id is None or link.peer_url is None:
        raise HandoffError("decode can't be told who prefills")
    return with_params(body, {
        "do_remote_decode": False, "do_remote_prefill": True, "transfer_id": link.transfer_id,
        "remote_engine_id": link.peer_id, "remote_bootstrap_addr": link.peer_url,
    })


def _peer(link: Link, answer: bytes) -> str | None:
    return link.peer_id


HANDOFF = Handoff(
    "mooncake_p2p", together=True, single=True, question=PeerQuestion(BOOTSTRAP_PATH, engine_id_of),
    prefill=_prefill, decode=_decode, peer=_peer,
)
