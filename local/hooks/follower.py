"""The laptop's hooks while a run is followed: what is seen of it, told at most once, beside that or at its end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Self

from rich.markup import escape

from local.errors import JobFailed
from local.hooks import outage
from local.hooks.teller import Teller
from remote.run import occasions
from remote.schema import VerifyAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from local.session import Session
    from remote.schema import Exit

STALE = 600.0  # seconds after which a hang that is read of is history


class FollowerHooks:
    """What a follower of one run tells; as a context it tells the end as the block leaves it."""

    def __init__(self, session: Session, run: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.ended: Exit | None = None  # how the run ended, once that is known
        self.proven: VerifyAnswer | None = None  # what the run itself found its outputs to be, where it has looked
        self._session = session
        self._run = run
        self._clock = clock
        self._outage = outage.of(session.target.hooks, clock())
        self._teller = Teller(session.target, tuple(session.secrets.values()), self._say, session.interrupted.is_set)

    def on_event(self, event: Mapping[str, Any]) -> None:
        """Tell of a hang, unless it is history; note what the run itself found its outputs to be."""
        if event.get("event") == "verified":
            self.proven = _proven(event)
        if event.get("event") != "hang":
            return
        reached = self._session.host.reached
        now = time.time() + (reached.now - reached.asked if reached.asked else 0.0)
        when = event.get("time")
        if isinstance(when, int | float) and now - when < STALE:
            facts = {"cause": "hang", "waiting": event.get("waiting"), "attempts": event.get("attempt")}
            self._beside(occasions.HANG, facts, note=f"{occasions.HANG}-{event.get('n')}")

    def on_heard(self) -> None:
        """Note a word from the host."""
        if (lasted := self._outage.heard(self._clock())) is not None:
            self._beside(occasions.UNREACHABLE, {"reachable": 1, "waiting": f"{lasted:.0f} s"}, note=None)

    def on_beat(self) -> None:
        """Look whether the host has been silent for too long."""
        if (silent := self._outage.silent(self._clock())) is not None:
            self._beside(occasions.UNREACHABLE, {"reachable": 0, "waiting": f"{silent:.0f} s"}, note=None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Else we leave: the link is lost for good, or the user has pressed Ctrl-C.
        over = error is None or isinstance(error, JobFailed)
        if self._run and (error is None or isinstance(error, JobFailed)):
            self._tell_end(error)
        self._teller.finish(wait=over)

    def _tell_end(self, error: JobFailed | None) -> None:
        """Tell of the end that the block has come to: verified, failed, lost, or not whole."""
        facts = occasions.of_exit(self.ended) if self.ended is not None else {"phase": "lost", "cause": "lost"}
        if self.ended is not None and self.ended.phase == "stopped":
            return
        occasion = occasions.FAILED if error is not None else occasions.DONE
        if error is not None and facts["phase"] == "done":
            facts |= {"phase": "failed", "cause": "verify", "root_line": error.message, "advice": error.remedy}
        self._teller.now(occasion, self._run, {**facts, "output": self._session.job.output}, note=occasion)

    def _beside(self, occasion: str, facts: dict[str, Any], *, note: str | None) -> None:
        self._teller.beside(occasion, self._run, {**facts, "output": self._session.job.output}, note=note)

    def _say(self, style: str, line: str) -> None:
        self._session.console.print(escape(line), style=style, soft_wrap=True)


def _proven(event: Mapping[str, Any]) -> VerifyAnswer | None:
    """Give what an event tells of the outputs, None where it makes no sense."""
    names = ("total", "valid", "missing", "damaged", "tokens", "size")
    counts = {name: event[name] for name in names if type(event.get(name)) is int}
    return VerifyAnswer(**counts, extra=0) if len(counts) == len(names) else None
