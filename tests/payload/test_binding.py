"""Our verdict on a call equals Python's own, for any signature and any call."""

from __future__ import annotations

import array
import functools
import inspect
import types
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remote.code import binding
from remote.code.binding import Call

P = inspect.Parameter
NAMES = ("a", "b", "c", "d", "e")
CASES = settings(max_examples=400, deadline=None)


@st.composite
def signatures(draw: st.DrawFn) -> inspect.Signature:
    """Draw any signature that Python allows."""
    names = list(draw(st.permutations(NAMES))[: draw(st.integers(0, 5))])
    kinds = sorted(draw(st.sampled_from((P.POSITIONAL_ONLY, P.POSITIONAL_OR_KEYWORD, P.KEYWORD_ONLY))) for _ in names)
    parameters = []
    optional = False
    for name, kind in zip(names, kinds, strict=True):
        optional = draw(st.booleans()) or (optional and kind is not P.KEYWORD_ONLY)
        parameters.append(P(name, kind, default=0 if optional else P.empty))
    if draw(st.booleans()):
        last = sum(1 for kind in kinds if kind is not P.KEYWORD_ONLY)
        parameters.insert(last, P("args", P.VAR_POSITIONAL))
    if draw(st.booleans()):
        parameters.append(P("kwargs", P.VAR_KEYWORD))
    return inspect.Signature(parameters)


@st.composite
def calls(draw: st.DrawFn) -> Call:
    return Call(
        positional=draw(st.integers(0, 6)),
        keywords=tuple(draw(st.lists(st.sampled_from((*NAMES, "x", "args", "kwargs")), unique=True, max_size=5))),
    )


def accepts(signature: inspect.Signature, positional: int, keywords: dict[str, int]) -> bool:
    """Call a real function of that signature (`Signature.bind` itself is wrong about `(a=0, /, **kwargs)`)."""
    names: dict[str, Any] = {}
    exec(f"def f{signature}: return True", names)  # noqa: S102 - our own text
    try:
        return bool(names["f"](*range(positional), **keywords))
    except TypeError:
        return False


@CASES
@given(signatures(), calls())
def test_a_plain_call_binds_exactly_where_python_binds_it(signature: inspect.Signature, call: Call) -> None:
    assert (not binding.problems(signature, call)) == accepts(
        signature, call.positional, dict.fromkeys(call.keywords, 0)
    )


@CASES
@given(signatures(), calls(), st.none() | st.integers(0, 5), st.none() | st.sets(st.sampled_from((*NAMES, "y"))))
def test_a_call_with_stars_is_refused_only_where_no_filling_of_them_binds(
    signature: inspect.Signature, call: Call, more: int | None, names: set[str] | None
) -> None:
    star, double = more is not None, names is not None
    starred = Call(positional=call.positional, keywords=call.keywords, star=star, double_star=double)
    if binding.problems(signature, starred):
        filled = dict.fromkeys({*call.keywords, *(names or ())}, 0)
        assert not accepts(signature, call.positional + (more or 0), filled)


@given(signatures(), calls())
def test_every_problem_names_what_it_is_about(signature: inspect.Signature, call: Call) -> None:
    for problem in binding.problems(signature, call):
        assert problem.message
        if problem.keyword:
            assert problem.keyword in call.keywords
        if problem.rule == "missing-argument":
            assert set(problem.names) <= set(signature.parameters)


def takes(a: int, /, b: int, *, c: int, d: int = 0) -> None:
    """Have one parameter of each kind."""


@pytest.mark.parametrize(
    ("call", "rules"),
    [
        (Call(positional=2, keywords=("c",)), []),
        (Call(positional=1, keywords=("b", "c")), []),
        (Call(positional=1, keywords=("c",)), ["missing-argument"]),
        (Call(positional=3, keywords=("c",)), ["too-many-arguments"]),
        (Call(positional=2, keywords=("c", "b")), ["duplicate-argument"]),
        (Call(keywords=("a", "b", "c")), ["unexpected-argument", "missing-argument"]),
        (Call(double_star=True), ["missing-argument"]),
        (Call(star=True, double_star=True), []),
        (Call(star=True), ["missing-argument"]),
    ],
)
def test_each_rule(call: Call, rules: list[str]) -> None:
    assert [problem.rule for problem in binding.problems(inspect.signature(takes), call)] == rules


def renamed(old: str) -> Any:
    """Give a decorator that takes an old name, as libraries do when they rename."""

    def around(function: Any) -> Any:
        @functools.wraps(function)
        def inner(*args: Any, **kwargs: Any) -> Any:
            kwargs.pop(old, None)
            return function(*args, **kwargs)

        return inner

    return around


def strict(function: Any) -> Any:
    @functools.wraps(function)
    def inner(only: Any) -> Any:
        return function(only, 1)

    return inner


@renamed("old")
def modern(new: int) -> None:
    """Take a new name."""


@strict
def narrow(one: int, two: int) -> None:
    """Take two, from behind a decorator that takes one and gives the other."""


def test_a_decorator_that_renames_is_believed() -> None:
    assert binding.held(modern, Call(positional=1, keywords=("old",))) == ()
    assert [problem.rule for problem in binding.held(modern, Call(keywords=("new", "odd")))] == ["unexpected-argument"]


class Maker:
    """Have a method that another class takes over, as the Auto classes of transformers do."""

    @classmethod
    def make(cls, config: int, **kwargs: int) -> None:
        """Take a config."""


def taken_over(method: Any) -> Any:
    copy = types.FunctionType(method.__code__, method.__globals__)
    return functools.update_wrapper(copy, method)


class Auto:
    """Hold the copy."""

    make = classmethod(taken_over(Maker.make))


def test_a_method_taken_over_from_another_class_takes_what_it_takes() -> None:
    assert binding.held(Auto.make, Call(positional=1, keywords=("more",))) == ()
    assert [problem.rule for problem in binding.held(Auto.make, Call())] == ["missing-argument"]


@pytest.mark.parametrize("cls", [type("E", (ValueError,), {}), type("X", (int,), {}), dict, array.array])
def test_the_classes_of_extensions_are_not_believed(cls: type) -> None:
    with pytest.raises(binding.NoSignature, match="built in"):
        binding.signature_of(cls)


def test_a_class_without_a_constructor_takes_nothing() -> None:
    assert [problem.rule for problem in binding.held(type("X", (), {}), Call(positional=1))] == ["too-many-arguments"]


def test_a_decorators_own_signature_counts() -> None:
    assert [problem.rule for problem in binding.held(narrow, Call(positional=2))] == ["too-many-arguments"]


@pytest.mark.parametrize("function", [print, dict.update, type("X", (int,), {}), object()])
def test_what_has_no_signature_is_never_refused_wrongly(function: Any) -> None:
    try:
        assert isinstance(binding.held(function, Call(positional=1)), tuple)
    except binding.NoSignature as reason:
        assert str(reason)


def test_the_text_of_a_signature_is_the_same_on_every_run() -> None:
    def function(a: Any = object()) -> None: ...  # noqa: B008 - its address is the point

    assert binding.text(inspect.signature(function)) == "(a: 'Any' = <object object>) -> 'None'"
