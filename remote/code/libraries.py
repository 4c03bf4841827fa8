"""Compiled modules whose loss an import hides: vLLM goes on without its kernels, says so in a log, and dies later."""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING

from remote.code import imports
from remote.schema import Finding

if TYPE_CHECKING:
    from collections.abc import Container

# A package that is imported → its compiled modules. vLLM 0.11 to 0.17: `Platform.import_kernels` and `vllm._custom_ops`
# catch the ImportError of these; the first operation of a worker then ends with an AttributeError.
HIDDEN = {"vllm": ("vllm._C", "vllm._moe_C")}
MISSING = re.compile(r"(?P<library>[^\s:]+\.so[^\s:]*): cannot open shared object file")
UNDEFINED = re.compile(r"undefined symbol: (?P<symbol>\S+)")
# Shared libraries that no wheel brings along → the Debian package that does.
PACKAGES = {
    "libnuma.so.1": "libnuma1",
    "libgomp.so.1": "libgomp1",
    "libtcmalloc_minimal.so.4": "libtcmalloc-minimal4",
    "libibverbs.so.1": "libibverbs1",
    "libGL.so.1": "libgl1",
    "libglib-2.0.so.0": "libglib2.0-0",
}


def hidden(imported: Container[str]) -> list[str]:
    """Name the compiled modules, of packages that this process has imported, that are built for this device."""
    mine = (name for package, names in HIDDEN.items() if package in imported for name in names)
    return [name for name in mine if imports.locate(name) is not None]


def load(name: str) -> Finding | None:
    """Load a compiled module; gives what keeps it from that."""
    try:
        importlib.import_module(name)
    except ImportError as error:
        return told(name, str(error))
    return None


def told(name: str, said: str) -> Finding | None:
    """Give what keeps a compiled module from loading; None for reasons that its package may live with."""
    if (lacking := MISSING.search(said)) is not None:
        library = lacking["library"].rpartition("/")[2]
        package = PACKAGES.get(library)
        remedy = f"install it (Debian, Ubuntu: apt-get install {package})" if package else "install what holds it"
        why = f"the shared library {library} is not on this host: {remedy}, or put its folder into LD_LIBRARY_PATH"
    elif (other := UNDEFINED.search(said)) is not None:
        why = (
            f"{other['symbol']} is not in the libraries that it finds: it was built for another release of torch, or "
            "another torch stands before its own on the path"
        )
    else:
        return None
    return Finding(
        rule="compiled-module",
        message=f"{name} cannot be loaded, which its package passes over until a worker needs it: {why}",
        callee=name,
    )
