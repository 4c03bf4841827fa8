"""Surfaces on the laptop: fetched once per fingerprint, cached, remembered per host and job for work offline."""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import json
import lzma
import re
import tarfile
import tempfile
import zlib
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from local import folders, pruning
from local.errors import PayloadCrashed, UsageError
from local.static.tree import Surface
from remote import wire
from remote.schema import SurfaceAnswer, SurfaceRequest

if TYPE_CHECKING:
    from local.host import Host
    from remote.schema import Job

DEADLINE = 300.0  # some megabytes over a slow line
_HEX = re.compile(r"[0-9a-f]{64}")
LARGEST = 512 << 20  # bytes of sources: vLLM and all that it stands on have a tenth of it
DAMAGED = (zlib.error, lzma.LZMAError)
_TOLD = 32  # fingerprints that a host is told of


def fetch(host: Host, job: Job, *, bundle: str, architectures: tuple[str, ...] = ()) -> Surface:
    """Give the surface of a job on a host; its sources travel only where the cache lacks them."""
    request = SurfaceRequest(job=job, held=held())
    answer = host.call("surface", request, SurfaceAnswer, bundle=bundle, deadline=DEADLINE)
    return received(host.name, job, answer, architectures=architectures)


def received(host: str, job: Job, answer: SurfaceAnswer, *, architectures: tuple[str, ...] = ()) -> Surface:
    """Give the surface that a host has answered, kept and remembered for work offline; raises PayloadCrashed.

    `architectures` are those of the job's model there: whoever works offline cannot ask for them.
    """
    if answer.trouble is not None:
        raise PayloadCrashed(f"the job's Python does not say where its packages are: {answer.trouble}", where=host)
    surface = keep(answer)
    _remember(host, job.name, answer, architectures)
    return surface


def held() -> tuple[str, ...]:
    """Give the fingerprints in the cache, the last used first."""
    return tuple(path.name for path in sorted(_kept(), key=_used, reverse=True))[:_TOLD]


def keep(answer: SurfaceAnswer) -> Surface:
    """Unpack an answer's sources into the cache; raises PayloadCrashed where they are not what they claim to be."""
    folder = _root() / _named(answer.fingerprint)
    if not folder.is_dir():
        _unpack(answer, folder)
        pruning.prune(_root(), _kept())
        pruning.prune(folders.cache() / "models", tuple((folders.cache() / "models").glob("*.json")))
    return _surface(folder, answer.fingerprint, answer.python, answer.versions)


def remembered(host: str, job: str) -> Surface:
    """Give the surface that a host had for a job when it was last asked; raises UsageError."""
    try:
        known = wire.parse(_memory(host, job).read_bytes())
        folder = _root() / _named(known["fingerprint"])
        if not folder.is_dir():
            raise FileNotFoundError(folder)
        return _surface(folder, known["fingerprint"], str(known["python"]), known["versions"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, PayloadCrashed):
        raise UsageError(
            f"no sources of {host}'s packages are kept for job {job}",
            remedy=f"Fetch them once with `fab -H {host} preflight --until static`; later checks need no connection.",
        ) from None


def architectures(host: str, job: str) -> tuple[str, ...]:
    """Give the architectures of the job's model as they were then; none where nobody has told."""
    try:
        known = wire.parse(_memory(host, job).read_bytes())
        return tuple(map(str, known["architectures"]))
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def _kept() -> tuple[Path, ...]:
    return tuple(path for path in _root().iterdir() if _HEX.fullmatch(path.name))


def _used(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:  # another `fab` has just pruned it
        return 0.0


def _surface(folder: Path, fingerprint: str, python: str, versions: dict[str, str]) -> Surface:
    pruning.touch(folder)  # in use: nobody prunes it
    return Surface(roots=(folder,), python=python, versions=tuple(sorted(versions.items())), fingerprint=fingerprint)


def _unpack(answer: SurfaceAnswer, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".unpack-") as scratch:
        target = Path(scratch) / "surface"
        target.mkdir()
        state = hashlib.sha256()
        try:
            data = base64.b64decode(answer.data, validate=True)
            with tarfile.open(fileobj=io.BytesIO(data), mode="r:*") as tar:
                _bounded(tar)
                for member in sorted(tar.getmembers(), key=lambda member: member.name):
                    text = _write(tar, member, target)
                    state.update(f"{member.name}\0{len(text)}\0".encode())
                    state.update(text)
        except (tarfile.TarError, binascii.Error, EOFError, OSError, ValueError, *DAMAGED) as error:
            raise PayloadCrashed(f"the sources that the host sent cannot be unpacked: {error}") from error
        if state.hexdigest() != answer.fingerprint:
            raise PayloadCrashed("the sources that the host sent are not those that it named")
        try:
            target.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was faster, with the same files
                raise


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> bytes:
    """Write one plain file below a folder that holds nothing but such files; raises ValueError for names that lead out.

    The standard library's own filter for this is missing in Python 3.11.0 to 3.11.3, which Debian 12 has.
    """
    name = PurePosixPath(member.name)
    if name.is_absolute() or not name.parts or ".." in name.parts:
        raise ValueError(f"{member.name!r} is no name below a folder")
    file = tar.extractfile(member)
    text = file.read() if file is not None else b""
    path = target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)
    return text


def _bounded(tar: tarfile.TarFile) -> None:
    """Raise ValueError where an archive holds more than sources can be: a little of it may stand for a disk full."""
    total = 0
    for member in tar:
        total += member.size
        if not member.isfile() or member.issparse() or total > LARGEST:
            raise ValueError(f"{member.name!r} is no plain file, or all together is more than {LARGEST >> 20} MiB")


def _remember(host: str, job: str, answer: SurfaceAnswer, named: tuple[str, ...]) -> None:
    known = {
        "fingerprint": answer.fingerprint,
        "python": answer.python,
        "versions": answer.versions,
        "architectures": named,
    }
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
