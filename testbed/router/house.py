"""What all requests share: the engines, who chooses among them, the way from prefill to decode, and the journal."""

import os
from collections import Counter
from collections.abc import Mapping
from functools import partial

from testbed.journal.events import LegBegan, LegEnded, Note
from testbed.router.choosing import POLICIES, Chooser
from testbed.router.engine import Engine
from testbed.router.leg import Leg
from testbed.router.peers import Peer
from testbed.router.record import Record
from testbed.spec.routing import LegRole, RouterConfig
from testbed.transfers.handoff import Handoff, PeerQuestion
from testbed.transfers.table import HANDOFFS


class House:
    """The state of one router. `answers` counts the requests by the status that they were answered with."""

    def __init__(self, config: RouterConfig, record: Record) -> None:
        self.config = config
        self.record = record
        self.engines = [Engine(at) for at in config.engines]
        self.handoff: Handoff | None = HANDOFFS[config.transfer] if config.transfer is not None else None
        self.choosers: Mapping[LegRole, Chooser] = {
            role: self._chooser(role) for role in ("both", "prefill", "decode") if self.having(role)
        }
        self.peers = self._peers(self.handoff.question if self.handoff is not None else None)
        self.in_flight = 0
        self.stopping = False
        self.answers: Counter[str] = Counter()
        self._numbers = 0

    def having(self, role: LegRole) -> list[Engine]:
        """The engines of one role."""
        return [engine for engine in self.engines if engine.role == role]

    def _chooser(self, role: LegRole) -> Chooser:
        policy = POLICIES[self.config.policy](self.config)
        return Chooser(self.having(role), policy, self.config.avoid_after_failure_s)

    def _peers(self, question: PeerQuestion | None) -> dict[str, Peer]:
        return {} if question is None else {
            engine.name: Peer(
                engine.name, engine.bootstrap_url, question, self.config.connect_s, partial(self._changed, engine)
            )
            for engine in self.engines if engine.bootstrap_url is not None
        }

    def _changed(self, engine: Engine, before: str, now: str) -> None:
        self.record.write(Note, text=f"{engine.where} is another process: it says {now}, and said {before} before")

    def next_name(self) -> str:
        """A name that no other request of this process has."""
        self._numbers += 1
        return f"router.{os.getpid()}.{self._numbers}"

    def leg_began(self, request_id: str, leg: Leg, peer: str | None) -> None:
        """One leg turns to its engine."""
        self.record.write(LegBegan, request_id=request_id, leg=leg.name, engine=leg.engine.name, peer=peer)

    def leg_ended(self, request_id: str, leg: Leg) -> None:
        """One leg is over."""
        self.record.write(
            LegEnded, request_id=request_id, leg=leg.name, engine=leg.engine.name, outcome=leg.outcome,
            reason=leg.reason, began_at_ns=leg.began_at_ns, sent_at_ns=leg.sent_at_ns,
            first_byte_at_ns=leg.first_byte_at_ns, last_byte_at_ns=leg.last_byte_at_ns, http_status=leg.status,
            pieces=leg.pieces, body_bytes=leg.body_bytes, usage_prompt_tokens=leg.usage.prompt_tokens,
            usage_output_tokens=leg.usage.output_tokens, usage_cached_tokens=leg.usage.cached_tokens, error=leg.error,
        )

    def close(self) -> None:
        """Close what lies idle, and the journal."""
        for engine in self.engines:
            engine.connections.close()
        for peer in self.peers.values():
            peer.close()
        self.record.close()
