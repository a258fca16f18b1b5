"""All handoffs by the name that a topology gives its transfer."""

from collections.abc import Mapping

from testbed.transfers import mooncake_p2p, nixl, tier
from testbed.transfers.handoff import Handoff

HANDOFFS: Mapping[str, Handoff] = {
    handoff.name: handoff for handoff in (mooncake_p2p.HANDOFF, nixl.HANDOFF, tier.HANDOFF)
}
