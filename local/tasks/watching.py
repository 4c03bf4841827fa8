"""Watching a run to its end, and what is said of that end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.markup import escape

from local import follow as following
from local import inventory
from local.errors import JobFailed, UsageError
from local.progress import Progress
from local.screen import MaskedLog
from local.text import clean

if TYPE_CHECKING:
    from local.hooks.follower import FollowerHooks
    from local.session import Session
    from remote.schema import Exit


def duration(told: str | None, where: str) -> float | None:
    """Give the seconds of an option, None where it is not given; raises UsageError."""
    if told is None:
        return None
    waiting = inventory.option_seconds(told)
    if waiting is None:
        raise UsageError(
            f"expected a duration, found {told!r}", remedy="A duration is seconds (90) or 10m, 2h.", where=where
        )
    return waiting


def follow(session: Session, run: str, *, bundle: str, patience: float | None, hooks: FollowerHooks) -> Exit | None:
    """Show a run until it is over; gives its end, None where it has left none."""

    def on_event(event: dict[str, Any]) -> None:
        progress.on_event(event)
        hooks.on_event(event)

    def on_beat() -> None:
        session.check_interrupt()
        hooks.on_beat()

    with Progress(session.console, session.label, log=session.show_log) as progress:
        log = MaskedLog(session.secrets.values(), progress.on_log)
        try:
            return following.follow(
                session.host,
                bundle=bundle,
                workdir=session.host.workdir,
                run=run,
                on_log=log.feed,
                on_event=on_event,
                on_link=progress.on_link,
                on_beat=on_beat,
                on_heard=hooks.on_heard,
                on_gap=log.skip,
                patience=patience,
            )
        finally:
            log.finish()


def judge(session: Session, run: str, ended: Exit | None) -> None:
    """Say how the run ended; raises JobFailed unless it did what it should."""
    see = f"The whole log: fab -H {session.name} logs --run {run}"
    if ended is None:
        session.word = "lost"
        raise JobFailed(f"the run {run} is lost: its supervisor is gone and left no word", remedy=see)
    samples = ended.samples
    counted = f", {samples.done} of {samples.total} samples" if samples.total else ""
    session.word = f"{ended.phase}{counted}"
    if ended.left_running:
        pids = ", ".join(map(str, ended.left_running))
        raise JobFailed(
            f"the run {run} ended and left processes running: {pids}",
            remedy=f"Stop them: fab -H {session.name} stop --run {run}",
        )
    if ended.phase == "stopped":
        raise JobFailed(f"the run {run} was stopped", remedy="`fab extract` goes on where it stood.")
    if ended.phase != "done":
        why = clean(ended.root_line or ended.cause or "no cause is known")
        raise JobFailed(
            f"the run {run} failed{_times(ended.attempts)}{_known(ended)}: {why}",
            remedy=" ".join(filter(None, (clean(ended.advice), see))),
        )
    if ended.gpu_held:
        pids = ", ".join(map(str, ended.gpu_held))
        said = f"a GPU still counts memory of processes that are gone ({pids}): it may need a reset"
        session.console.print(f"{head(session)}{said}", style="yellow", soft_wrap=True)
    session.console.print(f"{head(session)}[bold green]done[/]{counted}{_times(ended.attempts)}")


def _known(ended: Exit) -> str:
    """Say in brackets what kind of failure it is, where that is known."""
    words = [word for word in (ended.kind, ended.cause) if word and word != "unknown" and ended.root_line]
    return f" ({clean(', '.join(words))})" if words else ""


def _times(attempts: int) -> str:
    return f" after {attempts} attempts" if attempts > 1 else ""


def head(session: Session) -> str:
    """Give what stands before a line about a host: its name, where the console does not say it already."""
    return f"[bold magenta]{escape(session.name)}[/]  " if session.alone else ""
