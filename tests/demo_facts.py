"""The facts of the made-up run of `tests/synthetic.py`: its arms, faults, limits, paths and calibrations."""

from typing import Any

from testbed.journal.manifest import (
    ArmFacts,
    ArrivalFacts,
    ClientCalibration,
    FaultFacts,
    HypothesisFacts,
    Limits,
    Manifest,
    PathRate,
)

RUN = "demo-20260101-120000"
BLOCK = 128
KV_BYTES = 1000
RATE = 1.0e9
DEADLINE_S = 2.0
HOLD_S = 1.0


def fault(kind: str, **changes: Any) -> FaultFacts:
    """The facts of one fault of the demo."""
    facts = {
        "fault": kind, "fault_kind": kind, "target": "tier", "trigger": "every 3", "stage": "lookup..load",
        "minimum": 3, "fails_loads": kind != "hold", "hold_s": None if kind == "slow_load" else HOLD_S,
        "fail_reason": {"evict": "load_error", "slow_load": "deadline"}.get(kind, ""),
    }
    return FaultFacts(**{**facts, **changes})


def arms() -> list[ArmFacts]:
    """The five arms of the demo."""
    tier: dict[str, Any] = {
        "tier": "memory", "probed": True, "policy": "recompute", "attempts": 1, "load_deadline_s": DEADLINE_S,
    }
    return [
        ArmFacts(
            name="no_tier", tier="none", probed=False, policy="recompute", attempts=1, settings={"tier.kind": "none"},
        ),
        ArmFacts(name="tier", **tier),
        ArmFacts(name="held", faults=[fault("hold")], **tier),
        ArmFacts(name="evicted", faults=[fault("evict")], control="held", **tier),
        ArmFacts(name="timeouts", faults=[fault("slow_load", stage="load..complete")], **tier),
    ]


def manifest(**changes: Any) -> Manifest:
    """The manifest of the demo."""
    facts: dict[str, Any] = {
        "run": RUN, "experiment": "demo", "created": "2026-01-01T12:00:00Z", "status": "complete", "seed": 7,
        "repetitions": 1, "model": "smollm2-135m", "dtype": "float32", "block_size": BLOCK,
        "kv_bytes_per_token": KV_BYTES, "arms": arms(), "tie_gap_nats": 0.05, "send_lag_limit_s": 0.05,
        "limits": {
            "long_doc": Limits(ttft_s=1.2, tpot_s=0.1, derivation="3 x the unloaded 0.40 s and 3 x 0.033 s"),
            "short_chat": Limits(ttft_s=0.6, tpot_s=0.1, derivation="3 x the unloaded 0.20 s and 3 x 0.033 s"),
        },
        "required_metrics": ["ttft_s", "tpot_s", "goodput_ratio", "loaded_tokens", "recomputed_after_failure_tokens"],
        "paths": [PathRate(
            path="memory", nominal_bytes_per_s=None, calibrated_bytes_per_s=RATE, spread_ratio=0.1, tries=10,
            source="block-wise copy out of shared memory",
        )],
        "hypothesis": HypothesisFacts(
            bottleneck="prefill of repeated documents", metric="ttft_s", traffic_class="long_doc", arm="tier",
            over="no_tier", ratio="< 0.8", refuted_by="an interval of the paired ratio that reaches 0.8",
        ),
        "arm_order": ["no_tier", "tier", "held", "evicted", "timeouts"],
        "specs": {"configs/experiments/demo.yaml": "name: demo\nseed: 7\n"}, "plan": "engine-0: vllm serve ...\n",
        "versions": {"vllm": "0.32.0", "python": "3.11"}, "git_commit": "0123abc",
        "host": {"processor": "made up", "cores": 2, "device": "cpu"},
        "evidence": {"dtype": "float32 was the fastest right one"},
        "left_behind": [], "durations_s": {"up": 61.0, "arms": 540.0}, "client_calibration": calibration(),
        "arrivals": {
            "long_doc": ArrivalFacts(process="poisson", arrivals=28, distance=0.15, limit=0.257),
            "short_chat": ArrivalFacts(process="poisson", arrivals=26, distance=0.12, limit=0.267),
        },
    }
    return Manifest(**{**facts, **changes})


def calibration(max_rps: float = 900.0) -> ClientCalibration:
    """How exact the client of the demo is, up to `max_rps`."""
    return ClientCalibration(
        machine="made up", created="2026-01-01T11:00:00Z", versions={}, cores=2, pinned=False, placement="shared cores",
        error_limit_s=0.001, max_rps=max_rps, ended_by="error", answer_chunks=8, ttft_s=0.02, itl_s=0.01, requests=5000,
        chunks=40_000, error_p50_s=0.0001, error_p99_s=0.0009, error_max_s=0.004, ttft_bias_s=0.0001,
        ttft_error_p99_s=0.0008, ttft_error_max_s=0.004, itl_bias_s=0.0, itl_error_p99_s=0.0007, itl_error_max_s=0.003,
        send_lag_p50_s=0.0001, send_lag_p99_s=0.0008, send_lag_max_s=0.003, client_cpu_ratio=0.8,
    )
