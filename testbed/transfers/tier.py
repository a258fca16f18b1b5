"""Two engines that share a tier and nothing else: prefill first, and decode finds the prompt's KV in the tier.

No parameters are handed on. Prefill's answer is whole when the request has ended there; what it saves may still be on
its way into the tier, and decode then computes that part. There is no connector of this transfer's own: both engines
get that of the tier, whose `transfer_config` says how.
"""

from collections.abc import Mapping

from testbed.transfers.handoff import Body, Handoff, Link, one_token

PORTS: tuple[str, ...] = ()
PEER_PORT: str | None = None


def engine_env(ports: Mapping[str, int]) -> dict[str, str]:
    """Nothing besides what the tier needs."""
    return {}


def _prefill(body: Body, link: Link) -> Body:
    return one_token(body)


def _decode(body: Body, link: Link, answer: bytes) -> Body:
    return body


def _peer(link: Link, answer: bytes) -> str | None:
    return None


HANDOFF = Handoff(
    "tier", together=False, single=False, question=None, prefill=_prefill, decode=_decode, peer=_peer
)
