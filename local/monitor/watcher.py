"""Who asks a host: one thread, one short command per interval, never a second one before the first has ended.

A host that cannot be reached is asked again after a growing, jittered delay; nothing is concluded about its run.
"""

from __future__ import annotations

import contextlib
import io
import random
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from rich.console import Console

from local.errors import LinkLost, PrudentError, Unreachable
from local.hooks.watched import WatchedHooks
from local.monitor.rows import News, Watched
from local.screen import Lines
from local.session import Session
from remote.schema import PulseAnswer, PulseRequest

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    from local.targets import Target

DEADLINE = 20.0  # seconds for a pulse; its own work takes less than one
LONGEST_DELAY = 60.0
LEAST_DELAY = 0.5


def delay(interval: float, took: float, tries: int, *, jitter: float) -> float:
    """Give the seconds until the next pulse; `jitter` (0 to 1) spreads those of hosts that fail together."""
    if not tries:
        return max(LEAST_DELAY, interval - took)
    return min(LONGEST_DELAY, max(1.0, interval) * 2.0 ** min(tries - 1, 16)) * (1 + jitter / 4)


def quiet_session(target: Target) -> Session:
    """Give a session that writes nothing: the screen is ours, what it has to say is in its notices."""
    nowhere = cast("TextIO", io.StringIO())
    return Session(target, Console(file=nowhere), Lines(nowhere), alone=False)


class Watcher(threading.Thread):
    """Keeps `news` of one host up to date; `changed` is set at each."""

    def __init__(
        self,
        target: Target,
        *,
        interval: float,
        changed: threading.Event,
        run: str | None = None,
        open_session: Callable[[Target], Session] = quiet_session,
    ) -> None:
        super().__init__(name=f"watcher {target.name}", daemon=True)  # leaving must not wait for a dead link
        self.target = target
        self.news = News()
        self.session: Session | None = None
        self._interval = interval
        self._changed = changed
        self._run = run
        self._open = open_session
        self._leaving = threading.Event()
        self.watched = Watched(
            name=target.name,
            usd_per_hour=target.usd_per_hour,
            secrets=tuple(quiet_session(target).secrets.values()),
            interval=interval,
            run=run,
        )  # what the screen must know of the host besides its news
        self.hooks = WatchedHooks(target, open_session)

    def run(self) -> None:
        """Ask until we leave."""
        while not self._leaving.is_set():
            began = time.monotonic()
            news = self._ask()
            self._tell(news)  # first: who sees that all is done may leave
            self.news = news
            self._changed.set()
            pause = delay(
                self._interval,
                time.monotonic() - began,
                self.news.tries,
                jitter=random.random(),  # noqa: S311
            )
            self._leaving.wait(pause)
        self._let_go()
        self.hooks.finish(wait=False)

    def leave(self) -> None:
        """Ask no more, and free whoever waits for an answer."""
        self._leaving.set()
        self._let_go()

    def _tell(self, news: News) -> None:
        """Let the hooks see; what goes wrong with them is theirs, and ends no watch."""
        try:
            self.hooks.saw(news)
        except Exception as error:  # noqa: BLE001 - the watch goes on whatever it is
            self.hooks.said.append(("yellow", f"a hook could not be told: {type(error).__name__}: {error}"))

    def _ask(self) -> News:
        try:
            answer, notes = self._pulse()
        except (LinkLost, Unreachable) as error:  # what we know of the host may be true when it is back
            return self._failed(error)
        except PrudentError as error:
            self._let_go()
            return self._failed(error)
        except Exception as error:  # noqa: BLE001 - one host's crash must not hide the others, nor end its own watch
            self._let_go()
            return self._failed(PrudentError(f"unexpected error: {type(error).__name__}: {error}"))
        return News(answer=answer, at=time.monotonic(), skew=answer.now - time.time(), notes=notes)

    def _pulse(self) -> tuple[PulseAnswer, tuple[str, ...]]:
        session = self.session = self.session or self._open(self.target)
        host = session.host
        request = PulseRequest(workdir=host.workdir, run=self._run, output=session.job.output)
        answer = host.call("pulse", request, PulseAnswer, bundle=session.payload, deadline=DEADLINE)
        return answer, tuple(session.notices)

    def _failed(self, error: PrudentError) -> News:
        return replace(self.news, error=error, tries=self.news.tries + 1)

    def _let_go(self) -> None:
        session, self.session = self.session, None
        if session is not None:
            with contextlib.suppress(Exception):
                session.let_go()
