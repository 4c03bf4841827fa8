"""Runs `ty` and reads what it says; its rule names, which change between releases, are turned into ours here.

The checker sees only the project and the surface: no virtual environment, no user configuration, and no `type: ignore`,
which a library writes against its own checker and which would hide an API that has gone.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from local.errors import PrudentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from local.static.tree import Project

# Facts about names and signatures: such a call, import or attribute cannot work.
CERTAIN = {
    "unknown-argument": "unknown-argument",
    "missing-argument": "missing-argument",
    "too-many-positional-arguments": "too-many-arguments",
    "positional-only-parameter-as-kwarg": "unknown-argument",
    "parameter-already-assigned": "repeated-argument",
    "unresolved-import": "unresolved-import",
    "import-not-found": "unresolved-import",
    "unresolved-attribute": "unresolved-attribute",
    "missing-attribute": "unresolved-attribute",
    "missing-module-member": "unresolved-import",
    "unresolved-reference": "undefined-name",
    "undefined-reveal": "undefined-name",
    "invalid-syntax": "syntax",
}
# Beliefs about the types of values: the program may never take the branch that the checker sees.
OPINION = "value-type"
_DEADLINE = 120.0


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing that ty said; lines are 1-based, columns 0-based."""

    rule: str
    native: str
    message: str
    file: str
    line: int
    column: int
    end_line: int
    end_column: int


def run(project: Project, files: Sequence[str], *, python: str) -> tuple[Diagnostic, ...]:
    """Check files of the project; raises PrudentError when ty itself fails."""
    if not files:
        return ()
    command = [
        _program(), "check", "--no-progress", "--project", str(project.root), "--extra-search-path", str(project.site),
        "--python-version", python, "--python-platform", "linux", "--output-format", "gitlab", "--exit-zero",
        "--config", "analysis.respect-type-ignore-comments=false", *files,
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, cwd=project.root, env=_environment(project), capture_output=True, text=True, encoding="utf-8",
            timeout=_DEADLINE, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise PrudentError(f"ty gave no answer in {_DEADLINE:.0f} s", remedy="Report the job's gate modules.") from None
    if done.returncode != 0:
        raise PrudentError(
            f"ty ended with code {done.returncode}: {done.stderr.strip()[-2000:]}",
            remedy="The release of ty may be one that we have not seen: `pip install -e .` brings one that we have.",
        )
    return parse(done.stdout)


def parse(text: str) -> tuple[Diagnostic, ...]:
    """Read a report in GitLab's code quality format."""
    return tuple(_diagnostic(item) for item in json.loads(text or "[]"))


def _diagnostic(item: dict[str, Any]) -> Diagnostic:
    native = item["check_name"]
    begin, end = item["location"]["positions"]["begin"], item["location"]["positions"]["end"]
    return Diagnostic(
        rule=CERTAIN.get(native, OPINION),
        native=native,
        message=item["description"].removeprefix(f"{native}: "),
        file=item["location"]["path"],
        line=begin["line"],
        column=begin["column"] - 1,
        end_line=end["line"],
        end_column=end["column"] - 1,
    )


def _program() -> str:
    beside = Path(sys.executable).parent / "ty"
    found = str(beside) if beside.is_file() else shutil.which("ty")
    if found is None:
        raise PrudentError("the type checker ty is not installed", remedy="`make setup`, or `pip install ty`.")
    return found


def _environment(project: Project) -> dict[str, str]:
    nowhere = str(project.root.parent / "no-config")
    hidden = ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "TY_CONFIG_FILE", "TY_OUTPUT_FORMAT")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    return {**kept, "XDG_CONFIG_HOME": nowhere, "HOME": nowhere}
