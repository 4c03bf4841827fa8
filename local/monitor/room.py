"""Everybody who is watched: a watcher per host, kept in step with the inventory, and their rows now."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Self

from local.errors import PrudentError
from local.monitor import rows as making
from local.monitor.watcher import Watcher

if TYPE_CHECKING:
    from pathlib import Path

    from local.monitor.rows import Row
    from local.steps import Chosen
    from local.targets import Target

LOOK = 1.0  # seconds between two looks at the inventory's file
LETTING_GO = 3.0  # seconds that watchers get to end; what they wait for is freed first


class Room:
    """Watches the chosen hosts while the block lasts."""

    def __init__(self, chosen: Chosen, *, interval: float, run: str | None) -> None:
        self.changed = threading.Event()
        self.note = ""  # what is wrong with the inventory since it was changed
        self._chosen = chosen
        self._interval = interval
        self._run = run
        self._watchers = [self._watcher(target) for target in chosen.targets]
        self._stamp = _stamp(chosen.inventory)
        self._looked = time.monotonic()

    def __enter__(self) -> Self:
        for watcher in self._watchers:
            watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        for watcher in self._watchers:
            watcher.leave()
        until = time.monotonic() + LETTING_GO
        for watcher in self._watchers:
            watcher.join(max(0.0, until - time.monotonic()))

    @property
    def watchers(self) -> list[Watcher]:
        """Give those who watch, in the order of the command line."""
        return self._watchers

    @property
    def heard(self) -> bool:
        """Tell whether every host has answered or failed to, once at least."""
        return all(watcher.news.answer or watcher.news.error for watcher in self._watchers)

    def rows(self) -> list[Row]:
        """Give the hosts as they stand now."""
        monotonic, clock = time.monotonic(), time.time()
        return [
            making.row(watcher.watched, watcher.news, monotonic=monotonic, clock=clock) for watcher in self._watchers
        ]

    def codes(self) -> list[int]:
        """Give the exit code of each host that could not be asked."""
        errors = [watcher.news.error for watcher in self._watchers]
        return [error.exit_code for error in errors if error is not None]

    def keep_up(self) -> None:
        """Read the inventory again when its file has changed: hosts come and go, the others stay connected."""
        if time.monotonic() - self._looked < LOOK:
            return
        self._looked = time.monotonic()
        stamp = _stamp(self._chosen.inventory)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            wanted = self._chosen.again()
        except PrudentError as error:
            self.note = f"the inventory has changed and cannot be read: {error.message}"
            return
        self.note = ""
        had = {watcher.target.name: watcher for watcher in self._watchers}
        staying = {target.name for target in wanted if target.name in had and had[target.name].target == target}
        for name in had.keys() - staying:
            had[name].leave()
        self._watchers = [had[one.name] if one.name in staying else self._watcher(one) for one in wanted]
        for watcher in self._watchers:
            if watcher.target.name not in staying:
                watcher.start()

    def _watcher(self, target: Target) -> Watcher:
        return Watcher(target, interval=self._interval, changed=self.changed, run=self._run)


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
