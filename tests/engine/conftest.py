"""One engine with LMCache and Redis for the whole session."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.engines.models import build_model
from tests.engine.bench import TINY, Bench, bench_on


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model, built once."""
    return build_model("tiny", tmp_path_factory.mktemp("cache"), print)


@pytest.fixture(scope="session")
def bench(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """The deployment that the tests of this folder share."""
    with bench_on(TINY, tiny_model, tmp_path_factory.mktemp("run")) as made:
        yield made
