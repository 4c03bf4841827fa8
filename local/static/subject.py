"""What is examined, and what an examination gives: problems, findings, and a patch that mends what can be mended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from local.static import fixes
from local.static.problems import finding

if TYPE_CHECKING:
    from collections.abc import Mapping

    from local.static.problems import Problem
    from local.static.tree import Surface
    from remote.schema import Finding


@dataclass(frozen=True, slots=True)
class Subject:
    """What is examined. `reviewed` says that a whole patch series was made for this very surface."""

    surface: Surface
    modules: tuple[str, ...]
    patched: Mapping[str, str]
    architectures: tuple[str, ...] = ()
    reviewed: bool = False


@dataclass(frozen=True, slots=True)
class Examination:
    """What was seen; `texts` are the sources looked at."""

    problems: tuple[Problem, ...]
    texts: Mapping[str, str]

    @property
    def standing(self) -> tuple[Problem, ...]:
        """The problems that are findings."""
        return tuple(problem for problem in self.problems if problem.dismissed is None)

    def findings(self, *, everything: bool = False) -> tuple[Finding, ...]:
        """Give the findings; with `everything`, also what was dismissed, with the reason."""
        chosen = self.problems if everything else self.standing
        return tuple(finding(p, self.texts.get(p.file), self._fix(p)) for p in chosen)

    def suggest(self, *, subject: str, why: str, applies_to: str) -> str:
        """Give a patch file with every known fix, empty where none is known."""
        edits: dict[str, tuple[str, list[fixes.Edit]]] = {}
        for problem in self.standing:
            if problem.edit is not None:
                edits.setdefault(problem.file, (self.texts[problem.file], []))[1].append(problem.edit)
        return fixes.patch(edits, subject=subject, why=why, applies_to=applies_to)

    def _fix(self, problem: Problem) -> str | None:
        if problem.edit is None or problem.dismissed:
            return None
        text = self.texts[problem.file]
        return fixes.diff(problem.file, text, fixes.apply(text, [problem.edit]))
