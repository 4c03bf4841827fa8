"""What functions that are bound to a model use on `self`, held against vLLM's model classes.

No type checker reaches these: `self` is whatever the function is bound to. The model classes that fit best are the
family that the code was written for. An attribute that hardly any of them has is gone; the method that takes the same
arguments took over.
"""

from __future__ import annotations

import ast
import difflib
from typing import TYPE_CHECKING

from local.static import fixes, models, signatures
from local.static.binding import bindings
from local.static.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from local.static.models import Model
    from local.static.problems import Checked
    from local.static.sources import Module, Sources

_RARE = 0.1  # of a family: fewer have the attribute than an odd model or two
_COMMON = 0.9  # of a family: what took over is nearly everywhere


def check(sources: Sources, at: Checked, architectures: Sequence[str] = ()) -> Iterator[Problem]:
    """Yield what bound functions use that the model classes lack."""
    for binding in bindings(at.module):
        wanted = frozenset(binding.uses) - binding.given - models.TORCH
        members = family(sources, wanted, architectures)
        for name in sorted(wanted):
            having = sum(name in model.attributes for model in members)
            if members and having <= _RARE * len(members):
                yield from (_problem(sources, at, node, members) for node in binding.uses[name])


def family(sources: Sources, wanted: Collection[str], architectures: Sequence[str] = ()) -> tuple[Model, ...]:
    """Give the model classes that have most of the attributes, or one less.

    With architectures, those of their modules; where no class there is like this (a wrapper around a text model that
    its configuration does not name), all are looked at.
    """
    found = models.models(sources, frozenset(wanted))
    modules = models.modules_of(sources, architectures)
    return _fitting(found, wanted, modules) or _fitting(found, wanted, frozenset())


def _fitting(found: Sequence[Model], wanted: Collection[str], modules: Collection[str]) -> tuple[Model, ...]:
    scored = [
        (score, model)
        for model in found
        if not modules or model.module in modules
        if (score := sum(name in model.attributes for name in wanted)) * 2 > len(wanted)
    ]
    best = max((score for score, _ in scored), default=0)
    return tuple(model for score, model in scored if score >= best - 1)


def _problem(sources: Sources, at: Checked, node: ast.Attribute, members: tuple[Model, ...]) -> Problem:
    successor = _successor(at.module, node, members)
    example = min(members, key=lambda model: (model.name != "LlamaModel", model.module))
    having = sum(node.attr in model.attributes for model in members)
    share = f"only {having} of the {len(members)}" if having else f"none of the {len(members)}"
    message = f"`{node.attr}` is used on a model, but {share} model classes that fit this code have it"
    like = f"{example.name} and its like have"
    if len(members) == 1:
        message = f"`{node.attr}` is used on a model, and {example.name}, which fits this code, does not have it"
        like = "it has"
    instead = f"; {like} `{successor}`, which takes the same arguments" if successor else ""
    now = sources.find(example.module, f"{example.name}.{successor}") if successor else None
    column, end = at.columns(node)
    return Problem(
        rule="model-attribute", message=message + instead, file=at.file, line=node.lineno, column=column,
        end_column=end, subject=node.attr, callee=f"{example.module}:{example.name}.{node.attr}",
        signature=signatures.render(sources, now) if now else None,
        edit=fixes.rename_attribute(at.module.text, node, successor) if successor else None,
    )  # fmt: skip


def _successor(module: Module, node: ast.Attribute, members: tuple[Model, ...]) -> str | None:
    """Give the method that nearly all of the family have and that takes the very arguments of the call."""
    call = next((n for n in ast.walk(module.tree) if isinstance(n, ast.Call) and n.func is node), None)
    if call is None or call.keywords or not all(isinstance(argument, ast.Name) for argument in call.args):
        return None
    passed = tuple(argument.id for argument in call.args if isinstance(argument, ast.Name))
    counts: dict[str, int] = {}
    for model in members:
        for name, takes in model.methods.items():
            if takes == passed and not name.startswith("__"):
                counts[name] = counts.get(name, 0) + 1
    common = [name for name, count in counts.items() if count >= _COMMON * len(members)]
    return max(common, key=lambda name: difflib.SequenceMatcher(None, name, node.attr).ratio(), default=None)
