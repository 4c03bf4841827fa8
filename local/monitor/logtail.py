"""The log of one host's run, live, on a connection of its own: the last lines that a screen has room for."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from local import follow
from local.errors import PrudentError
from local.logtext import LogText
from local.screen import MaskedLog
from local.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from local.host import Host

KEPT = 1000  # lines
FIRST = 32 * 1024  # bytes of the log's past that are read at first


class _Left(Exception):
    """Nobody looks at this log any more."""


class LogTail(threading.Thread):
    """Follows one run from near its log's end until `leave`."""

    def __init__(
        self,
        host: Host,
        *,
        bundle: str,
        run: str,
        log_bytes: int,
        events_bytes: int,
        secrets: Sequence[str],
        changed: Callable[[], Any],
    ) -> None:
        super().__init__(name=f"log {host.name}", daemon=True)
        self.run_id = run
        self.ended = False
        self._host = host
        self._bundle = bundle
        self._offsets = {"log": max(0, log_bytes - FIRST), "events": events_bytes}
        self._changed = changed
        self._leaving = threading.Event()
        self._lines: deque[str] = deque(maxlen=KEPT)
        self._text = LogText()
        self._log = MaskedLog(secrets, self._take, torn=self._offsets["log"] > 0)

    def lines(self, count: int) -> list[str]:
        """Give the last lines, what is being written now included."""
        found = [*self._lines, *filter(None, [self._text.pending])]
        return found[-count:] if count > 0 else []

    def run(self) -> None:
        """Follow; what ends it is the last line."""
        try:
            follow.follow(
                self._host,
                bundle=self._bundle,
                workdir=self._host.workdir,
                run=self.run_id,
                on_log=self._log.feed,
                on_event=lambda _: None,
                on_link=self._say,
                on_beat=self._check,
                on_gap=self._log.skip,
                offsets=self._offsets,
            )
        except _Left:
            return
        except PrudentError as error:
            self._say(f"the log cannot be followed: {error.message}")
        except Exception as error:  # noqa: BLE001 - told where the log would be
            self._say(f"the log cannot be followed: {type(error).__name__}: {error}")
        else:
            self._log.finish()
            self._lines.extend(self._text.finish())
            self._say("the run has ended")
        self.ended = True

    def leave(self) -> None:
        """Follow no longer; the thread goes at the next beat."""
        self._leaving.set()

    def _check(self) -> None:
        if self._leaving.is_set():
            raise _Left

    def _take(self, data: bytes) -> None:
        self._lines.extend(self._text.feed(data))
        self._changed()

    def _say(self, message: str) -> None:
        self._lines.append(f"── {clean(message)}")
        self._changed()
