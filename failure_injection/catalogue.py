"""Which faults there are, and how each is made from what the user wrote."""

from collections.abc import Callable, Mapping

from failure_injection.fault import Fault, aim_of
from failure_injection.faults.corrupt import Corrupt
from failure_injection.faults.evict import Evict
from failure_injection.faults.hold import Hold
from failure_injection.faults.noop import Noop
from failure_injection.faults.slow_load import SlowLoad
from testbed.errors import SpecError
from testbed.probe.orders import Aim
from testbed.spec.experiment import FaultSpec


def _seconds(spec: FaultSpec, key: str, value: float | None) -> float:
    if value is None:
        raise SpecError(f"needs {key}, a duration such as 1s", where=f"fault {spec.kind}")
    return value


def _between(spec: FaultSpec, wanted: tuple[str, str] | None) -> None:
    """Refuse a place in a load that this kind of fault does not strike."""
    if spec.between is not None and spec.between != wanted:
        takes = f"[{', '.join(wanted)}]" if wanted else "no `between`: its place is fixed"
        told = " and ".join(spec.between)
        raise SpecError(f"can't strike between {told}", where=f"fault {spec.kind}", hint=f"it takes {takes}")


KINDS: Mapping[str, Callable[[FaultSpec, Aim], Fault]] = {
    "noop": lambda spec, aim: Noop(aim),
    "hold": lambda spec, aim: Hold(aim, _seconds(spec, "for", spec.duration)),
    "evict": lambda spec, aim: Evict(aim, _seconds(spec, "hold", spec.hold)),
    "slow_load": lambda spec, aim: SlowLoad(aim, _seconds(spec, "for", spec.duration)),
    "corrupt": lambda spec, aim: Corrupt(aim, spec.pattern if spec.pattern is not None else "zeros"),
}

HELD = ("hold", "evict")
"""Kinds that hold a request between LOOKUP and LOAD."""


USES: Mapping[str, frozenset[str]] = {
    "noop": frozenset(),
    "hold": frozenset({"duration"}),
    "evict": frozenset({"hold"}),
    "slow_load": frozenset({"duration"}),
    "corrupt": frozenset({"pattern"}),
}
"""The parameters that each kind takes."""


def _only_used(spec: FaultSpec) -> None:
    given = {name for name in ("hold", "duration", "pattern") if getattr(spec, name) is not None}
    unused = sorted({"duration": "for"}.get(name, name) for name in given - USES[spec.kind])
    if unused:
        raise SpecError(f"does not take {', '.join(unused)}", where=f"fault {spec.kind}")


def make_fault(spec: FaultSpec, label: str, requests: tuple[str, ...] = ()) -> Fault:
    """The fault that `spec` describes, aimed at `requests`: the ids that its trigger has chosen; any if empty.

    Raises: SpecError for an unknown kind or a missing parameter.
    """
    if spec.kind not in KINDS:
        raise SpecError(
            f'there is no fault "{spec.kind}"', where="faults", hint=f"known are {', '.join(sorted(KINDS))}"
        )
    _only_used(spec)
    _between(spec, ("lookup", "load") if spec.kind in HELD else None)
    return KINDS[spec.kind](spec, aim_of(spec, label, requests))
