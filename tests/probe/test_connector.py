"""The class around a connector: which of the connector's hooks it sees, whatever kind of connector that is."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from testbed.journal.events import ORDERS_KEY, PATH_KEY, KvAborted, KvLoadBegan, KvLookup, KvReserve, KvSaved, Note
from testbed.journal.reader import load_journal
from testbed.probe.connector import probed
from testbed.probe.orders import Orders, write_orders
from testbed.probe.saves import jobs_begun
from testbed.probe.ways import Way, ways_of
from tests.probe.fakes import BLOCKS, WIDTH, Cached, FakeBlocks, FakeCache, FakeRequest, FakeStep

ENGINE_ID = "cmpl-r-0-0123abcd"
SCHEDULER, WORKER = SimpleNamespace(name="SCHEDULER"), SimpleNamespace(name="WORKER")


class Bare:
    """A connector that promises eight tokens and does nothing; `LOADS` counts those that it was told to make."""

    def __init__(self, config: Any, role: Any, kv_cache_config: Any = None) -> None:
        self.sent: list[Any] = []

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int, bool]:
        return 8, True

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        """Nothing to do."""

    def build_connector_meta(self, scheduler_output: Any) -> Any:
        return SimpleNamespace(requests=[SimpleNamespace(req_id=ENGINE_ID, store_job_id=5),
                                         SimpleNamespace(req_id="other", store_job_id=None)])

    def update_connector_output(self, connector_output: Any) -> None:
        """Nothing to do."""

    def request_finished(self, request: Any, block_ids: Any) -> tuple[bool, None]:
        return False, None

    def register_kv_caches(self, kv_caches: Any) -> None:
        """Nothing to do."""

    def bind_connector_metadata(self, connector_metadata: Any) -> None:
        """Nothing to do."""

    def start_load_kv(self, forward_context: Any) -> None:
        """Nothing to do."""


class Grouped(Bare):
    """As those are that know of several groups of blocks: the engine tells them of a request's end by another name."""

    def request_finished_all_groups(self, request: Any, block_ids: Any) -> tuple[bool, dict[str, int]]:
        return True, {"handed": 1}


class MultiConnector(Bare):
    """Two connectors side by side; the second one promised."""

    def __init__(self, config: Any, role: Any, kv_cache_config: Any = None) -> None:
        super().__init__(config, role, kv_cache_config)
        self._requests_to_connector = {ENGINE_ID: 1}

    def build_connector_meta(self, scheduler_output: Any) -> Any:
        return SimpleNamespace(metadata=(SimpleNamespace(), super().build_connector_meta(scheduler_output)))


def made(base: type, folder: Path, role: Any, extra: dict[str, Any] | None = None) -> Any:
    """The probe around `base`, with orders to journal into `folder`."""
    write_orders(folder / "orders.json", Orders(journal=str(folder / "events"), arm="a", repetition=0, attempts=1))
    config = SimpleNamespace(
        kv_transfer_config=SimpleNamespace(
            kv_connector_extra_config={ORDERS_KEY: str(folder / "orders.json"), PATH_KEY: "memory"} | (extra or {})
        ),
        cache_config=SimpleNamespace(block_size=WIDTH), parallel_config=SimpleNamespace(world_size=1),
    )
    return probed(base)(config, role, SimpleNamespace(num_blocks=BLOCKS))


def reserve(connector: Any) -> Any:
    """One promise, taken up; what goes to the worker."""
    request = FakeRequest(ENGINE_ID)
    assert connector.get_num_new_matched_tokens(request, 0) == (8, True)
    connector.update_state_after_alloc(request, FakeBlocks([1, 2, 3]), 8)
    return connector.build_connector_meta(FakeStep({}, [], Cached()))


@pytest.mark.parametrize("base", [Bare, Grouped])
def test_the_end_of_a_request_is_seen_by_whichever_name_the_engine_tells_it(base: type, tmp_path: Path) -> None:
    connector = made(base, tmp_path, SCHEDULER)
    reserve(connector)
    if base is Grouped:
        assert connector.request_finished_all_groups(FakeRequest(ENGINE_ID), ([1],)) == (True, {"handed": 1})
    else:
        assert not hasattr(connector, "request_finished_all_groups")
        assert connector.request_finished(FakeRequest(ENGINE_ID), [1]) == (False, None)
    assert [one.stage for one in load_journal(tmp_path).select(KvAborted)] == ["load"]


