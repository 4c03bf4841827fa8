"""How many threads torch computes with, in one thread of a process only.

The reference is computed while a worker process imports and loads. Threads that share a layer of a tiny model wait for
each other, busily, longer than they compute: on two cores that was 5 s of the processors in place of 0.4 s, taken from
the worker. What torch takes in the engine's own thread stays as it is: vLLM asks for it before it starts its workers.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LIGHT = 10**7  # squares of lengths, summed: about a second for one thread


def taken() -> int:
    """Give the threads that torch computes with in this thread, and fix them: others' wishes do not change them now."""
    import torch

    return int(torch.get_num_threads())


def wanted(lengths: Sequence[int], usual: int) -> int:
    """Give how many threads prompts of these lengths are worth: one, unless there is much to compute."""
    return 1 if sum(length**2 for length in lengths) <= LIGHT else usual


@contextlib.contextmanager
def computing_with(count: int, usual: int) -> Iterator[None]:
    """Have torch compute with so many threads in this thread, within this block; threads to come take the usual."""
    import torch

    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(usual)
