"""The gate's report: one versioned JSON document for all hosts, unreachable ones included (docs/report.md)."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from local.errors import GaveUp, HostKeyError, LinkLost, PrudentError, Unreachable, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from local.gate import GateOutcome
    from remote.schema import Check

SCHEMA = 1
AWAY = (Unreachable, HostKeyError, LinkLost, GaveUp)


def document(hosts: Mapping[str, GateOutcome | PrudentError]) -> dict[str, Any]:
    """Give the report on every host: what was decided, or what kept us from deciding."""
    report: dict[str, Any] = _plain({"schema": SCHEMA, "hosts": {name: _host(told) for name, told in hosts.items()}})
    return report


def write(path: str | os.PathLike[str], report: Mapping[str, Any]) -> None:
    """Write the report whole to a file, or to standard output for `-`; raises UsageError."""
    publish(path, json.dumps(report, indent=2, allow_nan=False) + "\n")


def publish(path: str | os.PathLike[str], text: str, what: str = "report") -> None:
    """Write a text whole to a file, or to standard output for `-`; raises UsageError."""
    if os.fspath(path) == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    try:
        if _is_special(Path(path)):
            Path(path).write_text(text, encoding="utf-8")
        else:
            _replace(Path(path).resolve(), text)  # a link stays, and its file is renewed
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error), what) from error


def writable(path: str | os.PathLike[str], what: str = "report") -> None:
    """See that a report, or what else it is, can be written there later; raises UsageError."""
    file = Path(path)
    if os.fspath(path) == "-":
        return
    if not os.fspath(path) or file.is_dir():
        raise _unwritable(path, "that is a folder" if os.fspath(path) else "the file has no name", what)
    if _is_special(file) and os.access(file, os.W_OK):
        return
    file = file.resolve()
    try:
        with tempfile.NamedTemporaryFile(dir=file.parent, prefix=f".{file.name}."):
            pass
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error), what) from error


def _is_special(path: Path) -> bool:
    """Tell a device, pipe or socket (/dev/stdout, >(jq .)): it is written to, never replaced by a file."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _unwritable(path: str | os.PathLike[str], why: str, what: str = "report") -> UsageError:
    return UsageError(
        f"the {what} cannot be written: {why}",
        remedy="Name a file in a folder that exists and can be written, or `-` for standard output.",
        where=os.fspath(path),
    )


def _host(outcome: GateOutcome | PrudentError) -> dict[str, Any]:
    if isinstance(outcome, PrudentError):
        return _error(outcome)
    verdict = outcome.verdict
    return {
        "verdict": verdict.verdict,
        "level": verdict.level,
        "complete": outcome.complete,
        "cached": outcome.cached,
        "fingerprint": verdict.fingerprint,
        "bundle": outcome.bundle,
        "seconds": round(sum(check.seconds for check in _spent(outcome)), 3),
        "changed": list(verdict.changed),
        "checks": [dataclasses.asdict(check) for check in verdict.checks],
        "error": None,
    }


def _spent(outcome: GateOutcome) -> list[Check]:
    """Give the checks that took time now: remembered ones took theirs when they were made."""
    return [check for check in outcome.verdict.checks if not check.facts.get("cached")]


def _error(error: PrudentError) -> dict[str, Any]:
    return {
        "verdict": "unreachable" if isinstance(error, AWAY) else "error",
        "level": "reach" if isinstance(error, AWAY) else None,
        "complete": False,
        "cached": False,
        "fingerprint": "",
        "bundle": None,
        "seconds": 0.0,
        "changed": [],
        "checks": [],
        "error": {
            "kind": type(error).__name__,
            "message": error.message,
            "remedy": error.remedy,
            "exit_code": error.exit_code,
        },
    }


def _plain(value: Any) -> Any:
    """Give the value as JSON has it: lists for tuples, null for a number that is none."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _replace(path: Path, text: str) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(name).unlink()
        raise
