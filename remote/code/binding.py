"""Hold a call against a signature, as Python itself would when it comes to that line."""

from __future__ import annotations

import difflib
import functools
import inspect
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

P = inspect.Parameter
POSITIONAL = (P.POSITIONAL_ONLY, P.POSITIONAL_OR_KEYWORD)
NAMED = (P.POSITIONAL_OR_KEYWORD, P.KEYWORD_ONLY)
BUILT_IN = "no signature (built in)"
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """What a call hands over: so many positional arguments, these keywords, and whether `*` and `**` add more."""

    positional: int = 0
    keywords: tuple[str, ...] = ()
    star: bool = False
    double_star: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """Why a call cannot bind. `keyword` or `index` (of the first argument too many) says at which argument."""

    rule: str
    message: str
    names: tuple[str, ...] = ()
    keyword: str | None = None
    index: int | None = None


class NoSignature(Exception):
    """A callable does not say what it takes; the message is the reason, in two or three words."""


def problems(signature: inspect.Signature, call: Call) -> tuple[Problem, ...]:
    """Give all reasons for which the call cannot bind; none where it can (or where `*` and `**` may make it)."""
    parameters = list(signature.parameters.values())
    slots = [parameter for parameter in parameters if parameter.kind in POSITIONAL]
    filled = slots[: call.positional]
    return (
        *_too_many(parameters, slots, call),
        *_keywords(parameters, filled, call),
        *_absent(parameters, filled, call),
    )


def signature_of(function: Any) -> inspect.Signature:
    """Give the run-time signature of a callable; raises NoSignature."""
    if isinstance(function, type) and not _made_in_python(function):
        raise NoSignature(BUILT_IN)
    try:
        return inspect.signature(function)
    except ValueError as error:
        raise NoSignature(BUILT_IN) from error
    except Exception as error:
        raise NoSignature("signature fails") from error


def text(signature: inspect.Signature) -> str:
    """Write a signature the same way on every run."""
    return _ADDRESS.sub("", str(signature))


def held(function: Any, call: Call) -> tuple[Problem, ...]:
    """Hold a call against a callable: its signature, what its decorators do, what its class forgives."""
    found = problems(signature_of(function), call)
    if isinstance(function, type):
        found = tuple(problem for problem in found if not _ignores(function, problem))
        wrappers = list(_wrappers(function.__init__))  # type: ignore[misc]
    else:
        wrappers = list(_wrappers(function))
        for wrapper in wrappers:
            own = _own_signature(wrapper, function)
            outer = problems(own, call)
            if outer or not _passes_on(own):
                return outer
    return tuple(problem for problem in found if not any(_knows(wrapper, problem) for wrapper in wrappers))


def _too_many(parameters: Sequence[P], slots: Sequence[P], call: Call) -> Iterator[Problem]:
    takes_more = any(parameter.kind is P.VAR_POSITIONAL for parameter in parameters)
    if call.positional > len(slots) and not takes_more:
        yield Problem(
            rule="too-many-arguments",
            message=f"takes {_count(len(slots), 'positional argument')}, is given {call.positional}",
            index=len(slots),
        )


def _keywords(parameters: Sequence[P], filled: Sequence[P], call: Call) -> Iterator[Problem]:
    named = {parameter.name: parameter for parameter in parameters if parameter.kind in NAMED}
    taken = {parameter.name for parameter in filled}
    takes_more = any(parameter.kind is P.VAR_KEYWORD for parameter in parameters)
    for keyword in call.keywords:
        if keyword in named and keyword in taken:
            yield Problem(
                rule="duplicate-argument",
                message=f"is given {keyword!r} twice: by position and by name",
                names=(keyword,),
                keyword=keyword,
            )
        elif keyword not in named and not takes_more:
            yield Problem(
                rule="unexpected-argument",
                message=f"has no parameter {keyword!r}{_resembling(keyword, named, call)}",
                names=(keyword,),
                keyword=keyword,
            )


