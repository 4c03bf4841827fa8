"""The live screen: rows drawn as news come and time goes by, a log below when one is chosen, until a key or the end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.live import Live

from local.monitor import display
from local.monitor import rows as making
from local.monitor.keys import Keyboard, available
from local.monitor.logtail import LogTail

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from local.monitor.room import Room
    from local.monitor.rows import Row

TICK = 0.1  # seconds between two looks for news and keys
REDRAW = 1.0  # seconds after which it is drawn again without news, because ages grow
NO_KEYS = "Ctrl-C leaves"
STEPS = {"up": -1, "k": -1, "down": 1, "j": 1, "page-up": -10, "page-down": 10}
CALM = 0.25  # seconds between two drawings at least, but for a key


class LiveScreen:
    """What is drawn, and what the keys have chosen."""

    def __init__(self, room: Room, console: Console, *, log: str | None = None) -> None:
        self._room = room
        self._console = console
        self._log: LogTail | None = None
        self._open = log is not None
        self._chosen = 0
        self._name = log  # of the chosen host: hosts come and go above it
        self._drawn = 0.0
        self._fresh = True  # something has changed since the last drawing

    def show(self, until: Callable[[list[Row]], bool]) -> None:
        """Show the screen until `until` says so of the rows, or the user leaves."""
        with Keyboard() as keyboard, self._live() as live:
            try:
                while True:
                    if self._due():
                        rows = self._rows()
                        if until(rows):
                            return
                        self._draw(live, rows)
                    for key in keyboard.read(TICK):
                        if key in {"q", "Q"}:
                            return
                        self.press(key, len(rows))
                    self._room.keep_up()
            finally:
                self._close_log()

    def press(self, key: str, count: int) -> None:
        """Do what a key says."""
        self._fresh = True
        if key.isdecimal() and 0 < int(key) <= count:
            self._choose(int(key) - 1, count)
            self._open = True
        elif key in STEPS:
            self._choose(self._chosen + STEPS[key], count)
        elif key == "enter":
            self._open = True
        elif key == "escape":
            self._open = False

    def _choose(self, index: int, count: int) -> None:
        self._chosen, self._name = max(0, min(index, count - 1)), None

    def view(self, rows: list[Row], height: int) -> display.View:
        """Give what is to be drawn beside the rows."""
        log = None
        if self._open and rows:
            log = tuple(self._log.lines(height)) if self._log else (self._no_log(rows[self._chosen]),)
            log = log or (f"── {rows[self._chosen].name}: nothing in the log yet",)
        return display.View(
            chosen=self._chosen, log=log, keys=display.KEYS if available() else NO_KEYS, note=self._room.note
        )

    def _live(self) -> Live:
        return Live(
            console=self._console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        )

    def _rows(self) -> list[Row]:
        rows = self._room.rows()
        names = [row.name for row in rows]
        if self._name in names:
            self._chosen = names.index(self._name)
        self._chosen = min(self._chosen, max(0, len(rows) - 1))
        self._name = names[self._chosen] if names else None
        self._follow(rows)
        return rows

    def _due(self) -> bool:
        """Tell whether it is time to draw, and take note that it is being done."""
        since = time.monotonic() - self._drawn
        if not (self._fresh or since > REDRAW or (since > CALM and self._room.changed.is_set())):
            return False
        self._room.changed.clear()
        self._fresh, self._drawn = False, time.monotonic()
        return True

    def _draw(self, live: Live, rows: list[Row]) -> None:
        size = self._console.size
        live.update(
            display.screen(
                rows, making.totals(rows), self.view(rows, size.height),
                width=size.width, height=size.height, plain=plain(self._console),
            ),
            refresh=True,
        )  # fmt: skip

    def _follow(self, rows: list[Row]) -> None:
        """Keep the log that is read in step with the host that is chosen and its run."""
        wanted = rows[self._chosen] if self._open and rows else None
        if self._log is not None and (
            wanted is None or wanted.run != self._log.run_id or self._log.name != f"log {wanted.name}"
        ):
            self._close_log()
        if self._log is not None or wanted is None or wanted.run is None:
            return
        watcher = self._room.watchers[self._chosen]
        session, answer = watcher.session, watcher.news.answer
        if session is None or answer is None or answer.run is None or watcher.news.error is not None:
            return
        self._log = LogTail(
            session.host,
            bundle=session.payload,
            run=answer.run.run,
            log_bytes=answer.run.log_bytes,
            events_bytes=answer.events_bytes,
            secrets=watcher.watched.secrets,
            changed=self._room.changed.set,
        )
        self._log.start()

    def _close_log(self) -> None:
        if self._log is not None:
            self._log.leave()
            self._log = None

    @staticmethod
    def _no_log(row: Row) -> str:
        if row.run is None and row.state == "live":
            return f"── {row.name} has no run"
        return f"── {row.name}: {row.error or 'connecting'}"


def plain(console: Console) -> bool:
    """Tell whether the terminal has no more than ASCII."""
    return not console.encoding.startswith("utf")
