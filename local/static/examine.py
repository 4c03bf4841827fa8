"""The static level's work on one subject: its own modules whole, and what patches bring into others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from local.static import baseline
from local.static.examiner import Examiner
from local.static.subject import Examination, Subject
from local.static.tree import project

if TYPE_CHECKING:
    from local.static.baseline import Baseline
    from local.static.problems import Problem

__all__ = ["Examination", "Subject", "baseline_of", "examine"]

_AS_INSTALLED = "the file as it is installed gets the same report, and the gate's modules do not name it"


def examine(subject: Subject, *, known: Baseline | bool | None = True) -> Examination:
    """Examine a subject; `known` is its baseline: looked up unless given, None for none.

    Modules that are patched, but not the subject's own, are looked at for what the patch brings in.
    """
    record = baseline_of(subject) if known is True else known or None
    also = tuple(name for name in map(_module, subject.patched) if name and name not in subject.modules)
    found = _examine(replace(subject, modules=(*subject.modules, *also)), record)
    if not also:
        return found
    before = {_news(problem) for problem in _examine(replace(subject, modules=also, patched={}), record).problems}
    own = {file for file in subject.patched if _module(file) in also}
    problems = tuple(
        replace(p, dismissed=_AS_INSTALLED) if p.file in own and not p.dismissed and _news(p) in before else p
        for p in found.problems
    )
    return Examination(problems, found.texts)


def _examine(subject: Subject, known: Baseline | None) -> Examination:
    with project(subject.surface, subject.patched, subject.modules) as laid:
        return Examiner(subject, laid, known).examine()


def _module(file: str) -> str:
    """Give the module that a package-relative file holds, nothing for what is no Python source."""
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".") if file.endswith(".py") else ""


def _news(problem: Problem) -> tuple[str, str, str]:
    return problem.rule, problem.file, problem.message


def baseline_of(subject: Subject) -> Baseline | None:
    """Give the baseline of the library under check."""
    for package in dict.fromkeys(name.partition(".")[0] for name in subject.modules):
        if (found := baseline.load(package, subject.surface.version(package))) is not None:
            return found
    return None
