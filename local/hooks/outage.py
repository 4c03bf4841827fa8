"""When a host counts as unreachable, and when as back: pure, told once each time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from local import inventory

if TYPE_CHECKING:
    from local.hooks.table import HooksTable

PATIENCE = 600.0  # seconds without a word from a host after which it counts as unreachable


@dataclass
class Outage:
    """What is known of a host's silence; `after` seconds of it are an outage. Times are of one steady clock."""

    after: float
    heard_at: float
    since: float | None = None  # when the outage began, while it lasts

    def heard(self, now: float) -> float | None:
        """Note a word; gives how long the outage was that it ends, None where there was none."""
        began, self.since, self.heard_at = self.since, None, now
        return None if began is None else now - began

    def silent(self, now: float) -> float | None:
        """Give, once in each outage, for how long nothing was heard."""
        if self.since is not None or now - self.heard_at < self.after:
            return None
        self.since = self.heard_at
        return now - self.heard_at


def of(hooks: HooksTable | None, now: float) -> Outage:
    """Give the watch over a host's silence; the duration was checked when the file was read."""
    said = getattr(hooks, "unreachable_after", None)
    after = inventory.seconds(said) if said is not None else None
    return Outage(PATIENCE if after is None else after, now)
