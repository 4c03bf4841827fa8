"""What a host answers is input: bounded, checked against its document, and free of what no text may hold.

A host may be broken, or lie: its answer is refused by one sentence (`wire.WireError`), whatever it holds, and what
passes can be stored, counted with and printed. Half a character (of a file name that is no UTF-8) becomes a
replacement character.
"""

from __future__ import annotations

from typing import Any, TypeVar

from remote import wire

T = TypeVar("T")
DEEPEST = 64  # objects and lists in each other; our own documents stay below ten
LARGEST = 1 << 63


def loads(cls: type[T], body: str | bytes, where: str) -> T:
    """Decode an answer; raises WireError."""
    try:
        text = body.decode("utf-8") if isinstance(body, bytes) else body
        data = wire.parse(text)
    except ValueError as error:
        raise wire.WireError(f"{where}: not JSON ({error})") from error
    return decode(cls, data, where)


def decode(cls: type[T], data: Any, where: str) -> T:
    """Decode an answer that has been parsed already; raises WireError."""
    return wire.decode(cls, sound(data, where), where)


def sound(value: Any, where: str, depth: int = 0) -> Any:
    """Give a JSON value with whole characters only; raises WireError where it is too deep, or a number too large."""
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, int) and not -LARGEST <= value < LARGEST:
        raise wire.WireError(f"{where}: holds a number that does not fit into 64 bits")
    if not isinstance(value, dict | list):
        return value
    if depth >= DEEPEST:
        raise wire.WireError(f"{where}: nested more than {DEEPEST} deep")
    if isinstance(value, list):
        return [sound(item, where, depth + 1) for item in value]
    return {whole(key): sound(item, where, depth + 1) for key, item in value.items()}


def whole(text: str) -> str:
    """Give a text without halves of characters, which no file and no terminal takes."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
