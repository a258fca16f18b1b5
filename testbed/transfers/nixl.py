"""NIXL between two engines: prefill first, and decode gets the parameters of its answer and pulls the blocks.

The prefill engine keeps the blocks for a lease of some 30 s; where decode never comes, they are released after it.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from testbed.journal.events import ORDERS_KEY, PATH_KEY
from testbed.spec.topology import LoadFailure
from testbed.transfers.handoff import Body, Handoff, HandoffError, Link, one_token, with_params

CONNECTOR = "NixlConnector"
SIDE_CHANNEL = "side_channel"
PORTS: tuple[str, ...] = (SIDE_CHANNEL,)
PEER_PORT: str | None = None
LOAD_PATHS = {"cpu": "loopback_tcp", "cuda": "gpu_link"}
LEASE_S = 30


def connector_config(
    role: Literal["prefill", "decode"], failure: LoadFailure, orders_path: str,
    device: Literal["cpu", "cuda"] = "cpu",
) -> dict[str, Any]:
    """What an engine gets as `--kv-transfer-config`; `device` is where the blocks lie."""
    return {
        "kv_connector": f"Probed{CONNECTOR}",
        "kv_connector_module_path": "testbed.probe.connector",
        "kv_role": "kv_producer" if role == "prefill" else "kv_consumer",
        "kv_buffer_device": device,
        "kv_load_failure_policy": failure.policy,
        "kv_connector_extra_config": {
            "kv_lease_duration": LEASE_S, ORDERS_KEY: orders_path, PATH_KEY: LOAD_PATHS[device],
        },
    }


def engine_env(ports: Mapping[str, int], device: Literal["cpu", "cuda"] = "cpu") -> dict[str, str]:
    """What an engine's environment needs besides.

    On a CPU the bytes go over loopback TCP: with shared memory a pull that stalls holds up the whole engine.
    """
    found = {
        "VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1",  # its default is a name, which may be an address of another kind
        "VLLM_NIXL_SIDE_CHANNEL_PORT": str(ports[SIDE_CHANNEL]),
        "UCX_RCACHE_MAX_UNRELEASED": "1024",  # as vLLM sets it, unless the probe was first to load NIXL
    }
    return found | {"UCX_TLS": "tcp,self"} if device == "cpu" else found

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
