"""What the supervisor knows of its run, kept in `state.json` (replaced whole) and `events.jsonl` (appended)."""

from __future__ import annotations

import dataclasses
import os
import time
from typing import TYPE_CHECKING, Any

from remote import files, masks, wire
from remote.host import processes
from remote.run import room
from remote.run.events import EventLog
from remote.schema import Samples, State

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from remote.paths import Run

TOLD = ("loading", "extracting", "verifying")  # the phases that an attempt may tell
HEARTBEAT = 4.0  # seconds between two states at most
PAUSE = 1.0  # seconds between two states at least, unless it matters


def after(state: State, event: dict[str, Any]) -> State:
    """Give the state after an event of the attempt; what makes no sense in it is passed over."""
    name = event.get("event")
    if name == "phase" and event.get("phase") in TOLD:
        return dataclasses.replace(state, phase=event["phase"])
    if name not in ("plan", "progress"):
        return state
    samples = dataclasses.replace(state.samples, **_counts(event, ("total", "done", "failed")))
    tokens = _counts(event, ("tokens", "tokens_done")).values()
    return dataclasses.replace(
        state,
        samples=samples,
        tokens=max(tokens, default=state.tokens),
        tokens_total=_counts(event, ("tokens_total",)).get("tokens_total", state.tokens_total),
        phase="extracting" if name == "progress" and state.phase in ("starting", "loading") else state.phase,
    )


def dealt_with(samples: Samples) -> int:
    """Count the samples that need no more work."""
    return samples.done + samples.failed


def _counts(event: dict[str, Any], names: tuple[str, ...]) -> dict[str, int]:
    return {name: event[name] for name in names if type(event.get(name)) is int and event[name] >= 0}


class Ledger:
    """The run's state and events; `best` is the most samples that any attempt had dealt with."""

    def __init__(
        self, run: Run, output: str, *, secrets: Collection[str] = (), clock: Callable[[], float] = time.time
    ) -> None:
        now = clock()
        own = processes.read(os.getpid())
        self.run = run
        self.events = EventLog(run.events, clock=clock)
        self.best = 0
        self._secrets = tuple(secrets)  # what an attempt tells may hold them; the events never do
        self._clock = clock
        self._written = 0.0
        self._dirty = True
        self.refused: float | None = None  # since when (monotonic) the disk takes nothing any more
        self.state = State(
            run=run.id, phase="starting", attempt=0, pid=os.getpid(),
            pid_started=float(own.started) if own else 0.0, boot_id=processes.boot_id(),
            started=now, heartbeat=now, output=output,
        )  # fmt: skip

    def tell(self, event: str, **fields: Any) -> None:
        """Append an event of our own."""
        self.events.add(event, fields.get("attempt", self.state.attempt), masks.within(fields, self._secrets))

    def hear(self, event: dict[str, Any]) -> bool:
        """Number an event of the attempt and let it change the state; True when samples were done."""
        shown = masks.within(event, self._secrets)
        self.events.add(shown["event"], self.state.attempt, shown)
        before, self.state = self.state, after(self.state, event)
        self._dirty = self._dirty or before != self.state
        return event["event"] == "progress" and dealt_with(self.state.samples) != dealt_with(before.samples)

    def came_further(self) -> bool:
        """Tell, once, whether the run has more samples dealt with than at the last asking."""
        now = dealt_with(self.state.samples)
        further, self.best = now > self.best, max(now, self.best)
        return further

    def change(self, **fields: Any) -> None:
        """Change the state and write it at once."""
        self.state = dataclasses.replace(self.state, **fields)
        self.write()

    def beat(self) -> None:
        """Write the state when it changed or grew old; a full disk is no reason to die."""
        age = time.monotonic() - self._written
        if age > HEARTBEAT or (self._dirty and age > PAUSE):
            self.write()

    def write(self) -> None:
        """Write the state."""
        flushed = self.events.flush()
        kills = processes.out_of_memory_kills()
        self.state = dataclasses.replace(self.state, heartbeat=self._clock(), memory_kills=kills)
        self._written = time.monotonic()
        try:
            files.replace(self.run.state, wire.dumps(self.state).encode())
        except OSError as error:
            if error.errno in room.FULL and self.refused is None:
                self.refused = self._written
            return
        self._dirty = False
        if flushed:
            self.refused = None
