"""`configs/workloads/*.yaml`: the traffic, by class."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from testbed.spec.arrival import Arrival, Closed, Ramp, Step
from testbed.spec.fields import DurationS, Number, Spec
from testbed.spec.lengths import Lengths
from testbed.spec.trace import Trace

GROUPS = ("cold", "hot", "early_change", "unrelated")
"""The requests of one round of prefix groups, in the order in which they are asked."""

Release = Literal["planned", "after_answer"]


class Popularity(Spec):
    """How unevenly documents are asked: weight of rank k is 1 / k^zipf; 0 is even."""

    zipf: Number = Field(ge=0)


class Documents(Spec):
    """Long texts that are asked more than once."""

    count: int = Field(gt=0)
    tokens: Lengths
    popularity: Popularity


class PrefixGroups(Spec):
    """Rounds of four requests whose prefix hits are known beforehand, each after the answer to the one before it.

    `cold` has a fresh prefix; `hot` the same one and another question; `early_change` is the cold prompt with the token
    at `change_at` of its prefix changed; `unrelated` has another fresh prefix.
    """

    prefix: Lengths
    change_at: int = Field(ge=1)
    release: Release = "after_answer"


class SystemPrompt(Spec):
    """Tokens that each request of a class begins with."""

    tokens: int = Field(gt=0)


class Turns(Spec):
    """A turn is due at its planned time or, with `after_answer`, no earlier than `think` after the last answer."""

    count: int = Field(ge=1)
    release: Release = "planned"


class Tenants(Spec):
    """Who asks: each session is one of `count` tenants. `isolated` ones share no KV, for each has a cache salt."""

    count: int = Field(ge=1)
    sharing: Literal["shared", "isolated"]


class Leaves(Spec):
    """Users who leave mid-stream: this share of the requests, once `after_tokens` tokens have come."""

    share: Number = Field(gt=0, le=1)
    after_tokens: Lengths


class ClassSlo(Spec):
    """Limits of one class in the terms of the experiment's SLO, instead of those."""

    ttft: Number | None = Field(default=None, gt=1)
    tpot: Number | None = Field(default=None, gt=1)


class TrafficClass(Spec):
    """One kind of request. `input` is what is new in it, beside system prompt, document and earlier turns.

    With `distinct`, no two sessions begin alike; without, two of many may, for both are cut from one corpus.
    """

    arrival: Arrival | None = None
    share: Number | None = Field(default=None, gt=0, le=1)
    input: Lengths
    output: Lengths
    stop: Literal["forced", "natural"]
    timeout: DurationS
    system_prompt: SystemPrompt | None = None
    turns: Annotated[int, Field(ge=1)] | Turns = 1
    think: DurationS = 0.0
    documents: Documents | None = None
    prefix_groups: PrefixGroups | None = None
    tenants: Tenants | None = None
    priority: int = 0
    slo: ClassSlo | None = None
    leaves: Leaves | None = None
    distinct: bool = False

    @property
    def turn_count(self) -> int:
        """Turns of a session."""
        return self.turns.count if isinstance(self.turns, Turns) else self.turns

    @property
    def release(self) -> Release:
        """When what follows in a session is due."""
        if self.prefix_groups is not None:
            return self.prefix_groups.release
        return self.turns.release if isinstance(self.turns, Turns) else "planned"

    @property
    def session_requests(self) -> int:
        """Requests of a session: its turns, or the groups of a round."""
        return self.turn_count if self.prefix_groups is None else len(GROUPS)

    @property
    def long_text(self) -> Lengths | None:
        """What is long in its prompts and scaled to the machine: documents, or the prefixes of its groups."""
        if self.prefix_groups is not None:
            return self.prefix_groups.prefix
        return None if self.documents is None else self.documents.tokens

    @model_validator(mode="after")
    def _one_form(self) -> "TrafficClass":
        if self.prefix_groups is not None and (self.documents is not None or self.turn_count > 1):
            raise ValueError("prefix_groups make rounds of their own; leave out documents and turns")
        if self.distinct and self.long_text is not None:
            raise ValueError("distinct is for texts alone; documents and prefix_groups say what they share")
        if isinstance(self.arrival, Closed):
            raise ValueError("a closed loop is one for all classes; put arrival beside classes, and a share into each")
        return self


