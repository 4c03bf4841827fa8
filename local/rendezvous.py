"""Where the pipelines of one chain meet: each brings something, and all go on with what all have brought.

Whoever's pipeline has ended is not waited for, and nobody is waited for longer than `patience` after the first has
come. Waiting is done in short slices, so that Ctrl-C is noticed and nobody's output is held back.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")
R = TypeVar("R")
SLICE = 0.2
SOON = 1.0  # seconds after which it is worth a word whom we wait for


class TooLate(Exception):
    """The others have gone on without us."""


class Gathering(Generic[T]):
    """What those who met have brought, by name in the party's order; `late` are the names that nobody waited for."""

    def __init__(self) -> None:
        self.brought: dict[str, T] = {}
        self.late: tuple[str, ...] = ()
        self.first: float | None = None  # when the first came
        self.closed = False
        self._lock = threading.Lock()
        self._made: Any = None

    def __repr__(self) -> str:
        return f"<gathering of {', '.join(self.brought) or 'nobody'}{', closed' if self.closed else ''}>"

    def once(self, make: Callable[[], R]) -> R:
        """Do something once for all of them; everybody gets its result, or its exception."""
        with self._lock:
            if self._made is None:
                try:
                    self._made = (make(), None)
                except Exception as error:  # noqa: BLE001 - raised below, in everybody's pipeline
                    self._made = (None, error)
        result, failure = self._made
        if failure is not None:
            raise failure
        made: R = result
        return made


class Party:
    """The pipelines of one chain, by name; they may meet any number of times."""

    def __init__(self, names: Iterable[str], *, clock: Callable[[], float] = time.monotonic) -> None:
        self.names = tuple(names)
        self._clock = clock
        self._changed = threading.Condition()
        self._gone: dict[str, str] = {}
        self._gatherings: list[Gathering[Any]] = []
        self._meetings: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<party of {', '.join(self.names)}>"

    @property
    def gone(self) -> dict[str, str]:
        """Give those whose pipeline has ended, each with why."""
        return dict(self._gone)

    def has_met(self, name: str) -> bool:
        """Say whether a pipeline has been at a meeting, or was late for one."""
        return name in self._meetings

    def leave(self, name: str, why: str = "") -> None:
        """Note that a pipeline has ended: nobody waits for it any more."""
        with self._changed:
            self._gone[name] = why
            self._changed.notify_all()

    def meet(
        self,
        name: str,
        brought: T,
        *,
        patience: float,
        on_beat: Callable[[], None],
        on_wait: Callable[[tuple[str, ...]], None] = lambda _: None,
    ) -> Gathering[T]:
        """Bring something to the next meeting and wait for the others; raises TooLate.

        `on_wait` is told once whom we wait for, when it is not over soon; `on_beat` is called in every slice and may
        raise to end the waiting.
        """
        with self._changed:
            gathering = self._next(name)
            if gathering.closed:
                raise TooLate
            gathering.brought[name] = brought
            gathering.first = self._clock() if gathering.first is None else gathering.first
            self._changed.notify_all()
        began, told = self._clock(), False
        while True:
            on_beat()
            with self._changed:
                if self._over(gathering, patience):
                    return gathering
                expected = self._expected(gathering)
                self._changed.wait(SLICE)
            if not told and self._clock() - began >= SOON:
                on_wait(expected)
                told = True

    def _next(self, name: str) -> Gathering[Any]:
        number = self._meetings[name] = self._meetings.get(name, -1) + 1
        while len(self._gatherings) <= number:
            self._gatherings.append(Gathering())
        return self._gatherings[number]

    def _expected(self, gathering: Gathering[Any]) -> tuple[str, ...]:
        return tuple(name for name in self.names if name not in gathering.brought and name not in self._gone)

    def _over(self, gathering: Gathering[Any], patience: float) -> bool:
        """Close a meeting when nobody is expected any more, or nobody is waited for any longer."""
        expected = self._expected(gathering)
        waited = self._clock() - (gathering.first or 0.0)
        if not gathering.closed and (not expected or waited >= patience):
            gathering.closed = True
            gathering.late = expected
            order = [name for name in self.names if name in gathering.brought]
            gathering.brought = {name: gathering.brought[name] for name in order}
            self._changed.notify_all()
        return gathering.closed
