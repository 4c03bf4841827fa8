"""The levels that need the imports of the job: `contract`, then `inputs`. For the process that has made them."""

from __future__ import annotations

import sys
import traceback
from typing import TYPE_CHECKING

from remote.engines.defaults import gate_of
from remote.gate import contract, inputs
from remote.gate.fits import Memory
from remote.host import packages
from remote.schema import Check, Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from remote.schema import Job

CACHE_SHARE = "CACHE_MEMORY_FRACTION"


def after_imports(
    job: Job, *, patched: bool, usd_per_hour: float | None = None, sharers: int = 1, card: int = 0
) -> Iterator[Check]:
    """Yield both levels' checks, each looked at when it is asked for; `inputs` only where `contract` does not fail."""
    distributions = installed()
    first = _guarded(
        "contract", lambda: contract.check(job, gate_of(job), distributions=distributions, patched=patched)
    )
    yield first
    if first.status != "fail":
        memory = Memory(card=card, share=_cache_share(job))
        yield _guarded("inputs", lambda: inputs.check(job, usd_per_hour=usd_per_hour, sharers=sharers, memory=memory))


def _cache_share(job: Job) -> float:
    """Give the part of the free memory that a gated module makes its KV cache of; all of it where none says so."""
    modules = (sys.modules.get(name) for name in gate_of(job).modules)
    said = [getattr(module, CACHE_SHARE, None) for module in modules]
    return next((share for share in said if isinstance(share, float) and 0 < share <= 1), 1.0)


def installed() -> dict[str, str]:
    """Give the distributions of this Python, under normalised names."""
    return {name: version for name, (version, _) in packages.named(packages.here().path).items()}


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
