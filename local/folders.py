"""The laptop's folders: what may be lost (cache) and what is remembered (state), after the XDG base directories."""

from __future__ import annotations

import os
from pathlib import Path

from local.errors import UsageError


def cache() -> Path:
    """Give the cache folder: stacks, surfaces, the demo; `PRUDENT_GATE_CACHE` moves it."""
    return _folder("PRUDENT_GATE_CACHE", "XDG_CACHE_HOME", ".cache")


def state() -> Path:
    """Give the state folder: pinned host keys; `PRUDENT_GATE_STATE` moves it."""
    return _folder("PRUDENT_GATE_STATE", "XDG_STATE_HOME", ".local/state")


def at_home(text: str) -> Path:
    """Give a path with the home in place of `~`; the home of somebody whom nobody knows stays as it is written."""
    return Path(os.path.expanduser(text))  # noqa: PTH111 - Path's own raises then


def _folder(own: str, xdg: str, usual: str) -> Path:
    named = os.environ.get(own)
    try:
        if named:
            folder = Path(named).expanduser()
        else:
            folder = Path(os.environ.get(xdg) or Path.home() / usual) / "prudent-gate"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: nobody knows the home
        why = getattr(error, "strerror", None) or error
        raise UsageError(
            f"the folder {named or f'~/{usual}/prudent-gate'} cannot be made: {why}",
            remedy=f"Name one that this user may write to: export {own}=/some/folder",
        ) from None
    return folder
