"""What the stand-in does: its timing, what it refuses, and the misbehaviour that it is told to show."""

import argparse
from dataclasses import dataclass

LOGS = ("none", "counts", "all", "bodies")
TOKEN_IDS = ("always", "asked", "never")


@dataclass(frozen=True)
class Options:
    """Times in ms count from the receipt of a whole request. A number that is 0 asks for nothing.

    Timing: token i is due at `ttft_ms` + i x `itl_ms`. A chunk has `tokens_per_chunk`, or what divides an answer into
    `chunks`, and leaves when its last token is due; with `burst` the whole answer leaves in one write after `ttft_ms`.
    Of a chat the chunk that has but a role goes out first, before any token is due. Nothing leaves in `freeze`, (from,
    for) in seconds after the first POST that counts. The answer ends after `stop_after` tokens whatever was asked.
    Refusals: 404 for another model than `model`, 401 without `api_key`, 400 where prompt and answer exceed
    `context_limit`, 429 above `reject_above` requests in flight. Only `slots` requests are served at once; others wait.
    Misbehaviour, each n-th POST: `fail_every` answers with `status`, `hang_every` never answers, and after the first
    chunk `cut_every` closes, `reset_every` resets the connection, `error_every` sends an error inside the stream. The
    first `skip_posts` POSTs are answered plainly and don't count.
    """

    port: int = 0
    ttft_ms: float = 20.0
    itl_ms: float = 5.0
    tokens_per_chunk: int = 1
    chunks: int = 0
    burst: bool = False
    stop_after: int = 0
    status: int = 500
    fail_every: int = 0
    hang_every: int = 0
    cut_every: int = 0
    reset_every: int = 0
    error_every: int = 0
    skip_posts: int = 0
    freeze: tuple[float, float] | None = None
    slots: int = 0
    context_limit: int = 0
    reject_above: int = 0
    model: str | None = None
    api_key: str | None = None
    token_ids: str = "always"
    log: str = "all"
    cores: tuple[int, ...] = ()
    leash: bool = False

    def tokens_of_a_chunk(self, tokens: int) -> int:
        """How many of `tokens` each chunk of an answer has; the last one may have fewer."""
        return -(-tokens // self.chunks) if self.chunks else self.tokens_per_chunk


def _span(text: str) -> tuple[float, float]:
    first, _, length = text.partition(":")
    return float(first), float(length)


def _cores(text: str) -> tuple[int, ...]:
    return tuple(int(core) for core in text.split(","))


def parse_options(arguments: list[str]) -> Options:
    """Read the command line of the stand-in."""
    parser = argparse.ArgumentParser(prog="python -m testbed.stub.server", description=__doc__)
    parser.add_argument("--port", type=int, default=Options.port, help="0 takes a free one; it is printed on stdout")
    _timing(parser)
    _refusals(parser)
    _misbehaviour(parser)
    parser.add_argument("--token-ids", choices=TOKEN_IDS, default=Options.token_ids)
    parser.add_argument("--no-token-ids", dest="token_ids", action="store_const", const="never", help="never")
    parser.add_argument("--log", choices=LOGS, default=Options.log, help="what GET /_log can tell; bodies is for tests")
    parser.add_argument("--cores", type=_cores, default=Options.cores, metavar="N,N", help="run on these cores only")
    parser.add_argument("--leash", action="store_true", help="end when stdin closes, so with whoever started it")
    return Options(**vars(parser.parse_args(arguments)))


def _timing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ttft-ms", type=float, default=Options.ttft_ms)
    parser.add_argument("--itl-ms", type=float, default=Options.itl_ms, help="between two tokens, also of one chunk")
    parser.add_argument("--tokens-per-chunk", type=int, default=Options.tokens_per_chunk)
    parser.add_argument("--chunks", type=int, default=Options.chunks, help="divide each answer into so many chunks")
    parser.add_argument("--burst", action="store_true", help="the whole answer in one write, after the TTFT")
    parser.add_argument("--stop-after", type=int, default=Options.stop_after, help="end with stop after so many tokens")
    parser.add_argument("--freeze", type=_span, default=Options.freeze, metavar="FROM_S:FOR_S")
    parser.add_argument("--slots", type=int, default=Options.slots, help="serve so many at once, the rest waits")


def _refusals(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--context-limit", type=int, default=Options.context_limit, metavar="TOKENS")
    parser.add_argument("--reject-above", type=int, default=Options.reject_above, help="429 above so many in flight")
    parser.add_argument("--model", default=Options.model, help="the only model there is; by default any name does")
    parser.add_argument("--api-key", default=Options.api_key, help="401 without it; made up, for tests")


def _misbehaviour(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--status", type=int, default=Options.status, help="the status of --fail-every")
    for what in ("fail", "hang", "cut", "reset", "error"):
        parser.add_argument(f"--{what}-every", type=int, default=0)
    parser.add_argument("--skip-posts", type=int, default=Options.skip_posts, help="the first so many don't count")
