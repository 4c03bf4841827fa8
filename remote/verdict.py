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
    made = request.store
    if made is not None and not request.still:
        store(_folder(request), made)
        return VerdictAnswer(fingerprint=made.fingerprint, verdict=made)
    from remote import facts

    present = facts.answer(FactsRequest(job=request.job, bundle=request.bundle))
    if made is None:
        return known(request, present.fingerprint)
    if present.fingerprint != made.fingerprint:
        return VerdictAnswer(fingerprint=present.fingerprint, basis=present.basis)
    store(_folder(request), made)
    return VerdictAnswer(fingerprint=made.fingerprint, verdict=made)


def known(request: VerdictRequest, present: str) -> VerdictAnswer:
    """Give what was decided for a bundle in the environment of this fingerprint, and the pass before it."""
    folder = _folder(request)
    verdict = read(folder, present)
    if verdict is not None and verdict.bundle != request.bundle:
        verdict = None
    return VerdictAnswer(fingerprint=present, verdict=verdict, previous=last_pass(folder, request.job.name, present))


def store(folder: Path, verdict: Verdict) -> None:
    """Write one verdict whole, for its owner only; forget the oldest of the others beyond those we keep."""
    folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    files.replace(_path(folder, verdict.fingerprint), wire.dumps(verdict).encode())
    others = [path for path in _newest_first(folder) if path.stem != verdict.fingerprint]
    for path in others[KEPT - 1 :]:
        path.unlink(missing_ok=True)


def read(folder: Path, fingerprint: str) -> Verdict | None:
    """Give the verdict stored under a fingerprint; a damaged or strange file is none."""
    try:
        verdict = wire.loads(Verdict, files.read(_path(folder, fingerprint)))
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