def test_a_second_allocation_without_a_load_is_no_reservation(tmp_path: Path) -> None:
    connector = made(Bare, tmp_path, SCHEDULER)
    reserve(connector)
    connector.update_state_after_alloc(FakeRequest(ENGINE_ID), FakeBlocks([1, 2, 3, 4]), 0)
    assert [one.tokens for one in load_journal(tmp_path).select(KvReserve)] == [8]


@pytest.mark.parametrize("base", [Bare, MultiConnector])
def test_a_numbered_save_is_told_when_its_number_comes_back(base: type, tmp_path: Path) -> None:
    parts = [{"kv_connector": name, "kv_connector_extra_config": {PATH_KEY: "p"}} for name in ("A", "B")]
    connector = made(base, tmp_path, SCHEDULER, {"connectors": parts} if base is MultiConnector else None)
    connector.build_connector_meta(FakeStep({}, [], Cached()))
    ended = SimpleNamespace(completed_saves={5: 1})
    if base is MultiConnector:
        ended = SimpleNamespace(metadata=(None, ended))
    connector.update_connector_output(SimpleNamespace(
        finished_recving=None, failed_recving=None, invalid_block_ids=None, kv_connector_worker_meta=ended,
    ))
    assert [one.request_id for one in load_journal(tmp_path).select(KvSaved)] == ["r"]


def test_a_step_of_a_request_that_saves_nothing_is_no_save_job() -> None:
    jobs = [SimpleNamespace(req_id="a", store_job_id=5), SimpleNamespace(req_id="b", store_job_id=None)]
    assert jobs_begun(SimpleNamespace(requests=jobs)) == {5: "a"}
    assert jobs_begun(SimpleNamespace(requests=[SimpleNamespace(req_id="a")])) == {}


def test_of_several_connectors_a_load_goes_the_way_of_the_one_that_promised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("testbed.probe.connector.set_switches", lambda name: ())
    parts = [
        {"kv_connector": "NixlConnector", "kv_connector_extra_config": {PATH_KEY: "loopback_tcp"}},
        {"kv_connector": "LMCacheMPConnector", "kv_connector_extra_config": {PATH_KEY: "shared_memory_copy"}},
    ]
    meta = reserve(made(MultiConnector, tmp_path, SCHEDULER, {"connectors": parts}))
    worker = made(MultiConnector, tmp_path, WORKER, {"connectors": parts})
    worker.register_kv_caches({"layer": FakeCache()})
    worker.bind_connector_metadata(meta)
    worker.start_load_kv(None)
    assert [one.path for one in load_journal(tmp_path).select(KvLoadBegan)] == ["shared_memory_copy"]
    assert meta.testbed_loads[ENGINE_ID].background is False


@pytest.mark.parametrize(
    ("name", "background"),
    [("LMCacheMPConnector", False), ("ExampleConnector", False), ("MooncakeStoreConnector", True),
     ("MooncakeConnector", True), ("NixlPullConnector", True)],
)
def test_which_connectors_move_bytes_while_the_engine_goes_on(name: str, background: bool) -> None:
    assert ways_of(name, {PATH_KEY: "p"}) == (Way("p", background),)


def test_what_was_switched_is_told_at_the_beginning_of_each_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("testbed.probe.connector.set_switches", lambda name: (f"switch: {name}",))
    connector = made(Bare, tmp_path, WORKER)
    connector._testbed_scheduler.lookup(FakeRequest(ENGINE_ID), 0, lambda: (8, True))
    for number, folder in enumerate((tmp_path, tmp_path / "next"), start=1):
        other = Orders(journal=str(folder / "events"), arm="b", repetition=number, attempts=1)
        write_orders(tmp_path / "orders.json", other)
        connector._testbed_scheduler.lookup(FakeRequest(f"cmpl-s{number}-0-0123abcd"), 0, lambda: (8, True))
    for folder, arm in ((tmp_path, "a"), (tmp_path / "next", "b")):
        journal = load_journal(folder)
        assert [(one.text, one.arm) for one in journal.select(Note)] == [("switch: Bare", arm)]
        assert len(journal.select(KvLookup)) == (2 if arm == "a" else 1)
        [shard] = (folder / "events").iterdir()
        assert json.loads(shard.read_text().splitlines()[0])["kind"] == "note"
