"""The words at the end: an error with its remedy, and the table of all hosts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich import box
from rich.markup import escape
from rich.table import Table

from local.output import OutputGone
from local.screen import mask
from local.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console

    from local.errors import PrudentError
    from local.session import Session

STEP = 1024
NONE = "–"
_MINUTE = 60
_HOUR = 3600


def print_error(
    console: Console, error: PrudentError, secrets: Iterable[str] = (), *, host: str = "", named: bool = False
) -> None:
    """Show what is wrong, where, and what to do; `named` says that the console names the host already."""
    if isinstance(error, OutputGone):
        return  # whoever closed it knows
    where = error.where or host
    where = "" if named and where == host else where
    head = f"{where}: {error.message}" if where else error.message
    console.print(f"[bold red]error[/]  {escape(mask(clean(head, lines=True), secrets))}", soft_wrap=True)
    if error.remedy:
        console.print(f"       {escape(mask(clean(error.remedy, lines=True), secrets))}", style="dim", soft_wrap=True)


def print_way_back(console: Console, host: str, run: str | None) -> None:
    """Say, after Ctrl-C, what goes on and how to watch it again."""
    host, run = escape(clean(host)), None if run is None else escape(clean(run))
    console.print()
    if run is None:
        console.print(f"[bold]{host}[/]: interrupted; no run was started there by this command.")
        return
    console.print(f"[bold]{host}[/]: the run {run} goes on. To watch it again:", soft_wrap=True)
    console.print(f"    fab -H {host} logs --follow --run {run}", soft_wrap=True)


def print_summary(console: Console, sessions: Sequence[Session]) -> None:
    """Show every host: its steps, how it stands, how long it took, its exit code."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title, side in (("host", "left"), ("steps", "left"), ("outcome", "left"), ("time", "right"), ("exit", "right")):
        table.add_column(title, justify=side)  # type: ignore[arg-type]
    for session in sessions:
        steps = "  ".join(f"{name} [green]✓[/]" if well else f"{name} [red]✗[/]" for name, well in session.steps)
        style = "green" if session.code == 0 else "red"
        word = session.word or (type(session.error).__name__ if session.error else "")
        table.add_row(
            escape(session.name),
            steps,
            f"[{style}]{escape(clean(word))}[/]",
            duration(session.seconds),
            str(session.code),
        )
    console.print(table)


def of_all(done: int, total: int, form: str = "d") -> str:
    """Give how many are done of how many; a job that tells no total, or no progress at all, has no `/0`."""
    if total:
        return f"{done:{form}}/{total:{form}}"
    return f"{done:{form}}" if done else NONE


def duration(seconds: float) -> str:
    """Give a duration as people say it."""
    if not math.isfinite(seconds):
        return "?"
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    if seconds < _HOUR:
        return f"{int(seconds // _MINUTE)} min {int(seconds % _MINUTE):02d} s"
    return f"{int(seconds // _HOUR)} h {int(seconds % _HOUR // _MINUTE):02d} min"


def size(count: float) -> str:
    """Give a number of bytes as people say it."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < STEP:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= STEP
    return f"{count:.1f} TiB"
