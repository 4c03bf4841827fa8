"""What a rehearsal tells the engine that it has no argument for: single precision on a CPU, weights without a file.

The generator asks vLLM for "auto", which turns a checkpoint in single precision into half of it. Its configuration
is made by one method; a subclass corrects what that gives, and nothing of the generator runs differently. On a GPU
the job's own precision is rehearsed: other precisions have other kernels.
"""

from __future__ import annotations

import contextlib
import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remote.schema import Job

MODULE = "speculators.data_generation.vllm_hidden_states_generator"
CLASS, METHOD = "VllmHiddenStatesGenerator", "_create_vllm_config"


def chosen(job: Job, stated: str | None) -> str:
    """Give the precision to rehearse in; `stated` is the target's own."""
    if job.device == "cpu" and can_be_told(job):
        return "float32"
    return own(stated)


def own(stated: str | None) -> str:
    """Give the precision that the job itself computes in."""
    return stated if stated in {"bfloat16", "float16"} else "bfloat16"


def can_be_told(job: Job) -> bool:
    """Say whether the job's engine makes its configuration in a method of its own."""
    return job.engine == "speculators" and hasattr(_generator(), METHOD)


@contextlib.contextmanager
def told(dtype: str, *, dummy: bool = False) -> Iterator[None]:
    """Let engines that are loaded within this block take single precision; anything else they take by themselves.

    `dummy` has vLLM make up the weights in place of reading them.
    """
    if dtype != "float32" and not dummy:
        yield
        return
    module, own = importlib.import_module(MODULE), _generator()

    def create(self: Any, *arguments: Any, **keywords: Any) -> Any:
        import torch

        config = getattr(own, METHOD)(self, *arguments, **keywords)
        if dtype == "float32":
            config.model_config.dtype = torch.float32
        if dummy:
            config.load_config.load_format = "dummy"
        return config

    setattr(module, CLASS, type(CLASS, (own,), {METHOD: create}))
    try:
        yield
    finally:
        setattr(module, CLASS, own)


def _generator() -> Any:
    return getattr(importlib.import_module(MODULE), CLASS, None)
