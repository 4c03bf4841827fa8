"""Parameter lists for people: names and short defaults; annotations stay in the report. Pure text to text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

OPEN, CLOSE = "([{", ")]}"
LONGEST_DEFAULT = 24


def brief(signature: str) -> str:
    """Give `(a: int, *, b: str = 'x') -> None` as `(a, *, b='x')`; what does not look like a signature, as it is."""
    inner = _inner(signature)
    if inner is None:
        return signature
    return f"({', '.join(_parameter(part) for part in _split(inner, ','))})"


def _inner(signature: str) -> str | None:
    """Give what stands between the first parenthesis and its partner."""
    if not signature.startswith("("):
        return None
    end = next((at for at, _, depth in _walk(signature) if depth == 0 and at), None)
    return None if end is None else signature[1:end]


def _parameter(text: str) -> str:
    head, *defaults = _split(text, "=")
    name = _split(head, ":")[0].strip()
    default = "=".join(defaults).strip()
    if not default:
        return name
    return f"{name}={default if len(default) <= LONGEST_DEFAULT else '…'}"


def _split(text: str, separator: str) -> list[str]:
    """Split at separators that stand within no bracket and no string."""
    cuts = [at for at, character, depth in _walk(text) if depth == 0 and character == separator]
    starts, ends = [0, *(cut + 1 for cut in cuts)], [*cuts, len(text)]
    return [part for start, end in zip(starts, ends, strict=True) if (part := text[start:end]).strip()]


def _walk(text: str) -> Iterator[tuple[int, str, int]]:
    """Give each character outside strings with its place and the number of brackets open after it."""
    depth, quote, escaped = 0, "", False
    for at, character in enumerate(text):
        if quote:
            quote = "" if character == quote and not escaped else quote
            escaped = character == "\\" and not escaped
            continue
        if character in "'\"":
            quote = character
        elif character in OPEN:
            depth += 1
        elif character in CLOSE:
            depth -= 1
        yield at, character, depth
