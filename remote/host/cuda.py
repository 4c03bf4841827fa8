"""CUDA on the host, without importing anything: the toolkit at CUDA_HOME, the nvcc on PATH, the installed torch."""

from __future__ import annotations

import ast
import contextlib
import mmap
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from remote.host import commands
from remote.schema import CudaHome, TorchFacts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LIMIT = 10.0
_RELEASE = re.compile(r"release ([\d.]+)")
# torch keeps what torch.cuda.get_arch_list() gives as one string of its library: "sm_80 sm_90 compute_90".
_ARCHS = re.compile(rb"\0((?:(?:sm|compute)_\d{2,3}[af]? ?){1,40})(?=\0)")


def cuda_home(path: str | None, search: str | None = None) -> CudaHome:
    """Tell what stands at CUDA_HOME, which release its nvcc is, and which nvcc comes first on PATH."""
    first = shutil.which("nvcc", path=search)
    same = bool(path and first) and Path(str(first)).resolve() == Path(f"{path}/bin/nvcc").resolve()
    own = _release(f"{path}/bin/nvcc") if path else None
    return CudaHome(
        path=path or None,
        exists=bool(path) and Path(str(path)).is_dir(),
        nvcc=own,
        first_nvcc=first,
        first_release=own if same else _release(first) if first else None,
    )


def torch(version_file: Path | None, *, look: bool = True) -> TorchFacts | None:
    """Read the installed torch from its `version.py` and, with `look`, its library; None where it is not installed."""
    if version_file is None:
        return None
    try:
        tree = ast.parse(version_file.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return None
    values = _constants(tree)
    version, cuda = values.get("__version__"), values.get("cuda")
    if not isinstance(version, str):
        return None
    library = version_file.parent / "lib" / "libtorch_python.so"
    return TorchFacts(
        version=version, cuda=cuda if isinstance(cuda, str) else None, archs=archs(library) if look else ()
    )


def archs(library: Path) -> tuple[str, ...]:
    """Give the architectures that a torch library was built for; none where it does not tell."""
    with contextlib.suppress(OSError, ValueError), library.open("rb") as file:  # an empty file cannot be mapped
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            lists = [found[1].split() for start in _starts(data) if (found := _ARCHS.match(data, start))]
        longest = max(lists, key=len, default=[])
        return tuple(word.decode() for word in longest)
    return ()


def _starts(data: mmap.mmap) -> Iterator[int]:
    """Give where such a string may begin; a library is full of zero bytes, and `find` is far quicker than a pattern."""
    for head in (b"\0sm_", b"\0compute_"):
        at = data.find(head)
        while at >= 0:
            yield at
            at = data.find(head, at + 1)


def search_path(python: str, env: Mapping[str, str], path: str | None) -> str:
    """Give the PATH of a job's processes: its environment's programs, CUDA_HOME's, then what the session has."""
    cuda = env.get("CUDA_HOME")
    first = [str(Path(python).parent), *([f"{cuda}/bin"] if cuda else [])]
    return ":".join([*first, env.get("PATH") or path or "/usr/local/bin:/usr/bin:/bin"])


def _constants(tree: ast.Module) -> dict[str, object]:
    """Give the names that a module binds to constants, annotated or not."""
    found: dict[str, object] = {}
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and isinstance(value, ast.Constant):
            found[target.id] = value.value
    return found


def _release(nvcc: str | None) -> str | None:
    said = commands.run([str(nvcc), "--version"], limit=LIMIT)
    release = _RELEASE.search(said.out) if said.code == 0 else None
    return release[1] if release else None
