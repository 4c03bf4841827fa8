"""What concerns runs that are there: `status`, `logs`, `stop`."""

from __future__ import annotations

import sys
from json import dumps
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from local import follow, runs, tables
from local.errors import JobFailed, PrudentError
from local.logtext import LogText
from local.screen import MaskedLog
from local.tasks import named
from local.tasks.watching import duration, head
from local.text import clean
from remote.schema import RunStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from local.session import Session
    from local.targets import Target
    from remote.schema import StopAnswer

ENDED = ("done", "failed", "stopped", "lost")


def foresee(_targets: Sequence[Target], *, run: str | None = None, patience: str | None = None, **_: Any) -> None:
    """Refuse options that cannot work; raises UsageError."""
    named.foresee(run)
    duration(patience, "--patience")


def status(session: Session, *, run: str | None = None) -> RunStatus | None:
    """Give the run that is named, or the latest, None where there is none."""
    found = runs.status(session.host, bundle=session.payload, run=run, limit=1)
    return found[0] if found else None


def show_status(sessions: Sequence[Session], *, json: bool = False, **_: Any) -> None:
    """Print one run per host."""
    found: dict[str, RunStatus | PrudentError | None] = {}
    for session in sessions:
        unknown = session.error if isinstance(session.error, PrudentError) else PrudentError("not asked")
        found[session.name] = session.values.get("status", unknown) if session.error else session.values.get("status")
    prices = {session.name: session.target.usd_per_hour for session in sessions}
    if json:
        sys.stdout.write(dumps(runs.document(found, prices), indent=2) + "\n")
        return
    rows = [(name, one) for name, one in found.items() if isinstance(one, RunStatus)]
    if rows:
        tables.show(sessions, tables.runs(rows, prices))
    _say_where_none(sessions, [name for name, one in found.items() if one is None])


def _say_where_none(sessions: Sequence[Session], names: Sequence[str]) -> None:
    for session in sessions:
        if session.name in names:
            session.console.print(f"{head(session)}no run yet; `fab extract` starts one")


def logs(session: Session, *, run: str | None = None, following: bool = False, patience: str | None = None) -> None:
    """Write a run's log on standard output: what is there now, or with `--follow` until the run ends."""
    waiting = duration(patience, "--patience")
    found = runs.latest(session.host, bundle=session.payload, run=run)
    session.run = found.run if following and found.phase not in ENDED else None
    text = LogText()
    raw = session.alone and not sys.stdout.isatty()

    def write(data: bytes) -> None:
        if raw:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        else:
            session.out.write("".join(f"{line}\n" for line in text.feed(data)))

    log = MaskedLog(session.secrets.values(), write)
    follow.follow(
        session.host,
        bundle=session.payload,
        workdir=session.host.workdir,
        run=found.run,
        on_log=log.feed,
        on_event=lambda _: None,
        on_link=lambda said: session.console.print(escape(clean(said)), style="yellow"),
        on_beat=session.check_interrupt,
        on_gap=log.skip,
        until_end=following,
        patience=waiting,
    )
    log.finish()
    session.out.write("".join(f"{line}\n" for line in text.finish()))


def stop(session: Session, *, run: str | None = None) -> StopAnswer:
    """Stop a run with all that it started; raises JobFailed when something of it still lives."""
    answer = runs.stop(session.host, bundle=session.payload, run=run)
    said = {
        "stopped": f"stopped the run {answer.run}; nothing of it is left",
        "already-ended": f"the run {answer.run} had ended already",
        "nothing-running": "nothing was running",
    }.get(answer.outcome, answer.outcome)
    if answer.left:
        raise JobFailed(
            f"the run {answer.run} was stopped, but these processes live on: {list(answer.left)}",
            remedy="Look at them on the host: ps -fp PID.",
        )
    session.word = answer.outcome
    session.console.print(f"{head(session)}{escape(clean(said))}", soft_wrap=True)
    if answer.message:
        session.console.print(f"{head(session)}[dim]{escape(clean(answer.message))}[/]", soft_wrap=True)
    return answer
