"""What a hook is told of its occasion, as variables of its environment. Pure, shared with the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from remote.schema import Exit, Samples

DONE, FAILED, HANG, UNREACHABLE = "on_done", "on_failed", "on_hang", "on_unreachable"
PREFIX = "PRUDENT_GATE_"
LONGEST = 4096  # characters of a value: an environment has room for words, not for logs


def variables(occasion: str, **facts: Any) -> dict[str, str]:
    """Give the variables: a fact's name in capitals, what is not known as an empty text."""
    told = {"occasion": occasion, **facts}
    return {f"{PREFIX}{name.upper()}": _text(value) for name, value in told.items()}


def of_exit(ended: Exit) -> dict[str, Any]:
    """Give the facts of a run's end."""
    return {
        "phase": ended.phase, "cause": ended.cause, "kind": ended.kind, "root_line": ended.root_line,
        "advice": ended.advice, "code": ended.code, "attempts": ended.attempts, **of_samples(ended.samples),
    }  # fmt: skip


def of_samples(samples: Samples) -> dict[str, Any]:
    """Give the facts of the samples."""
    return {"samples_done": samples.done, "samples_total": samples.total, "samples_failed": samples.failed}


def at_end(phase: str) -> str | None:
    """Give the occasion that the end of a run is, None where it is none: who stopped it knows."""
    return {"done": DONE, "failed": FAILED, "lost": FAILED}.get(phase)


def _text(value: Any) -> str:
    return "" if value is None else str(value).replace("\0", "")[:LONGEST]
