"""What the laptop's cache holds that can be had again: surfaces that no host is remembered with, sources of releases.

Stacks, models and the demo's host are left alone: they cost minutes to make, and are removed by who made them.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from local import folders

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ASIDE = ".gone-"
UNFINISHED = (".unpack-", ".fetch-", ASIDE)
RECENT = 3600.0  # seconds for which something unfinished may have somebody behind it


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """One thing in the cache: `needed` says what for, empty where it can go."""

    kind: str
    path: Path
    size: int
    age: float
    why: str = ""
    needed: str = ""
    gone: bool = False
    trouble: str = ""


def look() -> tuple[Kept, ...]:
    """Give what stands in the cache, the largest first."""
    root = folders.cache()
    remembered = _remembered(root / "surfaces" / "hosts")
    found = [*_each("surface", root / "surfaces", remembered), *_each("release", root / "releases", set())]
    return tuple(sorted(found, key=lambda each: -each.size))


def remove(kept: Kept) -> Kept:
    """Remove one thing, moved aside first: nothing half there is ever taken for whole. What is needed stays."""
    if kept.needed:
        return kept
    aside = kept.path.with_name(f"{ASIDE}{secrets.token_hex(4)}")
    try:
        kept.path.rename(aside)
        if aside.is_symlink() or not aside.is_dir():
            aside.unlink()
        else:
            shutil.rmtree(aside)
    except FileNotFoundError:
        return replace(kept, gone=True)
    except OSError as error:
        return replace(kept, trouble=error.strerror or str(error))
    return replace(kept, gone=True)


def _each(kind: str, folder: Path, remembered: set[str]) -> Iterator[Kept]:
    if folder.is_symlink() or not folder.is_dir():
        return
    for path in folder.iterdir():
        if kind == "surface" and path.name == "hosts":
            continue
        with contextlib.suppress(FileNotFoundError):
            age = time.time() - path.lstat().st_mtime
            unfinished = path.name.startswith(UNFINISHED)
            if unfinished and age < RECENT:
                continue
            used = "used just now" if age < RECENT else ""
            needed = "remembered with a host" if path.name in remembered else used
            why = "left by something that was interrupted" if unfinished else _why(kind)
            yield Kept(kind=kind, path=path, size=_size(path), age=max(0.0, age), why=why, needed=needed)


def _why(kind: str) -> str:
    if kind == "surface":
        return "sources of packages that no host is remembered with"
    return "sources of a release for `fab matrix`, which fetches them again"


def _remembered(folder: Path) -> set[str]:
    found: set[str] = set()
    for path in folder.glob("*.json"):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            found.add(str(json.loads(path.read_text("utf-8"))["fingerprint"]))
    return found


def _size(path: Path) -> int:
    """Give the room that a thing takes; links count for themselves."""
    size = path.lstat().st_blocks * 512
    if path.is_symlink() or not path.is_dir():
        return size
    for _, below, files, opened in os.fwalk(path, follow_symlinks=False):
        for name in (*below, *files):
            with contextlib.suppress(OSError):
                size += os.stat(name, dir_fd=opened, follow_symlinks=False).st_blocks * 512
    return size
