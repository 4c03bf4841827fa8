"""A batch that takes several steps, cheaply: the scheduler is allowed fewer tokens a step for one call.

The engine packs its calls so that a step holds them; a prompt that is longer than a step goes alone, and takes several.
So does a call for which the KV cache is too small, which nobody knows before the load: then rows come in another order.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remote.engines.base import Engine

ALLOWED = "max_num_scheduled_tokens"


def step_of(engine: Engine) -> int | None:
    """Give the tokens that a step of this engine holds; None where it does not say."""
    config: Any = getattr(getattr(engine, "_generator", None), "vllm_config", None)
    held = getattr(getattr(config, "scheduler_config", None), "max_num_batched_tokens", None)
    return held if type(held) is int else None


@contextlib.contextmanager
def steps_of(engine: Engine, tokens: int) -> Iterator[bool]:
    """Let a step have at most so many tokens within this block; gives False where the engine has no such limit."""
    scheduler: Any = getattr(getattr(engine, "_generator", None), "scheduler", None)
    usual = getattr(scheduler, ALLOWED, None)
    if type(usual) is not int:
        yield False
        return
    setattr(scheduler, ALLOWED, tokens)
    try:
        yield True
    finally:
        setattr(scheduler, ALLOWED, usual)
