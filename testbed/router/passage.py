"""One request on its way: given to engines, sent once to each, answered, or told which leg failed and why.

Nothing is sent a second time, to the same engine or to another: a fault is shown, not hidden.
"""

import asyncio
import re
from functools import partial

import msgspec

from testbed.errors import SpecError
from testbed.journal.events import RouteChosen
from testbed.journal.legs import LegName, leg_id
from testbed.router.choosing import Chosen
from testbed.router.client import Asked, Client
from testbed.router.house import House
from testbed.router.leg import Leg, Limits
from testbed.router.policies.policy import Ask
from testbed.router.replies import failure, in_stream, leg_failure
from testbed.router.wire import message
from testbed.spec.routing import LegRole
from testbed.transfers.handoff import Body, Handoff, HandoffError, Link, read_body, several_sequences

REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,200}")
"""An id of another form is not passed on: the request then gets one of ours."""
_STREAM = re.compile(rb'"stream"\s*:\s*true')


class Passage:
    """One completion. It is the sink of the leg whose answer the client gets."""

    def __init__(self, house: House, asked: Asked, client: Client) -> None:
        given = asked.request_id
        self._house = house
        self._asked = asked
        self._client = client
        self._id = given if given is not None and REQUEST_ID.fullmatch(given) else house.next_name()
        self._total_at_ns = asked.received_at_ns + round(house.config.total_s * 1e9)
        self._legs: list[Leg] = []
        self._waiting_tokens: dict[LegName, int] = {}

    async def run(self) -> None:
        """To its end. Cancelling it closes the connections of all its legs."""
        handoff = self._house.handoff
        try:
            if handoff is None:
                await self._only()
            else:
                await self._apart(handoff)
        except HandoffError as problem:
            self._tell(502, failure(502, "handoff_failed", problem.message, reason="failed/handoff", leg="prefill"))
        except SpecError as problem:
            self._tell(400, failure(400, "invalid_request", problem.message))
        finally:
            for leg in self._legs:
                leg.abandon("router_stopped" if self._house.stopping else "client_gone")

    def stream(self, leg: Leg, events: bytes) -> None:
        """Events of the answer; the head goes out with the first of them."""
        if not self._client.started:
            self._settle(leg)
            self._client.begin(leg.status if leg.status is not None else 200, leg.headers)
        self._client.piece(events)

    async def _only(self) -> None:
        asked = self._asked
        [chosen] = self._choose({"only": "both"}, None)
        leg = self._begin("only", chosen, asked.body)
        await leg.ended
        self._conclude(leg)

    async def _apart(self, handoff: Handoff) -> None:
        """Prefill on one engine, decode on another."""
        body = read_body(self._asked.body)
        several = several_sequences(body) if handoff.single else None
        if several is not None:
            raise SpecError(f"{several}, and the transfer {handoff.name} hands over one sequence a request")
        prefill_on, decode_on = self._choose({"prefill": "prefill", "decode": "decode"}, body)
        link = await self._link(handoff, prefill_on)
        prefill = self._begin("prefill", prefill_on, _text(handoff.prefill(body, link)))
        if handoff.together:
            peer = handoff.peer(link, b"")
            decode = self._begin("decode", decode_on, _text(handoff.decode(body, link, b"")), peer)
            await self._together(prefill, decode)
            return
        await prefill.ended
        if prefill.outcome != "ok":
            self._fail_prefill(prefill)
            return
        answer = bytes(prefill.body)
        peer = handoff.peer(link, answer)
        decode = self._begin("decode", decode_on, _text(handoff.decode(body, link, answer)), peer)
        await decode.ended
        self._conclude(decode)

    async def _link(self, handoff: Handoff, prefill_on: Chosen) -> Link:
        name = f"{self._id}.{self._house.next_name()}"
        if handoff.question is None:
            return Link(name)
        peer = self._house.peers[prefill_on.engine.name]
        return Link(name, await peer.identity(), peer.url)

    async def _together(self, prefill: Leg, decode: Leg) -> None:
        """The failure of one leg ends the other, which might wait for it in vain."""
        await asyncio.wait({prefill.ended, decode.ended}, return_when=asyncio.FIRST_COMPLETED)
        if not decode.ended.done() and prefill.outcome != "ok":
            decode.abandon("other_leg")
            self._fail_prefill(prefill)
            return
        await decode.ended
        self._conclude(decode)
        if decode.outcome == "ok":
            await prefill.ended
        else:
            prefill.abandon("other_leg")

    def _choose(self, roles: dict[LegName, LegRole], body: Body | None) -> list[Chosen]:
        house = self._house
        chosen = {leg: house.choosers[role].choose(self._ask(role, body)) for leg, role in roles.items()}
        house.record.write(
            RouteChosen, request_id=self._id, policy=house.config.policy, transfer=house.config.transfer,
            engines={leg: one.engine.name for leg, one in chosen.items()},
            in_flight={name: count for one in chosen.values() for name, count in one.in_flight.items()},
            scores={name: score for one in chosen.values() for name, score in one.choice.scores.items()},
            avoided=[name for one in chosen.values() for name in one.avoided],
        )
        return list(chosen.values())

    def _ask(self, role: LegRole, body: Body | None) -> Ask:
        if not self._house.choosers[role].needs_prompt:
            return Ask()
        found = body if body is not None else read_body(self._asked.body)
        for key in ("prompt", "messages"):
            if key in found:
                return Ask(bytes(found[key]))
        return Ask()

    def _begin(self, name: LegName, chosen: Chosen, body: bytes, peer: str | None = None) -> Leg:
        asked, engine = self._asked, chosen.engine
        sink = None if name == "prefill" else self
        leg = Leg(name, engine, self._limits(name), sink, self._ended)
        self._legs.append(leg)
        self._waiting_tokens[name] = chosen.choice.compute_tokens
        engine.waiting_tokens += chosen.choice.compute_tokens
        self._house.leg_began(self._id, leg, peer)
        if sink is not None:
            self._client.on_flow = partial(_flow, leg)
        leg.start(message(
            engine, asked.method, asked.path, body=body, headers=asked.headers, request_id=leg_id(self._id, name)
        ))
        return leg

    def _limits(self, name: LegName) -> Limits:
        config = self._house.config
        if name == "prefill":
            return Limits(config.connect_s, config.prefill_s, "prefill", None, self._total_at_ns)
        if _STREAM.search(self._asked.body) is None:  # the first byte then comes with the last token
            return Limits(config.connect_s, config.total_s, "total", config.silence_s, self._total_at_ns)
        return Limits(config.connect_s, config.first_byte_s, "first_byte", config.silence_s, self._total_at_ns)

    def _ended(self, leg: Leg) -> None:
        self._settle(leg)
        self._house.leg_ended(self._id, leg)

    def _settle(self, leg: Leg) -> None:
        """Its prompt is no longer waited for."""
        leg.engine.waiting_tokens -= self._waiting_tokens.pop(leg.name, 0)

    def _conclude(self, leg: Leg) -> None:
        """The client gets the engine's own answer, whatever its status, where there is one."""
        if not leg.answered:
            self._tell(*leg_failure(leg))
        elif self._client.started:
            self._client.finish()
        else:
            self._client.whole(leg.status if leg.status is not None else 502, leg.headers, bytes(leg.body))

    def _fail_prefill(self, leg: Leg) -> None:
        """What the client did wrong it hears in the engine's words; what the engine did wrong, in ours."""
        if leg.answered and leg.status is not None and 400 <= leg.status < 500:
            self._client.whole(leg.status, leg.headers, bytes(leg.body))
        else:
            self._tell(*leg_failure(leg))

    def _tell(self, status: int, body: bytes) -> None:
        if self._client.started:
            self._client.piece(in_stream(body))
            self._client.finish()
        else:
            self._client.json(status, body)


def _text(body: Body) -> bytes:
    return msgspec.json.encode(body)


def _flow(leg: Leg, slow: bool) -> None:
    if slow:
        leg.pause()
    else:
        leg.resume()
