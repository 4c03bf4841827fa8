"""The document of `monitor --json`: one per round, one per line; docs/monitor.schema.json holds its form."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from remote.wire import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from local.monitor.rows import Row, Totals


def document(rows: Sequence[Row], totals: Totals, *, clock: float, interval: float) -> dict[str, Any]:
    """Give the document of a round; what is not known is null, never a guess."""
    return {
        "schema": SCHEMA,
        "time": round(clock, 3),
        "interval": interval,
        "hosts": {row.name: _host(row, clock) for row in rows},
        "totals": {
            "hosts": totals.hosts,
            "states": totals.states,
            "samples": dataclasses.asdict(totals.samples),
            "tokens": {"done": totals.tokens, "total": totals.tokens_total},
            "tokens_per_second": _rounded(totals.tokens_per_second),
            "seconds_left": _rounded(totals.left),
            "usd_spent": _rounded(totals.spent),
            "usd_expected": _rounded(totals.expected),
        },
    }


def _host(row: Row, clock: float) -> dict[str, Any]:
    return {
        "state": row.state,
        "age": _rounded(row.age),
        "last_seen": None if row.age is None else round(clock - row.age, 3),
        "error": row.error or None,
        "run": row.run,
        "phase": row.phase,
        "attempt": row.attempt,
        "samples": dataclasses.asdict(row.samples),
        "tokens": {"done": row.tokens, "total": row.tokens_total},
        "tokens_per_second": _rounded(row.tokens_per_second),
        "samples_per_second": _rounded(row.samples_per_second, 4),
        "seconds_left": _rounded(row.left),
        "seconds_elapsed": _rounded(row.elapsed),
        "gpus": [dataclasses.asdict(gpu) for gpu in row.gpus.gpus],
        "gpus_age": _rounded(row.gpus.age),
        "gpu_error": row.gpus.error,
        "disk": None if row.disk is None else {name: getattr(row.disk, name) for name in ("path", "free", "total")},
        "load": row.load,
        "cpus": row.cpus,
        "line": row.line,
        "cause": row.cause or None,
        "usd_per_hour": row.usd_per_hour,
        "usd_spent": _rounded(row.spent),
        "usd_expected": _rounded(row.expected),
    }


def _rounded(value: float | None, digits: int = 2) -> float | None:
    return None if value is None else round(value, digits)
