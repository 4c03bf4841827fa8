"""`extract` and what concerns runs: start, follow, verify; status, logs, stop, the list."""

from __future__ import annotations

import sys
from json import dumps
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from local import extract as launching
from local import follow, inventory, render, runs, tables
from local.errors import GateRefused, JobFailed, PrudentError, UsageError
from local.logtext import LogText
from local.progress import Progress
from local.screen import MaskedLog
from local.summary import size
from local.tasks.gate import preflight
from local.text import clean
from remote.schema import RunStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from local.session import Session
    from remote.schema import Exit, LaunchAnswer, StopAnswer, VerifyAnswer

ENDED = ("done", "failed", "stopped", "lost")


def extract(session: Session, *, detach: bool = False, patience: str | None = None) -> None:
    """Start or attach on a passing verdict, follow to the end, verify what came out."""
    waiting = _patience(patience)
    outcome = session.outcome
    if outcome is None or not outcome.passed:
        outcome = preflight(session)
    if outcome.bundle is None or not outcome.passed:
        raise GateRefused("the gate has not passed every level", remedy="Run `fab preflight` without --until.")
    host, console, name = session.host, session.console, session.name
    session.word = "not started"
    answer = launching.start(
        host,
        session.job,
        bundle=outcome.bundle,
        fingerprint=outcome.verdict.fingerprint,
        secrets=session.secrets,
    )
    session.run = run = answer.run or ""
    _tell_of_another(session, answer, outcome.bundle)
    how = "attached to the run" if answer.outcome == "attached" else "started the run"
    console.print(f"{_head(session)}{how} [bold]{escape(run)}[/], which goes on without us", soft_wrap=True)
    session.word = answer.outcome
    if detach:
        console.print(f"{_head(session)}to watch it: fab -H {name} logs --follow --run {run}", soft_wrap=True)
        return
    _judge(session, run, _follow(session, run, bundle=outcome.bundle, patience=waiting))
    if session.job.engine != "command":
        _check(session, runs.verify(host, session.job, bundle=outcome.bundle, secrets=session.secrets))


def _tell_of_another(session: Session, answer: LaunchAnswer, bundle: str) -> None:
    """Say so when the run that has the output folder is not the one that was asked for."""
    if answer.outcome != "attached":
        return
    found = runs.latest(session.host, bundle=bundle, run=answer.run)
    if found.bundle not in (None, bundle):
        session.console.print(
            f"[yellow]note[/] the run {escape(found.run)}, which has this output folder, was started for another job, "
            f"other patches or by another version of this tool. To run this one: fab -H {escape(session.name)} stop, "
            "then extract again",
            soft_wrap=True,
        )


def _patience(told: str | None) -> float | None:
    """Give the seconds of `--patience`, None for ever; raises UsageError."""
    if told is None:
        return None
    waiting = float(told) if told.isdecimal() else inventory.seconds(told)
    if waiting is None:
        raise UsageError(
            f"expected a duration, found {told!r}", remedy="A duration is seconds (90) or 10m, 2h.", where="--patience"
        )
    return waiting


def _follow(session: Session, run: str, *, bundle: str, patience: float | None) -> Exit | None:
    with Progress(session.console, session.label, log=session.show_log) as progress:
        log = MaskedLog(session.secrets.values(), progress.on_log)
        try:
            return follow.follow(
                session.host,
                bundle=bundle,
                workdir=session.host.workdir,
                run=run,
                on_log=log.feed,
                on_event=progress.on_event,
                on_link=progress.on_link,
                on_beat=session.check_interrupt,
                patience=patience,
            )
        finally:
            log.finish()


def _judge(session: Session, run: str, ended: Exit | None) -> None:
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
        session.console.print(f"{_head(session)}{said}", style="yellow", soft_wrap=True)
    session.console.print(f"{_head(session)}[bold green]done[/]{counted}{_times(ended.attempts)}")


def _known(ended: Exit) -> str:
    """Say in brackets what kind of failure it is, where that is known."""
    words = [word for word in (ended.kind, ended.cause) if word and word != "unknown" and ended.root_line]
    return f" ({clean(', '.join(words))})" if words else ""


def _times(attempts: int) -> str:
    return f" after {attempts} attempts" if attempts > 1 else ""


def verify(session: Session) -> VerifyAnswer:
    """Hold every output file against manifest and dataset; raises JobFailed."""
    if session.job.engine == "command":
        raise UsageError(
            "engine 'command' writes outputs of its own form, which nothing here can check",
            remedy="The run's exit code is its own judgement: fab status.",
        )
    answer = runs.verify(session.host, session.job, bundle=session.payload, secrets=session.secrets)
    _check(session, answer)
    return answer


def _check(session: Session, answer: VerifyAnswer) -> None:
    session.values["verified"] = answer
    if answer.total and answer.missing == answer.total:  # a list of every sample would say no more
        session.word = "no outputs"
        raise JobFailed(
            f"none of the {answer.total} samples is in {clean(session.job.output)}",
            remedy="`fab extract` computes them.",
        )
    for finding in answer.findings:
        render.print_finding(session.console, session.label, finding)
    whole = answer.total and answer.valid == answer.total and not answer.damaged and not answer.missing
    session.word = f"{answer.valid} of {answer.total} samples valid"
    said = f"{session.word}, {answer.tokens:,} tokens, {size(answer.size)} in {clean(session.job.output)}"
    if not whole:
        raise JobFailed(
            f"{said}; {answer.missing} missing, {answer.damaged} damaged",
            remedy="`fab extract` computes what is missing or damaged, and nothing else.",
        )
    session.console.print(f"{_head(session)}[bold green]verified[/]: {escape(said)}", soft_wrap=True)
    session.console.print(
        "  each against the dataset (tokens) and the manifest (shape, dtype, checksum): finite, not zero",
        style="dim",
        soft_wrap=True,
    )


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
    if json:
        sys.stdout.write(dumps(runs.document(found), indent=2) + "\n")
        return
    rows = {name: [one] for name, one in found.items() if isinstance(one, RunStatus)}
    if rows:
        tables.show(sessions, tables.runs(rows))
    _say_where_none(sessions, [name for name, one in found.items() if one is None])


def _say_where_none(sessions: Sequence[Session], names: Sequence[str]) -> None:
    for session in sessions:
        if session.name in names:
            session.console.print(f"{_head(session)}no run yet; `fab extract` starts one")


def list_runs(session: Session) -> list[RunStatus]:
    """Give all runs of the host, newest first."""
    return runs.status(session.host, bundle=session.payload)


def show_runs(sessions: Sequence[Session]) -> None:
    """Print all runs of all hosts."""
    found = {session.name: session.values["runs"] for session in sessions if "runs" in session.values}
    if any(found.values()):
        tables.show(sessions, tables.runs(found))
    _say_where_none(sessions, [name for name, rows in found.items() if not rows])


def logs(session: Session, *, run: str | None = None, following: bool = False, patience: str | None = None) -> None:
    """Write a run's log on standard output: what is there now, or with `--follow` until the run ends."""
    waiting = _patience(patience)
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
    session.console.print(f"{_head(session)}{escape(clean(said))}", soft_wrap=True)
    if answer.message:
        session.console.print(f"{_head(session)}[dim]{escape(clean(answer.message))}[/]", soft_wrap=True)
    return answer


def _head(session: Session) -> str:
    return f"[bold magenta]{escape(session.name)}[/]  " if session.alone else ""
