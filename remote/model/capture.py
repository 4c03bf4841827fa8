"""What capture code asks of a model, read from its source: which attributes, along which path, behind which guard.

Capture code is a module that binds a function of its own to a part of the model (`types.MethodType(function, part)`):
no type checker can know what `self` is there, and what does not fit shows only after the load.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Path = tuple[str, ...]
RUNNER = "model_runner"
LANGUAGE_MODEL = "get_language_model"  # vLLM's way into a multimodal model


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where something stands: 1-based line, 0-based columns, and the line's text."""

    line: int
    column: int
    end_column: int
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Guard:
    """`if not FUNCTION(part): raise`: what the part must be for the capture to go on."""

    function: str
    paths: frozenset[Path]
    place: Place


@dataclass(frozen=True, kw_only=True, slots=True)
class Use:
    """An attribute that the bound function uses on the part; `arguments` are the names it is called with."""

    name: str
    place: Place
    called: bool = False
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerCall:
    """How a layer is called: positional arguments, keywords, and how many values are unpacked."""

    attribute: str
    positional: int
    keywords: tuple[str, ...]
    unpacked: int | None
    place: Place


@dataclass(frozen=True, kw_only=True, slots=True)
class Capture:
    """All that a piece of capture code asks; `paths` lead from the model to the part, which `place` takes."""

    function: str
    paths: frozenset[Path]
    place: Place
    guards: tuple[Guard, ...] = ()
    uses: tuple[Use, ...] = ()
    layers: tuple[LayerCall, ...] = ()


@dataclass(frozen=True, slots=True)
class _Assignment:
    """A value given to a name, `perhaps`: within a branch or a loop."""

    value: ast.expr
    perhaps: bool


@dataclass(slots=True)
class _Reader:
    lines: list[str]
    functions: dict[str, ast.FunctionDef]
    env: dict[str, list[_Assignment]] = field(default_factory=dict)
    known: dict[str, frozenset[Path]] = field(default_factory=dict)
    depth: int = 0

    def place(self, node: ast.expr) -> Place:
        text = self.lines[node.lineno - 1] if node.lineno <= len(self.lines) else ""
        column = len(text.encode()[: node.col_offset].decode("utf-8", "replace"))
        last = node.end_col_offset or node.col_offset
        end = len(text.encode()[:last].decode("utf-8", "replace")) if node.end_lineno == node.lineno else len(text)
        return Place(line=node.lineno, column=column, end_column=end, text=text)

    def paths(self, value: ast.expr) -> frozenset[Path]:
        """Give the paths from the model that an expression may stand for; none where that is not known."""
        if self.depth > 8:  # noqa: PLR2004 - names that lead to names
            return frozenset()
        if isinstance(value, ast.Name):
            before = self._before(value)
            return self._union(before) if before else self.known.get(value.id, frozenset())
        if isinstance(value, ast.IfExp | ast.BoolOp):
            return self._union((value.body, value.orelse) if isinstance(value, ast.IfExp) else value.values)
        if isinstance(value, ast.Attribute):
            whole = value.attr == "model" and _ends_in(value.value, RUNNER)
            return frozenset({()} if whole else ((*path, value.attr) for path in self.paths(value.value)))
        return self._called(value) if isinstance(value, ast.Call) else frozenset()

    def _before(self, name: ast.Name) -> list[ast.expr]:
        """Give what a name may hold where it stands: the last assignment for certain, and those that may follow it."""
        found = []
        for assignment in reversed(self.env.get(name.id, ())):
            if assignment.value.lineno < name.lineno:
                found.append(assignment.value)
                if not assignment.perhaps:
                    break
        return found

    def _called(self, call: ast.Call) -> frozenset[Path]:
        if isinstance(call.func, ast.Attribute):
            if call.func.attr == "get_model" and _ends_in(call.func.value, RUNNER):
                return frozenset({()})
            if call.func.attr == LANGUAGE_MODEL:
                return frozenset((*path, f"{LANGUAGE_MODEL}()") for path in self.paths(call.func.value))
            return frozenset()
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        if name == "getattr" and len(call.args) > 1 and isinstance(call.args[1], ast.Constant):
            step = str(call.args[1].value)
            return frozenset((*path, step) for path in self.paths(call.args[0])) | self._union(call.args[2:])
        helper = self.functions.get(name)
        return self._helped(helper, call) if helper is not None else frozenset()

    def _helped(self, helper: ast.FunctionDef, call: ast.Call) -> frozenset[Path]:
        """Follow a helper of the module: what it returns for these arguments."""
        known = {to.arg: self.paths(value) for to, value in zip(helper.args.args, call.args, strict=False)}
        inside = _Reader(self.lines, self.functions, _assigned(helper), known, self.depth + 1)
        returns = [one.value for one in ast.walk(helper) if isinstance(one, ast.Return) and one.value]
        return inside._union(returns)

    def _union(self, values: Iterable[ast.expr]) -> frozenset[Path]:
        self.depth += 1
        found = frozenset().union(*(self.paths(value) for value in values))
        self.depth -= 1
        return found


