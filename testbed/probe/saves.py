"""Saves that outlast no request, as Mooncake Store's own metadata tells of them.

Other connectors say that a request's blocks were sent; this one numbers its save jobs, lets the request go, and reports
the number when the job has ended. That a job has ended does not say that the tier took all of it.
"""

from collections.abc import Mapping
from typing import Any


def jobs_begun(meta: Any) -> dict[int, str]:
    """The save jobs of one engine step: number, and the engine's id of the request; none for other connectors."""
    requests = [one for part in _parts(meta) for one in getattr(part, "requests", ())]
    jobs = {getattr(one, "store_job_id", None): one.req_id for one in requests if hasattr(one, "store_job_id")}
    return {job: engine_id for job, engine_id in jobs.items() if job is not None}


def jobs_ended(output: Any) -> dict[int, int]:
    """The save jobs that have ended: number, and how many workers say so."""
    found: dict[int, int] = {}
    for part in _parts(getattr(output, "kv_connector_worker_meta", None)):
        ended: Mapping[int, int] = getattr(part, "completed_saves", {})
        found |= ended
    return found


def _parts(meta: Any) -> tuple[Any, ...]:
    """The metadata of several connectors side by side is a tuple of theirs."""
    return getattr(meta, "metadata", (meta,))
