"""The rows as rich shows them: as many columns as the width has room for, the rest of the height for what hosts say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from local.monitor import cells

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import RenderableType

    from local.monitor.rows import Row, Totals

NARROW = 100  # columns: below it, one blank between two cells
KEYS = "q leave · ↑↓ choose · Enter or 1-9 log · Esc table"
FRAME = 3  # lines around the rows: titles, a blank, the totals
LEAST_LOG = 4


@dataclass(frozen=True, slots=True)
class Column:
    """One column: `rank` 0 is always there, the highest goes first where the width does not do."""

    title: str
    rank: int
    cell: Callable[[Row], Text]
    right: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """What is looked at: the chosen row, the lines of its log where that is open, and what the keys do."""

    chosen: int | None = None
    log: tuple[str, ...] | None = None
    keys: str = ""
    note: str = ""


def columns(*, plain: bool) -> tuple[Column, ...]:
    """Give all columns, left to right."""
    return (
        Column("host", 0, cells.host),
        Column("phase", 0, cells.phase),
        Column("samples", 1, cells.samples, right=True),
        Column("tokens/s", 2, cells.speed, right=True),
        Column("last 10 min", 7, lambda row: cells.past(row, plain=plain)),
        Column("left", 2, cells.left, right=True),
        Column("GPUs", 3, lambda row: cells.gpus(row, plain=plain)),
        Column("memory", 5, cells.memory, right=True),
        Column("°C", 4, cells.temperature, right=True),
        Column("disk left", 6, cells.disk, right=True),
        Column("load", 10, cells.load, right=True),
        Column("cost", 8, cells.spent, right=True),
        Column("at the end", 9, cells.expected, right=True),
        Column("news", 1, cells.news, right=True),
    )


def fitting(rows: Sequence[Row], width: int, *, plain: bool = False) -> list[Column]:
    """Give the columns that fit: those of the highest rank go first, and those that no row has anything for."""
    pad = _pad(width)
    wide = {
        column.title: max([len(column.title), *(column.cell(row).cell_len for row in rows)])
        for column in columns(plain=plain)
    }
    kept = [
        column
        for column in columns(plain=plain)
        if column.rank <= 1 or any(column.cell(row).plain.strip(" –") for row in rows)
    ]
    while sum(wide[column.title] + pad for column in kept) - pad > width:
        last = max(kept, key=lambda column: column.rank)
        if last.rank == 0:
            break
        kept.remove(last)
    return kept


def table(rows: Sequence[Row], width: int, *, chosen: int | None = None, plain: bool = False) -> Table:
    """Give the hosts as a table of one line each."""
    made = Table(box=None, pad_edge=False, padding=(0, _pad(width), 0, 0), header_style="dim")
    kept = fitting(rows, width, plain=plain)
    for column in kept:
        made.add_column(column.title, justify="right" if column.right else "left", no_wrap=True, overflow="ellipsis")
    for index, row in enumerate(rows):
        style = "dim" if row.state in {"stale", "unreachable"} else ""
        made.add_row(
            *(column.cell(row) for column in kept), style=f"{style} reverse" if index == chosen else style or None
        )
    return made


def said(rows: Sequence[Row], width: int) -> list[Text]:
    """Give what the hosts have to say, those that have something: what is wrong, else the last line of the log."""
    named = max((len(row.name) for row in rows), default=0)
    words = [_word(row, width, named=named) for row in rows]
    return [text for text in words if text.plain[named:].strip()]


def _word(row: Row, width: int, *, named: int) -> Text:
    text = Text(f"{row.name:<{named}}  ", "bold dim", no_wrap=True, overflow="ellipsis")
    if row.state == "unreachable":
        seen = "never reached" if row.age is None else f"unreachable, last seen {cells.short(row.age)} ago"
        text.append(f"{seen}: {row.error}", "yellow")
    elif row.state == "stale":
        text.append(f"no answer for {cells.short(row.age or 0.0)}", "yellow")
    elif row.error:
        text.append(row.error, "yellow")
    elif row.cause:
        text.append(row.cause, "red" if row.failed else "yellow")
    elif trouble := cells.trouble(row):
        text.append(trouble, "yellow")
    else:
        text.append(row.line, "dim")
    text.truncate(width, overflow="ellipsis")
    return text


def screen(
    rows: Sequence[Row], totals: Totals, view: View, *, width: int, height: int, plain: bool = False
) -> RenderableType:
    """Give a whole screen of exactly the size of the terminal, or less."""
    footer = [*cells.totals(totals, width), *([Text(view.note, "yellow")] if view.note else [])]
    if view.keys:
        footer.append(Text(view.keys, "dim", no_wrap=True, overflow="ellipsis"))
    space = max(1, height - FRAME - len(footer) + 1)
    if view.log is not None:
        return _with_log(rows, view, footer, width=width, space=space, plain=plain)
    first, count = window(len(rows), view.chosen, space)
    shown = list(rows[first : first + count])
    chosen = None if view.chosen is None else view.chosen - first
    parts: list[RenderableType] = [table(shown, width, chosen=chosen, plain=plain)]
    if count < len(rows):
        parts.append(Text(f"… {len(rows) - count} more", "dim"))
    elif len(rows) + 1 <= space - len(rows):
        parts += [Text(), *said(rows, width)]
    return Group(*parts, Text(), *footer)


def snapshot(rows: Sequence[Row], totals: Totals, width: int, *, plain: bool = False) -> RenderableType:
    """Give one table for good: with what each host has to say, and the totals."""
    words = said(rows, width)
    return Group(
        table(rows, width, plain=plain), Text(), *words, *([Text()] if words else []), *cells.totals(totals, width)
    )


def window(count: int, chosen: int | None, space: int) -> tuple[int, int]:
    """Give the first row and how many there is room for, the chosen one among them."""
    if count <= space:
        return 0, count
    room = max(1, space - 1)  # one line says how many more there are
    return min(max(0, (chosen or 0) - room // 2), count - room), room


def _with_log(
    rows: Sequence[Row], view: View, footer: list[Text], *, width: int, space: int, plain: bool
) -> RenderableType:
    chosen = view.chosen or 0
    first, count = window(len(rows), chosen, max(1, min(len(rows), space // 3)))
    room = max(LEAST_LOG, space - count - 1)
    shown = table(list(rows[first : first + count]), width, chosen=chosen - first, plain=plain)
    lines = [Text(line, no_wrap=True, overflow="ellipsis") for line in (view.log or ())[-room:]]
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return Group(shown, Text(), *lines, *[Text()] * (room - len(lines)), *footer)


def _pad(width: int) -> int:
    return 1 if width < NARROW else 2
