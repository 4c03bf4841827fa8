"""What ty says and our own checks see in a subject's modules, each judged, with edits where known."""

from __future__ import annotations

import ast
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from local.static import baseline, bound, drift, fixes, moved, noise, signatures, ty
from local.static.calls import calls
from local.static.problems import Checked, Problem
from local.static.sources import Sources, origin
from local.static.subject import Examination

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from local.static.baseline import Baseline
    from local.static.calls import Call
    from local.static.sources import Module
    from local.static.subject import Subject
    from local.static.tree import Project
    from local.static.ty import Diagnostic

_TICKED = re.compile(r"`([^`]*)`")


class Examiner:
    """One pass over the modules of a laid-out subject; `known` is the baseline."""

    def __init__(self, subject: Subject, laid: Project, known: Baseline | None) -> None:
        self.subject = subject
        self.project = laid
        self.known = known
        self.sources = Sources(laid)
        self.dropped: dict[ast.Call, set[str]] = {}
        self.modules: dict[str, Module | None] = {}
        self.calls: dict[str, tuple[Call, ...]] = {}
        self.files = {name: laid.relative(m) for name in subject.modules if (m := laid.path(name)) is not None}

    def examine(self) -> Examination:
        """Give every problem, dismissed ones too, in the order of the text."""
        # ty is a program of its own: our checks run beside it.
        with ThreadPoolExecutor(1) as beside:
            said = beside.submit(ty.run, self.project, sorted(self.files.values()), python=self.subject.surface.python)
            self._read()
            problems = list(self._absent())
            for name, module in self.modules.items():
                if module is not None:
                    problems += self._ours(name, module)
            problems += self._typed(said.result())
        texts = {self.files[name]: module.text for name, module in self.modules.items() if module is not None}
        return Examination(tuple(sorted(problems, key=lambda p: (p.file, p.line, p.column, p.rule, p.subject))), texts)

    def _read(self) -> None:
        self.modules = {name: self.sources.module(name) for name in self.subject.modules}
        self.calls = {name: calls(self.sources, m) for name, m in self.modules.items() if m is not None}

    def _absent(self) -> Iterable[Problem]:
        for name in self.subject.modules:
            if name not in self.files:
                package = name.partition(".")[0]
                version = self.subject.surface.version(package)
                where = f"{package} {version}" if version else f"the installed {package}"
                if package not in self.project.surfaced:
                    where = f"the host, where {package} is not installed"
                yield Problem(
                    rule="missing-module", message=f"there is no module {name} in {where}",
                    file=f"{name.replace('.', '/')}.py", subject=name,
                )  # fmt: skip

    def _typed(self, diagnostics: Iterable[Diagnostic]) -> Iterable[Problem]:
        by_file = {file: self.modules[name] for name, file in self.files.items()}
        diagnostics = tuple(diagnostics)
        self.dropped = self._gone(diagnostics, by_file)
        for said in diagnostics:
            module = by_file.get(said.file)
            if module is None:  # its syntax is wrong: there is no tree to judge by
                yield _problem(said, said.message, None)
            else:
                yield self._judged(said, module)

    def _gone(
        self, diagnostics: Iterable[Diagnostic], by_file: Mapping[str, Module | None]
    ) -> dict[ast.Call, set[str]]:
        """Give, for each call, the arguments that its callee does not take."""
        gone: dict[ast.Call, set[str]] = {}
        for said in diagnostics:
            module = by_file.get(said.file)
            call = self._call_at(said, module) if module and said.rule == "unknown-argument" else None
            if call is not None:
                gone.setdefault(call.node, set()).update(_TICKED.findall(said.message)[:1])
        return gone

    def _judged(self, said: Diagnostic, module: Module) -> Problem:
        said = self._sharpened(said, module)
        checked = [each for each in self.modules.values() if each is not None]
        reason = (
            noise.outside_surface(said, module, self.project.surfaced)
            or noise.guarded(said, module)
            or noise.provided_by_host_class(said, module, self.sources, checked)
            or self._no_news(said, module)
            or noise.opinion(said)
        )
        call = self._call_at(said, module)
        problem = _problem(said, said.message, reason)
        if said.rule == "unresolved-import" and reason is None:
            return self._with_home(problem, module)
        if call is None:
            return problem
        return replace(
            problem, callee=call.callee.dotted, signature=signatures.render(self.sources, call.callee),
            edit=self._edit(said, module, call),
        )  # fmt: skip

    def _sharpened(self, said: Diagnostic, module: Module) -> Diagnostic:
        """Say of a call that fits no overload which argument none of them takes, where there is one."""
        call = self._call_at(said, module) if said.native == "no-matching-overload" else None
        if call is None or isinstance(call.callee.node, ast.ClassDef) or call.callee.node.args.kwarg:
            return said
        unknown = sorted(call.given - signatures.names(call.callee.node))
        if not unknown:
            return said
        message = f"Argument `{unknown[0]}` does not match any known parameter of `{call.callee.name}`"
        return replace(said, rule="unknown-argument", message=message)

    def _with_home(self, problem: Problem, module: Module) -> Problem:
        """Say where the names of an import are now, and import them from there."""
        statement = moved.statement_at(module, problem.line)
        if statement is None:
            return problem
        names = moved.lost(self.project, module, statement, problem.message)
        went = moved.homes(self.project, origin(statement, module.package), names)
        if not went:
            return problem
        now = ", ".join(f"`{name}` is defined in {home}" for name, home in went.items())
        edit = moved.rewrite(module, statement, went) if len(went) == len(names) else None
        return replace(problem, message=f"{problem.message}; {now}", edit=edit)

    def _no_news(self, said: Diagnostic, module: Module) -> str | None:
        key = baseline.key(said.rule, said.file, noise.place(said, module), said.message)
        if self.known is None or key not in self.known.reported:
            return None
        return (
            f"{self.known.title}, for which {self.known.library} {self.known.version} was written, gets the same report"
        )

    def _call_at(self, said: Diagnostic, module: Module) -> Call | None:
        """Give the innermost known call around a place."""
        position = (said.line, said.column)
        around = [
            call
            for call in self.calls[module.name]
            if _start(call.node) <= position < (call.node.end_lineno or 0, call.node.end_col_offset or 0)
        ]
        return max(around, key=lambda call: _start(call.node), default=None)

    def _edit(self, said: Diagnostic, module: Module, call: Call) -> fixes.Edit | None:
        name = (_TICKED.findall(said.message) or [""])[0]
        if said.rule == "unknown-argument":
            return fixes.drop_keyword(module.text, call.node, name)
        if said.rule == "missing-argument" and (value := self._value_for(name, module, call)) is not None:
            dropped = self.dropped.get(call.node, ())
            return fixes.pass_keyword(module.text, call.node, name, value, dropped=dropped)
        return None

    def _value_for(self, name: str, module: Module, call: Call) -> str | None:
        """Give what is in scope under that name, else what the releases it was written for took by default."""
        found = fixes.constant_for(module.tree, call.function, name)
        before = self.known.defaults.get(call.callee.name, {}).get(name, ()) if self.known else ()
        return found or (before[-1] if before and fixes.is_value(before[-1]) else None)

    def _ours(self, name: str, module: Module) -> Iterable[Problem]:
        at, made = Checked(self.files[name], module), self.calls[name]
        yield from bound.check(self.sources, at, self.subject.architectures)
        if self.known is None:
            return
        for problem in (
            *drift.changed_defaults(self.sources, at, made, self.known),
            *drift.changed_returns(self.sources, at, made, self.known),
        ):
            reason = "the patch series was made for this release" if self.subject.reviewed else None
            yield replace(problem, dismissed=reason)


def _start(node: ast.Call) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _problem(said: Diagnostic, message: str, reason: str | None) -> Problem:
    return Problem(
        rule=said.rule, message=message, file=said.file, line=said.line, column=said.column,
        end_column=said.end_column if said.end_line == said.line else None,
        subject=(_TICKED.findall(message) or [""])[-1], dismissed=reason,
    )  # fmt: skip
