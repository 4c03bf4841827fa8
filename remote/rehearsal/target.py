"""The engine's configuration for the target itself, made as the job will make it: no weight is read for that.

The tiny model is derived from what the gate knows of a configuration. What it leaves out or cuts (a quantization that
vLLM does not know or this machine does not have, a precision that is none) shows here.
"""

from __future__ import annotations

import importlib
import inspect
import re
from typing import TYPE_CHECKING, Any

from remote.rehearsal.precision import CLASS, METHOD, MODULE

if TYPE_CHECKING:
    from remote.schema import Job

_OWN = re.compile(r"\bself\s*\.")


def configure(job: Job) -> bool:
    """Make the configuration; raises what the job would meet. Gives False where it cannot be made by itself."""
    try:
        generator = getattr(importlib.import_module(MODULE), CLASS, None) if job.engine == "speculators" else None
    except ModuleNotFoundError:
        return False  # the engine, which comes next, says so at its own line
    method: Any = getattr(generator, METHOD, None)
    if generator is None or method is None or not _stands_alone(method):
        return False
    wanted = {
        "model_path": job.model,
        "max_model_len": job.max_model_len,
        "gpu_memory_utilization": job.memory_fraction,
        "tensor_parallel_size": job.tensor_parallel,
    }
    blank = generator.__new__(generator)
    try:
        inspect.signature(method).bind(blank, **wanted)
    except TypeError:  # another release, which asks for something else
        return False
    method(blank, **wanted)
    return True


def _stands_alone(method: Any) -> bool:
    """Tell whether a method uses nothing of its object, which is not there yet."""
    try:
        return not _OWN.search(inspect.getsource(method))
    except (OSError, TypeError):
        return False