def read(source: str) -> tuple[Capture, ...]:
    """Give the captures of a module's source; none where it binds nothing to a model."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return ()  # the import level has told it already
    functions = {one.name: one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)}
    lines = source.splitlines()
    found = []
    for setup in functions.values():
        for call in _bindings(setup):
            bound = functions.get(getattr(call.args[0], "id", ""))
            if bound is not None and bound.args.args:
                reader = _Reader(lines, functions, _assigned(setup))
                found.append(_capture(reader, setup, bound, call.args[1]))
    return tuple(found)


def _capture(reader: _Reader, setup: ast.FunctionDef, bound: ast.FunctionDef, part: ast.expr) -> Capture:
    given = {
        target.attr
        for one in ast.walk(setup)
        if isinstance(one, ast.Assign)
        for target in one.targets
        if isinstance(target, ast.Attribute) and ast.dump(target.value) == ast.dump(part)
    }
    return Capture(
        function=bound.name,
        paths=reader.paths(part),
        place=reader.place(_origin(reader, part)),
        guards=tuple(_guards(reader, setup)),
        uses=tuple(use for use in _uses(reader, bound) if use.name not in given),
        layers=tuple(_layer_calls(reader, bound)),
    )


def _bindings(setup: ast.FunctionDef) -> Iterator[ast.Call]:
    for one in ast.walk(setup):
        if isinstance(one, ast.Call) and len(one.args) == 2 and _ends_in(one.func, "MethodType"):  # noqa: PLR2004
            yield one


def _guards(reader: _Reader, setup: ast.FunctionDef) -> Iterator[Guard]:
    for one in ast.walk(setup):
        if not isinstance(one, ast.If) or not any(isinstance(statement, ast.Raise) for statement in one.body):
            continue
        test = one.test.operand if isinstance(one.test, ast.UnaryOp) and isinstance(one.test.op, ast.Not) else None
        if isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and len(test.args) == 1:
            paths = reader.paths(test.args[0])
            if paths:
                yield Guard(function=test.func.id, paths=paths, place=reader.place(test))


def _uses(reader: _Reader, bound: ast.FunctionDef) -> Iterator[Use]:
    own = bound.args.args[0].arg
    calls = {id(one.func): one for one in ast.walk(bound) if isinstance(one, ast.Call)}
    for one in ast.walk(bound):
        if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Load) and _is_attribute_of(one, own):
            call = calls.get(id(one))
            names = tuple(value.id for value in call.args if isinstance(value, ast.Name)) if call else ()
            yield Use(name=one.attr, place=reader.place(one), called=call is not None, arguments=names)


def _layer_calls(reader: _Reader, bound: ast.FunctionDef) -> Iterator[LayerCall]:
    own = bound.args.args[0].arg
    for loop in ast.walk(bound):
        if not isinstance(loop, ast.For):
            continue
        iterated = (one for one in ast.walk(loop.iter) if isinstance(one, ast.Attribute))
        # `self.start_layer` bounds the loop; what is iterated is the first argument, which ast.walk meets first
        attribute = next((one.attr for one in iterated if _is_attribute_of(one, own)), None)
        names = [one.id for one in ast.walk(loop.target) if isinstance(one, ast.Name)]
        if attribute is not None and names:
            yield from _calls_of(reader, loop, names[-1], attribute)


def _calls_of(reader: _Reader, loop: ast.For, name: str, attribute: str) -> Iterator[LayerCall]:
    for statement in ast.walk(loop):
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
            continue
        call, target = statement.value, statement.targets[0]
        if not (isinstance(call.func, ast.Name) and call.func.id == name):
            continue
        if any(isinstance(one, ast.Starred) for one in call.args) or any(one.arg is None for one in call.keywords):
            continue
        yield LayerCall(
            attribute=attribute,
            positional=len(call.args),
            keywords=tuple(str(one.arg) for one in call.keywords),
            unpacked=len(target.elts) if isinstance(target, ast.Tuple) else None,
            place=reader.place(call),
        )


def _origin(reader: _Reader, part: ast.expr) -> ast.expr:
    """Give the expression that the part was assigned from: that is where its path is written."""
    values = reader.env.get(part.id, []) if isinstance(part, ast.Name) else []
    return values[-1].value if values else part


def _assigned(function: ast.FunctionDef) -> dict[str, list[_Assignment]]:
    """Give the assignments to each name of a function, in order."""
    env: dict[str, list[_Assignment]] = {}
    certain = {id(statement) for statement in function.body}
    found = [one for one in ast.walk(function) if isinstance(one, ast.Assign)]
    for one in sorted(found, key=lambda one: one.lineno):
        for target in one.targets:
            if isinstance(target, ast.Name):
                env.setdefault(target.id, []).append(_Assignment(one.value, id(one) not in certain))
    return env


def _is_attribute_of(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name


def _ends_in(node: ast.expr, name: str) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr == name) or (isinstance(node, ast.Name) and node.id == name)
