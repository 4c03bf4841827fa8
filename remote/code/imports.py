"""Import modules one by one and tell where each came from, or where and why it failed; locate without importing."""

from __future__ import annotations

import hashlib
import importlib
import importlib.machinery
import linecache
import re
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remote.host import exhausted
from remote.schema import Finding

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


CAUSE = 300  # characters of what an exception came from


def load(name: str, modules: Collection[str], overlay: str) -> Finding | None:
    """Import one module; gives what went wrong, placed in the gated or patched source nearest to it."""
    try:
        importlib.import_module(name)
    except BaseException as error:  # noqa: BLE001 - a module may raise anything, SystemExit too
        return failure(name, error, modules, overlay)
    return None


def failure(name: str, error: BaseException, modules: Collection[str], overlay: str) -> Finding:
    """Describe a failed import as a finding."""
    file, line, text = _place(error, modules, overlay)
    said = (str(error).strip() or "no message") + _because(error) + exhausted.told(_words(error))
    return Finding(
        rule=kebab(type(error).__name__),
        message=f"{name} does not import: {type(error).__name__}: {said}",
        file=file,
        line=line,
        column=len(text) - len(text.lstrip()) if text else None,
        end_column=len(text.rstrip()) if text else None,
        text=text,
        callee=name,
    )


def _because(error: BaseException) -> str:
    """Give what an exception came from in the first place, where it only passes that on."""
    root = _causes(error)[-1]
    words = " ".join(str(root).split())[:CAUSE]
    return f", because of {type(root).__name__}: {words}" if root is not error and words not in str(error) else ""


def _causes(error: BaseException) -> list[BaseException]:
    """Give an exception and what it came from, latest first."""
    found = [error]
    while (cause := found[-1].__cause__) is not None and all(cause is not one for one in found):  # it may be a ring
        found.append(cause)
    return found


def _words(error: BaseException) -> str:
    return "\n".join(f"{type(one).__name__}: {one}" for one in _causes(error))


def origin(name: str) -> str | None:
    """Give the file that an imported module came from."""
    return getattr(sys.modules.get(name), "__file__", None)


def locate(name: str) -> str | None:
    """Give the file that a module would come from, importing neither it nor its parents."""
    path: Any = None
    spec = None
    parts = name.split(".")
    for depth in range(1, len(parts) + 1):
        full = ".".join(parts[:depth])
        spec = _find(full, path)
        if spec is None:
            return None
        path = spec.submodule_search_locations
    return spec.origin if spec else None


def located(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Give file and SHA-256 of each module as this process would import it."""
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        file = locate(name)
        found[name] = {"file": file, "sha256": _sha256(file)}
    return found


def shown(file: str, overlay: str) -> str:
    """Give a file the way a patch names it: relative to the overlay or to the folder of packages it is in."""
    for root in (overlay, *sorted((part for part in sys.path if part), key=len, reverse=True)):
        if file.startswith(root.rstrip("/") + "/"):
            return file[len(root.rstrip("/")) + 1 :]
    return file


def module_name(path: str) -> str:
    """Give the module of a package-relative path."""
    return path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def kebab(name: str) -> str:
    """Turn `ModuleNotFoundError` into `module-not-found-error`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name).lower()


def _find(name: str, path: Any) -> importlib.machinery.ModuleSpec | None:
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec = find(name, path) if find else None
        if spec is not None:
            return spec  # type: ignore[no-any-return]
    return None


def _place(error: BaseException, modules: Collection[str], overlay: str) -> tuple[str | None, int | None, str | None]:
    """Give the innermost frame within the gated or patched sources, else the innermost that is not the importer's."""
    if isinstance(error, SyntaxError) and error.filename:
        return shown(error.filename, overlay), error.lineno, (error.text or "").rstrip("\n") or None
    ours = {file for name in modules if (file := locate(name))}
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _told(frame.filename)]
    near = [frame for frame in frames if frame.filename in ours or frame.filename.startswith(overlay + "/")]
    if not (near or frames):
        return None, None, None
    frame = (near or frames)[-1]
    line = frame.lineno or 0
    return shown(frame.filename, overlay), line, linecache.getline(frame.filename, line).rstrip("\n") or None


def _told(filename: str) -> bool:
    return "importlib" not in filename and filename != __file__


def _sha256(file: str | None) -> str | None:
    path = Path(file) if file else None
    return hashlib.sha256(path.read_bytes()).hexdigest() if path and path.is_file() else None
