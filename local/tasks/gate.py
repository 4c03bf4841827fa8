"""`preflight`, `patches` and `hosts`: what a host is, and whether the job will run there."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from json import dumps
from typing import TYPE_CHECKING, Any

from local import later, masks
from local.errors import GateRefused, PrudentError, UsageError
from local.gateoptions import GateOptions
from remote.schema import FactsRequest, HostFacts, RunStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from local import gate, patches, render, runs, tables
    from local import report as reports
    from local.gate import GateOutcome
    from local.levels import ahead
    from local.patches import Patch
    from local.session import Session
    from local.targets import Target
    from local.tasks import saving
else:
    ahead, gate, patches, render, runs, tables, reports, saving = map(
        later.Room,
        (
            "local.levels.ahead", "local.gate", "local.patches", "local.render", "local.runs", "local.tables",
            "local.report", "local.tasks.saving",
        ),
    )  # fmt: skip

DEADLINE = 60.0


def preflight(session: Session, **options: Any) -> GateOutcome:
    """Take the host through the gate, showing each check as it is decided; raises GateRefused."""
    options["without"] = numbers(options.get("without"))
    console, name = session.console, session.label
    target, sharers = session.target, len(session.party.names) if session.party else 1
    chosen = GateOptions(**options, usd_per_hour=target.usd_per_hour, gpus=target.gpus, sharers=sharers)
    hint = session.foresee(chosen)
    later.load("local.gate", "local.render")  # while the host answers
    with ahead.examining(target.name, target.job, hint):
        host = session.host
        session.outcome = outcome = gate.preflight(
            host,
            session.job,
            chosen,
            watch=lambda check: render.print_check(console, name, check),
            secrets=session.secrets,
        )
    render.print_verdict(console, name, outcome.verdict)
    session.word = "pass (remembered)" if outcome.cached else outcome.verdict.verdict
    if outcome.verdict.verdict != "pass":
        session.word = f"refused at {outcome.verdict.level}"
        saving.refused(session, outcome.verdict)
        raise GateRefused(f"the gate refused at level {outcome.verdict.level!r}", remedy="The findings above say why.")
    return outcome


def foresee(
    _targets: Sequence[Target],
    *,
    report: str | None = None,
    until: str | None = None,
    no_patches: bool = False,
    without: Sequence[str] | None = None,
    **_: Any,
) -> None:
    """Refuse options that cannot work, while there is nothing yet to lose; raises UsageError."""
    if report is not None:
        reports.writable(report)
    if until is not None or no_patches or without:
        gate.foresee(GateOptions(until=until, no_patches=no_patches, without=numbers(without)))


def numbers(without: Sequence[str] | None) -> tuple[str, ...]:
    """Give the patch numbers of `--without`, which may be repeated and may hold several."""
    found = tuple(number for words in without or () for word in words.split(",") if (number := word.strip()))
    if without and not found:
        raise UsageError("names no patch", remedy="Name some by their numbers, as in 0003,0004.", where="--without")
    return found


def write_report(sessions: Sequence[Session], *, report: str | None = None, **_: Any) -> None:
    """Write the gate's report on all hosts."""
    if report is None:
        return
    outcomes: dict[str, Any] = {}
    for session in sessions:
        outcomes[session.name] = session.outcome or session.error
        if not isinstance(outcomes[session.name], gate.GateOutcome | PrudentError):
            outcomes[session.name] = PrudentError(str(session.error or "interrupted"))
    secrets = {secret for session in sessions for secret in session.secrets.values()}
    reports.write(report, masks.within(reports.document(outcomes), secrets))


@dataclass(frozen=True)
class Seen:
    """What `hosts` shows of one host."""

    facts: HostFacts
    runs: tuple[RunStatus, ...]


def look(session: Session) -> Seen:
    """Ask a host for its facts and runs."""
    request = FactsRequest(job=session.job)
    facts = session.host.call("facts", request, HostFacts, bundle=session.payload, deadline=DEADLINE)
    return Seen(facts, tuple(runs.status(session.host, bundle=session.payload)))


def show_hosts(sessions: Sequence[Session]) -> None:
    """Print the inventory as a table."""
    tables.show(sessions, tables.hosts(sessions))


def states(session: Session) -> dict[str, str]:
    """Hold the series against the host's installed sources: number → state; raises the connect errors."""
    series = patches.load_series()
    wanted = tuple(sorted({path for patch in series for path in patch.files}))
    request = FactsRequest(job=session.job, sources=wanted)
    facts = session.host.call("facts", request, HostFacts, bundle=session.payload, deadline=DEADLINE)
    chosen = patches.select(series, facts.distributions)
    found = patches.apply(chosen, {source.path: source.text for source in facts.sources}, versions=facts.distributions)
    return {_key(patch): found.states[patch.number] for patch in chosen}


def show_patches(sessions: Sequence[Session], *, json: bool = False) -> None:
    """Print the series, and each patch's state on every host that could be asked."""
    series = patches.load_series()
    asked = {session.name: session.values["patches"] for session in sessions if "patches" in session.values}
    if json:
        entries = [_entry(patch, asked) for patch in series]
        sys.stdout.write(dumps({"schema": 1, "patches": entries}, indent=2) + "\n")
        return
    rows = [(patch, {name: states.get(_key(patch), "not meant") for name, states in asked.items()}) for patch in series]
    tables.show(sessions, tables.patches(rows, list(asked)))


def _entry(patch: Patch, asked: dict[str, dict[str, str]]) -> dict[str, Any]:
    on = {name: states.get(_key(patch), "not meant") for name, states in asked.items()}
    return {
        "number": patch.number,
        "title": patch.title,
        "applies_to": patch.meant_for,
        "applies": bool(on) and all(state == patches.APPLIES for state in on.values()),
        "hosts": on,
    }


def _key(patch: Patch) -> str:
    """Tell patches of different releases with the same number apart."""
    return f"{patch.path.parent.name}/{patch.number}"
