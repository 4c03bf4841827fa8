"""Constants of the gated modules: their values against what the job expects and what the installed vLLM accepts."""

from __future__ import annotations

import ast
import importlib
import inspect
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remote.schema import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import ModuleType

    from remote.schema import Job

CACHE_CONFIG = "CacheConfig"


@dataclass(frozen=True, kw_only=True, slots=True)
class Constant:
    """A constant as it stands: `line` and `text` where the source assigns it."""

    module: str
    name: str
    value: Any
    file: str | None = None
    line: int | None = None
    text: str | None = None


# name → (what its value must be, in words; the test). Checked in every gated module that has one of that name.
SANE: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "VLLM_BLOCK_SIZE": ("a whole number above 0", lambda value: type(value) is int and value > 0),
    "MAX_NUM_SEQS": ("a whole number above 0", lambda value: type(value) is int and value > 0),
    "MIN_MAX_BATCHED_TOKENS": ("a whole number above 0", lambda value: type(value) is int and value > 0),
    "MAX_DECODE_TOKENS": ("1: only prompts are computed", lambda value: type(value) is int and value == 1),
    "CACHE_MEMORY_FRACTION": (
        "above 0, and at most 1",
        lambda value: isinstance(value, int | float) and 0 < value <= 1,
    ),
}


def expected(wanted: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[Finding, ...]]:
    """Hold `module:NAME` = value against what the modules have; gives the values found, and findings."""
    values, findings = {}, []
    for where, value in wanted.items():
        module, _, name = where.partition(":")
        try:
            found = constant(importlib.import_module(module), name)
        except Exception as error:  # noqa: BLE001 - a module that cannot be imported has no constant
            message = f"the job expects {where} = {value!r}, and {module} cannot be imported ({type(error).__name__})."
            findings.append(Finding(rule="constant-missing", message=message))
            continue
        if found is None:
            message = f"the job expects {where} = {value!r}, and there is no {name or 'name'} in {module}."
            findings.append(Finding(rule="constant-missing", message=message))
            continue
        values[where] = found.value
        if found.value != value or isinstance(found.value, bool) != isinstance(value, bool):
            message = (
                f"{where} is {found.value!r}; the job expects {value!r}. Change the module or the job's `constants`."
            )
            findings.append(_finding("constant-value", found, message))
    return values, tuple(findings)


def sane(module: ModuleType, job: Job) -> Iterator[Finding]:
    """Give the findings about the well-known constants of a module."""
    for name, (words, test) in SANE.items():
        found = constant(module, name)
        if found is not None and not test(found.value):
            yield _finding("constant-value", found, f"{name} is {found.value!r}: it must be {words}.")
    most = constant(module, "MAX_NUM_SEQS")
    if most is not None and type(most.value) is int and 0 < most.value < job.batch_size:
        message = (
            f"the job's batch_size {job.batch_size} is more than the {most.value} prompts that one step takes "
            f"({most.name}): each batch is computed in several steps."
        )
        yield _finding("batch-size", most, message, severity="warning")


def cache_config(module: ModuleType, config: Any) -> Iterator[Finding]:
    """Construct the cache configuration with the constants that the module gives it; `config` is its class."""
    for call, given in _cache_calls(module):
        sizes = _accepted(config)
        size = given.get("block_size")
        if size is not None and sizes and size.value not in sizes:
            some = ", ".join(str(one) for one in sizes)
            message = f"{size.name} is {size.value!r}, and the installed vLLM knows KV cache blocks of {some} tokens."
            yield _finding("constant-value", size, message)
            continue
        try:
            config(**{keyword: one.value for keyword, one in given.items()})
        except Exception as error:  # noqa: BLE001 - whatever the class raises is the answer
            words = " ".join(str(error).split())
            shown = ", ".join(f"{keyword}={one.value!r}" for keyword, one in given.items())
            yield Finding(
                rule="cache-config",
                file=inspect.getsourcefile(module),
                line=call.lineno,
                message=f"CacheConfig({shown}) is refused: {words[:300]}",
            )


def constant(module: ModuleType, name: str) -> Constant | None:
    """Give a module's constant with the place of its assignment."""
    if not name or not hasattr(module, name):
        return None
    value, file = getattr(module, name), getattr(module, "__file__", None)
    for node in _tree(module).body:
        targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            text = _source(module).splitlines()[node.lineno - 1]
            return Constant(module=module.__name__, name=name, value=value, file=file, line=node.lineno, text=text)
    return Constant(module=module.__name__, name=name, value=value, file=file)


def _cache_calls(module: ModuleType) -> Iterator[tuple[ast.Call, dict[str, Constant]]]:
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == CACHE_CONFIG:
            given = {
                keyword.arg: found
                for keyword in node.keywords
                if keyword.arg and isinstance(keyword.value, ast.Name)
                if (found := constant(module, keyword.value.id)) is not None
            }
            if given:
                yield node, given


def _accepted(config: Any) -> tuple[Any, ...]:
    """Give the block sizes that the installed class lists; its own check may be switched off (SkipValidation)."""
    try:
        hint: Any = typing.get_type_hints(config, include_extras=False).get("block_size")
    except Exception:  # noqa: BLE001 - hints that cannot be resolved list nothing
        return ()
    literals = [hint, *typing.get_args(hint)]
    return tuple(one for hint in literals if typing.get_origin(hint) is typing.Literal for one in typing.get_args(hint))


def _tree(module: ModuleType) -> ast.Module:
    try:
        return ast.parse(_source(module))
    except (SyntaxError, ValueError):
        return ast.Module(body=[], type_ignores=[])


def _source(module: ModuleType) -> str:
    try:
        return Path(inspect.getsourcefile(module) or "").read_text("utf-8")
    except (OSError, TypeError, UnicodeDecodeError):
        return ""


def _finding(rule: str, found: Constant, message: str, severity: str = "error") -> Finding:
    return Finding(rule=rule, message=message, file=found.file, line=found.line, text=found.text, severity=severity)
