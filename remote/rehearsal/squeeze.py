"""A batch that takes several steps, cheaply: the scheduler is allowed fewer tokens a step for one call.

The engine packs its calls so that a step holds them. It may still take several: where the KV cache is too small for a
batch, which nobody knows before the load. Then prompts are computed in part, and rows come in another order.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remote.engines.base import Engine

ALLOWED = "max_num_scheduled_tokens"


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
