"""What came of a request: its answer judged as exactly one outcome."""

from typing import Literal, get_args

import msgspec

from testbed.drive.answer import Answer

Kind = Literal["ok", "failed", "timed_out", "cancelled", "rejected", "not_sent"]
KINDS: tuple[Kind, ...] = get_args(Kind)

GOOD_ENDS = ("stop", "length")
REJECTED_STATUS = 429


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """How one request ended: exactly one kind, with its reason, and the stamps of this host's monotonic clock.

    `reason` is empty for ok, else `KIND/WHY` such as `failed/no_token`. A moment that never came is None.
    """

    kind: Kind
    reason: str
    ended_at_ns: int
    answer: Answer = Answer()
    sent_at_ns: int | None = None
    first_byte_at_ns: int | None = None
    http_status: int | None = None
    error: str | None = None


def judge_answer(answer: Answer) -> tuple[Kind, str]:
    """Kind and reason of a stream that ended in good order with HTTP status 200."""
    if answer.error is not None:
        why = "error_in_stream"
    elif not answer.chunk_at_ns:
        why = "no_token"
    elif not answer.done:
        why = "no_done"
    elif answer.finish_reason is None:
        why = "no_finish_reason"
    elif answer.finish_reason not in GOOD_ENDS:
        why = f"finish_reason_{answer.finish_reason}"
    else:
        return "ok", ""
    return "failed", f"failed/{why}"


def judge_status(status: int) -> tuple[Kind, str]:
    """Kind and reason of an HTTP status other than 200."""
    return ("rejected", f"rejected/{status}") if status == REJECTED_STATUS else ("failed", f"failed/http_{status}")
