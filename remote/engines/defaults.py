"""What the gate looks at for each engine, where the job does not say it itself."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from remote.schema import GateSpec

if TYPE_CHECKING:
    from remote.schema import Job

DEFAULTS: dict[str, GateSpec] = {
    "speculators": GateSpec(
        modules=(
            "speculators.data_generation.vllm_hidden_states_generator",
            "speculators.data_generation.custom_worker",
        ),
        symbols=(
            "vllm.v1.request:Request.__init__",
            "vllm.v1.core.sched.scheduler:Scheduler.__init__",
            "vllm.v1.core.kv_cache_utils:get_kv_cache_config_from_groups",
        ),
    ),
}


def gate_of(job: Job) -> GateSpec:
    """Give the job's gate, each empty part filled with its engine's own."""
    own = DEFAULTS.get(job.engine, GateSpec())
    return dataclasses.replace(
        job.gate,
        modules=job.gate.modules or own.modules,
        symbols=job.gate.symbols or own.symbols,
        constants=job.gate.constants or own.constants,
    )
