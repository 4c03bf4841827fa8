"""The class that vLLM will make of a model, found through its registry, held against what capture code asks of it."""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from remote.model.blueprint import Blueprint
from remote.model.capture import LANGUAGE_MODEL
from remote.model.returns import arity
from remote.schema import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from remote.model.capture import Capture, Guard, LayerCall, Path, Place, Use
    from remote.model.model_config import ModelConfig

INTERFACES = "vllm.model_executor.models.interfaces"


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """The model's class and its name in the registry."""

    name: str
    cls: type
    blueprint: Blueprint


@dataclass(frozen=True, kw_only=True, slots=True)
class Code:
    """A module with capture code: its name, file, what its source asks, and its names at run time."""

    module: str
    file: str
    captures: tuple[Capture, ...]
    names: dict[str, Any]


class Unresolved(Exception):
    """vLLM has no class for the model, or the class cannot be imported."""


def registry() -> Callable[[str], type | None]:
    """Give the look-up of vLLM's registry: imports a model's module, makes no model."""
    from vllm import ModelRegistry

    def registered(name: str) -> type | None:
        entry = ModelRegistry.models.get(name)
        return None if entry is None else entry.load_model_cls()

    return registered


def resolve(config: ModelConfig, registered: Callable[[str], type | None]) -> Target:
    """Give the class for the first architecture that vLLM knows; raises Unresolved."""
    for name in config.architectures:
        try:
            cls = registered(name)
        except Exception as error:  # importing a model's module may fail in any way; vLLM would fail alike
            raise Unresolved(f"vLLM's class for {name} cannot be imported: {type(error).__name__}: {error}") from error
        if cls is not None:
            return Target(name=name, cls=cls, blueprint=Blueprint(_safely(registered), config.text_architectures))
    names = ", ".join(config.architectures) or "none named"
    raise Unresolved(f"the installed vLLM has no model class for this architecture ({names})")


def hold(target: Target, code: Code) -> tuple[Finding, ...]:
    """Hold a model's class against a module's capture code; gives what would fail after the load."""
    return tuple(finding for capture in code.captures for finding in _hold(target, code, capture))


def facts(target: Target, code: Iterable[Code]) -> dict[str, Any]:
    """Say where the capture code finds its part, for the report."""
    given: dict[str, Any] = {"architecture": target.name, "class": _name(target.cls)}
    for one in code:
        for capture in one.captures:
            parts = _parts(target, capture.paths)
            layers = {
                layer for part in parts for call in capture.layers for layer in _layer_classes(target, part, call)
            }
            given["captured"] = sorted(_name(part) for part in parts)
            given["path"] = sorted(".".join(path) for path in capture.paths)
            given["layer"] = sorted(_name(layer) for layer in layers)
    return given


def _hold(target: Target, code: Code, capture: Capture) -> Iterator[Finding]:
    for guard in capture.guards:
        yield from _guarded(target, code, guard)
    parts = _parts(target, capture.paths)
    if not parts and capture.paths:
        yield from _misplaced(target, code, capture)
        parts = _elsewhere(target, capture)
    for use in {use.name: use for use in reversed(capture.uses)}.values():
        yield from _used(target, code, use, parts)
    for call in capture.layers:
        layers = sorted({one for part in parts for one in _layer_classes(target, part, call)}, key=_name)
        found = [tuple(_called(code, call, layer)) for layer in layers]
        if all(found):  # of several classes that the layers may have, one that fits is enough
            yield from (finding for findings in found for finding in findings)


# ---- the guard -------------------------------------------------------------------------------------------------


def _guarded(target: Target, code: Code, guard: Guard) -> Iterator[Finding]:
    test = code.names.get(guard.function)
    asked = sorted(_parts(target, guard.paths), key=_name) or [target.cls]
    if not callable(test) or any(_passes(test, cls) is not False for cls in asked):
        return
    interface = "".join(part.title() for part in guard.function.split("_"))
    inner = _text_model(target)
    also = ""
    if inner is not None and inner not in asked:
        says = "does, but is not asked" if _passes(test, inner) else f"does not declare {interface} either"
        also = f" Its text model {_name(inner)} {says}."
    classes = ", ".join(_name(cls) for cls in asked)
    yield _finding(
        "model-refused",
        code,
        guard.place,
        message=f"{code.module} refuses this model after the load: {guard.function}() is false for {classes}, which "
        f"does not declare {interface}.{also} Use a model whose class does, or capture code that does not ask.",
        callee=f"{INTERFACES}.{guard.function}",
    )


def _passes(test: Callable[[type], Any], cls: type) -> bool | None:
    try:
        return bool(test(cls))
    except Exception:  # noqa: BLE001 - a guard that can only judge instances tells nothing here
        return None


# ---- the path --------------------------------------------------------------------------------------------------


def _parts(target: Target, paths: Iterable[Path]) -> frozenset[type]:
    found: set[type] = set()
    for path in paths:
        classes = frozenset({target.cls})
        for step in path:
            if step == f"{LANGUAGE_MODEL}()":
                inner = _text_model(target)
                classes = frozenset({inner} if inner is not None else classes)
            else:
                classes = target.blueprint.follow(classes, (step,))
        found |= classes
    return frozenset(found)


