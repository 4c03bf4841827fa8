"""The laptop's hooks while `monitor` watches: what changes of a host's run under its eyes, told at most once.

What had ended before the first look is history. `on_done` waits for the outputs to be verified: nothing that the
pulse tells proves them, so they are held against the dataset over a connection of its own.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

from local import runs
from local.errors import LinkLost, PrudentError, Unreachable
from local.hooks import outage
from local.hooks.teller import Teller
from remote.paths import ENDED
from remote.run import occasions

if TYPE_CHECKING:
    from collections.abc import Callable

    from local.monitor.rows import News
    from local.session import Session
    from local.targets import Target
    from remote.schema import RunStatus

HANG = "hang"


class WatchedHooks:
    """What is told of one watched host; `said` collects how it went, for when the screen is free again."""

    def __init__(
        self, target: Target, open_session: Callable[[Target], Session], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.said: list[tuple[str, str]] = []
        self._target = target
        self._open = open_session
        self._clock = clock
        self._outage = outage.of(target.hooks, clock())
        self._before: RunStatus | None = None
        secrets = open_session(target).secrets if target.hooks else {}
        self._teller = Teller(target, tuple(secrets.values()), lambda style, line: self.said.append((style, line)))

    def saw(self, news: News) -> None:
        """Take what a look has found."""
        if self._target.hooks is None:
            return
        run = news.answer.run if news.answer is not None else None
        if news.error is None:
            self._heard()
            self._changed(run)
        elif isinstance(news.error, LinkLost | Unreachable):
            self._silent()

    def finish(self, *, wait: bool) -> None:
        """Wait for what is being told, or end it: the watching is over."""
        self._teller.finish(wait=wait)

    def _heard(self) -> None:
        if (lasted := self._outage.heard(self._clock())) is not None:
            self._unreachable({"reachable": 1, "waiting": f"{lasted:.0f} s"})

    def _silent(self) -> None:
        if (silent := self._outage.silent(self._clock())) is not None:
            self._unreachable({"reachable": 0, "waiting": f"{silent:.0f} s"})

    def _unreachable(self, facts: dict[str, Any]) -> None:
        run = self._before.run if self._before is not None else ""
        self._teller.beside(occasions.UNREACHABLE, run, facts, note=None)

    def _changed(self, run: RunStatus | None) -> None:
        """Tell of an end, or a hang, that was not there at the look before."""
        before, self._before = self._before, run
        if run is None or before is None:
            return
        seen = before if before.run == run.run else None
        facts = _facts(run)
        if run.phase in ENDED and (seen is None or seen.phase not in ENDED):
            self._ended(run, facts)
        elif _hangs(run) and not (seen is not None and _hangs(seen)):
            self._teller.beside(occasions.HANG, run.run, {**facts, "waiting": run.cause}, note=None)

    def _ended(self, run: RunStatus, facts: dict[str, Any]) -> None:
        occasion = occasions.at_end(run.phase)
        if occasion == occasions.FAILED:
            self._teller.beside(occasion, run.run, facts, note=occasion)
        elif occasion == occasions.DONE and (self._teller.wants(occasion) or self._teller.wants(occasions.FAILED)):
            self._teller.start(lambda: self._proven(run, facts))

    def _proven(self, run: RunStatus, facts: dict[str, Any]) -> None:
        """Tell that a run is done once its outputs are verified, or that they are not whole."""
        against = "" if self._target.job.engine == "command" else self._speaks_against(run)
        if against is None:
            self.said.append(("yellow", f"hook on_done of {run.run}: not told, its outputs could not be verified"))
        elif against:
            facts = {**facts, "phase": "failed", "cause": "verify", "root_line": against}
            self._teller.now(occasions.FAILED, run.run, facts, note=occasions.FAILED)
        else:
            self._teller.now(occasions.DONE, run.run, facts, note=occasions.DONE)

    def _speaks_against(self, run: RunStatus) -> str | None:
        """Say what is wrong with the outputs, nothing when they are whole, None where nobody can know."""
        session = self._open(self._target)
        try:
            answer = runs.verify(
                session.host, session.job, bundle=session.payload, secrets=session.secrets, shard=run.shard
            )
        except PrudentError:
            return None
        finally:
            with contextlib.suppress(Exception):
                session.let_go()
        if answer.total and answer.valid == answer.total:
            return ""
        return f"{answer.valid} of {answer.total} samples are valid"


def _facts(run: RunStatus) -> dict[str, Any]:
    return {
        "phase": run.phase, "cause": run.cause, "code": run.exit, "attempts": run.attempt,
        **occasions.of_samples(run.samples),
    }  # fmt: skip


def _hangs(run: RunStatus) -> bool:
    return run.phase not in ENDED and (run.cause or "").startswith(HANG)
