"""`gate` of a job: what the gate looks at besides what the engine brings, its names checked when the file is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from local import toml

if TYPE_CHECKING:
    from pathlib import Path

Text = Annotated[str, Meta(min_length=1)]


class GateTable(Struct, forbid_unknown_fields=True):
    """`gate`: modules to import, symbols whose parameters are shown, values that constants must have."""

    modules: tuple[Text, ...] = ()
    symbols: tuple[Text, ...] = ()
    constants: dict[str, Any] = {}
    thin: bool | None = None


def check(file: Path, path: str, gate: GateTable | None) -> None:
    """Refuse names that no module or symbol can have; raises UsageError."""
    if gate is None:
        return
    for index, name in enumerate(gate.modules):
        if not _dotted(name):
            raise toml.wrong(
                file, f"{path}.modules[{index}]", f"{name!r} is not the name of a module",
                remedy="A module is named as it is imported: package.module.",
            )  # fmt: skip
    places = [(f"{path}.symbols[{index}]", name) for index, name in enumerate(gate.symbols)]
    for where, name in [*places, *((f"{path}.constants", name) for name in gate.constants)]:
        module, _, symbol = name.partition(":")
        if not (_dotted(module) and _dotted(symbol)):
            raise toml.wrong(
                file, where, f"{name!r} is not the name of a symbol",
                remedy="A symbol is named with its module: package.module:Class.method.",
            )  # fmt: skip


def _dotted(name: str) -> bool:
    return all(part.isidentifier() for part in name.split("."))
