"""One home for the session, so that models, measurements and golden answers are made once; it is empty at first."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from testbed.engines.models import build_model
from tests.engine.bench import SMOLLM2, Bench, bench_on
from tests.engine_all.home import Home

FILES = Path(__file__).parent / "files"
DEMO_LIMIT_S = 2700.0


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A home with the small experiment of this folder; at the end nothing that was started from it lives."""
    made = Home(tmp_path_factory.mktemp("home"))
    shutil.copytree(FILES, made.folder, dirs_exist_ok=True)
    yield made
    assert made.left_at_last() == []


@pytest.fixture(scope="session")
def smollm2_bench(home: Home, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A deployment of the demo's model."""
    model = build_model("smollm2", home.cache, print)
    with bench_on(SMOLLM2, model, tmp_path_factory.mktemp("run")) as made:
        yield made


@dataclass(frozen=True)
class Ended:
    """A run to its end."""

    code: int
    said: str
    folder: Path


@pytest.fixture(scope="session")
def demo(home: Home) -> Ended:
    """The demo as a user runs it for the first time."""
    before = home.runs()
    done = home.run("testbed demo", DEMO_LIMIT_S)
    [folder] = home.runs() - before
    return Ended(done.returncode, done.stdout + done.stderr, folder)
