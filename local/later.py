"""Rooms that are loaded when they are first used: `fab` starts in half the time when it reads only what it needs.

A room stands in for its module (`gate = room("local.gate")`), a door for functions of a module that is only wanted
when one of them is called. `load` reads modules beside other work: while a host answers, the laptop has nothing to do.
"""

from __future__ import annotations

import contextlib
import importlib
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

# One load at a time: a package and a module of it that are loaded by two threads at once can wait for each other, and
# Python ends one of them. Nobody opens a room while a module of ours is being loaded, so who waits here holds none.
_ALONE = threading.RLock()
_THERE: set[str] = set()  # what is loaded is waited for no more


class Room:
    """Stands in for a module; its attributes are the module's, which is loaded for the first of them."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __repr__(self) -> str:
        return f"<room {self._module}>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # whoever looks for protocols must not load it
            raise AttributeError(name)
        return getattr(_loaded(self._module), name)


class Door(Room):
    """Stands in for a module's functions; the module is loaded when one of them is called."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def enter(*arguments: Any, **options: Any) -> Any:
            return getattr(_loaded(self._module), name)(*arguments, **options)

        return enter


def load(*modules: str) -> threading.Thread:
    """Load modules in a thread of its own; whoever needs one before waits for it, and meets its errors, as ever."""

    def read() -> None:
        with contextlib.suppress(Exception):  # whoever needs it meets the same, and tells
            for module in modules:
                _loaded(module)

    thread = threading.Thread(target=read, name="load", daemon=True)
    thread.start()
    return thread


def _loaded(module: str) -> ModuleType:
    if module in _THERE:
        return importlib.import_module(module)
    with _ALONE:
        found = importlib.import_module(module)
        _THERE.add(module)
        return found
