"""Follow one request through the engine and note where each of its positions came from.

The engine works on positions in order. It may leap forward over what is there already (local hits, a finished load),
and it goes back only after a failed load or a preemption. Anything else means that an event is missing: a problem.
"""

from dataclasses import dataclass, field
from typing import Literal

from testbed.journal.events import KvLoadBegan, KvLoadEnded, KvLookup

Source = Literal["local", "loaded", "computed", "none"]


@dataclass
class Attempt:
    """One try to load. `kept` is what the engine used of a failed load, `found` what it then held itself after all."""

    number: int
    local_tokens: int
    promised_tokens: int
    tier_tokens: int
    reason: str
    load: Literal["none", "began", "ok", "failed"] = "none"
    load_reason: str = ""
    blocks: int = 0
    failed_blocks: int = 0
    resolved: bool = False
    kept_tokens: int = 0
    found_tokens: int = 0
    recomputed_tokens: int = 0

    @property
    def end(self) -> int:
        """The position behind the promised tokens."""
        return self.local_tokens + self.promised_tokens

    @property
    def lost_tokens(self) -> int:
        """Tokens that were promised and did not come, once a load has failed."""
        return self.promised_tokens - self.kept_tokens if self.load == "failed" else 0

    @property
    def loaded_tokens(self) -> int:
        """Tokens that came: all of a load that ended well, the kept part of one that failed."""
        return self.promised_tokens if self.load == "ok" else self.kept_tokens


