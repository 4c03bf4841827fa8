"""`[jobs.NAME.hooks]`: what may be said there, what is wrong with it, and which part of it is whose."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct, structs

from local import toml
from remote.run.occasions import DONE, FAILED, HANG, UNREACHABLE
from remote.schema import Hooks

if TYPE_CHECKING:
    from pathlib import Path

Text = Annotated[str, Meta(min_length=1)]
OCCASIONS = (DONE, FAILED, HANG, UNREACHABLE)
ON_HOST = (DONE, FAILED, HANG)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class HookTable(Struct, forbid_unknown_fields=True):
    """One thing to do: a command on the host, one on the laptop, or a notification."""

    host: Text | None = None
    laptop: Text | None = None
    notify: Text | None = None


Some = HookTable | tuple[HookTable, ...] | None


class HooksTable(Struct, forbid_unknown_fields=True):
    """What to do on each occasion: one thing, or several in this order."""

    on_done: Some = None
    on_failed: Some = None
    on_hang: Some = None
    on_unreachable: Some = None
    unreachable_after: float | str | None = None


def of(hooks: HooksTable | None, occasion: str) -> tuple[HookTable, ...]:
    """Give what is to be done on an occasion."""
    said: Some = getattr(hooks, occasion, None)
    return (said,) if isinstance(said, HookTable) else said or ()


def over(below: HooksTable, above: HooksTable) -> HooksTable:
    """Lay one table over another: an occasion of its own takes the place of the other's."""
    return structs.replace(below, **{key: value for key, value in structs.asdict(above).items() if value is not None})


def on_host(hooks: HooksTable | None) -> Hooks:
    """Give what the host does by itself."""
    said: dict[str, Any] = {
        occasion: tuple(hook.host for hook in of(hooks, occasion) if hook.host) for occasion in ON_HOST
    }
    return Hooks(**said)


def on_laptop(hooks: HooksTable | None, occasion: str) -> tuple[HookTable, ...]:
    """Give what whoever follows does."""
    return tuple(hook for hook in of(hooks, occasion) if not hook.host)


def check(file: Path, path: str, hooks: HooksTable | None) -> None:
    """Refuse what nobody could do; raises UsageError."""
    for occasion in OCCASIONS:
        several = not isinstance(getattr(hooks, occasion, None), HookTable)
        for number, hook in enumerate(of(hooks, occasion)):
            _check(file, f"{path}.{occasion}{f'[{number}]' if several else ''}", occasion, hook)


def _check(file: Path, path: str, occasion: str, hook: HookTable) -> None:
    said = {key: value for key, value in structs.asdict(hook).items() if value is not None}
    if len(said) != 1:
        found = " and ".join(said) or "nothing"
        raise toml.wrong(
            file, path, f"expected one of host, laptop and notify, found {found}",
            remedy='Each thing to do has a table of its own: [{ host = "…" }, { notify = "…" }].',
        )  # fmt: skip
    if occasion == UNREACHABLE and hook.host:
        raise toml.wrong(
            file, f"{path}.host", "a host that cannot be reached can be told nothing",
            remedy='Say laptop = "command" or notify = "VARIABLE".',
        )  # fmt: skip
    if hook.notify and not _VARIABLE.fullmatch(hook.notify):
        shown = "a URL" if "://" in hook.notify else repr(hook.notify)
        raise toml.wrong(
            file, f"{path}.notify", f"expected the name of an environment variable, found {shown}",
            remedy='The variable holds the URL, so that this file has no secret in it: notify = "OUR_CHAT".',
        )  # fmt: skip
    for key, value in said.items():
        if "\0" in value:
            raise toml.wrong(file, f"{path}.{key}", "holds a NUL character, which no command can")
