"""The payload under another interpreter than the controller's, on packages of our own making."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from local import bundle as bundles
from remote import schema, wire
from remote.paths import Bundle
from tests.running import Lab
from tests.unpacking import unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import ModuleType

OLDEST = (3, 10)
T = TypeVar("T")


def _candidates() -> list[str]:
    named = [found for minor in range(OLDEST[1], 16) if (found := shutil.which(f"python3.{minor}"))]
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    return [*named, *map(str, sorted(root.glob("versions/3.*/bin/python3")))]


def _version(python: str) -> tuple[int, ...]:
    """Give an interpreter's version; nothing for what does not run."""
    done = subprocess.run(
        [python, "-I", "-c", "import sys; print(*sys.version_info[:3])"], capture_output=True, check=False, text=True
    )
    return tuple(map(int, done.stdout.split())) if done.returncode == 0 else ()


@pytest.fixture(scope="session")
def python() -> str:
    """Give the oldest interpreter here that the payload must run on; this one where there is no other."""
    found = {candidate: _version(candidate) for candidate in _candidates()}
    usable = {name: version for name, version in found.items() if version >= OLDEST}
    return min(usable, key=lambda name: usable[name]) if usable else sys.executable


@dataclasses.dataclass
class Stage:
    """A host of our own: a folder of packages on the job's PYTHONPATH, a workdir, and bundles in it."""

    root: Path
    python: str

    @property
    def site(self) -> Path:
        return self.root / "site"

    def write(self, files: Mapping[str, str]) -> None:
        """Write package files."""
        for name, text in files.items():
            path = self.site / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")

    def job(self, **changes: Any) -> schema.Job:
        values: dict[str, Any] = {
            "name": "j",
            "engine": "command",
            "python": self.python,
            "workdir": str(self.root / "workdir"),
            "output": str(self.root / "output" / "deep" / "er"),
            "env": {"PYTHONPATH": str(self.site)},
        }
        return schema.Job(**{**values, **changes})

    def push(self, job: schema.Job | None, patched: Mapping[str, str] | None = None) -> Bundle:
        """Put a bundle in its place, as the installer on a host does."""
        packed = bundles.pack(job, patched or {})
        place = self.root / "workdir" / "bundles" / packed.id
        if not place.exists():
            place.mkdir(parents=True)
            unpack(packed.data, place)
        return Bundle(PurePosixPath(place))

    def call(self, bundle: Bundle, verb: str, request: Any, answer: type[T], **environment: str) -> T:
        """Ask the payload as the controller does, isolated, and read the one frame."""
        done = subprocess.run(
            [self.python, "-I", "-B", str(bundle.entry), verb],
            input=wire.dumps(request).encode(),
            capture_output=True,
            check=False,
            env={**os.environ, **environment},
        )
        assert done.returncode == 0, done.stderr.decode()
        head, _, body = done.stdout.partition(b"\n")
        assert head.split()[1:] == [str(len(body)).encode(), hashlib.sha256(body).hexdigest().encode()]
        return wire.loads(answer, body)

    def probe(
        self, modules: tuple[str, ...], patched: Mapping[str, str] | None = None, deadline: float = 60.0, **gate: Any
    ) -> dict[str, schema.Check]:
        """Probe modules of the site; gives the checks by level."""
        job = self.job(gate=schema.GateSpec(modules=modules, **gate))
        bundle = self.push(job, patched)
        request = schema.ProbeRequest(job=job, bundle=bundle.root.name, deadline=deadline, until="signature")
        answer = self.call(bundle, "probe", request, schema.ProbeAnswer)
        return {check.id: check for check in answer.checks}

    def checksum(self) -> str:
        """Hash names, contents, modes and times of the site: what must never change."""
        lines = []
        for path in sorted(self.site.rglob("*")):
            found = path.lstat()
            content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
            lines.append([str(path), content, found.st_mode, found.st_mtime_ns])
        return json.dumps(lines)


@pytest.fixture
def stage(tmp_path: Path, python: str) -> Stage:
    """Give a host of our own."""
    (tmp_path / "site").mkdir()
    return Stage(tmp_path, python)


@pytest.fixture
def lab(tmp_path: Path, python: str) -> Iterator[Lab]:
    """Give a workdir for runs on this machine; nothing of them may be left running."""
    made = Lab(tmp_path, python=python)
    yield made
    left = made.clean_up()
    assert not left, f"left running: {left}"


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[str, str], ModuleType]]:
    """Give a maker of modules from source, imported from real files and forgotten afterwards."""
    made = []

    def module(name: str, source: str) -> ModuleType:
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(source))
        made.append(name)
        return __import__(name)

    sys.path.insert(0, str(tmp_path))
    before = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    yield module
    sys.dont_write_bytecode = before
    sys.path.remove(str(tmp_path))
    for name in made:
        sys.modules.pop(name, None)
