from __future__ import annotations

import json

from local.errors import LinkLost
from local.runs import document
from remote.schema import RunStatus, Samples


def test_the_status_document_has_the_published_shape() -> None:
    run = RunStatus(
        run="20260101-000000-abcd", phase="extracting", attempt=2, pid=7, started=1.0, last_seen=2.0, output="/out",
        samples=Samples(total=9, done=3, failed=1), log_bytes=12,
    )  # fmt: skip
    shown = document({"gpu01": run, "gpu02": LinkLost("no answer"), "gpu03": None}, {"gpu01": 36.0}, now=101.0)
    assert json.loads(json.dumps(shown)) == {
        "schema": 1,
        "hosts": {
            "gpu01": {
                "run": "20260101-000000-abcd", "phase": "extracting", "attempt": 2, "pid": 7, "started": 1.0,
                "last_seen": 2.0, "output": "/out", "samples": {"total": 9, "done": 3, "failed": 1},
                "log_bytes": 12, "exit": None, "cause": None, "seconds": 100.0, "usd": 1.0,
            },
            "gpu02": {
                "run": None, "phase": "unknown", "attempt": None, "pid": None, "started": None, "last_seen": None,
                "output": None, "samples": {"total": 0, "done": 0, "failed": 0}, "log_bytes": 0, "exit": None,
                "cause": "no answer", "seconds": None, "usd": None,
            },
            "gpu03": {
                "run": None, "phase": "unknown", "attempt": None, "pid": None, "started": None, "last_seen": None,
                "output": None, "samples": {"total": 0, "done": 0, "failed": 0}, "log_bytes": 0, "exit": None,
                "cause": "no run on this host", "seconds": None, "usd": None,
            },
        },
    }  # fmt: skip
