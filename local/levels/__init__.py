"""The levels of the gate: one ordered table, cheapest first. A level that is not in it does not exist.

`reach`, `host` and `patch` decide from facts and make the bundle. Every stage after them looks at that bundle: a new
level is a new `Stage`, put where it belongs in `STAGES`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from local.levels import probe, static

if TYPE_CHECKING:
    from collections.abc import Callable

    from local.levels.context import Context
    from remote.schema import Check


@dataclass(frozen=True, slots=True)
class Stage:
    """One step that decides one or more levels at once."""

    levels: tuple[str, ...]
    run: Callable[[Context], tuple[Check, ...]] = field(repr=False)


FIRST = ("reach", "host", "patch")
STAGES = (Stage(static.LEVELS, static.run), Stage(probe.LEVELS, probe.run))
LEVELS = (*FIRST, *(level for stage in STAGES for level in stage.levels))
