"""What changed under code that still binds: defaults that it relies on, and the shape of what calls give back.

Both are warnings: only the rehearsal can say whether the change matters. They need a baseline, that is, a record of the
releases that the library was written for.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from local.static import signatures
from local.static.problems import WARNING, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from local.static.baseline import Baseline
    from local.static.calls import Call
    from local.static.problems import Checked
    from local.static.sources import Definition, Function, Module, Sources

_SEQUENCE = re.compile(r"^(list|tuple|List|Tuple|Sequence)\b")


def configuration(call: Call) -> bool:
    """Whether a call makes a configuration object of vLLM."""
    return isinstance(call.callee.node, ast.ClassDef) and call.callee.module.startswith("vllm.config")


def changed_defaults(sources: Sources, at: Checked, made: tuple[Call, ...], known: Baseline) -> Iterator[Problem]:
    """Yield fields that a call leaves to their defaults, where the default is another one now."""
    for call in made:
        if not configuration(call) or call.open:
            continue
        was = known.defaults.get(call.callee.name, {})
        now = signatures.fields(sources, call.callee)
        for name in list(now)[len(call.node.args) :]:
            value, before = now[name], was.get(name)
            if name in call.given or value is None or before is None or value in before:
                continue
            was_so = (
                f"was {' or '.join(before)} in {known.title}, for which {known.library} {known.version} was written"
            )
            yield _problem(
                at, call, call.node, "changed-default",
                message=f"`{call.callee.name}.{name}` is left to its default, which is {value} now and {was_so}",
                subject=name, signature=f"{call.callee.name}({name}={value})",
            )  # fmt: skip


def changed_returns(sources: Sources, at: Checked, made: tuple[Call, ...], known: Baseline) -> Iterator[Problem]:
    """Yield calls whose answer is taken as the sequence that it was, or that may give nothing now."""
    for call in made:
        before, now = known.returns.get(call.callee.name), signatures.result(call.callee)
        if not before or now is None or now in before:
            continue
        sequence = all(map(_SEQUENCE.match, before)) and not _SEQUENCE.match(now)
        taken = _taken_as_sequence(at.module, call) if sequence and _concerns(call) else None
        name, signature = call.callee.name, signatures.render(sources, call.callee)
        if taken is not None:
            is_so = f"was {before[-1]} in {known.title} and is {now} now{_words(call.callee)}"
            message = f"an element is taken from what `{name}` gives, which {is_so}"
            yield _problem(at, call, taken, "changed-return", message=message, subject=name, signature=signature)
        elif "None" in now.split(" | ") and not any("None" in each.split(" | ") for each in before):
            message = f"`{name}` can give None now ({now}); in {known.title} it always gave {before[-1]}"
            yield _problem(at, call, call.node, "changed-return", message=message, subject=name, signature=signature)


def record(sources: Sources, made: tuple[Call, ...]) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """Give the defaults and answers of what a module calls, for a baseline."""
    defaults = {
        call.callee.name: {n: v for n, v in signatures.fields(sources, call.callee).items() if v is not None}
        for call in made
        if configuration(call)
    }
    returns = {call.callee.name: text for call in made if (text := signatures.result(call.callee)) is not None}
    return defaults, returns


def _concerns(call: Call) -> bool:
    """Where the callee's own words tie its answer to parameters, only calls that pass one of them are concerned."""
    node = call.callee.node
    if isinstance(node, ast.ClassDef):
        return True
    named = {a.arg for a in [*node.args.args, *node.args.kwonlyargs] if re.search(rf"\b{a.arg}\b", _returns(node))}
    return not named or call.open or bool(named & call.given)


def _returns(node: Function) -> str:
    text = " ".join((ast.get_docstring(node) or "").split())
    return next((s for s in re.split(r"(?<=\.)\s", text) if s.lower().startswith("return")), "")


def _words(definition: Definition) -> str:
    node = definition.node
    said = "" if isinstance(node, ast.ClassDef) else _returns(node)
    return f' ("{said}")' if said else ""


def _taken_as_sequence(module: Module, call: Call) -> ast.expr | None:
    """Give the place where the call's answer, or the name it was given, is indexed with a number."""
    names = {
        target.id
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Assign) and node.value is call.node
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(module.tree):
        match node:
            case ast.Subscript(value=value, slice=ast.Constant(value=int())):
                after = node.lineno >= call.node.lineno
                if value is call.node or (after and isinstance(value, ast.Name) and value.id in names):
                    return node
    return None


def _problem(
    at: Checked, call: Call, node: ast.expr, rule: str, *, message: str, subject: str, signature: str
) -> Problem:
    column, end = at.columns(node)
    return Problem(
        rule=rule, message=message, file=at.file, line=node.lineno, column=column, end_column=end, subject=subject,
        callee=call.callee.dotted, signature=signature, severity=WARNING,
    )  # fmt: skip
