"""vLLM's model classes as their sources tell: what their instances have, and what their methods take.

Parsing them takes a second, so what was read of a surface is kept in the cache under its fingerprint.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
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
_VERSION = 1  # of what is kept; another one is read again
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
    kept = _file(sources, wanted)
    if kept is not None:
        with contextlib.suppress(OSError, ValueError, TypeError):
            return tuple(_decode(row) for row in json.loads(kept.read_text("utf-8")))
    found = tuple(_read(sources, wanted))
    if kept is not None:
        _keep(kept, found)
    return found


def modules_of(sources: Sources, architectures: Sequence[str]) -> frozenset[str]:
    """Give the modules in which vLLM's registry has the architectures."""
    registry = sources.module(REGISTRY) if architectures else None
    found: set[str] = set()
    for node in ast.walk(registry.tree) if registry else ():
        for key, value in zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ():
            if isinstance(key, ast.Constant) and key.value in architectures and isinstance(value, ast.Tuple):
                found.update(f"{PACKAGE}.{e.value!s}" for e in value.elts[:1] if isinstance(e, ast.Constant))
    return frozenset(found)


def _read(sources: Sources, wanted: frozenset[str]) -> Iterator[Model]:
    folder = sources.project.path(PACKAGE)
    for path in sorted(folder.parent.glob("*.py")) if folder else ():
        text = path.read_text("utf-8", errors="replace")
        if sum(name in text for name in wanted) < len(wanted) - _SPARE:
            continue
        module = sources.module(f"{PACKAGE}.{path.stem}")
        for statement in module.tree.body if module else ():
            if isinstance(statement, ast.ClassDef) and _has_forward(statement):
                yield _model(sources, Definition(f"{PACKAGE}.{path.stem}", statement.name, statement))


def _model(sources: Sources, definition: Definition) -> Model:
    methods: dict[str, tuple[str, ...]] = {}
    for cls in sources.lineage(definition)[0]:
        for statement in cls.node.body:
            if isinstance(statement, ast.FunctionDef):
                methods.setdefault(statement.name, signatures.required(statement))
    return Model(definition.module, definition.name, sources.attributes(definition), methods)


def _has_forward(node: ast.ClassDef) -> bool:
    return any(isinstance(s, ast.FunctionDef) and s.name == "forward" for s in node.body)


def _file(sources: Sources, wanted: frozenset[str]) -> Path | None:
    """Give where this is kept; nowhere for a surface without a name, or one whose vLLM is patched."""
    if not sources.project.fingerprint or "vllm" in sources.project.own:
        return None
    name = hashlib.sha256(json.dumps([_VERSION, sources.project.fingerprint, sorted(wanted)]).encode()).hexdigest()
    return folders.cache() / "models" / f"{name}.json"


def _keep(file: Path, found: Sequence[Model]) -> None:
    rows = [[model.module, model.name, sorted(model.attributes), model.methods] for model in found]
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=file.parent, encoding="utf-8", delete=False) as scratch:
        json.dump(rows, scratch)
    Path(scratch.name).replace(file)


def _decode(row: list[object]) -> Model:
    module, name, attributes, methods = row
    if not isinstance(attributes, list) or not isinstance(methods, dict):
        raise TypeError("not what we kept")
    return Model(str(module), str(name), frozenset(attributes), {k: tuple(v) for k, v in methods.items()})
