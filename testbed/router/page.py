"""`/metrics`: the router's own counts, in the text form that Prometheus reads."""

from collections.abc import Iterator

from testbed.router.house import House


def metrics_page(house: House) -> str:
    """All counts now."""
    return "\n".join(_lines(house)) + "\n"


def _lines(house: House) -> Iterator[str]:
    yield from _one("in_flight", "gauge", "requests that the router has now", [("", house.in_flight)])
    yield from _one("max_in_flight", "gauge", "beyond it a request is refused", [("", house.config.max_in_flight)])
    yield from _one("journal_broken", "gauge", "1 when the journal takes no more", [("", int(house.record.broken))])
    answers = [(f'{{answer="{answer}"}}', count) for answer, count in sorted(house.answers.items())]
    yield from _one("requests_total", "counter", "completions by how they were answered", answers)
    loads = [(f'{{engine="{engine.name}"}}', engine.in_flight) for engine in house.engines]
    yield from _one("engine_in_flight", "gauge", "legs that an engine has now", loads)
    legs = [
        (f'{{engine="{engine.name}",leg="{leg}",ending="{ending}"}}', count)
        for engine in house.engines for (leg, ending), count in sorted(engine.endings.items())
    ]
    yield from _one("legs_total", "counter", "legs by how they ended", legs)


def _one(name: str, kind: str, meaning: str, values: list[tuple[str, int]]) -> Iterator[str]:
    full = f"testbed_router_{name}"
    yield f"# HELP {full} {meaning}"
    yield f"# TYPE {full} {kind}"
    for labels, value in values:
        yield f"{full}{labels} {value}"
