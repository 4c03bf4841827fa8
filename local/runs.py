"""The runs on a host: their status, their end, their check; and the document that `status --json` prints."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from local import history
from local.errors import PayloadCrashed, UsageError
from remote import ranges
from remote.schema import RunStatus, StatusAnswer, StatusRequest, StopAnswer, StopRequest, VerifyAnswer, VerifyRequest
from remote.wire import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Mapping

    from local.errors import PrudentError
    from local.host import Host, Reached
    from remote.schema import Job

AGREE = 5.0  # seconds that two clocks may be apart
ASKING = 30.0
VERIFYING = 4 * 3600.0


def status(host: Host, *, bundle: str, run: str | None = None, limit: int = 50) -> list[RunStatus]:
    """Give the runs of a host, newest first; raises UsageError when the one asked for is not there."""
    request = StatusRequest(workdir=host.workdir, run=run, limit=limit)
    answer = host.call("status", request, StatusAnswer, bundle=bundle, deadline=ASKING)
    if run is not None and not answer.runs:
        raise _no_such_run(host, run)
    return [by_our_clock(found, host.reached) for found in answer.runs]


def by_our_clock(run: RunStatus, reached: Reached) -> RunStatus:
    """Give a run's times as this machine's clock has them: its age, length and cost are reckoned by that one.

    Clocks that agree are left alone: a time that is told twice is the same.
    """
    ahead = reached.now - reached.asked if reached.asked else 0.0
    if abs(ahead) < AGREE:
        return run
    started, seen = (None if then is None else then - ahead for then in (run.started, run.last_seen))
    return replace(run, started=started, last_seen=seen)


def latest(host: Host, *, bundle: str, run: str | None = None) -> RunStatus:
    """Give the run that is named, or the latest; raises UsageError when there is none."""
    found = status(host, bundle=bundle, run=run, limit=1)
    if not found:
        raise UsageError(
            f"no run in {host.workdir}",
            remedy="`fab extract` starts one; `workdir` says where to look.",
            where=host.name,
        )
    return found[0]


def stop(host: Host, *, bundle: str, run: str | None = None, grace: float = 20.0) -> StopAnswer:
    """Stop a run and all that it started; raises UsageError when it is not there."""
    request = StopRequest(workdir=host.workdir, run=run, grace=grace)
    answer = host.call("stop", request, StopAnswer, bundle=bundle, deadline=grace + 2 * ASKING)
    if answer.outcome == "not-found":
        raise _no_such_run(host, run or "")
    return answer


def verify(
    host: Host,
    job: Job,
    *,
    bundle: str,
    secrets: Mapping[str, str] | None = None,
    deadline: float = VERIFYING,
    shard: str | None = None,
) -> VerifyAnswer:
    """Hold every sample file (or those of a shard) against manifest and dataset."""
    request = VerifyRequest(job=job, secrets=dict(secrets or {}), deadline=deadline, shard=shard)
    answer = host.call("verify", request, VerifyAnswer, bundle=bundle, deadline=deadline + ASKING)
    return sound(answer, host.name)


def sound(answer: VerifyAnswer, host: str) -> VerifyAnswer:
    """Give what verify says where it can be counted with; raises PayloadCrashed."""
    try:
        spans = [*ranges.spans(answer.ranges), *ranges.spans(answer.damaged_ranges)]
    except ranges.RangeError as error:
        raise PayloadCrashed(f"what verify says cannot be understood: {error}", where=host) from error
    if not 0 <= answer.whole <= ranges.MOST:  # all of them are counted one by one
        raise PayloadCrashed(f"verify speaks of {answer.whole} samples: no dataset has so many", where=host)
    if any(span.stop > answer.whole for span in spans):
        raise PayloadCrashed(f"verify speaks of samples beyond the {answer.whole} that there are", where=host)
    return answer


def document(
    hosts: Mapping[str, RunStatus | PrudentError | None],
    prices: Mapping[str, float | None] | None = None,
    *,
    now: float | None = None,
) -> dict[str, Any]:
    """Give the document of `status --json`: a host that cannot be reached is unknown, never failed."""
    at = time.time() if now is None else now
    entries = {name: _entry(status, (prices or {}).get(name), now=at) for name, status in hosts.items()}
    return {"schema": SCHEMA, "hosts": entries}


def _entry(status: RunStatus | PrudentError | None, price: float | None, *, now: float) -> dict[str, Any]:
    if isinstance(status, RunStatus):
        return {
            "run": status.run, "phase": status.phase, "attempt": status.attempt, "pid": status.pid,
            "started": status.started, "last_seen": status.last_seen, "output": status.output,
            "samples": {"total": status.samples.total, "done": status.samples.done, "failed": status.samples.failed},
            "log_bytes": status.log_bytes, "exit": status.exit, "cause": status.cause,
            **history.spent(status, price, now=now),
        }  # fmt: skip
    why = "no run on this host" if status is None else status.message
    return {
        "run": None, "phase": "unknown", "attempt": None, "pid": None, "started": None, "last_seen": None,
        "output": None, "samples": {"total": 0, "done": 0, "failed": 0}, "log_bytes": 0, "exit": None, "cause": why,
        "seconds": None, "usd": None,
    }  # fmt: skip


def _no_such_run(host: Host, run: str) -> UsageError:
    return UsageError(f"no run {run!r} in {host.workdir}", remedy="`fab runs` lists what is there.", where=host.name)
