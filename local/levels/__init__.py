"""The levels of the gate: one ordered table, cheapest first. A level that is not in it does not exist.

`reach`, `host` and `patch` decide from facts and make the bundle. Every stage after them looks at that bundle: a new
level is a new `Stage`, put where it belongs in `STAGES`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from local.levels import probe, static

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from local.levels.context import Context
    from remote.schema import Check


class Checks(Protocol):
    """The checks of a stage, as they are decided."""

    def __iter__(self) -> Iterator[Check]: ...
    def close(self) -> None:
        """Want no more of them."""
        ...


@dataclass(frozen=True, slots=True)
class Stage:
    """One step that decides one or more levels: begun ahead of its turn, it gives its checks when they are asked for.

    Whatever a step has begun ends when its checks are closed.
    """

    levels: tuple[str, ...]
    begin: Callable[[Context], Checks] = field(repr=False)


FIRST = ("reach", "host", "patch")
STAGES = (Stage(static.LEVELS, static.begin), Stage(probe.LEVELS, probe.begin))
LEVELS = (*FIRST, *(level for stage in STAGES for level in stage.levels))
