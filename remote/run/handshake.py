"""The pipe between `launch` and the supervisor: one JSON line that says whether the run started."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import time

from remote import files, wire


class Handshake:
    """The pipe to `launch`: one line, said once."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - the standard library's own signature

    @property
    def open(self) -> bool:
        """Tell whether nothing was said yet."""
        return self._descriptor is not None

    def say(self, outcome: str, message: str = "") -> None:
        """Say how the start went; a launcher that is gone already does not matter."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        with contextlib.suppress(BrokenPipeError):
            files.write_all(descriptor, json.dumps({"outcome": outcome, "message": message}).encode() + b"\n")
        os.close(descriptor)


def wait(descriptor: int, seconds: float) -> tuple[str, str] | None:
    """Give outcome and message of the supervisor, None when it says nothing in time or dies without a word."""
    until, said = time.monotonic() + seconds, b""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while b"\n" not in said and (left := until - time.monotonic()) > 0:
            if not selector.select(left):
                return None
            part = os.read(descriptor, 1 << 16)
            if not part:
                return None
            said += part
    try:
        line = wire.parse(said)
        return str(line["outcome"]), str(line["message"])
    except (ValueError, KeyError, TypeError):
        return None
