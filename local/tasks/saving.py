"""Money and time in words: what the gate saved where it refuses, and what a run has cost where it ends."""

from __future__ import annotations

import calendar
import time
from typing import TYPE_CHECKING

from rich.markup import escape

from local import cost, saved
from local.errors import PrudentError
from local.summary import duration
from remote.schema import ExpectAnswer, ExpectRequest

if TYPE_CHECKING:
    from local.saved import Saved
    from local.session import Session
    from remote.schema import Exit, Verdict

ASKING = 15.0  # seconds for a number that is nice to have


def refused(session: Session, verdict: Verdict) -> Saved | None:
    """Say what the faults that the gate has found would have cost; a host that cannot say more keeps nothing back."""
    found = saved.faults(verdict.checks)
    if not found:
        return None
    load, assumed = _load(session, verdict)
    seen = next((check.facts.get("gpus") for check in verdict.checks if check.id == "host"), None)
    gpus = len(seen) if isinstance(seen, list) and seen else session.target.gpus
    made = saved.reckon(found, load=load, assumed=assumed, gpus=gpus, usd_per_hour=session.target.usd_per_hour)
    session.console.print(f"{_head(session)}[green]{escape(str(made))}[/]", soft_wrap=True)
    return made


def final(session: Session, run: str, ended: Exit | None) -> float | None:
    """Say how long a run took and what it cost, where the inventory has a price."""
    began = _began(run)
    if ended is None or began is None:
        return None
    seconds = max(0.0, ended.ended - began)
    usd = cost.spent(session.target.usd_per_hour, seconds)
    if usd is not None:
        session.console.print(f"{_head(session)}{duration(seconds)}, {cost.money(usd)}", style="dim", soft_wrap=True)
    return usd


def _load(session: Session, verdict: Verdict) -> tuple[float | None, bool]:
    """Give the seconds of a load: as the gate has just reckoned them, else as the host does when it is asked."""
    inputs = next((check.facts for check in verdict.checks if check.id == "inputs"), {})
    told = inputs.get("time")
    if isinstance(told, dict) and isinstance(told.get("load"), int | float):
        return float(told["load"]), bool(told.get("assumed"))
    try:
        request = ExpectRequest(job=session.job)
        answer = session.host.call("expect", request, ExpectAnswer, bundle=session.payload, deadline=ASKING)
    except PrudentError:
        return None, True
    return answer.load, answer.assumed


def _began(run: str) -> float | None:
    try:
        return float(calendar.timegm(time.strptime(run[:15], "%Y%m%d-%H%M%S")))
    except ValueError:
        return None


def _head(session: Session) -> str:
    return f"[bold magenta]{escape(session.name)}[/]  " if session.alone else ""
