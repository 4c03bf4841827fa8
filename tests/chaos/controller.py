"""A controller of its own, to be killed: `DISK PYTHON HOME RECEIVED` extracts, follows, keeps the log that came."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import BinaryIO

from local import extract
from local.follow import follow
from local.links.here import HereLink
from tests.chaos import pretend
from tests.running import Lab


def main(disk: Path, python: str, home: Path, received: Path) -> None:
    """Do what `fab extract` does, until killed."""
    lab = Lab(disk, python=python, link=HereLink(home))
    job = pretend.job(disk, python, dataset=str(home / "data.jsonl"))
    answer = extract.start(lab.host, job, bundle=lab.bundle, fingerprint="f", secrets={})
    with received.open("wb", buffering=0) as file:
        follow(
            lab.host, bundle=lab.bundle, workdir=lab.workdir, run=answer.run or "",
            on_log=lambda data: _write(file, data), on_event=lambda _: None,
        )  # fmt: skip


def _write(file: BinaryIO, data: bytes) -> None:
    file.write(data)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