def _misplaced(target: Target, code: Code, capture: Capture) -> Iterator[Finding]:
    """Report a path that leads nowhere, unless the sources do not tell."""
    for path in sorted(capture.paths):
        if not path or target.blueprint.has(target.cls, path[0]) is not False:
            return
    where = _meant(target, capture)
    found = f" What it is meant to find is at `model.{'.'.join(where)}`." if where else ""
    paths = " or ".join(f"`model.{'.'.join(path)}`" for path in sorted(capture.paths))
    place = capture.place
    yield _finding(
        "model-path",
        code,
        place,
        message=f"{code.module} looks for the text model at {paths}, and {_name(target.cls)} has no "
        f"`{min(capture.paths)[0]}`.{found}",
    )


def _elsewhere(target: Target, capture: Capture) -> frozenset[type]:
    """Give the part that was meant, found by its layers, so that the rest can be judged too."""
    where = _meant(target, capture)
    return frozenset() if where is None else target.blueprint.follow(frozenset({target.cls}), where)


def _meant(target: Target, capture: Capture) -> Path | None:
    """Find the part that has the layers, and all else that is not a method, to which names cling less."""
    wanted = tuple(dict.fromkeys([*(call.attribute for call in capture.layers), *_plain(capture)]))
    return target.blueprint.find(target.cls, wanted) if wanted else None


def _plain(capture: Capture) -> list[str]:
    return [use.name for use in capture.uses if not use.called]


def _text_model(target: Target) -> type | None:
    """Give the class of the text model inside a multimodal one."""
    for name in ("language_model", "text_model", "llm", "model"):
        for cls in target.blueprint.parts(target.cls, name):
            if target.blueprint.has(cls, "lm_head") and target.blueprint.has(cls, "model"):
                return cls
    return None


# ---- what is used ----------------------------------------------------------------------------------------------


def _used(target: Target, code: Code, use: Use, parts: frozenset[type]) -> Iterator[Finding]:
    known = [target.blueprint.has(part, use.name) for part in parts]
    if not known or any(has is not False for has in known):
        return
    part = min(parts, key=_name)
    others = [name for name in _methods(part) if use.called and _takes(getattr(part, name), use.arguments)]
    hint = f" `{others[0]}` takes the same arguments: it may be the new name." if len(others) == 1 else ""
    message = f"{_name(part)} has no `{use.name}`: AttributeError in the workers, after the load.{hint}"
    yield _finding("model-attribute", code, use.place, message=message, callee=f"{_name(part)}.{use.name}")


def _methods(cls: type) -> list[str]:
    own = [one for one in cls.__mro__ if one.__module__.split(".")[0] not in {"torch", "builtins"}]
    names = {name for one in own for name, value in vars(one).items() if inspect.isfunction(value)}
    return sorted(name for name in names if not name.startswith("_") and name != "forward")


def _takes(method: Any, arguments: tuple[str, ...]) -> bool:
    parameters = list(inspect.signature(method).parameters)[1:]
    return bool(arguments) and tuple(parameters) == arguments


# ---- the layers ------------------------------------------------------------------------------------------------


def _layer_classes(target: Target, part: type, call: LayerCall) -> frozenset[type]:
    return target.blueprint.parts(part, call.attribute)


def _called(code: Code, call: LayerCall, layer: type) -> Iterator[Finding]:
    forward = getattr(layer, "forward", None)
    if not inspect.isfunction(forward):
        return
    signature = inspect.signature(forward)
    try:
        signature.bind(*[None] * (1 + call.positional), **dict.fromkeys(call.keywords))
    except TypeError as error:
        message = f"{_name(layer)}.forward cannot be called like this: {error}."
        yield _finding("layer-call", code, call.place, message=message, callee=_name(layer), signature=str(signature))
        return
    gives = arity(layer)
    if call.unpacked is not None and gives is not None and gives != call.unpacked:
        message = f"{call.unpacked} values are taken from each layer, and {_name(layer)}.forward gives {gives}."
        yield _finding("layer-result", code, call.place, message=message, callee=_name(layer), signature=str(signature))


def _finding(
    rule: str, code: Code, place: Place | None, *, message: str, callee: str | None = None, signature: str | None = None
) -> Finding:
    if place is None:
        return Finding(rule=rule, file=code.file, message=message, callee=callee, signature=signature)
    return Finding(
        rule=rule, file=code.file, line=place.line, column=place.column, end_column=place.end_column, text=place.text,
        message=message, callee=callee, signature=signature,
    )  # fmt: skip


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}" if cls.__module__ in sys.modules else cls.__qualname__


def _safely(registered: Callable[[str], type | None]) -> Callable[[str], type | None]:
    def look_up(name: str) -> type | None:
        try:
            return registered(name)
        except Exception:  # noqa: BLE001 - a part whose class cannot be imported is a part of which nothing is known
            return None

    return look_up
