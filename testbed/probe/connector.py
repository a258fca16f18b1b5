"""Make a probed subclass around any registered KV connector.

The engine is started with `"kv_connector": "Probed<Name>", "kv_connector_module_path": "testbed.probe.connector"`; the
class is made when the engine asks this module for it. `kv_connector_extra_config` holds `testbed.orders` (the order
file) and `testbed.path` (the way the tier's bytes take). Nothing of the real connector is patched but what it needs to
run at all, which is journalled.
"""

from pathlib import Path
from typing import Any

from testbed.journal.events import ORDERS_KEY
from testbed.probe.record import Record
from testbed.probe.saves import jobs_begun, jobs_ended
from testbed.probe.scheduler_half import SchedulerHalf
from testbed.probe.switches import set_switches
from testbed.probe.ways import way_of, ways_of
from testbed.probe.worker_half import WorkerHalf

PREFIX = "Probed"


def probed(base: Any) -> type:
    """A subclass of the connector class `base` that journals each stage and obeys the orders."""

    class Probed(base):
        """The real connector, seen and guarded."""

        def __init__(self, vllm_config: Any, role: Any, kv_cache_config: Any = None) -> None:
            switches = set_switches(base.__name__) if role.name == "WORKER" else ()
            super().__init__(vllm_config, role, kv_cache_config)
            extra = vllm_config.kv_transfer_config.kv_connector_extra_config
            record = Record(Path(extra[ORDERS_KEY]), f"probe-{role.name.lower()}", switches)
            workers = vllm_config.parallel_config.world_size
            self._testbed_blocks = kv_cache_config.num_blocks
            self._testbed_ways = ways_of(base.__name__, extra)
            self._testbed_scheduler = SchedulerHalf(record, vllm_config.cache_config.block_size, workers)
            self._testbed_worker = WorkerHalf(record, self._testbed_ways[0].path)

        def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int | None, bool]:
            ask = super().get_num_new_matched_tokens
            return self._testbed_scheduler.lookup(
                request, num_computed_tokens, lambda: ask(request, num_computed_tokens)
            )

        def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
            if num_external_tokens:
                way = way_of(self, self._testbed_ways, request.request_id)
                self._testbed_scheduler.reserved(request, blocks, num_external_tokens, way)
            super().update_state_after_alloc(request, blocks, num_external_tokens)

        def build_connector_meta(self, scheduler_output: Any) -> Any:
            meta = super().build_connector_meta(scheduler_output)
            meta.testbed_loads = self._testbed_scheduler.step(scheduler_output)
            self._testbed_scheduler.saving(jobs_begun(meta))
            return meta

        def update_connector_output(self, connector_output: Any) -> None:
            self._testbed_scheduler.ended(
                set(connector_output.finished_recving or ()),
                set(connector_output.failed_recving or ()),
                set(connector_output.invalid_block_ids or ()),
            )
            self._testbed_scheduler.saved(jobs_ended(connector_output))
            super().update_connector_output(connector_output)

        def request_finished(self, request: Any, block_ids: Any) -> Any:
            self._testbed_scheduler.finished(request)
            return super().request_finished(request, block_ids)

        def register_kv_caches(self, kv_caches: dict[str, Any]) -> None:
            self._testbed_worker.registered(kv_caches, self._testbed_blocks)
            super().register_kv_caches(kv_caches)

        def bind_connector_metadata(self, connector_metadata: Any) -> None:
            self._testbed_worker.bound(connector_metadata.testbed_loads)
            super().bind_connector_metadata(connector_metadata)

        def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
            start = super().start_load_kv
            self._testbed_worker.load(lambda: start(forward_context, **kwargs))

        def get_transfer_results(self, finished_req_ids: set[str]) -> Any:
            results = super().get_transfer_results(finished_req_ids)
            self._testbed_worker.results(results.finished_sending, results.finished_recving, results.failed_recving)
            return results

        def get_block_ids_with_load_errors(self) -> set[int]:
            return self._testbed_worker.failures(super().get_block_ids_with_load_errors())

        if hasattr(base, "request_finished_all_groups"):  # the engine then asks this and not request_finished

            def request_finished_all_groups(self, request: Any, block_ids: Any) -> Any:
                self._testbed_scheduler.finished(request)
                return super().request_finished_all_groups(request, block_ids)

    Probed.__name__ = Probed.__qualname__ = PREFIX + base.__name__
    return Probed


def __getattr__(name: str) -> type:
    """The probed class around the connector that vLLM has registered under the rest of `name`."""
    if not name.startswith(PREFIX):
        raise AttributeError(name)
    from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory

    made = probed(KVConnectorFactory.get_connector_class_by_name(name.removeprefix(PREFIX)))
    globals()[name] = made
    return made
