"""What an expression means, said as a path of names (`Result(Attribute(Module("vllm"), "LLM"))`), and then at run time.

A reference is made from source alone; `resolve` follows it through what is imported. Where that is not certain it
raises Unknown, and where a name is certainly not there it raises Missing. No code of the packages is called: properties
and functions are followed by their annotations.
"""

from __future__ import annotations

import abc
import enum
import functools
import importlib
import inspect
import re
import sys
import types
import typing
from dataclasses import dataclass
from typing import Any, Union


@dataclass(frozen=True, slots=True)
class Module:
    """A module by its full name."""

    name: str


@dataclass(frozen=True, slots=True)
class Attribute:
    """A name of a module, a class or an object."""

    of: Reference
    name: str


@dataclass(frozen=True, slots=True)
class Instance:
    """Some object of this class, or of a class below it."""

    of: Reference


@dataclass(frozen=True, slots=True)
class Result:
    """What a call gives."""

    of: Reference


@dataclass(frozen=True, slots=True)
class Super:
    """`super()` in a method of this class."""

    of: Reference


Reference = Module | Attribute | Instance | Result | Super


class Unknown(Exception):
    """It cannot be said what the reference means; the message is the reason, in two or three words."""


class Missing(Exception):
    """A name is certainly not there: `owner` has no `name`."""

    def __init__(self, reference: Reference, owner: str, name: str, near: tuple[str, ...], *, sure: bool) -> None:
        super().__init__(f"{owner} has no {name!r}")
        self.reference = reference
        self.owner = owner
        self.name = name
        self.near = near
        self.sure = sure


@dataclass(frozen=True, slots=True)
class Thing:
    """A meaning: the value itself, or some object of the class `value`.

    `exact` is False where the object may be of a subclass; `after` classes of its order are passed over by `super()`.
    """

    value: Any
    instance: bool = False
    exact: bool = True
    after: int = 0

    @property
    def order(self) -> tuple[type, ...]:
        """Give the classes in which a name of the object is looked for."""
        return tuple(self.value.__mro__[self.after :])


def resolve(reference: Reference) -> Thing:
    """Follow a reference through what is imported; raises Unknown or Missing."""
    if isinstance(reference, Module):
        return Thing(_module(reference.name))
    of = resolve(reference.of)
    if isinstance(reference, Attribute):
        return _attribute(reference, of)
    if isinstance(reference, Instance):
        return _some(of.value)
    if isinstance(reference, Super):
        return Thing(of.value, instance=True, exact=False, after=1)
    return _result(of)


def callee(reference: Reference) -> Thing:
    """Give what a call of the reference runs: itself, or `__call__` of an object; raises Unknown or Missing."""
    thing = resolve(reference)
    if thing.instance or not (isinstance(thing.value, type) or hasattr(thing.value, "__name__")):
        of = thing if thing.instance else Thing(type(thing.value), instance=True)
        thing = _member(Attribute(reference, "__call__"), of)
    if not callable(thing.value):
        raise Unknown("not callable")
    return thing


def describe(value: Any) -> str:
    """Give the full name by which a callable is known."""
    value = getattr(value, "__func__", value)
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if isinstance(value, types.ModuleType):
        return value.__name__
    return f"{module}.{name}" if module and name else str(name or type(value).__qualname__)


def _module(name: str) -> types.ModuleType:
    if name in sys.modules:
        return sys.modules[name]
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(error.name + ".")):
            parent, _, last = name.rpartition(".")
            # A warning: what only some function imports may be wanted by nobody.
            raise Missing(Module(name), parent or "the environment", last, (), sure=False) from error
        raise Unknown("module fails to import") from error
    except Exception as error:
        raise Unknown("module fails to import") from error


def _attribute(reference: Attribute, of: Thing) -> Thing:
    name, value = reference.name, of.value
    if of.instance:
        return _member(reference, of)
    if isinstance(value, types.ModuleType):
        return Thing(_module_attribute(reference, value))
    if isinstance(value, type):
        found = _of_class(value, name)
        if found is None:
            sure = issubclass(value, enum.Enum) or not _makes_names(type(value).__mro__)
            raise _missing(reference, describe(value), value, sure=sure)
        return Thing(found[0])
    if isinstance(value, types.FunctionType | types.MethodType | types.BuiltinFunctionType):
        raise Unknown("attribute of a function")
    if name in getattr(value, "__dict__", {}):
        return Thing(value.__dict__[name])
    return _member(reference, Thing(type(value), instance=True))


def _module_attribute(reference: Attribute, module: types.ModuleType) -> Any:
    try:
        return getattr(module, reference.name)
    except AttributeError:
        pass
    except Exception as error:
        raise Unknown("lazy attribute fails") from error
    if module.__name__.split(".", 1)[0] in sys.stdlib_module_names:
        raise Unknown("standard library")  # what it lacks here it may have on another system
    full = f"{module.__name__}.{reference.name}"
    try:
        return importlib.import_module(full)
    except Exception as error:
        if not isinstance(error, ModuleNotFoundError) or error.name not in {full, module.__name__}:
            raise Unknown("module fails to import") from error
        raise _missing(reference, module.__name__, module, sure=_says_all(module)) from error


