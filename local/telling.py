"""What a check saw, in a few words. Pure; whatever a fact is missing is passed over."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from remote.schema import Check

GIB = 2**30


def of_check(check: Check) -> str:
    """Say what a check saw."""
    tell = _TELLERS.get(check.id)
    return ", ".join(tell(check.facts)) if tell else ""


def parameters(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Give the printed symbols of a signature check with their parameter lists."""
    symbols = facts.get("symbols")
    if isinstance(symbols, dict):
        for name, signature in symbols.items():
            yield str(name), str(signature)


def _reach(facts: Mapping[str, Any]) -> Iterator[str]:
    yield f"Python {facts.get('python')}"
    if facts.get("user"):
        yield f"user {facts['user']}"
    skew = facts.get("clock_skew")
    if isinstance(skew, int | float) and abs(skew) >= 1:
        yield f"clock {skew:+.0f} s"


def _host(facts: Mapping[str, Any]) -> Iterator[str]:
    gpus = Counter(facts.get("gpus") or ())
    yield from (f"{count}×{name}" for name, count in gpus.items())
    if not gpus:
        yield "no GPU" if facts.get("device") == "cuda" else "CPU"
    yield from (f"{name} {version}" for name, version in (facts.get("versions") or {}).items())
    if isinstance(facts.get("output_free"), int | float):
        yield f"{facts['output_free'] / GIB:.0f} GiB free"


def _patch(facts: Mapping[str, Any]) -> Iterator[str]:
    if facts.get("no_patches"):
        yield "left out, as asked"
        return
    words = {"applies": "applied", "upstream": "upstream already", "broken": "broken", "missing": "without their file"}
    counts = Counter((facts.get("patches") or {}).values())
    yield from (f"{count} {words.get(state, state)}" for state, count in counts.items())
    if not counts:
        yield "none needed" if not facts.get("without") else "none"
    if facts.get("without"):
        yield f"without {' '.join(facts['without'])}"


def _import(facts: Mapping[str, Any]) -> Iterator[str]:
    modules = facts.get("modules")
    if isinstance(modules, dict | list):
        yield f"{len(modules)} module{'' if len(modules) == 1 else 's'}"


def _signature(facts: Mapping[str, Any]) -> Iterator[str]:
    for name, word in (("bound", "call sites bound"), ("unresolved", "not resolved")):
        if isinstance(facts.get(name), int):
            yield f"{facts[name]} {word}"


_TELLERS = {"reach": _reach, "host": _host, "patch": _patch, "import": _import, "signature": _signature}
