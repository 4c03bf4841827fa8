"""What an engine is, the table of engines, and how prompts are packed into the calls that an engine can take."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from remote.schema import Job

# engine → module of remote.engines; its `make(job)` gives the engine. The engine `command` has no adapter: the
# supervisor starts the user's own program in place of an attempt.
ENGINES = {"speculators": "speculators"}


class EngineError(RuntimeError):
    """The engine gave something other than the hidden states of the prompts it was given."""


class Engine(Protocol):
    """Turns prompts into hidden states. Made cheaply; `load` is what costs."""

    @property
    def longest(self) -> int:
        """Tokens of the longest prompt that comes back whole: longer ones are cut to it when they are tokenised."""

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers that `extract` gives, in its order; known after `load`."""

    def load(self) -> None:
        """Load the model and whatever it takes to answer; raises what the libraries raise."""

    def extract(self, prompts: Sequence[Sequence[int]]) -> list[list[Any]]:
        """Give for each prompt one tensor [tokens, hidden size] per layer, on the CPU; raises EngineError.

        Any number of prompts; after an exception the engine still answers when `alive` says so.
        """

    def alive(self) -> bool:
        """Tell whether the engine can take another call."""

    def close(self) -> None:
        """End the engine's processes; harmless when repeated or never loaded."""


def make(job: Job) -> Engine:
    """Give the engine of a job; raises EngineError for one that has no adapter."""
    if job.engine not in ENGINES:
        raise EngineError(f"engine {job.engine!r} has no adapter; known are {', '.join(sorted(ENGINES))}")
    engine: Engine = importlib.import_module(f"remote.engines.{ENGINES[job.engine]}").make(job)
    return engine


def packed(lengths: Sequence[int], *, most: int, budget: int) -> list[range]:
    """Give consecutive ranges of at most `most` prompts and `budget` tokens each; a longer prompt goes alone."""
    ranges: list[range] = []
    start = tokens = 0
    for index, length in enumerate(lengths):
        if index > start and (index - start >= most or tokens + length > budget):
            ranges.append(range(start, index))
            start, tokens = index, 0
        tokens += length
    if start < len(lengths):
        ranges.append(range(start, len(lengths)))
    return ranges
