"""Documents on the wire: JSON objects with `schema` first, decoded into dataclasses with errors that name the path.

Standard library only; both sides use it. Unknown keys are ignored (a newer minor may add some), a newer `schema`
is refused, a missing or ill-typed value raises `WireError` with the path of the value (`job.layers[2]: …`).
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from typing import Any, TypeVar, Union

SCHEMA = 1
T = TypeVar("T")


class WireError(ValueError):
    """A document that cannot be understood; the message starts with the path of the value."""


def encode(document: Any) -> dict[str, Any]:
    """Give the JSON object of a dataclass instance, `schema` first."""
    return {"schema": SCHEMA, **dataclasses.asdict(document)}


def dumps(document: Any) -> str:
    """Give one line of JSON for a dataclass instance; a name that is no UTF-8 stays what it is."""
    data = encode(document)
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:  # half a character has no encoding, but it has an escape
        return json.dumps(data, separators=(",", ":"))
    return text


def parse(text: str | bytes) -> Any:
    """Give the value of a JSON text; whatever is wrong with it is a ValueError, too deep a nesting included."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def loads(cls: type[T], text: str | bytes, where: str = "document") -> T:
    """Decode JSON text into `cls`; raises WireError."""
    try:
        data = parse(text)
    except ValueError as error:
        raise WireError(f"{where}: not JSON ({error})") from error
    return decode(cls, data, where)


def decode(cls: type[T], data: Any, where: str = "document") -> T:
    """Decode a versioned JSON object into `cls`; raises WireError."""
    if not isinstance(data, dict):
        raise WireError(f"{where}: expected an object, found {_kind(data)}")
    schema = data.get("schema")
    if type(schema) is not int:
        raise WireError(f"{where}.schema: expected a whole number, found {_kind(schema)}")
    if schema != SCHEMA:
        raise WireError(f"{where}.schema: this side speaks version {SCHEMA}, the document is version {schema}")
    return typing.cast("T", _object(cls, data, where))


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _object(cls: type, data: Any, where: str) -> Any:
    if not isinstance(data, dict):
        raise WireError(f"{where}: expected an object, found {_kind(data)}")
    values = {}
    for field in dataclasses.fields(cls):
        if field.name in data:
            values[field.name] = _value(_hints(cls)[field.name], data[field.name], f"{where}.{field.name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise WireError(f"{where}.{field.name}: missing")
    return cls(**values)


def _value(hint: Any, data: Any, where: str) -> Any:
    origin = typing.get_origin(hint)
    if hint is Any:
        return data
    if dataclasses.is_dataclass(hint):
        return _object(typing.cast("type", hint), data, where)
    if origin in (Union, types.UnionType):
        return _union(typing.get_args(hint), data, where)
    if origin is tuple:
        return _tuple(typing.get_args(hint)[0], data, where)
    if origin is dict:
        return _mapping(typing.get_args(hint)[1], data, where)
    return _scalar(hint, data, where)


def _union(options: tuple[Any, ...], data: Any, where: str) -> Any:
    if data is None and type(None) in options:
        return None
    (rest,) = [option for option in options if option is not type(None)]
    return _value(rest, data, where)


def _tuple(item: Any, data: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(data, list | tuple):
        raise WireError(f"{where}: expected a list, found {_kind(data)}")
    return tuple(_value(item, value, f"{where}[{index}]") for index, value in enumerate(data))


def _mapping(item: Any, data: Any, where: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise WireError(f"{where}: expected an object, found {_kind(data)}")
    return {str(key): _value(item, value, f"{where}.{key}") for key, value in data.items()}


def _scalar(hint: Any, data: Any, where: str) -> Any:
    if hint is float and type(data) is int:
        return _float(data, where)
    if type(data) is not hint:
        raise WireError(f"{where}: expected {_NAMES.get(hint, hint)}, found {_kind(data)}")
    return data


def _float(data: int, where: str) -> float:
    try:
        return float(data)
    except OverflowError as error:
        raise WireError(f"{where}: expected a number, found one of {len(str(data))} digits") from error


_NAMES = {
    str: "text", int: "a whole number", float: "a number", bool: "true or false",
    dict: "an object", list: "a list", type(None): "nothing",
}  # fmt: skip


def _kind(data: Any) -> str:
    return _NAMES.get(type(data), type(data).__name__)