@dataclass
class Account:
    """The running account of one request; `spans` cover [0, frontier) with one source each."""

    prompt_tokens: int
    block_size: int
    spans: list[tuple[int, int, Source]] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    position: int = 0
    scheduled_tokens: int = 0
    recomputed_after_failure: int = 0
    repeated_after_failure: int = 0
    recomputed_after_preemption: int = 0
    recomputed_last_token: int = 0
    _restarted: bool = True
    _preempted: bool = False
    _redo_until: int = 0

    @property
    def frontier(self) -> int:
        """All positions below have a source."""
        return self.spans[-1][1] if self.spans else 0

    def looked_up(self, event: KvLookup) -> None:
        """The tier was asked; a later answer to the same attempt replaces the earlier one, for it is what was used."""
        if event.prompt_tokens != self.prompt_tokens:
            self.problems.append(
                f"the engine saw {event.prompt_tokens} prompt tokens, {self.prompt_tokens} were planned"
            )
        fresh = Attempt(event.attempt, event.local_tokens, event.promised_tokens, event.tier_tokens, event.reason)
        if self.attempts and self.attempts[-1].number == event.attempt:
            self.attempts[-1] = fresh
        else:
            self.attempts.append(fresh)

    def load_began(self, event: KvLoadBegan) -> None:
        """Bytes begin to move."""
        attempt = self._attempt(event.attempt)
        if attempt is not None:
            attempt.load = "began"

    def load_ended(self, event: KvLoadEnded) -> None:
        """The load is over; a failed one sends the engine back."""
        attempt = self._attempt(event.attempt)
        if attempt is None:
            return
        attempt.load = "ok" if event.ok else "failed"
        attempt.load_reason, attempt.blocks, attempt.failed_blocks = event.reason, event.blocks, event.failed_blocks
        self._restarted |= not event.ok

    def _attempt(self, number: int) -> Attempt | None:
        found = next((one for one in reversed(self.attempts) if one.number == number), None)
        if found is None:
            self.problems.append(f"attempt {number} has a load but no lookup")
        return found

    def preempted(self) -> None:
        """The engine took the blocks away; the request will start again."""
        self.position = 0
        self._restarted = self._preempted = True

    def work(self, start: int, tokens: int) -> None:
        """The scheduler let the engine compute positions [start, start + tokens)."""
        self.scheduled_tokens += tokens
        if self._goes_on(start):
            # Nearly all steps are this one: a token more, right behind the last.
            self.spans[-1] = (self.spans[-1][0], start + tokens, "computed")
            self.position = start + tokens
            return
        if self._restarted:
            self._resolve_failures(start)
        if start != self.position:
            self._move(start)
        self._restarted = False
        self._compute(start, start + tokens)
        self.position = start + tokens

    def _goes_on(self, start: int) -> bool:
        if self._restarted or start != self.position or start < self._redo_until or not self.spans:
            return False
        _, end, source = self.spans[-1]
        return end == start and source == "computed"

    def _resolve_failures(self, start: int) -> None:
        """Now that the engine goes on at `start`, say what it kept of each failed load and forget the rest."""
        for index, attempt in enumerate(self.attempts):
            if attempt.load != "failed" or attempt.resolved:
                continue
            attempt.resolved = True
            if index == len(self.attempts) - 1:
                attempt.kept_tokens = self._kept(attempt, start)
            else:
                # It was asked about anew, so nothing was kept; what lies below `start` came another way.
                back_until = min(start, self._there())
                attempt.found_tokens = min(max(0, back_until - attempt.local_tokens), attempt.promised_tokens)
            self._redo_until = max(self._redo_until, attempt.end, self.frontier)
            self._cut(start)

    def _kept(self, attempt: Attempt, start: int) -> int:
        """Tokens of a failed load that the engine goes on with: never more than came whole."""
        used = min(max(0, start - attempt.local_tokens), attempt.promised_tokens)
        whole = (attempt.blocks - attempt.failed_blocks) * self.block_size
        if used > whole:
            blocks = f"{attempt.failed_blocks} of {attempt.blocks} blocks"
            self.problems.append(f"attempt {attempt.number} failed in {blocks}, but {used} of its tokens were used")
        return min(used, whole)

    def _there(self) -> int:
        """The position up to which the last lookup accounts for what the engine need not compute."""
        if not self.attempts:
            return 0
        last = self.attempts[-1]
        return last.local_tokens + (last.promised_tokens if last.load == "began" else last.loaded_tokens)

    def _cut(self, start: int) -> None:
        """Drop the sources from `start` on: they rested on a load that failed."""
        while self.spans and self.spans[-1][1] > start:
            begin, end, source = self.spans.pop()
            if source == "computed":
                self.repeated_after_failure += end - max(begin, start)
            if begin < start:
                self.spans.append((begin, start, source))

    def _move(self, start: int) -> None:
        if not self._restarted:
            told = "passed over" if start > self.position else "computed twice"
            low, high = sorted((self.position, start))
            self.problems.append(f"positions [{low}, {high}) were {told} without a cause")
        if start < self.position:
            return
        there = self._there()
        local_end = self.attempts[-1].local_tokens if self.attempts else 0
        # A full hit still computes its last token, to have logits: the position is there all the same.
        known = self.prompt_tokens if start == self.prompt_tokens - 1 and there >= self.prompt_tokens else start
        self._fill(min(known, local_end), "local")
        self._fill(min(known, there), "loaded")
        if start > there and self._restarted:
            self.problems.append(f"positions [{max(there, self.position)}, {start}) have no source")
        self._fill(start, "none")

    def _fill(self, end: int, source: Source) -> None:
        begin = self.frontier
        if begin >= end:
            return
        if self.spans and self.spans[-1][2] == source:
            self.spans[-1] = (self.spans[-1][0], end, source)
        else:
            self.spans.append((begin, end, source))

    def _compute(self, start: int, end: int) -> None:
        frontier = self.frontier
        if start < frontier:
            self._again(start, min(end, frontier))
        if end <= frontier:
            return
        begin = max(start, frontier)
        self._fill(end, "computed")
        self.recomputed_after_failure += max(0, min(end, self._redo_until) - begin)
        for attempt in self.attempts:
            if attempt.load == "failed":
                lost_from = attempt.local_tokens + attempt.kept_tokens
                attempt.recomputed_tokens += max(0, min(end, attempt.end) - max(begin, lost_from))

    def _again(self, start: int, end: int) -> None:
        """Work on positions that had a source already."""
        if self._preempted:
            self.recomputed_after_preemption += end - start
        elif (start, end) == (self.prompt_tokens - 1, self.prompt_tokens) and self.spans[-1][2] != "computed":
            self.recomputed_last_token += 1
        else:
            self.problems.append(f"positions [{start}, {end}) were computed twice without a cause")

    def close(self, output_tokens: int, stopped: bool) -> int:
        """Judge the account of a complete answer; return the tokens scheduled beyond its end.

        The last output token is never fed back. A scheduler that runs ahead of the model may compute one position more
        when a stop token (`stopped`) ends the answer, for it did not know yet; beyond `length` it may not.
        """
        end = self.prompt_tokens + max(output_tokens, 1) - 1
        reached = min(self.frontier, self.position)
        if reached < end:
            self.problems.append(f"positions [{reached}, {end}) were never computed")
        beyond = max(0, self.frontier - end)
        if beyond > (1 if stopped else 0):
            self.problems.append(f"positions [{end}, {self.frontier}) lie beyond the answer")
        if any(attempt.load == "began" for attempt in self.attempts):
            self.problems.append("a load began and never ended")
        return beyond

    def total(self, source: Source) -> int:
        """Prompt positions with this source."""
        return sum(min(end, self.prompt_tokens) - begin for begin, end, kind in self.spans
                   if kind == source and begin < self.prompt_tokens)
