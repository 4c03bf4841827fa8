"""What a stage of the gate has to work with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from local.host import Host
    from local.patches import Applied
    from remote.schema import HostFacts, Job


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """A bundle that stands on a host, and all that is known so far."""

    host: Host
    job: Job
    bundle: str
    facts: HostFacts
    applied: Applied
    secrets: Mapping[str, str] = field(repr=False)
    until: str | None = None
