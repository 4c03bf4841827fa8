"""In the stack's Python: `JOB DTYPE SECONDS ANSWER`. The rehearsal alone, without the levels that come before it.

DTYPE "own" leaves the choice to the rehearsal. Its answer is written when it ends, or when its time is up.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

from remote import wire
from remote.engines.defaults import gate_of
from remote.rehearsal import precision, stage
from remote.schema import Check, Job


def main(job: str, dtype: str, seconds: str, answer: str) -> None:
    """Write the answer."""

    def tell(check: Check) -> None:
        Path(answer).write_text(wire.dumps(check))
        os._exit(0)

    asked = wire.loads(Job, Path(job).read_text())
    if dtype != "own":
        precision.chosen = lambda _job, _stated: dtype
    for name in gate_of(asked).modules:
        importlib.import_module(name)
    tell(stage.check(asked, (), os.environ["PYTHONPATH"].split(":")[0], give_up=tell, most=float(seconds)))


if __name__ == "__main__":
    main(*sys.argv[1:])
