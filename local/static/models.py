"""vLLM's model classes as their sources tell: what their instances have, and what their methods take.

Parsing them takes a second, so what was read of a surface is kept in the cache under its fingerprint, and which modules
name the attributes that were asked for.
"""

from __future__ import annotations

import ast
import contextlib
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from local import folders
from local.static import signatures
from local.static.sources import Definition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from local.static.sources import Sources

PACKAGE = "vllm.model_executor.models"
REGISTRY = f"{PACKAGE}.registry"
# What torch.nn.Module, which is not on the surface, puts on every model.
TORCH = frozenset((
    "training", "parameters", "named_parameters", "modules", "named_modules", "children", "named_children", "buffers",
    "named_buffers", "to", "eval", "train", "state_dict", "load_state_dict", "register_buffer", "register_parameter",
    "register_forward_hook", "register_forward_pre_hook", "apply", "requires_grad_", "forward", "get_submodule",
    "add_module", "half", "float", "bfloat16", "cuda", "cpu", "type", "zero_grad",
))  # fmt: skip
_VERSION = 2  # of what is kept; another one is read again
_SPARE = 2  # names that a file may lack: they may come from a base in another file


@dataclass(frozen=True, slots=True)
class Model:
    """One model class, with what its bases bring."""

    module: str
    name: str
    attributes: frozenset[str]
    methods: Mapping[str, tuple[str, ...]]


def models(sources: Sources, wanted: frozenset[str]) -> tuple[Model, ...]:
    """Give the classes with a `forward` whose files name nearly all of the wanted attributes."""
    kept = _file(sources)
    known, naming = _known(kept)
    asked = " ".join(sorted(wanted))
    new = asked not in naming
    if new:
        naming[asked] = tuple(_naming(sources, wanted))
    for name in naming[asked]:
        if name not in known:
            known[name], new = tuple(_read(sources, name)), True
    if kept is not None and new:
        _keep(kept, known, naming)
    return tuple(model for name in naming[asked] for model in known[name])


def modules_of(sources: Sources, architectures: Sequence[str]) -> frozenset[str]:
    """Give the modules in which vLLM's registry has the architectures."""
    registry = sources.module(REGISTRY) if architectures else None
    found: set[str] = set()
    for node in ast.walk(registry.tree) if registry else ():
        for key, value in zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ():
            if isinstance(key, ast.Constant) and key.value in architectures and isinstance(value, ast.Tuple):
                found.update(f"{PACKAGE}.{e.value!s}" for e in value.elts[:1] if isinstance(e, ast.Constant))
    return frozenset(found)


def _naming(sources: Sources, wanted: frozenset[str]) -> Iterator[str]:
    """Yield the model modules whose text names enough of the attributes to be worth parsing."""
    folder = sources.project.path(PACKAGE)
    for path in sorted(folder.parent.glob("*.py")) if folder else ():
        text = path.read_text("utf-8", errors="replace")
        if sum(name in text for name in wanted) >= len(wanted) - _SPARE:
            yield f"{PACKAGE}.{path.stem}"


def _read(sources: Sources, name: str) -> Iterator[Model]:
    module = sources.module(name)
    for statement in module.tree.body if module else ():
        if isinstance(statement, ast.ClassDef) and _has_forward(statement):
            yield _model(sources, Definition(name, statement.name, statement))


def _model(sources: Sources, definition: Definition) -> Model:
    methods: dict[str, tuple[str, ...]] = {}
    for cls in sources.lineage(definition)[0]:
        for statement in cls.node.body:
            if isinstance(statement, ast.FunctionDef):
                methods.setdefault(statement.name, signatures.required(statement))
    return Model(definition.module, definition.name, sources.attributes(definition), methods)


def _has_forward(node: ast.ClassDef) -> bool:
    return any(isinstance(s, ast.FunctionDef) and s.name == "forward" for s in node.body)


def _file(sources: Sources) -> Path | None:
    """Give where this is kept; nowhere for a surface without a name, or one whose vLLM is patched."""
    if not sources.project.fingerprint or "vllm" in sources.project.own:
        return None
    return folders.cache() / "models" / f"{sources.project.fingerprint}-{_VERSION}.json"


def _known(file: Path | None) -> tuple[dict[str, tuple[Model, ...]], dict[str, tuple[str, ...]]]:
    """Give what is kept, models by module and modules by the names asked for; nothing where it cannot be read."""
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError, KeyError):
        data = json.loads(file.read_text("utf-8")) if file else {"models": {}, "naming": {}}
        read = {str(name): tuple(_decode(name, row) for row in rows) for name, rows in data["models"].items()}
        naming = {str(asked): tuple(map(str, names)) for asked, names in data["naming"].items()}
        return read, naming
    return {}, {}


def _keep(file: Path, known: Mapping[str, Sequence[Model]], naming: Mapping[str, Sequence[str]]) -> None:
    rows = {name: [[m.name, sorted(m.attributes), m.methods] for m in found] for name, found in known.items()}
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=file.parent, encoding="utf-8", delete=False) as scratch:
        json.dump({"models": rows, "naming": naming}, scratch)
    Path(scratch.name).replace(file)


def _decode(module: str, row: list[object]) -> Model:
    name, attributes, methods = row
    if not isinstance(attributes, list) or not isinstance(methods, dict):
        raise TypeError("not what we kept")
    return Model(module, str(name), frozenset(attributes), {k: tuple(v) for k, v in methods.items()})
