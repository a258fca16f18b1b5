"""The rooms of the tree keep their rules, and the reader of the rules sees it when they don't."""

from pathlib import Path

import pytest

from tools.layers import Source, cycles, violations

ROOT = Path(__file__).parent.parent


def tree() -> list[Source]:
    """All our files."""
    paths = [path for room in ("testbed", "failure_injection") for path in sorted((ROOT / room).rglob("*.py"))]
    return [Source(path.relative_to(ROOT).as_posix(), path.read_text()) for path in paths]


def found(path: str, text: str) -> list[str]:
    """The broken rules of one snippet."""
    return violations([Source(path, text)])


def test_the_tree_keeps_all_rules() -> None:
    assert violations(tree()) == []


def test_the_tree_is_read() -> None:
    assert {"testbed/errors.py", "testbed/spec/load.py"} <= {source.path for source in tree()}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        pytest.param("testbed/metrics/x.py", "import testbed.plan.component", id="another room"),
        pytest.param("testbed/metrics/x.py", "from testbed import plan", id="from the package"),
        pytest.param("testbed/metrics/x.py", "from ..plan import component", id="relative"),
        pytest.param("testbed/spec/x.py", "def f():\n    from testbed.journal import events", id="in a function"),
        pytest.param(
            "testbed/spec/x.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from testbed.journal.events import Event",
            id="for types only",
        ),
        pytest.param("testbed/spec/x.py", "from failure_injection.fault import Fault", id="the other package"),
        pytest.param("failure_injection/faults/x.py", "from testbed.drive.client import send", id="fault to client"),
        pytest.param("failure_injection/x.py", "from testbed.probe.connector import Probe", id="more than orders"),
        pytest.param("testbed/probe/x.py", "from testbed.journal.reader import Journal", id="more than the writer"),
        pytest.param("testbed/report/x.py", "from testbed.cli.main import run", id="cli"),
        pytest.param("testbed/stuff/x.py", "", id="a room that is not in the table"),
        pytest.param("testbed/stuff.py", "", id="a file beside the rooms"),
        pytest.param("testbed/clock.py", "from testbed.spec.load import load", id="the ground imports a room"),
        pytest.param("testbed/clock.py", "import numpy", id="the ground imports a library"),
        pytest.param("testbed/journal/writer.py", "from testbed.spec.load import load", id="the writer imports a room"),
        pytest.param("testbed/journal/events.py", "import pydantic", id="events import a library"),
        pytest.param("testbed/drive/x.py", "import ray", id="ray"),
        pytest.param("testbed/deploy/x.py", "from vllm.config import VllmConfig", id="vllm"),
        pytest.param("testbed/observe/x.py", "import redis.asyncio", id="redis"),
        pytest.param("testbed/metrics/x.py", 'NAME = "vllm:num_preemptions_total"', id="a product's metric"),
        pytest.param("testbed/bounds/x.py", "import subprocess", id="a process in a pure room"),
        pytest.param("testbed/bounds/x.py", "from asyncio import run", id="a loop in a pure room"),
        pytest.param("testbed/bounds/x.py", "from http.client import HTTPConnection", id="http in a pure room"),
        pytest.param("testbed/spec/x.py", 'open("x")', id="open"),
        pytest.param("testbed/spec/x.py", 'from pathlib import Path\nPath("x").open()', id="a path's open"),
        pytest.param("testbed/spec/x.py", 'from pathlib import Path\nPath("x").read_text()', id="read_text"),
        pytest.param("testbed/plan/x.py", 'import os\nos.environ["A"]', id="the environment"),
        pytest.param("testbed/workload/x.py", "import random\nrandom.shuffle([])", id="chance of the module"),
        pytest.param("testbed/workload/x.py", "import numpy as np\nnp.random.normal()", id="chance of numpy"),
        pytest.param("testbed/workload/x.py", "import numpy as np\nnp.random.default_rng()", id="no seed"),
        pytest.param("testbed/report/x.py", "from datetime import datetime\ndatetime.now()", id="the wall clock"),
        pytest.param("testbed/drive/x.py", "import time\ntime.monotonic_ns()", id="the clock"),
        pytest.param("testbed/drive/x.py", "from time import perf_counter", id="the clock by its name"),
        pytest.param("testbed/drive/x.py", "import asyncio\nasyncio.sleep(1)", id="sleep"),
        pytest.param("testbed/probe/x.py", "import time\ntime.sleep(1)", id="sleep in the probe"),
        pytest.param("testbed/drive/x.py", "import httpx\nhttpx.AsyncClient()", id="a client without timeout"),
        pytest.param("failure_injection/faults/x.py", "from failure_injection.faults import noop", id="fault to fault"),
    ],
)
def test_a_broken_rule_is_seen(path: str, text: str) -> None:
    assert len(found(path, text)) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        pytest.param("testbed/metrics/x.py", "from testbed.bounds.link import Link", id="a room of the table"),
        pytest.param("testbed/probe/x.py", "from testbed.journal.writer import JournalWriter", id="the writer"),
        pytest.param("failure_injection/x.py", "from testbed.probe.orders import Orders", id="orders"),
        pytest.param("testbed/spec/x.py", "from testbed.errors import SpecError", id="errors"),
        pytest.param("testbed/cli/x.py", "from testbed import __version__", id="the version"),
        pytest.param("testbed/experiment.py", "from testbed.deploy import up", id="the conductor"),
        pytest.param("testbed/deploy/x.py", "import ray", id="ray in deploy"),
        pytest.param("testbed/probe/x.py", "import time\ntime.monotonic_ns()", id="the clock in the probe"),
        pytest.param("testbed/workload/x.py", "import numpy as np\nnp.random.default_rng(7)", id="a seeded generator"),
        pytest.param("testbed/metrics/x.py", '"""Prose may say vllm:num_preemptions_total."""', id="prose"),
        pytest.param(
            "testbed/report/x.py",
            'from importlib.resources import files\nfiles("x").joinpath("y").read_text()',
            id="a template",
        ),
        pytest.param("testbed/drive/x.py", "import httpx\nhttpx.AsyncClient(timeout=3)", id="a client with timeout"),
    ],
)
def test_what_is_allowed_is_let_through(path: str, text: str) -> None:
    assert found(path, text) == []


def test_a_cycle_of_files_in_one_room_is_seen() -> None:
    files = [
        Source("testbed/spec/a.py", "from testbed.spec.b import f"),
        Source("testbed/spec/b.py", "def f() -> None:\n    from testbed.spec import c"),
        Source("testbed/spec/c.py", "import testbed.spec.a"),
        Source("testbed/spec/d.py", "import testbed.spec.a"),
    ]
    assert cycles(files) == [["spec.a", "spec.b", "spec.c"]]
