"""Verb `verdict`: the gate's decisions, kept on the host under the fingerprint of what they were made for."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path, PurePosixPath

from remote import files, wire
from remote.paths import Workdir
from remote.schema import FactsRequest, Verdict, VerdictAnswer, VerdictRequest

FINGERPRINT = re.compile(r"[0-9a-f]{8,128}")
KEPT = 50  # verdicts; the oldest ones make room
PRIVATE = 0o700


def answer(request: VerdictRequest) -> VerdictAnswer:
    """Store the verdict that came along, or find the one for the present environment."""
    if request.store is not None:
        store(_folder(request), request.store)
        return VerdictAnswer(fingerprint=request.store.fingerprint, verdict=request.store)
    from remote import facts

    return known(request, facts.answer(FactsRequest(job=request.job, bundle=request.bundle)).fingerprint)


def known(request: VerdictRequest, present: str) -> VerdictAnswer:
    """Give what was decided for a bundle in the environment of this fingerprint, and the pass before it."""
    folder = _folder(request)
    verdict = read(folder, present)
    if verdict is not None and verdict.bundle != request.bundle:
        verdict = None
    return VerdictAnswer(fingerprint=present, verdict=verdict, previous=last_pass(folder, request.job.name, present))


def store(folder: Path, verdict: Verdict) -> None:
    """Write one verdict whole, for its owner only; forget the oldest beyond those we keep."""
    folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    files.replace(_path(folder, verdict.fingerprint), wire.dumps(verdict).encode())
    for path in _newest_first(folder)[KEPT:]:
        path.unlink(missing_ok=True)


def read(folder: Path, fingerprint: str) -> Verdict | None:
    """Give the verdict stored under a fingerprint; a damaged or strange file is none."""
    try:
        verdict = wire.loads(Verdict, _path(folder, fingerprint).read_bytes())
    except (OSError, wire.WireError):
        return None
    return verdict if verdict.fingerprint == fingerprint else None


def last_pass(folder: Path, job: str, but: str) -> Verdict | None:
    """Give the newest passing verdict of a job, whatever it was made for, but the one named."""
    for path in _newest_first(folder):
        if path.stem != but and FINGERPRINT.fullmatch(path.stem):
            verdict = read(folder, path.stem)
            if verdict is not None and verdict.verdict == "pass" and verdict.basis.get("job") == job:
                return verdict
    return None


def _folder(request: VerdictRequest) -> Path:
    return Path(Workdir(PurePosixPath(request.job.workdir)).verdicts)


def _path(folder: Path, fingerprint: str) -> Path:
    if not FINGERPRINT.fullmatch(fingerprint):
        raise ValueError(f"{fingerprint!r} is no fingerprint")
    return folder / f"{fingerprint}.json"


def _newest_first(folder: Path) -> list[Path]:
    aged = []
    for path in folder.glob("*.json"):
        with contextlib.suppress(FileNotFoundError):
            aged.append((path.stat().st_mtime, path.name, path))
    return [path for _, _, path in sorted(aged, reverse=True)]
