"""Whether an answer has the length that was asked for: a rate of tokens means nothing where it has not."""

from testbed.metrics.requests import RequestRow

UNKNOWN_LENGTH = "its length is not known"


def unhonoured(row: RequestRow) -> str:
    """What is wrong with the length of a complete answer, such as "10 of 50"; empty where nothing is.

    A forced length must be met to the token; a natural one must only not be exceeded.
    """
    if not row.ok:
        return ""
    got, asked = row.output_tokens, row.planned.max_tokens
    if got is None:
        return UNKNOWN_LENGTH if row.planned.stop == "forced" else ""
    return f"{got} of {asked}" if got > asked or (got < asked and row.planned.stop == "forced") else ""
