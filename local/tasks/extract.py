"""`extract`: on a passing verdict start a host's part of the job (or attach), follow it, verify what came out."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from json import dumps
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from local import dealing, plantable, runs, tables, whole
from local import extract as launching
from local.errors import GateRefused, GaveUp, JobFailed, LinkLost, Unreachable, UsageError
from local.hooks import table as hooktable
from local.hooks import teller
from local.hooks.follower import FollowerHooks
from local.tasks import saving, watching
from local.tasks.gate import preflight
from local.tasks.verify import check
from local.text import clean
from remote import ranges
from remote.schema import Dealt
from remote.schema.gate import SHARED_SPACE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from local.gate import GateOutcome
    from local.plan import Plan
    from local.session import Session
    from local.targets import Target
    from remote.schema import LaunchAnswer, VerifyAnswer


def foresee(
    targets: Sequence[Target],
    *,
    dry_run: bool = False,
    json: bool = False,
    patience: str | None = None,
    wait: str | None = None,
    **_: Any,
) -> None:
    """Refuse what cannot work: options, plans of what has none, hooks without their variable; raises UsageError."""
    watching.duration(patience, "--patience")
    watching.duration(wait, "--wait")
    if json and not dry_run:
        raise UsageError("--json is the plan as a document", remedy="Give it together with --dry-run.")
    if dry_run and any(target.job.engine == "command" for target in targets):
        raise UsageError(
            "there is no plan to show: nothing is known of the samples of the engine 'command'",
            remedy="Each host runs the whole command; `fab preflight` proves that it will run.",
            where="--dry-run",
        )
    teller.foresee(targets)


def extract(
    session: Session,
    *,
    detach: bool = False,
    patience: str | None = None,
    dry_run: bool = False,
    wait: str | None = None,
) -> None:
    """Start or attach on a passing verdict, follow to the end, verify what came out; `dry_run` ends with the plan."""
    waiting = watching.duration(patience, "--patience")
    outcome = _gated(session)
    bundle = str(outcome.bundle)
    session.word = "not started"
    if not dry_run and (session.party is None or session.job.engine == "command"):
        _tell_of_a_part(session, bundle)
        started = _start(session, outcome, None)
        meant = started.shard
    else:
        for_others = watching.duration(wait, "--wait")
        plan = dealing.take_part(session, outcome, wait=dealing.WAIT if for_others is None else for_others)
        session.values["plan"] = plan
        if dry_run:
            session.word = "planned"
            return
        dealing.show(session, plan)
        started = _do_share(session, outcome, plan)
        meant = plan.answers_for(session.name) if started.ours else started.shard
    run = started.run
    if run and detach:
        session.console.print(
            f"{watching.head(session)}to watch it: fab -H {session.name} logs --follow --run {run}", soft_wrap=True
        )
    if detach:
        return
    with FollowerHooks(session, run) as hooks:
        if run:
            hooks.ended = watching.follow(session, run, bundle=bundle, patience=waiting, hooks=hooks)
            saving.final(session, run, hooks.ended)
            watching.judge(session, run, hooks.ended)
        if session.job.engine != "command" and meant != "":
            check(session, _verified(session, bundle, meant, hooks, started.shard))
    if not started.ours:
        does = "all samples" if started.shard is None else f"the samples {clean(whole.shortly(started.shard))}"
        raise GaveUp(
            f"{session.word}, but the run {run}, started by another command, did {does}: "
            "not what this command wanted of this host",
            remedy="Run the same command again: it does what is missing.",
        )


def _verified(
    session: Session, bundle: str, meant: str | None, hooks: FollowerHooks, shard: str | None = None
) -> VerifyAnswer:
    """Hold the outputs against the dataset; of a host that a hook has ended, its supervisor's own word counts.

    That word is of the run's own samples (`shard`), and does not name them.
    """
    try:
        return runs.verify(session.host, session.job, bundle=bundle, secrets=session.secrets, shard=meant)
    except (LinkLost, Unreachable) as error:
        if hooks.proven is None:
            raise
        session.console.print(
            f"{watching.head(session)}the host is gone ({escape(error.message)}); "
            "the run itself had verified its outputs",
            soft_wrap=True,
        )
        return replace(hooks.proven, ranges=_named(hooks.proven, shard))


def _named(proven: VerifyAnswer, shard: str | None) -> str:
    """Name the samples that a run has found valid, where that is all of them."""
    if proven.valid != proven.total:
        return ""
    return ranges.tell(range(proven.total)) if shard is None else shard


def _gated(session: Session) -> GateOutcome:
    """Give the gate's outcome, from earlier in the chain or by going through it; raises GateRefused."""
    outcome = session.outcome
    if outcome is None or not outcome.passed:
        outcome = preflight(session)
    if outcome.bundle is None or not outcome.passed:
        raise GateRefused("the gate has not passed every level", remedy="Run `fab preflight` without --until.")
    if session.party is None:
        _hold_alone(outcome)
    return outcome


def _hold_alone(outcome: GateOutcome) -> None:
    """Refuse the whole dataset to a host whose gate was passed for a share of it."""
    for seen in outcome.verdict.checks:
        for finding in seen.findings:
            if finding.rule == SHARED_SPACE:
                raise GateRefused(
                    f"one host alone: {clean(finding.message)}",
                    remedy="Name the other hosts too, or make room and run `fab preflight --fresh` on this one.",
                )


@dataclass(frozen=True, slots=True)
class _Started:
    """A run (empty where there is nothing to do), its samples, and whether they are those that were wanted."""

    run: str
    shard: str | None = None
    ours: bool = True


