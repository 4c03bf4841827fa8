"""Values as TOML text; what TOML has no form for is written as the nearest thing that it has."""

from __future__ import annotations

import math
from typing import Any


def text(value: Any) -> str:
    """Give a document whose top level is a table, everything else inline."""
    return "".join(f"{_string(key)} = {_value(item)}\n" for key, item in value.items() if item is not None)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else "nan" if math.isnan(value) else f"{'-' * (value < 0)}inf"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list):
        return f"[{', '.join(_value(item) for item in value if item is not None)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_string(k)} = {_value(v)}" for k, v in value.items() if v is not None) + "}"
    return _string(str(value))


def _string(value: str) -> str:
    return '"' + "".join(_character(character) for character in value) + '"'


def _character(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if "\ud800" <= character <= "\udfff":
        return "\N{REPLACEMENT CHARACTER}"  # TOML files are UTF-8
    return f"\\u{ord(character):04x}" if character < " " or character == "\x7f" else character