class Workload(Spec):
    """Mixed traffic over `duration`, or of `requests` requests. Classes draw from independent random streams.

    Either each class has an `arrival`, or there is one for all, and each class a `share` of its sessions. In place of
    classes, a recorded `trace` may say when what is sent.
    """

    name: str
    duration: DurationS | None = Field(default=None, gt=0)
    requests: int | None = Field(default=None, ge=1)
    arrival: Arrival | None = None
    classes: dict[str, TrafficClass] = {}
    trace: Trace | None = None

    @property
    def class_names(self) -> tuple[str, ...]:
        """The traffic classes as requests name them: a class with prefix groups is one for each group.

        Those of a trace are known from its requests alone.
        """
        return tuple(each for name, traffic in self.classes.items() for each in names_of(name, traffic))

    @property
    def shares(self) -> dict[str, float]:
        """The share of each class in the sessions of a common arrival; a class alone has all of them."""
        return {name: 1.0 if traffic.share is None else traffic.share for name, traffic in self.classes.items()}

    def class_slo(self, class_name: str) -> ClassSlo | None:
        """The limits that a traffic class, as requests name it, has of its own."""
        return next(
            (traffic.slo for name, traffic in self.classes.items() if class_name in names_of(name, traffic)), None
        )

    @model_validator(mode="after")
    def _is_mixed_or_recorded(self) -> "Workload":
        if bool(self.classes) == (self.trace is not None):
            raise ValueError(f"give exactly one of classes, trace; found {'both' if self.classes else 'none'}")
        beside = [name for name in ("duration", "requests", "arrival") if getattr(self, name) is not None]
        if self.trace is not None and beside:
            raise ValueError(f"{', '.join(beside)} beside trace; a trace has a window and a limit of its own")
        return self

    @model_validator(mode="after")
    def _ends(self) -> "Workload":
        if self.trace is None and (self.duration is None) == (self.requests is None):
            raise ValueError("give exactly one of duration, requests")
        return self

    @model_validator(mode="after")
    def _arrives(self) -> "Workload":
        for name, traffic in self.classes.items():
            if (traffic.arrival is None) == (self.arrival is None):
                own = "none" if traffic.arrival is None else "one of its own"
                raise ValueError(f"give one arrival, beside classes or in each of them; class {name} has {own}")
            if traffic.share is not None and self.arrival is None:
                raise ValueError(f"class {name} has a share of an arrival that is not there; put one beside classes")
        if self.arrival is not None:
            _check_shares(self.classes)
        return self

    @model_validator(mode="after")
    def _lasts(self) -> "Workload":
        if isinstance(self.arrival, Closed) and self.requests is None:
            raise ValueError("a closed loop sends as its answers come; give requests instead of duration")
        for arrival in (self.arrival, *(traffic.arrival for traffic in self.classes.values())):
            if isinstance(arrival, Ramp) and self.duration is None:
                raise ValueError("a ramp lasts as long as the workload; give duration instead of requests")
            if isinstance(arrival, Step) and self.duration is not None and arrival.total_s > self.duration + 1e-9:
                raise ValueError(f"the steps take {arrival.total_s:g} s, longer than the duration {self.duration:g} s")
        return self


def group_name(name: str, group: str) -> str:
    """The traffic class of one prefix group of class `name`."""
    return f"{name}.{group}"


def names_of(name: str, traffic: TrafficClass) -> tuple[str, ...]:
    """The traffic classes that requests of class `name` have."""
    return (name,) if traffic.prefix_groups is None else tuple(group_name(name, group) for group in GROUPS)


def _check_shares(classes: dict[str, TrafficClass]) -> None:
    without = [name for name, traffic in classes.items() if traffic.share is None]
    if without and len(classes) > 1:
        raise ValueError(f"classes divide one arrival, so each needs a share; {', '.join(without)} has none")
    total = sum(traffic.share for traffic in classes.values() if traffic.share is not None)
    if not without and abs(total - 1) > 1e-9:
        raise ValueError(f"the shares of the classes sum to {total:g}; must be 1")
