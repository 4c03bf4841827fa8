"""A pipeline's part in a deal: its census, the wait for the other hosts, and the plan that all of them make once."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from local import plan as plans
from local import plantable
from local.errors import GateRefused, GaveUp, PayloadCrashed, PrudentError, UsageError
from local.extract import persist
from local.rendezvous import Party, TooLate
from local.session import Interrupted
from local.summary import duration
from local.text import clean
from remote import ranges
from remote.schema import CensusAnswer, CensusRequest

if TYPE_CHECKING:
    from local.gate import GateOutcome
    from local.plan import Holding, Plan
    from local.rendezvous import Gathering
    from local.session import Session

WAIT = 900.0  # seconds that a host which is ready waits for the others' gates
COUNTING = 3600.0  # seconds that a dataset may take to be tokenised
FRESH = 5.0  # seconds for which a census is as good as a new one
ASKING = 30.0
NAMED = 5  # hosts that a line names one by one


def take_part(session: Session, outcome: GateOutcome, *, wait: float) -> Plan:
    """Take this host's census, wait for the others, and give the plan that holds for all of them.

    Raises UsageError where the hosts cannot share a job, GaveUp where the others did not wait for us.
    """
    party = session.party or Party([session.name])
    taken = _census(session, str(outcome.bundle), outcome)
    began = time.monotonic()
    _meet(party, session, None, wait, "gate")
    if time.monotonic() - began > FRESH:
        taken = _census(session, str(outcome.bundle), outcome)
    counted = _meet(party, session, taken, wait, "census")
    return _plan(party, session, counted)


def bow_out(session: Session, *, sharing: bool) -> None:
    """Leave the party; with `sharing`, a host that its gate refused still says what it holds: nobody does it again."""
    party = session.party
    if party is None:
        return
    why = session.error.message if isinstance(session.error, PrudentError) else "its pipeline has ended"
    refused = isinstance(session.error, GateRefused) and not party.has_met(session.name)
    try:
        if sharing and refused and session.target.job.engine != "command":
            held = replace(_census(session, session.payload, None), busy=why, refused=True)
            for brought in (None, held):
                party.meet(session.name, brought, patience=WAIT, on_beat=session.check_interrupt)
    except (PrudentError, TooLate, Interrupted):
        pass  # then nothing is known of it
    finally:
        party.leave(session.name, why)


def _census(session: Session, bundle: str, outcome: GateOutcome | None) -> Holding:
    """Ask the host what it has; raises GateRefused where it cannot say."""
    request = CensusRequest(job=session.job, secrets=dict(session.secrets), deadline=COUNTING)
    answer = persist(
        session.host,
        lambda: session.host.call("census", request, CensusAnswer, bundle=bundle, deadline=COUNTING + ASKING),
    )
    if answer.trouble:
        raise GateRefused(
            f"what this host has of the dataset cannot be told: {clean(answer.trouble)}",
            remedy="Mend that on the host, then extract again; the others do what this one would have done.",
        )
    try:
        held = plans.holding(answer)
    except ranges.RangeError as error:
        raise PayloadCrashed(f"the census of this host cannot be understood: {error}", where=session.name) from error
    load, speed = guesses(outcome)
    return replace(held, usd_per_hour=session.target.usd_per_hour, guess=load, guessed_speed=speed)


def guesses(outcome: GateOutcome | None) -> tuple[float | None, float | None]:
    """Give what the gate expects of a load, in seconds, and of the speed, in tokens per second."""
    for check in outcome.verdict.checks if outcome else ():
        if check.id == "inputs":
            times, output = check.facts.get("time"), check.facts.get("output")
            extract, tokens = _number(times, "extract"), _number(output, "tokens")
            return _number(times, "load"), tokens / extract if tokens and extract else None
    return None, None


def _number(facts: Any, name: str) -> float | None:
    found = facts.get(name) if isinstance(facts, dict) else None
    return float(found) if isinstance(found, int | float) and math.isfinite(found) else None


def _meet(party: Party, session: Session, brought: Any, wait: float, what: str) -> Gathering[Any]:
    def told(names: tuple[str, ...]) -> None:
        session.console.print(
            f"[dim]waiting for the {what} of {escape(_several(names))} (at most {duration(wait)})[/]", soft_wrap=True
        )

    try:
        return party.meet(session.name, brought, patience=wait, on_beat=session.check_interrupt, on_wait=told)
    except TooLate:
        raise GaveUp(
            f"the other hosts did not wait for this one's {what}: nothing was dealt to it",
            remedy="`fab extract` counts it in the next time; --wait 1h lets the others wait longer.",
        ) from None


def _several(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def _plan(party: Party, session: Session, counted: Gathering[Holding]) -> Plan:
    """Make the plan once; its error is told in whole by the first host, in short by the others."""

    def make() -> Plan:
        gone = party.gone
        others = [name for name in party.names if name not in counted.brought]
        return plans.make(counted.brought, {name: gone.get(name) or "was not ready in time" for name in others})

    try:
        return counted.once(make)
    except UsageError as error:
        first = plans.chair(counted.brought)
        if session.name == first:
            raise UsageError(error.message, remedy=error.remedy) from error
        raise UsageError(
            "nothing was dealt: the hosts cannot share this job", remedy=f"Why is told under {first}."
        ) from error


def show(session: Session, plan: Plan) -> None:
    """Print the plan, once for all hosts."""
    if session.name == plan.chair:
        session.everyone.print(plantable.table(plan))
