"""What the stand-in does: its timing and the misbehaviour that it is told to show."""

import argparse
from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """Times in ms count from the receipt of a request. `*_every` strike each n-th POST, 0 none.

    `fail` answers with `status`; `hang` never answers; `cut` closes the connection in the middle of the stream; `error`
    sends an error inside the stream; `freeze` is (from, for) in seconds after the first POST, in which nothing is sent.
    """

    port: int = 0
    ttft_ms: float = 20.0
    itl_ms: float = 5.0
    tokens_per_chunk: int = 1
    stop_after: int = 0
    status: int = 500
    fail_every: int = 0
    hang_every: int = 0
    cut_every: int = 0
    error_every: int = 0
    freeze: tuple[float, float] | None = None
    token_ids: bool = True
    leash: bool = False


def _span(text: str) -> tuple[float, float]:
    first, _, length = text.partition(":")
    return float(first), float(length)


def parse_options(arguments: list[str]) -> Options:
    """Read the command line of the stand-in."""
    parser = argparse.ArgumentParser(prog="python -m testbed.stub.server", description=__doc__)
    parser.add_argument("--port", type=int, default=Options.port, help="0 takes a free one; it is printed on stdout")
    parser.add_argument("--ttft-ms", type=float, default=Options.ttft_ms)
    parser.add_argument("--itl-ms", type=float, default=Options.itl_ms, help="between two tokens, also of one chunk")
    parser.add_argument("--tokens-per-chunk", type=int, default=Options.tokens_per_chunk)
    parser.add_argument("--stop-after", type=int, default=Options.stop_after, help="end with stop after so many tokens")
    parser.add_argument("--status", type=int, default=Options.status, help="the status of --fail-every")
    parser.add_argument("--fail-every", type=int, default=Options.fail_every)
    parser.add_argument("--hang-every", type=int, default=Options.hang_every)
    parser.add_argument("--cut-every", type=int, default=Options.cut_every)
    parser.add_argument("--error-every", type=int, default=Options.error_every)
    parser.add_argument("--freeze", type=_span, default=Options.freeze, metavar="FROM_S:FOR_S")
    parser.add_argument("--no-token-ids", dest="token_ids", action="store_false", help="as other servers answer")
    parser.add_argument("--leash", action="store_true", help="end when stdin closes, so with whoever started it")
    return Options(**vars(parser.parse_args(arguments)))
