"""Where each request of a client goes: on its way to the engines, or to an answer of the router's own."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import msgspec

from testbed.router.client import Asked, Client
from testbed.router.headers import Headers
from testbed.router.health import ask_all
from testbed.router.house import House
from testbed.router.leg import Leg, Limits
from testbed.router.page import metrics_page
from testbed.router.passage import Passage
from testbed.router.policies.policy import Ask
from testbed.router.replies import failure, leg_failure
from testbed.router.wire import message
from testbed.spec.routing import LegRole

RETRY_AFTER_S = 1
_PAGE: Headers = [(b"Content-Type", b"text/plain; version=0.0.4; charset=utf-8")]

Answer = Callable[[Asked, Client], Coroutine[Any, Any, None]]


class _JournalOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    folder: str
    arm: str = ""
    repetition: int = 0


class Desk:
    """Answers every request that comes in."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._answers: Mapping[str, tuple[str, Answer]] = {
            "/v1/completions": ("POST", self._complete),
            "/v1/chat/completions": ("POST", self._complete),
            "/v1/models": ("GET", self._models),
            "/health": ("GET", self._health),
            "/metrics": ("GET", self._metrics),
            "/control/journal": ("POST", self._journal),
        }

    async def answer(self, asked: Asked, client: Client) -> None:
        """One request, to its end."""
        method, answer = self._answers.get(asked.path, (asked.method, _unknown))
        if asked.method != method:
            message = f"{asked.path} is asked with {method}, not {asked.method}"
            client.json(405, failure(405, "method_not_allowed", message), [(b"Allow", method.encode())])
            return
        await answer(asked, client)

    async def _complete(self, asked: Asked, client: Client) -> None:
        house = self._house
        if house.in_flight >= house.config.max_in_flight:
            house.answers["rejected"] += 1
            text = f"{house.in_flight} requests are in flight, and no more are let in"
            client.json(429, failure(429, "overloaded", text, reason="rejected/max_in_flight"),
                        [(b"Retry-After", b"%d" % RETRY_AFTER_S)])
            return
        house.in_flight += 1
        try:
            await Passage(house, asked, client).run()
        finally:
            house.in_flight -= 1
            house.answers["client_gone" if client.status is None else str(client.status)] += 1

    async def _models(self, asked: Asked, client: Client) -> None:
        """What an engine says: the one that would answer a completion."""
        house = self._house
        role: LegRole = "both" if house.handoff is None else "decode"
        engine = house.choosers[role].choose(Ask()).engine
        config = house.config
        leg = Leg("only", engine, Limits(config.connect_s, config.health_s, "models"), None, lambda leg: None)
        leg.start(message(engine, "GET", asked.path, headers=asked.headers))
        try:
            await leg.ended
        finally:
            leg.abandon("client_gone")
        if leg.answered and leg.status is not None:
            client.whole(leg.status, leg.headers, bytes(leg.body))
        else:
            client.json(*leg_failure(leg))

    async def _health(self, asked: Asked, client: Client) -> None:
        house = self._house
        health = await ask_all(
            house.engines, model=house.config.model, request_id=f"health.{house.next_name()}",
            connect_s=house.config.connect_s, limit_s=house.config.health_s,
        )
        client.json(200 if health.status == "ok" else 503, msgspec.json.encode(health))

    async def _metrics(self, asked: Asked, client: Client) -> None:
        client.whole(200, _PAGE, metrics_page(self._house).encode())

    async def _journal(self, asked: Asked, client: Client) -> None:
        """From now on events belong to the journal, arm and repetition that the body names."""
        try:
            order = msgspec.json.decode(asked.body, type=_JournalOrder)
            self._house.record.turn_to(order.folder, order.arm, order.repetition)
        except (msgspec.MsgspecError, OSError) as problem:
            client.json(400, failure(400, "invalid_request", f"no journal can be written there: {problem}"))
            return
        client.json(200, b"{}")


async def _unknown(asked: Asked, client: Client) -> None:
    client.json(404, failure(404, "not_found", f"there is no {asked.path}"))
