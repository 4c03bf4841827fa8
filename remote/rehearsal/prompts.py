"""The prompts of a rehearsal, in the batches that the engine is called with. Pure."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from remote.schema import Job

BETWEEN = (2, 5, 9, 24, 33, 64, 100, 250, 511, 700)  # with the edges, more than twelve lengths
IN_PARTS = (50, 40, 30, 7)  # a batch that takes two steps of STEP tokens: the second prompt is cut by the first
STEP = 64
SQUARES = 10**8  # of lengths that Transformers computes on a CPU within seconds: a prompt of 10,000 tokens, 24 of 2,048
PART = 256  # tokens that are compared of each prompt beyond that
CPU_TOKENS = 8192  # of the largest batch, where a CPU computes it
SHORT = (1, 3, 2, 5, 4)  # the lengths of a crowd, in turn
CROWD = 1024  # prompts of one, at most: more than an engine takes at a time


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """Batches of prompts; `capped` says what was cut of the job's largest batch.

    `too_long` is to be refused; `in_parts` is a batch that takes several steps.
    """

    batches: tuple[tuple[tuple[int, ...], ...], ...]
    too_long: tuple[int, ...]
    in_parts: tuple[tuple[int, ...], ...] = ()
    capped: str | None = None

    @property
    def prompts(self) -> list[tuple[int, ...]]:
        """Give all prompts, one after the other, those of the batch in parts last."""
        return [prompt for batch in (*self.batches, self.in_parts) for prompt in batch]

    @property
    def compared(self) -> list[int]:
        """Give how many tokens of each prompt are compared: no state depends on the tokens behind it."""
        left, found = SQUARES, []
        for length in map(len, self.prompts):
            part = length if length**2 <= left else min(length, max(PART, math.isqrt(left)))
            left = max(0, left - part**2)
            found.append(part)
        return found


def plan(job: Job, *, longest: int, block: int, vocabulary: int, seed: int = 0) -> Plan:
    """Give prompts around every edge: one token, the block of the KV cache, the longest; then the largest batch."""
    chance = random.Random(seed)  # noqa: S311 - the same every time, which is the point
    first = min(3, vocabulary - 1)

    def prompt(length: int) -> tuple[int, ...]:
        return tuple(chance.randrange(first, vocabulary) for _ in range(length))

    edges = [prompt(length) for length in _lengths(longest, block)]
    chance.shuffle(edges)
    stem = edges[0]
    for one in edges:  # a prompt that begins like another one, where a cache of prefixes would cut in
        stem = one if block < len(one) < longest and len(one) > len(stem) else stem
    repeated = (stem, (*stem, *prompt(1)) if len(stem) < longest else stem)
    size = max(1, job.batch_size)
    small = [tuple(edges[start : start + size]) for start in range(0, len(edges), size)]
    count, capped = _largest(job, longest)
    large = tuple(prompt(longest) for _ in range(count))
    in_parts = tuple(prompt(length) for length in IN_PARTS if longest >= max(IN_PARTS))
    crowd = tuple(prompt(length) for length in _crowd(size, max(map(len, small), default=0), longest))
    batches = (*small, repeated, crowd, large) if crowd else (*small, repeated, large)
    return Plan(batches=batches, too_long=prompt(longest + 1), in_parts=in_parts, capped=capped)


def _lengths(longest: int, block: int) -> list[int]:
    wanted = {1, block - 1, block, block + 1, longest - 1, *BETWEEN}
    return sorted(length for length in wanted if 1 <= length < max(longest, 2))


def _crowd(size: int, seen: int, longest: int) -> list[int]:
    """Give the lengths of a batch with as many prompts as the job's, where none of the others has.

    The largest batch has as many, but an engine takes its long ones a few at a time.
    """
    return [min(SHORT[place % len(SHORT)], longest) for place in range(min(size, CROWD))] if size > seen else []


def _largest(job: Job, longest: int) -> tuple[int, str | None]:
    """Give how many of the longest prompts the largest batch has; on a CPU no more than stay within seconds."""
    most = max(1, CPU_TOKENS // longest) if job.device == "cpu" else job.batch_size
    if most >= job.batch_size:
        return job.batch_size, None
    return most, f"{most} of the {job.batch_size} longest prompts of a batch: this host computes on its CPU"


def lengths(prompts: Sequence[Sequence[int]]) -> list[int]:
    """Give the different lengths."""
    return sorted({len(prompt) for prompt in prompts})
