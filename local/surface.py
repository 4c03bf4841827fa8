"""Surfaces on the laptop: fetched once per fingerprint, cached, remembered per host and job for work offline."""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import json
import re
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from local import folders
from local.errors import PayloadCrashed, UsageError
from local.static.tree import Surface
from remote.schema import SurfaceAnswer, SurfaceRequest

if TYPE_CHECKING:
    from local.host import Host
    from remote.schema import Job

DEADLINE = 300.0  # some megabytes over a slow line
_HEX = re.compile(r"[0-9a-f]{64}")
_TOLD = 32  # fingerprints that a host is told of


def fetch(host: Host, job: Job, *, bundle: str) -> Surface:
    """Give the surface of a job on a host; its sources travel only where the cache lacks them."""
    request = SurfaceRequest(job=job, held=held())
    answer = host.call("surface", request, SurfaceAnswer, bundle=bundle, deadline=DEADLINE)
    if answer.trouble is not None:
        raise PayloadCrashed(f"the job's Python does not say where its packages are: {answer.trouble}", where=host.name)
    surface = keep(answer)
    _remember(host.name, job.name, answer)
    return surface


def held() -> tuple[str, ...]:
    """Give the fingerprints in the cache, newest first."""
    kept = [path for path in _root().iterdir() if _HEX.fullmatch(path.name)]
    return tuple(path.name for path in sorted(kept, key=lambda path: path.stat().st_mtime, reverse=True))[:_TOLD]


def keep(answer: SurfaceAnswer) -> Surface:
    """Unpack an answer's sources into the cache; raises PayloadCrashed where they are not what they claim to be."""
    folder = _root() / _named(answer.fingerprint)
    if not folder.is_dir():
        _unpack(answer, folder)
    return _surface(folder, answer.fingerprint, answer.python, answer.versions)


def remembered(host: str, job: str) -> Surface:
    """Give the surface that a host had for a job when it was last asked; raises UsageError."""
    try:
        known = json.loads(_memory(host, job).read_text("utf-8"))
        folder = _root() / _named(known["fingerprint"])
        if not folder.is_dir():
            raise FileNotFoundError(folder)
    except (OSError, ValueError, KeyError):
        raise UsageError(
            f"no sources of {host}'s packages are kept for job {job}",
            remedy=f"Fetch them once with `fab -H {host} preflight --until static`; later checks need no connection.",
        ) from None
    return _surface(folder, known["fingerprint"], known["python"], known["versions"])


def _surface(folder: Path, fingerprint: str, python: str, versions: dict[str, str]) -> Surface:
    return Surface(roots=(folder,), python=python, versions=tuple(sorted(versions.items())), fingerprint=fingerprint)


def _unpack(answer: SurfaceAnswer, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".unpack-") as scratch:
        target = Path(scratch) / "surface"
        target.mkdir()
        state = hashlib.sha256()
        try:
            data = base64.b64decode(answer.data, validate=True)
            with tarfile.open(fileobj=io.BytesIO(data), mode="r:*") as tar:
                tar.extractall(target, filter="data")
                for member in sorted(tar.getmembers(), key=lambda member: member.name):
                    text = (target / member.name).read_bytes()
                    state.update(f"{member.name}\0{len(text)}\0".encode())
                    state.update(text)
        except (tarfile.TarError, binascii.Error, EOFError, OSError) as error:
            raise PayloadCrashed(f"the sources that the host sent cannot be unpacked: {error}") from error
        if state.hexdigest() != answer.fingerprint:
            raise PayloadCrashed("the sources that the host sent are not those that it named")
        try:
            target.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was faster, with the same files
                raise


def _remember(host: str, job: str, answer: SurfaceAnswer) -> None:
    known = {"fingerprint": answer.fingerprint, "python": answer.python, "versions": answer.versions}
    path = _memory(host, job)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, encoding="utf-8", delete=False) as file:
        json.dump(known, file)
    Path(file.name).replace(path)


def _memory(host: str, job: str) -> Path:
    name = hashlib.sha256(f"{host}\0{job}".encode()).hexdigest()[:32]
    folder = _root() / "hosts"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / f"{name}.json"


def _named(fingerprint: str) -> str:
    if not _HEX.fullmatch(fingerprint):
        raise PayloadCrashed(f"{fingerprint!r} is no fingerprint of a surface")
    return fingerprint


def _root() -> Path:
    folder = folders.cache() / "surfaces"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder
