"""The retry policy's decisions, pure: how often a cause may come back, and when silence means that an attempt hangs."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from remote.failures import Failure
    from remote.schema import Retry

UNKNOWN_BUDGET = 1
NODE_FATAL = "node-fatal"


@dataclass(slots=True)
class Budgets:
    """Counts the failures of each cause since the last progress; those that tell of a bad host for the whole run."""

    policy: Retry
    spent: dict[str, int] = field(default_factory=dict)
    lasting: set[str] = field(default_factory=set)

    def progressed(self) -> None:
        """Forget what was spent: the job has come further than the failures before."""
        self.spent = {cause: count for cause, count in self.spent.items() if cause in self.lasting}

    def settled(self, failure: Failure) -> Failure:
        """Give the failure as what it is by now: some causes mean something else when they come back."""
        if failure.then == NODE_FATAL:
            self.lasting.add(failure.cause)
        if failure.then is None or self.spent.get(failure.cause, 0) < self._limit(failure):
            return failure
        return dataclasses.replace(failure, kind=failure.then, then=None)

    def allows(self, failure: Failure) -> bool:
        """Count this failure and tell whether it may be tried again."""
        if failure.mended:
            return True
        count = self.spent.get(failure.cause, 0)
        self.spent[failure.cause] = count + 1
        return count < self._limit(failure)

    def _limit(self, failure: Failure) -> int:
        if failure.kind == "transient":
            own = self.policy.transient
        elif failure.kind == "unknown":
            own = min(UNKNOWN_BUDGET, self.policy.transient)
        else:
            own = 0
        return own if failure.budget is None else min(own, failure.budget)


@dataclass(slots=True)
class Signs:
    """The signs of life of one attempt, by a clock that never goes back."""

    started: float
    first: float | None = None  # the first sign of any kind
    last: float | None = None  # the last sign that counts
    extracting: bool = False
    blind: bool = False  # progress cannot be seen any more: then whatever is said counts

    def said(self, now: float) -> None:
        """Note that the log grew or an event came; while samples are extracted only progress counts."""
        if self.first is None:
            self.first = now
        if self.blind or not self.extracting:
            self.last = now

    def progressed(self, now: float) -> None:
        """Note that samples were done; from now on only this counts."""
        self.said(now)
        self.extracting = True
        self.last = now

    def hangs(self, now: float, policy: Retry) -> str | None:
        """Say what has been waited for in vain, None while there is hope."""
        if self.first is None or self.last is None:
            late = now - self.started > policy.start_line
            return f"nothing was said for {policy.start_line:.0f} s after the start" if late else None
        if now - self.last <= policy.progress_line:
            return None
        what = "no progress" if self.extracting else "no line of log and no event"
        return f"{what} for {policy.progress_line:.0f} s"