def _do_share(session: Session, outcome: GateOutcome, plan: Plan) -> _Started:
    """Start what was dealt to this host, or find its living run."""
    holding = plan.holdings[session.name]
    if holding.busy:
        raise GateRefused(
            f"nothing was dealt to this host: {holding.busy}",
            remedy=(
                f"Let that run end, or stop it (fab -H {session.name} stop), or choose another `output`."
                if holding.busy.startswith("the run ")
                else "What stands there counts. Make room or mend its file system, or choose another `output`."
            ),
        )
    share = plan.share(session.name)
    if holding.run is None and not share:
        session.word = "nothing left to deal"
        session.console.print(f"{watching.head(session)}nothing was dealt to this host: {plan.idle(session.name)}")
        return _Started("")
    if holding.run is None:
        dealt = Dealt(dataset=holding.dataset, total=plan.total, model=holding.model)
        return _start(session, outcome, ranges.tell(share), dealt)
    session.run, session.word = holding.run, "attached"
    _say(session, "attached to the run", holding.run)
    return _Started(holding.run, ranges.tell(holding.working))


def _start(session: Session, outcome: GateOutcome, shard: str | None, dealt: Dealt | None = None) -> _Started:
    answer = launching.start(
        session.host,
        session.job,
        bundle=str(outcome.bundle),
        fingerprint=outcome.verdict.fingerprint,
        secrets=session.secrets,
        shard=shard,
        hooks=hooktable.on_host(session.target.hooks),
        dealt=dealt,
    )
    session.run, session.word = answer.run or "", answer.outcome
    does = _tell_of_another(session, answer, str(outcome.bundle), shard)
    _say(session, "attached to the run" if answer.outcome == "attached" else "started the run", session.run)
    return _Started(session.run, does, does == shard)


def _tell_of_a_part(session: Session, bundle: str) -> None:
    """Say so when a host alone is about to do the whole of a dataset of which it did a part before."""
    if session.job.engine == "command":
        return
    before = next((run for run in runs.status(session.host, bundle=bundle, limit=1)), None)
    if before is not None and before.shard is not None and before.output == session.job.output:
        session.console.print(
            f"[yellow]note[/] the run {escape(clean(before.run))} did a part of this dataset with other hosts "
            f"({escape(clean(whole.shortly(before.shard)))}); this host alone does all of it now. "
            "To share it: stop, then extract over all of them (-H A,B)",
            soft_wrap=True,
        )


def _say(session: Session, how: str, run: str) -> None:
    session.console.print(
        f"{watching.head(session)}{how} [bold]{escape(run)}[/], which goes on without us", soft_wrap=True
    )


def _tell_of_another(session: Session, answer: LaunchAnswer, bundle: str, shard: str | None) -> str | None:
    """Say so when the run that has the output folder is not the one that was asked for; gives its samples."""
    if answer.outcome != "attached":
        return shard
    found = runs.latest(session.host, bundle=bundle, run=answer.run)
    if found.bundle not in (None, bundle) or found.shard != shard:
        session.console.print(
            f"[yellow]note[/] the run {escape(found.run)}, which has this output folder, was started for another job, "
            "other samples, other patches or by another version of this tool. To run this one: "
            f"fab -H {escape(session.name)} stop, then extract again",
            soft_wrap=True,
        )
    return found.shard


def show(sessions: Sequence[Session], *, dry_run: bool = False, json: bool = False, **_: Any) -> None:
    """Show the plan of a dry run; after a round, say how the dataset as a whole stands. Raises JobFailed."""
    plan: Plan | None = next((made for session in sessions if (made := session.values.get("plan"))), None)
    if plan is None:
        return
    if json:
        sys.stdout.write(dumps(plantable.document(plan, sessions[0].target.job.name), indent=2) + "\n")
    elif dry_run:
        tables.show(sessions, plantable.table(plan))
    elif len(sessions) > 1:
        _whole(sessions, plan)


def _whole(sessions: Sequence[Session], plan: Plan) -> None:
    """Hold what all hosts have verified against the dataset; where a host failed, its own error speaks already."""
    verified = [session for session in sessions if "verified" in session.values]
    valid = {index for session in verified for index in ranges.parse(session.values["verified"].ranges)}
    if not verified:
        return
    if len(valid) < plan.total:
        missing = [index for index in range(plan.total) if index not in valid]
        said = (
            f"{len(missing)} of {plan.total} samples of the dataset are not known to be valid: {whole.few(missing)}",
            _of_the_unwatched([one for one in sessions if one not in verified])
            + "`fab extract` over the hosts that live deals what is missing; `fab verify` says what stands where.",
        )
        if not any(session.code for session in sessions):
            raise JobFailed(said[0], remedy=said[1])
        verified[0].everyone.print(f"[yellow]note[/] {said[0]}. {said[1]}", soft_wrap=True)
        return
    verified[0].everyone.print(
        f"[bold green]the dataset is whole[/]: {plan.total} samples on {len(verified)} hosts", soft_wrap=True
    )


def _of_the_unwatched(sessions: Sequence[Session]) -> str:
    """Say which runs may go on though nobody hears of them: a deal without them does their samples twice."""
    names = [one.name for one in sessions if one.run and isinstance(one.error, GaveUp | LinkLost | Unreachable)]
    if not names:
        return ""
    return f"What runs on {', '.join(names)} may go on: once it is reached again, it is counted in. "
