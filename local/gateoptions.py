"""What a gate is asked for. It stands alone: the first breath to a host needs it before the gate has been read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class GateOptions:
    """How far, how fresh and with which patches the gate works."""

    until: str | None = None
    fresh: bool = False
    no_patches: bool = False
    without: tuple[str, ...] = ()
    usd_per_hour: float | None = None
    sharers: int = 1  # hosts to which the dataset is dealt
    gpus: int | None = None  # that the inventory expects on the host

    @property
    def choice(self) -> tuple[str, ...]:
        """Name the choice of patches: each has a bundle of its own."""
        return ("no-patches",) if self.no_patches else self.without
