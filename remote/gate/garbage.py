"""The collector of garbage kept out of imports: it looks through millions of lasting objects, again and again."""

from __future__ import annotations

import contextlib
import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Collect nothing within this block, and what it leaves never: modules last as long as the process.

    A fifth of the time of importing torch goes into collecting, and a third of a second into each full collection
    later, of which the engine's end takes several.
    """
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if before:
            gc.enable()
