"""The overlay of a bundle: a mirror of links that shadows installed packages, with the patched files in their place.

`<bundle>/overlay` is a link to `<bundle>/overlay-<digest>`, which is built beside and then put in place at once: a
process never sees half of one. The digest covers the patched files and the names in every mirrored folder: a package
installed anew gets a new overlay. Site-packages is only read.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from remote.host import packages

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from remote.paths import Bundle

IGNORED = ("__pycache__",)


class OverlayFailed(Exception):
    """The overlay cannot be made; the message says of which package, and why."""


def ensure(bundle: Bundle, python: str) -> None:
    """Make the bundle's overlay, or leave it be where it stands and is right; raises OverlayFailed."""
    root = Path(bundle.root)
    patched = patched_files(bundle)
    mirrors = _mirrors(patched, python, _job_environment(root))
    name = f"{bundle.overlay.name}-{_digest(patched, mirrors)[:16]}"
    overlay = Path(bundle.overlay)
    if _stands(overlay, name):
        return
    with _alone(root):
        if not _stands(overlay, name):
            _build(root, name, mirrors)
            _point(overlay, name)
            _sweep(root, overlay.name, name)


def patched_files(bundle: Bundle) -> dict[str, Path]:
    """Give the patched files of a bundle: package-relative path → file."""
    root = Path(bundle.patched)
    return {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*")) if path.is_file()}


def _mirrors(patched: Mapping[str, Path], python: str, env: Mapping[str, str]) -> dict[str, dict[str, Path]]:
    """Give the folders to make in the overlay (relative, "" is its root) with the entries to link or copy in each."""
    if not patched:
        return {}
    names = {packages.top_level(path) for path in patched}
    try:
        found = packages.installed(python, env, names).packages
    except packages.PackagesUnknown as error:
        raise OverlayFailed(str(error)) from error
    mirrors: dict[str, dict[str, Path]] = {"": {}}
    for path, file in patched.items():
        package = found.get(packages.top_level(path))
        if package is None:
            raise OverlayFailed(f"{path} is patched, but {python} has no package {packages.top_level(path)}")
        _enter(mirrors, path, file, [Path(folder) for folder in package.folders])
    return mirrors


def _enter(mirrors: dict[str, dict[str, Path]], path: str, file: Path, folders: Sequence[Path]) -> None:
    """Mirror the folders on the way to a patched file, and put the file in place of the installed one."""
    *way, last = path.split("/")
    here = ""
    for depth, part in enumerate(way):
        here = f"{here}/{part}" if here else part
        if depth:
            folders = [folder / part for folder in folders]
        mirrors[here] = {**_entries(folders), **mirrors.get(here, {})}
    mirrors[here][last] = file


def _entries(folders: Sequence[Path]) -> dict[str, Path]:
    """Give name → path of what the folders hold; the first folder wins, as for the parts of a namespace."""
    entries: dict[str, Path] = {}
    for folder in reversed(folders):
        if folder.is_dir():
            entries.update({entry.name: entry for entry in folder.iterdir() if entry.name not in IGNORED})
    return entries


def _digest(patched: Mapping[str, Path], mirrors: Mapping[str, Mapping[str, Path]]) -> str:
    contents = {path: hashlib.sha256(file.read_bytes()).hexdigest() for path, file in patched.items()}
    names = {here: sorted(map(str, entries.values())) for here, entries in mirrors.items()}
    return hashlib.sha256(json.dumps([contents, names], sort_keys=True).encode()).hexdigest()


def _stands(overlay: Path, name: str) -> bool:
    return overlay.is_symlink() and overlay.readlink().name == name and overlay.is_dir()


def _build(root: Path, name: str, mirrors: Mapping[str, Mapping[str, Path]]) -> None:
    """Build under a name of nobody's, then take the right one at once."""
    if (root / name).is_dir():
        return
    building = root / f".{name}.tmp"
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(mode=0o700)
    for here in sorted(mirrors):
        (building / here).mkdir(mode=0o700, exist_ok=True)
        for entry, target in mirrors[here].items():
            if f"{here}/{entry}".lstrip("/") not in mirrors:
                _place(building / here / entry, target, copy=target.is_relative_to(root))
    building.rename(root / name)


def _place(path: Path, target: Path, *, copy: bool) -> None:
    if copy:
        shutil.copyfile(target, path)
    else:
        path.symlink_to(target)


def _point(overlay: Path, name: str) -> None:
    """Let the overlay's own name mean the new folder, with no moment in which it means nothing."""
    link = overlay.with_name(f".{overlay.name}.tmp")
    link.unlink(missing_ok=True)
    link.symlink_to(name)
    if overlay.is_dir() and not overlay.is_symlink():
        shutil.rmtree(overlay)
    link.replace(overlay)


def _sweep(root: Path, prefix: str, keep: str) -> None:
    """Remove what earlier builds left; the lock is held, so nobody builds now."""
    for path in (*root.glob(f"{prefix}-*"), *root.glob(f".{prefix}-*.tmp")):
        if path.name != keep:
            shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def _alone(root: Path) -> Iterator[None]:
    """Hold the builders' lock."""
    descriptor = os.open(root / ".overlay.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _job_environment(root: Path) -> dict[str, str]:
    """Give the environment that the bundle's job asks for: its PYTHONPATH says where packages are, too."""
    file = root / "job.json"
    return dict(json.loads(file.read_bytes()).get("env", {})) if file.is_file() else {}
