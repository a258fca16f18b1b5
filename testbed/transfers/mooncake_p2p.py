"""Mooncake between two engines: both legs leave at once, and find each other by a transfer id.

Decode is told where the prefill engine's bootstrap server is and which engine answers there; prefill pushes the blocks
when it has them: a load waits for all of prefill's work too. Its answer carries no parameters. The bootstrap server,
which listens on all addresses, tells who it is: `{"0": {"engine_id": …}}`.

Of a prefill engine that has died decode hears nothing: it waits for the product's own limit, 540 s unless `give_up_s`
sets it. A load can't be ended sooner from outside, for bytes may still arrive in its blocks.
"""

import math
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from testbed.journal.events import ORDERS_KEY, PATH_KEY
from testbed.spec.topology import LoadFailure
from testbed.transfers.handoff import Body, Handoff, HandoffError, Link, PeerQuestion, one_token, with_params

CONNECTOR = "MooncakeConnector"
BOOTSTRAP_PATH = "/query"
BOOTSTRAP = "bootstrap"
PORTS: tuple[str, ...] = (BOOTSTRAP,)
PEER_PORT: str | None = BOOTSTRAP
_DECODE_WAITS_MORE_S = 60  # than the limit that it is given, which may therefore be below zero
LOAD_PATHS = {"tcp": "loopback_tcp", "rdma": "nic"}


def connector_config(
    role: Literal["prefill", "decode"], failure: LoadFailure, orders_path: str,
    protocol: Literal["tcp", "rdma"] = "tcp",
) -> dict[str, Any]:
    """What an engine gets as `--kv-transfer-config`; RDMA is for machines that have it."""
    return {
        "kv_connector": f"Probed{CONNECTOR}",
        "kv_connector_module_path": "testbed.probe.connector",
        "kv_role": "kv_producer" if role == "prefill" else "kv_consumer",
        "kv_load_failure_policy": failure.policy,
        "kv_connector_extra_config": {
            "mooncake_protocol": protocol, ORDERS_KEY: orders_path, PATH_KEY: LOAD_PATHS[protocol],
        },
    }


def engine_env(
    ports: Mapping[str, int], role: Literal["prefill", "decode"] | None = None, give_up_s: float | None = None
) -> dict[str, str]:
    """What an engine's environment needs besides.

    After `give_up_s` decode counts a load as failed. Prefill, which is to be told its `role` too, gives up after half
    of that, be it that decode did not ask or that its own work is not done: so it writes no more when decode gives up.
    """
    found = {"VLLM_MOONCAKE_BOOTSTRAP_PORT": str(ports[BOOTSTRAP])}
    if give_up_s is None:
        return found
    limit_s = give_up_s - _DECODE_WAITS_MORE_S if role == "decode" else give_up_s / 2
    return found | {"VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT": str(math.ceil(limit_s))}


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
