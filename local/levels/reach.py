"""Level `reach`: the host answers, its Python starts our payload, its clock is right. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from local.levels.decide import check
from remote.schema import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from local.host import Reached
    from remote.schema import Check

OLDEST = (3, 10)
SKEW = 60.0


def decide(reached: Reached, now: float) -> Check:
    """Judge what the bootstrap found; `now` is the laptop's clock at that time."""
    skew = reached.now - now
    facts = {"python": reached.python_version, "user": reached.user, "home": reached.home, "clock_skew": round(skew, 1)}
    return check("reach", [*_python(reached.python_version), *_clock(skew)], facts)


def _python(version: str) -> Iterator[Finding]:
    match = re.match(r"(\d+)\.(\d+)", version)
    if not match or (int(match[1]), int(match[2])) < OLDEST:
        yield Finding(
            rule="python-too-old",
            message=f"the host's Python is {version}, the payload needs 3.10 or newer: "
            "name a newer one as `python` in the inventory",
        )


def _clock(skew: float) -> Iterator[Finding]:
    if abs(skew) > SKEW:
        side = "ahead of" if skew > 0 else "behind"
        yield Finding(
            rule="clock-skew",
            severity="warning",
            message=f"the host's clock is {abs(skew):.0f} s {side} this machine's: "
            "certificates, and times in its logs, may be wrong; start a time service (chrony, systemd-timesyncd)",
        )
