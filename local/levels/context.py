"""What a stage of the gate has to work with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from local.patches import reviewed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from local.host import Host
    from local.patches import Applied, Patch
    from remote.schema import HostFacts, Job, SurfaceAnswer


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """A bundle that stands on a host, and all that is known so far."""

    host: Host
    job: Job
    bundle: str
    facts: HostFacts
    series: tuple[Patch, ...]
    applied: Applied
    secrets: Mapping[str, str] = field(repr=False)
    until: str | None = None
    usd_per_hour: float | None = None
    sharers: int = 1
    surface: SurfaceAnswer | None = None  # where it came along with the facts

    @property
    def reviewed(self) -> bool:
        """Say whether the whole series for the installed versions is in force, applied or there already."""
        return reviewed(self.series, self.facts.distributions, self.applied)
