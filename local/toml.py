"""TOML files turned into structs, with errors that name file, path, what was expected and what was found."""

from __future__ import annotations

import difflib
import re
import tomllib
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import inspect

from local.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

T = TypeVar("T")

_KINDS = {
    str: "text", int: "a whole number", float: "a number", bool: "true or false", dict: "a table", list: "a list",
}  # fmt: skip
_EXPECTED = {"str": "text", "int": "a whole number", "float": "a number", "bool": "true or false",
             "object": "a table", "array": "a list", "null": "nothing"}  # fmt: skip
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>.*?)`(?: - at `(?P<path>[^`]*)`)?$", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<name>.*?)`(?: - at `(?P<path>[^`]*)`)?$", re.DOTALL)
_ELSE = re.compile(r"(?P<what>.*?)(?: - at `(?P<path>[^`]*)`)?$", re.DOTALL)


def read(path: Path, what: str) -> dict[str, Any]:
    """Give the document in a TOML file; raises UsageError."""
    try:
        text = path.read_bytes().decode("utf-8-sig")  # some editors begin a file with a byte order mark
    except FileNotFoundError:
        raise UsageError(
            f"{what} {path} does not exist", remedy="Name one with --inventory FILE or FABRIC_INVENTORY=FILE."
        ) from None
    except OSError as error:
        remedy = "Name a file." if path.is_dir() else "Check its path and permissions."
        raise UsageError(f"{what} {path} cannot be read: {error.strerror}", remedy=remedy) from None
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path}: not UTF-8 text (byte {error.start})", remedy="TOML files are UTF-8: save it as such."
        ) from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: not TOML: {error}", remedy="Mend that line; TOML's rules: toml.io.") from None
    except RecursionError:
        raise UsageError(
            f"{path}: tables or lists lie too deep within each other", remedy="Name another file."
        ) from None


def table(document: Mapping[str, Any], key: str, *, file: Path, path: str) -> dict[str, Any]:
    """Give a table of the document, an empty one where there is none; raises UsageError where it is something else."""
    value = document.get(key, {})
    if not isinstance(value, dict):
        raise wrong(file, path, f"expected a table, found {kind(value)}", remedy=f"Write it as [{path}].")
    return value


def known_keys(document: Iterable[str], known: Iterable[str], *, file: Path, path: str) -> None:
    """Refuse keys that nobody reads."""
    names = set(known)
    for key in document:
        if key not in names:
            raise wrong(file, path or "the file", f"unknown key {key!r}", remedy=near(key, names))


def convert(data: Any, cls: type[T], *, file: Path, path: str) -> T:
    """Give `cls` made of one table of the file; raises UsageError naming `path` and what is below it."""
    try:
        return msgspec.convert(data, cls)
    except msgspec.ValidationError as error:
        raise _told(str(error), data, cls, file, path) from None


def wrong(file: Path, path: str, message: str, *, remedy: str = "") -> UsageError:
    """Give the error for a value of the file."""
    return UsageError(message, where=f"{file}: {path}", remedy=remedy or f"Mend {path} in {file}.")


def near(name: str, known: Iterable[str]) -> str:
    """Say which known name was probably meant, or all of them when none is near."""
    names = sorted(known)
    if close := difflib.get_close_matches(name, names, n=1, cutoff=0.6):
        return f"Did you mean {close[0]!r}?"
    return f"Known here: {', '.join(names)}." if names else ""


def kind(value: Any) -> str:
    """Say what kind of value this is, and its text where that helps."""
    name = _KINDS.get(type(value), f"a {type(value).__name__}")
    return f"{name} ({value!r})" if isinstance(value, str | int | float) else name


def _told(said: str, data: Any, cls: type[Any], file: Path, path: str) -> UsageError:
    """Translate msgspec's sentence."""
    if unknown := _UNKNOWN.match(said):
        where = _joined(path, unknown["path"])
        return wrong(
            file, where, f"unknown key {unknown['name']!r}", remedy=near(unknown["name"], _fields(cls, unknown["path"]))
        )
    if missing := _MISSING.match(said):
        return wrong(file, _joined(path, missing["path"]), f"the key {missing['name']!r} is missing")
    what, below = said, None
    if match := _ELSE.match(said):
        what, below = match["what"], match["path"]
    found = _at(data, below)
    if what.startswith("Invalid enum value"):
        choices = _choices(cls, below)
        return wrong(
            file, _joined(path, below), f"expected one of {', '.join(choices)}, found {kind(found)}",
            remedy=near(str(found), choices),
        )  # fmt: skip
    return wrong(file, _joined(path, below), f"{_plain(what)}, found {kind(found)}")


def _plain(what: str) -> str:
    """Say msgspec's "Expected `int | null`, got `str`" in our words, without what was got."""
    what = re.sub(r"^Expected", "expected", re.sub(r", got `[^`]*`$", "", what))
    what = what.replace("` > ", "` above ")
    what = (
        what.replace("of length >=", "of a length of at least").replace(">=", "of at least").replace("<=", "of at most")
    )
    return re.sub(r"`([^`]*)`", lambda match: _types(match[1]), what)


def _types(text: str) -> str:
    words = [_EXPECTED.get(word, word) for word in text.split(" | ")]
    return " or ".join(word for word in words if word != "nothing")


def _joined(path: str, below: str | None) -> str:
    rest = (below or "$").removeprefix("$").lstrip(".")
    if not path or not rest:
        return path or rest or "the file"
    return path + (rest if rest.startswith("[") else f".{rest}")


def _steps(below: str | None) -> list[str]:
    return re.findall(r"[^.\[\]]+|\[[^\]]*\]", (below or "$").removeprefix("$"))


def _at(data: Any, below: str | None) -> Any:
    """Give the value at msgspec's path."""
    for step in _steps(below):
        try:
            data = data[int(step[1:-1])] if step.startswith("[") else data[step]
        except (KeyError, IndexError, TypeError, ValueError):
            return data
    return data


def _fields(cls: type[Any], below: str | None) -> list[str]:
    """Give the keys that the struct at msgspec's path knows."""
    info: Any = inspect.type_info(cls)
    for step in _steps(below):
        info = _structure(_field(info, step))
    return [field.encode_name for field in getattr(info, "fields", ())]


def _choices(cls: type[Any], below: str | None) -> list[str]:
    """Give the values that the literal at msgspec's path allows."""
    info: Any = inspect.type_info(cls)
    for step in _steps(below):
        info = _field(info, step)
    options = getattr(info, "types", (info,))
    return [str(value) for option in options for value in getattr(option, "values", ())]


def _field(info: Any, step: str) -> Any:
    """Give the type of a struct's field, or of a list's items (`[0]`)."""
    if step.startswith("["):
        options = getattr(info, "types", (info,))
        return next((option.item_type for option in options if hasattr(option, "item_type")), None)
    named = {field.encode_name: field.type for field in getattr(_structure(info), "fields", ())}
    return named.get(step)


def _structure(info: Any) -> Any:
    """Give the struct in a type that may be a union with nothing."""
    return next((option for option in getattr(info, "types", (info,)) if hasattr(option, "fields")), info)
