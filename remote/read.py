"""Verb `read`: a run's log and events as frames from byte offsets, until the run is over and both are read.

Frames are told in docs/wire.md ("Following"). The `end` frame carries the exit document, or null with `lost`
(nobody owns the run any more and it left no exit.json), `error` (what was asked for is not there) or neither
(`follow` was false). A reader that has gone away ends the stream at the next frame.
"""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remote import files
from remote.run import logfile, runs

if TYPE_CHECKING:
    from remote.channel import Channel
    from remote.paths import Run
    from remote.schema import ReadRequest

CHUNK = 256 * 1024
POLL = 0.2
LOOK = 1.0  # seconds between two looks for a supervisor that is gone


class _Gone(Exception):
    """What was asked for is not there; the message is for the end frame."""


def stream(request: ReadRequest, channel: Channel) -> None:
    """Send frames until the run is over, or the reader is gone."""
    try:
        channel.frame(_Reader(request, channel).read())
    except BrokenPipeError:
        return
    except _Gone as error:
        channel.frame({"kind": "end", "exit": None, "error": str(error)})


class _Reader:
    """Reads the files of one run forward from the offsets asked for."""

    def __init__(self, request: ReadRequest, channel: Channel) -> None:
        run = runs.find(request.workdir, request.run)
        if run is None:
            raise _Gone(f"no run {request.run} in {request.workdir}")
        self._run: Run = run
        self._follow = request.follow
        self._heartbeat = max(0.1, request.heartbeat)
        self._channel = channel
        self._files = {"log": Path(run.log), "events": Path(run.events)}
        self._offsets = {name: max(0, request.offsets.get(name, 0)) for name in self._files}
        self._spoke = 0.0
        self._looked = 0.0

    def read(self) -> dict[str, Any]:
        """Send data and beats; gives the header of the end frame."""
        self._beat()
        while True:
            end = self._end()  # looked at before the files: what is read after it is all there is
            sent = [self._send_new(name) for name in self._files]
            if end is not None and not any(sent):
                return {"kind": "end", **end}
            if not any(sent):
                if time.monotonic() - self._spoke >= self._heartbeat:
                    self._beat()
                time.sleep(min(POLL, self._heartbeat))

    def _end(self) -> dict[str, Any] | None:
        """Give what the end frame will say, None while the run goes on."""
        if Path(self._run.exit).exists() or not self._follow:
            snapshot = runs.look(self._run)
            if snapshot.exit is not None or not self._follow:
                return {"exit": dataclasses.asdict(snapshot.exit) if snapshot.exit else None}
        if time.monotonic() - self._looked < LOOK:
            return None
        self._looked = time.monotonic()
        if not Path(self._run.root).is_dir():
            raise _Gone(f"run {self._run.id} was removed")
        lost = runs.look(self._run).lost
        return None if lost is None else {"exit": None, "lost": lost}

    def _send_new(self, name: str) -> bool:
        """Send one frame of what is new in a file; False when there is nothing."""
        offset = self._offsets[name]
        if name == "log" and self._skip_what_went(offset):
            return True
        try:
            with files.opened(self._files[name]) as file:
                size = file.seek(0, 2)
                if offset > size:
                    raise _Gone(f"{name} has {size} bytes, but was to be read from byte {offset}")
                file.seek(offset)
                data = file.read(CHUNK)
        except FileNotFoundError:
            if offset:
                raise _Gone(f"{name} is not there, but was to be read from byte {offset}") from None
            return False
        if not data:
            return False
        if name == "log" and self._skip_what_went(offset):  # what we have read may be a hole by now
            return True
        self._channel.frame({"kind": "data", "file": name, "offset": offset}, data)
        self._offsets[name] = offset + len(data)
        self._spoke = time.monotonic()
        return True

    def _skip_what_went(self, offset: int) -> bool:
        """Tell the reader of bytes of the log that are not kept any more; True when there were any."""
        first = logfile.start(self._run)
        if first <= offset:
            return False
        self._channel.frame({"kind": "gap", "file": "log", "offset": offset, "to": first})
        self._offsets["log"] = first
        self._spoke = time.monotonic()
        return True

    def _beat(self) -> None:
        self._channel.frame({"kind": "beat", "time": time.time()})
        self._spoke = time.monotonic()
