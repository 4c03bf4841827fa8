"""`python crash SCENARIO FOLDER BUNDLES PART PARTS ANSWER`: kill the scenario at every point of this part.

A first run counts the points; then each point is tried twice, before the call and (a write) in the middle of it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import scenarios
import tracer


def main(name: str, folder: Path, bundles: Path, part: int, parts: int) -> dict[str, object]:
    """Try the points; gives how many there are and what went wrong at which."""
    cls = scenarios.SCENARIOS[name]
    python = sys.executable
    begun = scenarios.fresh(cls, folder / "whole", python, bundles)
    whole = tracer.Trace(begun.act).go()
    wrong = [] if whole.finished else ["the scenario does not end by itself"]
    if not cls.quick:  # it has left a run behind that goes on
        wrong += [f"not killed: {problem}" for problem in begun.problems()]
    tried = 0
    for at, call in enumerate(whole.calls, 1):
        if at % parts != part:
            continue
        for torn in (False, True) if call == tracer.WRITE else (False,):
            root = folder / f"{at}{'-torn' if torn else ''}"
            scenario = scenarios.fresh(cls, root, python, bundles)
            trace = tracer.Trace(scenario.act, kill_at=at, torn=torn).go()
            tried += not trace.finished
            where = f"killed {'in the middle of' if torn else 'before'} call {at} ({', '.join(trace.calls[-3:])})"
            wrong += [f"{where}: {problem}" for problem in scenario.problems()]
    return {"points": len(whole.calls), "tried": tried, "calls": whole.calls, "wrong": wrong}


if __name__ == "__main__":
    result = main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
    Path(sys.argv[6]).write_text(json.dumps(result))