def _says_all(module: types.ModuleType) -> bool:
    """Tell whether what a module does not have, it will not have: a plain one, or a lazy one that was asked.

    Stand-ins for libraries that are not installed, and the namespaces of torch.ops, which fill while others load, do
    not say all.
    """
    kind = type(module)
    return kind is types.ModuleType or (hasattr(kind, "__getattr__") and kind.__module__ != "torch._ops")


def _of_class(cls: type, name: str) -> tuple[Any] | None:
    try:
        return (getattr(cls, name),)
    except AttributeError:
        return None
    except Exception as error:
        raise Unknown("class attribute fails") from error


def _member(reference: Attribute, of: Thing) -> Thing:
    """Give what `of`, an object of a class, holds under a name, without touching an object."""
    cls = of.value
    found = next((vars(base)[reference.name] for base in of.order if reference.name in vars(base)), _NOTHING)
    if found is _NOTHING:
        return _annotated_member(reference, of)
    if isinstance(found, staticmethod | classmethod):
        return Thing(found.__get__(None, cls), exact=of.exact)
    if isinstance(found, property):
        return _promised(found.fget, cls)
    if isinstance(found, functools.cached_property):
        return _promised(found.func, cls)
    if callable(found) and hasattr(type(found), "__get__"):
        return Thing(types.MethodType(found, _Holder(cls)), exact=of.exact)
    return _annotated_member(reference, of)


def _annotated_member(reference: Attribute, of: Thing) -> Thing:
    """Give what the class says about a name that its objects, not the class, hold."""
    cls, name = of.value, reference.name
    for base in of.order:
        try:
            annotations = inspect.get_annotations(base)
        except Exception as error:
            raise Unknown("annotation that does not evaluate") from error
        if name in annotations:
            return _some(_evaluate(annotations[name], vars(sys.modules.get(base.__module__, types)), cls))
    open_ended = of.after > 0 or any(name in vars(base) for base in of.order) or _makes_names(of.order)
    if open_ended or not _never_sets(of.order, name):
        raise Unknown("attribute of an object")
    raise _missing(reference, f"an object of {describe(cls)}", cls, sure=of.exact)


def _result(of: Thing) -> Thing:
    """Give what calling something gives: an object of the class, or what the function's annotation promises."""
    if of.instance:
        raise Unknown("call of an object")
    value = of.value
    if isinstance(value, type):
        if issubclass(value, enum.Enum | type) or issubclass(type(value), enum.EnumMeta):
            raise Unknown("class that makes classes or members")
        plain = type(value).__call__ is type.__call__ and not isinstance(value.__new__, types.FunctionType)
        return Thing(value, instance=True, exact=plain)
    holder = getattr(value, "__self__", None)
    return _promised(value, holder.cls if isinstance(holder, _Holder) else holder)


def _promised(function: Any, cls: Any) -> Thing:
    function = inspect.unwrap(getattr(function, "__func__", function))
    returns = getattr(function, "__annotations__", {}).get("return")
    if returns is None or inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise Unknown("result without annotation")
    return _some(_evaluate(returns, getattr(function, "__globals__", {}), cls))


def _evaluate(annotation: Any, names: Any, cls: Any) -> Any:
    if isinstance(annotation, str):
        try:
            annotation = eval(annotation, dict(names))  # noqa: S307 - the annotation is the package's own code
        except Exception as error:
            raise Unknown("annotation that does not evaluate") from error
    if getattr(annotation, "__name__", None) == "Self" and isinstance(cls, type):
        return cls
    return annotation


def _some(annotation: Any) -> Thing:
    """Give some object of what an annotation names; `X | None` counts as X, a real union as nothing known."""
    if typing.get_origin(annotation) in (Union, types.UnionType):
        options = [option for option in typing.get_args(annotation) if option is not type(None)]
        annotation = options[0] if len(options) == 1 else None
    if not isinstance(annotation, type) or annotation in _VAGUE or typing.get_origin(annotation):
        raise Unknown("type that is no plain class")
    if getattr(annotation, "_is_protocol", False):
        raise Unknown("protocol")
    return Thing(annotation, instance=True, exact=False)


def _makes_names(order: tuple[type, ...]) -> bool:
    """Tell whether one of the classes answers for names that it does not hold."""
    return any("__getattr__" in vars(base) or "__getattribute__" in vars(base) for base in order if not _plain(base))


def _plain(cls: type) -> bool:
    return cls in (object, type)


@functools.cache
def _source(cls: type) -> str | None:
    try:
        return inspect.getsource(cls)
    except (OSError, TypeError):
        return None


def _never_sets(order: tuple[type, ...], name: str) -> bool:
    """Tell whether no method of the classes, all of them readable, gives an object this name."""
    for base in order:
        if _plain(base) or base in (abc.ABC, typing.Generic, typing.Protocol):
            continue
        source = _source(base)
        if source is None or "setattr(" in source or "__dict__" in source or re.search(rf"\.{name}\b", source):
            return False
    return True


def _missing(reference: Attribute, owner: str, holder: Any, *, sure: bool) -> Missing:
    names = tuple(name for name in dir(holder) if not name.startswith("__"))
    return Missing(reference, owner, reference.name, names, sure=sure)


class _Holder:
    """Stands for the object that a method is bound to."""

    def __init__(self, cls: type) -> None:
        self.cls = cls


_NOTHING: Any = object()
_VAGUE: tuple[Any, ...] = (type(None), object, Any)
