"""A controller of its own, to be killed: `BUNDLE DISK HOME RECEIVED` does the job of HOME/job.json, keeps its log."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import BinaryIO

from local import extract
from local.follow import follow
from local.links.here import HereLink
from remote import wire
from remote.schema import Job
from tests.running import Lab


def main(bundle: str, disk: Path, home: Path, received: Path) -> None:
    """Do what `fab extract` does, until killed."""
    job = wire.loads(Job, (home / "job.json").read_bytes(), "job.json")
    lab = Lab(disk, python=job.python, link=HereLink(home))
    answer = extract.start(lab.host, job, bundle=bundle, fingerprint="f", secrets={})
    with received.open("wb", buffering=0) as file:
        follow(
            lab.host, bundle=bundle, workdir=lab.workdir, run=answer.run or "",
            on_log=lambda data: _write(file, data), on_event=lambda _: None,
        )  # fmt: skip


def _write(file: BinaryIO, data: bytes) -> None:
    file.write(data)


if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:5]))
