"""`runs`: the history of all hosts, newest first, with what each run took and cost."""

from __future__ import annotations

import sys
import time
from json import dumps
from typing import TYPE_CHECKING, Any

from local import history, runs, tables
from local.errors import PrudentError
from local.tasks.watching import head

if TYPE_CHECKING:
    from collections.abc import Sequence

    from local.session import Session
    from remote.schema import RunStatus

MOST = 500  # runs of one host


def collect(session: Session) -> list[RunStatus]:
    """Give all runs of the host, newest first."""
    return runs.status(session.host, bundle=session.payload, limit=MOST)


def show(sessions: Sequence[Session], *, json: bool = False, **_: Any) -> None:
    """Print all runs of all hosts."""
    prices = {session.name: session.target.usd_per_hour for session in sessions}
    if json:
        told = {session.name: _told(session) for session in sessions}
        sys.stdout.write(dumps(history.document(told, prices, now=time.time()), indent=2) + "\n")
        return
    found = {session.name: session.values["runs"] for session in sessions if "runs" in session.values}
    if rows := history.newest_first(found):
        tables.show(sessions, tables.runs(rows, prices))
    for session in sessions:
        if session.name in found and not found[session.name]:
            session.console.print(f"{head(session)}no run yet; `fab extract` starts one")


def _told(session: Session) -> list[RunStatus] | PrudentError:
    if "runs" in session.values:
        found: list[RunStatus] = session.values["runs"]
        return found
    return session.error if isinstance(session.error, PrudentError) else PrudentError(str(session.error or "not asked"))