def _absent(parameters: Sequence[P], filled: Sequence[P], call: Call) -> Iterator[Problem]:
    names = tuple(
        parameter.name
        for parameter in parameters
        if parameter.default is P.empty
        and parameter.kind in (*POSITIONAL, P.KEYWORD_ONLY)
        and parameter not in filled
        and not _may_come(parameter, call)
    )
    if names:
        listed = ", ".join(repr(name) for name in names)
        yield Problem(
            rule="missing-argument",
            message=f"requires {listed}, which {'is' if len(names) == 1 else 'are'} not given",
            names=names,
        )


def _may_come(parameter: P, call: Call) -> bool:
    by_name = parameter.kind in NAMED and (parameter.name in call.keywords or call.double_star)
    return by_name or (parameter.kind in POSITIONAL and call.star)


def _resembling(keyword: str, named: dict[str, P], call: Call) -> str:
    free = [name for name in named if name not in call.keywords]
    close = difflib.get_close_matches(keyword, free, n=1)
    return f"; did it become {close[0]!r}?" if close else ""


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def _made_in_python(cls: type) -> bool:
    """Tell whether a class's signature is to be believed: extensions write theirs as they like, `self` included."""
    made: Any = cls
    makers = (made.__init__, made.__new__, type(made).__call__)
    bare = made.__init__ is object.__init__ and made.__new__ is object.__new__
    return bare or hasattr(cls, "__signature__") or any(hasattr(maker, "__code__") for maker in makers)


def _passes_on(own: inspect.Signature) -> bool:
    """Tell whether a decorator's function leaves it to the inner one what is taken."""
    kinds = {parameter.kind for parameter in own.parameters.values()}
    return {P.VAR_POSITIONAL, P.VAR_KEYWORD} <= kinds


def _wrappers(function: Any) -> Iterator[Any]:
    """Give the decorators' functions around a callable, outermost first."""
    inner = getattr(function, "__func__", function)
    while hasattr(inner, "__wrapped__") and not isinstance(inner, functools._lru_cache_wrapper):  # noqa: SLF001
        yield inner
        inner = inner.__wrapped__


def _own_signature(wrapper: Any, function: Any) -> inspect.Signature:
    """Give what a decorator's function takes itself, `self` left out for a bound method."""
    try:
        own = inspect.signature(wrapper, follow_wrapped=False)
    except (ValueError, TypeError):
        return inspect.Signature([P("args", P.VAR_POSITIONAL), P("kwargs", P.VAR_KEYWORD)])
    parameters = list(own.parameters.values())
    bound = hasattr(function, "__func__") and parameters and parameters[0].kind in POSITIONAL
    return own.replace(parameters=parameters[1:] if bound else parameters)


def _knows(wrapper: Any, problem: Problem) -> bool:
    """Tell whether a decorator has the argument's name in it: it renames, supplies or swallows it."""
    code = getattr(wrapper, "__code__", None)
    known: list[Any] = [*code.co_consts, *code.co_names, *code.co_varnames, *code.co_freevars] if code else []
    for cell in getattr(wrapper, "__closure__", None) or ():
        try:
            content = cell.cell_contents
        except ValueError:  # not filled yet
            continue
        known += list(content) if isinstance(content, dict | list | tuple | set | frozenset) else [content]
    words = {word for word in known if isinstance(word, str)}
    return bool(problem.names) and words.issuperset(problem.names)


def _ignores(cls: type, problem: Problem) -> bool:
    """Tell whether a pydantic class drops an argument that it does not know, instead of refusing it."""
    if problem.rule != "unexpected-argument" or not hasattr(cls, "__pydantic_fields__"):
        return False
    config = getattr(cls, "__pydantic_config__", None) or getattr(cls, "model_config", None) or {}
    return bool(config.get("extra", "ignore") != "forbid")
