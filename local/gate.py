"""The gate: the levels in order, cheapest first, each from fresh facts; the first that fails ends it.

Round trips of a first gate: reach, (push), facts, (push), verdict, the stages, and one to store what was decided. Where
the laptop remembers a gate, reach asks for facts and verdict at once (and for the sources, where that gate did not
pass): one round trip, and the same decisions from what it brings. A bundle or a job that is not what was asked about
is asked about anew. The stages begin together and are told in order.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from local import answers, bundle, memory, verdicts
from local.errors import PayloadCrashed, UsageError
from local.levels import FIRST, LEVELS, STAGES, host, patch, reach, weigh
from local.levels.context import Context
from local.levels.decide import FAIL
from local.patches import Applied, load_series, select
from remote import wire
from remote.schema import FactsRequest, HostFacts, RecallAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from local.gateoptions import GateOptions
    from local.host import Host, Reached
    from local.levels import Checks, Stage
    from local.memory import Hint
    from local.patches import Patch
    from remote.schema import Check, Job, Verdict, VerdictAnswer

    Watch = Callable[[Check], None]

FACTS_DEADLINE = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class GateOutcome:
    """What the gate decided; `complete` when every level was looked at or one failed, and `--until` cut nothing off."""

    verdict: Verdict
    bundle: str | None
    cached: bool
    facts: HostFacts | None
    complete: bool = False

    @property
    def passed(self) -> bool:
        """Say whether a run may start on this verdict."""
        return self.complete and self.verdict.verdict == "pass" and self.bundle is not None


@dataclass(slots=True)
class _Record:
    """The checks so far, told to whoever watches."""

    watch: Watch
    until: str | None
    checks: list[Check] = field(default_factory=list)
    clock: float = field(default_factory=time.monotonic)

    def add(self, check: Check) -> bool:
        """Note a check and the time since the one before; gives True when the gate ends with it."""
        now = time.monotonic()
        return self.note(replace(check, seconds=check.seconds or round(now - self.clock, 3)))

    def note(self, check: Check) -> bool:
        """Note a check as it is; gives True when the gate ends with it."""
        if check.id == "rehearsal":
            self.checks[:], check = weigh.weigh(self.checks, check)
        self.checks.append(check)
        self.watch(check)
        self.clock = time.monotonic()
        return check.status == FAIL or check.id == self.until

    @property
    def complete(self) -> bool:
        """Say whether every level that there is was looked at."""
        return set(LEVELS) <= {check.id for check in self.checks}

    def outcome(self, *, facts: HostFacts | None = None) -> GateOutcome:
        """Give the outcome of a gate that ended before there was a bundle."""
        verdict = verdicts.make(self.checks, decided=time.time())
        failed = verdict.verdict == "fail"
        return GateOutcome(verdict=verdict, bundle=None, cached=False, facts=facts, complete=failed)


def preflight(
    host_: Host, job: Job, options: GateOptions, watch: Callable[[Check], None], secrets: Mapping[str, str]
) -> GateOutcome:
    """Take a job through the gate on one host; raises what keeps the gate from deciding at all."""
    record = _Record(watch, _until(options))
    series = _series(options)
    hint = memory.find(host_.name, job.name, choice=options.choice)
    asked = hint.question(job, fresh=options.fresh) if hint and hint.sources == _wanted(series) else None
    reached = host_.look(asked)
    if record.add(reach.decide(reached, reached.asked)):
        return record.outcome()
    job = replace(job, workdir=host_.workdir)
    recalled = _recalled(reached, hint) if asked and asked.job == job else None
    facts = recalled.facts if recalled else _facts(host_, job, series)
    if record.add(host.decide(facts, job, expected=options.gpus, secrets=secrets)):
        return record.outcome(facts=facts)
    check, applied = _patch(facts, job, series, options)
    if record.add(check):
        return record.outcome(facts=facts)
    packed = bundle.pack(job, applied.files)
    host_.push(packed)
    context = Context(
        host=host_,
        job=job,
        bundle=packed.id,
        facts=facts,
        series=series,
        applied=applied,
        secrets=secrets,
        until=options.until,
        usd_per_hour=options.usd_per_hour,
        sharers=options.sharers,
        surface=recalled.surface if recalled else None,
    )
    same = recalled is not None and asked is not None and asked.bundle == packed.id
    known = recalled.known if recalled and same else verdicts.ask(host_, job, bundle=packed.id)
    kept = None if options.fresh else known.verdict
    if kept is not None and _holds(kept) and verdicts.roomy(kept, facts, sharers=options.sharers):
        outcome = _remembered(record, context, kept)
    else:
        outcome = _prove(record, context, known)
    if outcome.passed or not outcome.cached:
        memory.keep(context, home=reached.home, passed=outcome.passed, choice=options.choice)
    return outcome


def _recalled(reached: Reached, hint: Hint | None) -> RecallAnswer | None:
    """Give the answer to what was asked while reaching, its sources whole again; None where there is none."""
    if hint is None or reached.recalled is None:
        return None
    try:
        answer = answers.loads(RecallAnswer, reached.recalled, "recall")
    except wire.WireError:
        return None
    facts = memory.filled(answer.facts, hint.texts)
    return replace(answer, facts=facts) if facts else None


def _wanted(series: tuple[Patch, ...]) -> tuple[str, ...]:
    """Give the installed files that the series is held against."""
    return tuple(sorted({path for patch in series for path in patch.files}))


def _series(options: GateOptions) -> tuple[Patch, ...]:
    """Read the series and see that the options speak of it, before any host is asked."""
    if options.no_patches and options.without:
        raise UsageError("`--no-patches` and `--without` exclude each other", remedy="Give one of them.")
    series = load_series()
    select(series, {}, without=options.without)
    return series


def foresee(options: GateOptions) -> None:
    """Refuse options that cannot work, before any host is asked; raises UsageError."""
    _until(options)
    _series(options)


def _until(options: GateOptions) -> str | None:
    if options.until is not None and options.until not in LEVELS:
        raise UsageError(
            f"no level {options.until!r}", remedy=f"The levels, in order: {', '.join(LEVELS)}.", where="--until"
        )
    return options.until


def _facts(host_: Host, job: Job, series: tuple[Patch, ...]) -> HostFacts:
    """Ask the bare payload for the facts, brought to the host where it lacks it."""
    bare = bundle.pack(None, {})
    host_.push(bare)
    request = FactsRequest(job=job, sources=_wanted(series))
    return host_.call("facts", request, HostFacts, bundle=bare.id, deadline=FACTS_DEADLINE)


def _patch(facts: HostFacts, job: Job, series: tuple[Patch, ...], options: GateOptions) -> tuple[Check, Applied]:
    if options.no_patches:
        return patch.skipped(), Applied()
    sources = {source.path: source.text for source in facts.sources}
    return patch.decide(series, facts.distributions, sources, job, without=options.without)


def _holds(verdict: Verdict) -> bool:
    """Say whether a remembered verdict is a pass of every level that there is."""
    return verdict.verdict == "pass" and set(LEVELS) <= {check.id for check in verdict.checks}


def _remembered(record: _Record, context: Context, verdict: Verdict) -> GateOutcome:
    """Pass on what the host remembers: the levels after the fresh ones are told as they were."""
    for check in verdict.checks:
        if check.id not in FIRST and record.note(replace(check, facts={**check.facts, "cached": True})):
            break
    told = verdicts.make(record.checks, decided=verdict.decided, fingerprint=verdict.fingerprint, bundle=context.bundle)
    return GateOutcome(verdict=told, bundle=context.bundle, cached=True, facts=context.facts, complete=record.complete)


def _prove(record: _Record, context: Context, known: VerdictAnswer) -> GateOutcome:
    """Run the stages that the host has no memory of, and have it remember what they showed."""
    _stages(record, context)
    verdict = verdicts.make(record.checks, decided=time.time(), fingerprint=known.fingerprint, bundle=context.bundle)
    basis = verdicts.basis(context.facts, context.job, context.applied, payload=bundle.pack(None, {}).id)
    before = known.previous.basis if known.previous else {}
    verdict = replace(verdict, basis=basis, changed=verdicts.changes(before, basis))
    complete = verdict.verdict == "fail" or record.complete
    if complete:
        verdicts.keep(context.host, context.job, verdict, context.facts)
    return GateOutcome(verdict=verdict, bundle=context.bundle, cached=False, facts=context.facts, complete=complete)


def _stages(record: _Record, context: Context) -> None:
    wanted: tuple[Stage, ...] = STAGES
    for number, stage in enumerate(STAGES, 1):
        if record.until in stage.levels:
            wanted = STAGES[:number]
    with contextlib.ExitStack() as stack:
        # From the last on, so that the host works while the laptop examines; what fails closes what has begun after it.
        begun = {stage: stack.enter_context(contextlib.closing(stage.begin(context))) for stage in reversed(wanted)}
        for stage in wanted:
            if _stage(record, context, stage, begun[stage]):
                return


def _stage(record: _Record, context: Context, stage: Stage, checks: Checks) -> bool:
    """Note the checks of a stage as they come; gives True when the gate ends with it."""
    answered, failed, ends = set(), False, False
    for check in checks:
        answered.add(check.id)
        if not ends:
            ends = record.add(check)
            failed = failed or check.status == FAIL
    wanted = stage.levels[: stage.levels.index(record.until) + 1] if record.until in stage.levels else stage.levels
    left = [level for level in wanted if level not in answered]
    if left and not failed:  # a level that nobody looked at must not pass
        raise PayloadCrashed(f"the host's answer says nothing of {', '.join(left)}", where=context.host.name)
    return ends
