"""Work that many pipelines would do alike: done once for all, and no more at a time than the laptop has cores.

Hosts of one make have the same packages: what is found in their sources for one is found for all.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from concurrent.futures import Future
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

T = TypeVar("T")
KEPT = 8


class Shared(Generic[T]):
    """Results by key: the first to come does the work, the others wait; a failure is everybody's, and not kept."""

    def __init__(self, *, at_once: int | None = None, kept: int = KEPT) -> None:
        self._lock = threading.Lock()
        self._room = threading.BoundedSemaphore(at_once or os.cpu_count() or 1)
        self._kept = kept
        self._known: OrderedDict[Hashable, Future[T]] = OrderedDict()

    def __repr__(self) -> str:
        return f"<shared work, {len(self._known)} results>"

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Give the result for a key; raises what making it raised."""
        with self._lock:
            known = self._known.get(key)
            future = known or self._known.setdefault(key, Future())
        if known is None:
            self._do(key, future, make)
        return future.result()

    def _do(self, key: Hashable, future: Future[T], make: Callable[[], T]) -> None:
        try:
            with self._room:
                future.set_result(make())
        except BaseException as error:  # noqa: BLE001 - everybody who waits gets it
            with self._lock:
                self._known.pop(key, None)
            future.set_exception(error)
            return
        with self._lock:
            while len(self._known) > self._kept and (oldest := next(iter(self._known))) != key:
                if not self._known[oldest].done():
                    break
                del self._known[oldest]
