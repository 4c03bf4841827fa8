"""What a seed stands for: which faults, when, and which damage between two rounds."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.chaos import faults
from tests.chaos.pretend import SAMPLES

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass
class Fault:
    """One fault of a plan: so many seconds after what."""

    name: str
    after: str  # start: of the user's command · run: once a run goes on · a number: once so many samples stand
    delay: float
    seed: int
    struck: bool | None = None

    def __str__(self) -> str:
        how = {None: " (not reached)", False: " (hit nobody)", True: ""}[self.struck]
        return f"{self.name} @ {self.after} + {self.delay:.2f} s{how}"


@dataclass
class Plan:
    """What a seed stands for: rounds of faults while a run goes on, and the damage done after each."""

    seed: int
    rounds: list[list[Fault]] = field(default_factory=list)
    damage: list[list[Fault]] = field(default_factory=list)

    @classmethod
    def draw(cls, seed: int, *, small_disk: bool) -> Plan:
        dice = random.Random(seed)  # noqa: S311 - replayable on purpose
        names = [name for name in faults.DURING if name != "disk full" or small_disk]
        weights = [6.0 if name == "disk full" else faults.WEIGHTS.get(name, 1.0) for name in names]
        plan = cls(seed)
        for _ in range(dice.choice([1, 1, 2])):
            during = dice.choices(names, weights, k=dice.choice([1, 1, 2, 3]))
            plan.rounds.append([cls._fault(name, dice) for name in during])
            count = dice.choice([0, 0, 1, 2])
            plan.damage.append([cls._fault(name, dice) for name in dice.choices(list(faults.BETWEEN), k=count)])
        return plan

    @staticmethod
    def _fault(name: str, dice: random.Random) -> Fault:
        after = dice.choice(["start", "run", str(dice.randrange(SAMPLES)), str(dice.randrange(SAMPLES))])
        after = "start" if name == "kill launch" else after
        return Fault(name, after, dice.uniform(0, {"start": 0.4, "run": 0.8}.get(after, 0.1)), dice.getrandbits(32))

    def __iter__(self) -> Iterator[Fault]:
        return itertools.chain(*self.rounds, *self.damage)

    def __str__(self) -> str:
        told = [", ".join(map(str, one)) for one in itertools.chain(*zip(self.rounds, self.damage, strict=True)) if one]
        return f"CHAOS_SEED={self.seed}: " + "; then ".join(told)
