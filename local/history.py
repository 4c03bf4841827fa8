"""The runs of many hosts as one history: how long each took, what it cost, newest first; and as a document. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from local import cost
from remote.paths import ENDED
from remote.wire import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from local.errors import PrudentError
    from remote.schema import RunStatus


def seconds(run: RunStatus, *, now: float) -> float | None:
    """Give how long a run took, or has taken so far; None where its start is not known."""
    until = run.last_seen if run.phase in ENDED else now
    return None if run.started is None or until is None else max(0.0, until - run.started)


def newest_first(found: Mapping[str, Sequence[RunStatus]]) -> list[tuple[str, RunStatus]]:
    """Give the runs of all hosts, each with its host."""
    rows = [(name, run) for name, runs in found.items() for run in runs]
    return sorted(rows, key=lambda row: (row[1].run, row[0]), reverse=True)  # a run's id begins with its start


def document(
    found: Mapping[str, Sequence[RunStatus] | PrudentError], prices: Mapping[str, float | None], *, now: float
) -> dict[str, Any]:
    """Give the document of `runs --json`: a host that cannot be asked has an error in place of its runs."""
    hosts: dict[str, Any] = {}
    for name, runs in found.items():
        if isinstance(runs, Exception):
            hosts[name] = {"runs": None, "error": {"kind": type(runs).__name__, "message": runs.message}}
        else:
            hosts[name] = {"runs": [_entry(run, prices.get(name), now=now) for run in runs], "error": None}
    return {"schema": SCHEMA, "hosts": hosts}


def spent(run: RunStatus, price: float | None, *, now: float) -> dict[str, float | None]:
    """Give the time and money of a run as documents have them."""
    took = seconds(run, now=now)
    usd = cost.spent(price, took)
    return {"seconds": None if took is None else round(took, 1), "usd": None if usd is None else round(usd, 2)}


def _entry(run: RunStatus, price: float | None, *, now: float) -> dict[str, Any]:
    return {
        "run": run.run, "job": run.job, "phase": run.phase, "attempts": run.attempt, "started": run.started,
        "last_seen": run.last_seen, **spent(run, price, now=now), "output": run.output, "shard": run.shard,
        "samples": {"total": run.samples.total, "done": run.samples.done, "failed": run.samples.failed},
        "tokens": run.tokens, "exit": run.exit, "cause": run.cause, "bundle": run.bundle,
    }  # fmt: skip
