"""`clean`: show what the hosts and the laptop hold that nobody needs any more; with `--yes` remove it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from local import laptopcache, tables
from local.errors import GaveUp, UsageError
from local.summary import duration, size
from local.tasks.watching import head
from local.text import clean
from remote.schema import CleanAnswer, CleanRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from local.laptopcache import Kept
    from local.session import Session
    from local.targets import Target
    from remote.schema import Rubbish

KEPT = "5"  # runs, without --keep
DEADLINE = 600.0  # seconds: a workdir on a slow disk holds many small files


def foresee(_targets: Sequence[Target], *, keep: str = KEPT, **_: Any) -> None:
    """Refuse a number that is none; raises UsageError."""
    number(keep)


def number(keep: str) -> int:
    """Give the runs to keep; raises UsageError."""
    if not re.fullmatch("[0-9]{1,9}", str(keep)):
        raise UsageError(f"expected a whole number, found {str(keep)[:40]!r}", remedy="--keep 5", where="--keep")
    return int(keep)


def collect(session: Session, *, keep: str = KEPT, yes: bool = False) -> CleanAnswer:
    """Ask a host what can go, and have it removed with `yes`; raises GaveUp."""
    request = CleanRequest(workdir=session.host.workdir, keep=number(keep), remove=yes)
    answer = session.host.call("clean", request, CleanAnswer, bundle=session.payload, deadline=DEADLINE)
    if answer.trouble:
        raise GaveUp(clean(answer.trouble), remedy="Nothing was removed.")
    return answer


def show(sessions: Sequence[Session], *, keep: str = KEPT, yes: bool = False, laptop: bool = False, **_: Any) -> None:
    """Show what can go, or has gone, on every host and on the laptop."""
    asked = [(session, session.values["clean"]) for session in sessions if "clean" in session.values]
    rows = [_row(session.name, item) for session, answer in asked for item in answer.items]
    cached = [kept for kept in laptopcache.look() if not kept.needed]
    if laptop:
        cached = [laptopcache.remove(kept) for kept in cached] if yes else cached
        rows += [_laptop(kept) for kept in cached]
    if rows:
        tables.show(sessions, _table(rows))
    for session, answer in asked:
        _sum_up(session, answer, yes=yes, keep=number(keep))
    _sum_up_laptop(sessions[0], cached, yes=yes, laptop=laptop)


def _table(rows: Sequence[tuple[str, ...]]) -> Table:
    table = tables.plain("where", "kind", "what", "size", "age", "why", "", right=("size", "age"))
    for row in rows:
        table.add_row(*(escape(clean(cell)) for cell in row))
    return table


def _row(host: str, item: Rubbish) -> tuple[str, ...]:
    return (host, item.kind, _short(item.path), size(item.size), duration(item.age), item.why, _state(item))


def _laptop(kept: Kept) -> tuple[str, ...]:
    return ("laptop", kept.kind, _short(str(kept.path)), size(kept.size), duration(kept.age), kept.why, _state(kept))


def _short(path: str) -> str:
    """Give the last two names, cut where they are long: what is removed stands below the workdir."""
    folder, _, name = path.rpartition("/")
    return f"{folder.rpartition('/')[2]}/{name if len(name) <= 40 else name[:16]}"  # noqa: PLR2004 - a digest is longer


def _state(item: Rubbish | Kept) -> str:
    if item.trouble:
        return f"not removed: {item.trouble}"
    return "removed" if item.gone else ""


def _sum_up(session: Session, answer: CleanAnswer, *, yes: bool, keep: int) -> None:
    kept = ", ".join(f"{count} {kind}{'' if count == 1 else 's'}" for kind, count in answer.kept.items())
    stays = f"; {clean(kept)} stay" if kept else ""
    total = size(sum(item.size for item in answer.items if item.gone or not yes))
    counted = _count(len([item for item in answer.items if item.gone or not yes]))
    if not answer.items:
        said = f"nothing to remove{stays}"
    elif yes:
        said = f"removed {counted}, {total}{stays}"
    else:
        said = f"{counted}, {total}, can go{stays}. To remove them: fab -H {session.name} clean{_kept(keep)} --yes"
    session.console.print(f"{head(session)}{escape(said)}", soft_wrap=True)
    for spared in answer.spared:
        session.console.print(f"{head(session)}[dim]stays: {escape(clean(spared))}[/]", soft_wrap=True)


def _kept(keep: int) -> str:
    """Give the option that keeps so many runs, where it is not what is kept without it."""
    return "" if keep == int(KEPT) else f" --keep {keep}"


def _sum_up_laptop(session: Session, cached: Sequence[Kept], *, yes: bool, laptop: bool) -> None:
    gone = [kept for kept in cached if kept.gone]
    if laptop and yes:
        said = f"removed {_count(len(gone))}, {size(sum(kept.size for kept in gone))}"
    elif cached:
        said = f"{_count(len(cached))}, {size(sum(kept.size for kept in cached))}, can be had again"
        said += ". To remove them: fab clean --laptop --yes"
    else:
        return
    session.everyone.print(f"[bold magenta]laptop[/]  {escape(said)}", soft_wrap=True)


def _count(things: int) -> str:
    return f"{things} thing{'' if things == 1 else 's'}"
