"""`monitor`: all hosts on one screen, live; one snapshot; or a stream of documents."""

from __future__ import annotations

import os
import sys
import time
from json import dumps
from typing import TYPE_CHECKING

from rich.markup import escape

from local import errors, guard, inventory
from local.hooks import teller
from local.monitor import display, documents
from local.monitor import rows as making
from local.monitor.keys import ending_in_order
from local.monitor.live import LiveScreen, plain
from local.monitor.room import Room
from local.tasks import named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console

    from local.monitor.rows import Row
    from local.steps import Chosen

LEAST = 1.0  # seconds: a pulse a second is as much as a host should be asked
FIRST = 90.0  # seconds that the first answers of all hosts may take; then it is shown what there is
WIDE = 200  # columns where standard output is no terminal
TICK = 0.1


def monitor(
    chosen: Chosen,
    *,
    run: str | None = None,
    interval: str = "5s",
    once: bool = False,
    json: bool = False,
    log: str | None = None,
    until_done: bool = False,
) -> int:
    """Watch the chosen hosts; gives the exit code."""
    seconds = _seconds(interval)
    _check(chosen, once=once, json=json, log=log)
    named.foresee(run)
    if not once:
        teller.foresee(chosen.targets)
    secrets = {value for target in chosen.targets for name in target.job.secret_env if (value := os.environ.get(name))}
    console = guard.console(sys.stdout, secrets)
    if not console.is_terminal and not os.environ.get("COLUMNS"):
        console = guard.console(sys.stdout, secrets, width=WIDE)
    with ending_in_order(), Room(chosen, interval=seconds, run=run) as room:
        if once:
            rows = _first(room)
            _write(rows, console, seconds, json=json)
            return errors.worst(room.codes())
        if not json and console.is_terminal and not console.is_dumb_terminal:
            LiveScreen(room, console, log=log).show(_done if until_done else _never)
            rows = room.rows()
            _write(rows, console, seconds, json=False)
        else:
            rows = _rounds(room, console, seconds, json=json, until=_done if until_done else _never)
        if until_done:
            for watcher in room.watchers:
                watcher.hooks.finish(wait=True)
    _say_what_was_told(chosen, room)
    return errors.JobFailed.exit_code if until_done and _done(rows) and any(row.failed for row in rows) else 0


def _say_what_was_told(chosen: Chosen, room: Room) -> None:
    """Say how hooks went: while the screen was live there was no place for it."""
    for watcher in room.watchers:
        for style, line in watcher.hooks.said:
            text = f"{watcher.target.name}  {line}"
            chosen.screen.console.print(escape(text), style=style, soft_wrap=True)


def _rounds(
    room: Room, console: Console, seconds: float, *, json: bool, until: Callable[[list[Row]], bool]
) -> list[Row]:
    """Write a round per interval until all is done; without a terminal that is all there is to see."""
    rows = _first(room)
    for _ in _ticks(seconds):
        room.keep_up()
        rows = room.rows()
        _write(rows, console, seconds, json=json)
        if until(rows):
            break
    return rows


def _first(room: Room) -> list[Row]:
    """Give the rows once every host has answered or failed to."""
    end = time.monotonic() + FIRST
    while not room.heard and time.monotonic() < end:
        room.changed.wait(TICK)
        room.changed.clear()
    return room.rows()


def _ticks(seconds: float) -> Iterator[None]:
    while True:
        yield None
        time.sleep(seconds)


def _write(rows: list[Row], console: Console, seconds: float, *, json: bool) -> None:
    totals = making.totals(rows)
    if json:
        document = documents.document(rows, totals, clock=time.time(), interval=seconds)
        sys.stdout.write(dumps(document) + "\n")
        sys.stdout.flush()
        return
    console.print(display.snapshot(rows, totals, console.width, plain=plain(console)))


def _done(rows: list[Row]) -> bool:
    return all(row.ended for row in rows)


def _never(rows: list[Row]) -> bool:
    del rows
    return False


def _seconds(told: str) -> float:
    """Give the seconds of `--interval`; raises UsageError."""
    found = inventory.option_seconds(told)
    if found is None or found < LEAST:
        raise errors.UsageError(
            f"expected a duration of at least a second, found {told!r}", remedy="Write 5s, 30 or 1m.",
            where="--interval",
        )  # fmt: skip
    return found


def _check(chosen: Chosen, *, once: bool, json: bool, log: str | None) -> None:
    if log is None:
        return
    if once or json:
        raise errors.UsageError(
            "a log is shown on the live screen only", remedy="Without it: fab logs --follow.", where="--log"
        )
    names = [target.name for target in chosen.targets]
    if log not in names:
        raise errors.UsageError(
            f"{log!r} is not among the hosts that are watched", remedy=f"They are: {', '.join(names)}.", where="--log"
        )
