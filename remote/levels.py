"""The levels that need the imports of the job: `contract`, then `inputs`. For the process that has made them."""

from __future__ import annotations

import importlib.metadata
import traceback
from typing import TYPE_CHECKING

from remote import contract, inputs
from remote.engines.defaults import gate_of
from remote.schema import Check, Finding

if TYPE_CHECKING:
    from collections.abc import Callable

    from remote.schema import Job


def after_imports(
    job: Job, *, patched: bool, until: str | None = None, usd_per_hour: float | None = None
) -> tuple[Check, ...]:
    """Give both levels' checks; `inputs` only where `contract` does not fail and is not the last one wanted."""
    distributions = installed()
    first = _guarded(
        "contract", lambda: contract.check(job, gate_of(job), distributions=distributions, patched=patched)
    )
    if first.status == "fail" or until == first.id:
        return (first,)
    return first, _guarded("inputs", lambda: inputs.check(job, usd_per_hour=usd_per_hour))


def installed() -> dict[str, str]:
    """Give the distributions of this Python, under normalised names."""
    found: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"]
        if name:  # a broken installation leaves nameless folders behind
            found.setdefault(name.lower().replace("_", "-"), distribution.version)
    return found


def _guarded(level: str, look: Callable[[], Check]) -> Check:
    """Turn a fault of our own into a warning: it says nothing about the job, and the rehearsal is still to come."""
    try:
        return look()
    except Exception as error:  # noqa: BLE001 - see above
        last = traceback.extract_tb(error.__traceback__)[-1]
        message = (
            f"the level could not be judged ({type(error).__name__}: {error}): this is a fault of the gate itself."
        )
        finding = Finding(
            rule=f"{level}-fault",
            message=message,
            severity="warning",
            file=last.filename,
            line=last.lineno,
            text=last.line,
        )
        return Check(id=level, status="warn", findings=(finding,))
