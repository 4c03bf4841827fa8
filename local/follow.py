"""Follow a run over any number of cuts: bytes by offset, each exactly once and in order, until the run is over.

A link is dead when no frame has come for a while, whatever TCP thinks: the payload beats every two seconds. Then we
connect again and ask for what is missing. Losing the link says nothing about the run and never touches it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from local import answers
from local.errors import LinkLost, PayloadCrashed, UsageError
from local.reconnecting import Reconnecting
from local.streaming import BadStream, Frame, Frames
from remote import wire
from remote.schema import Exit, ReadRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from local.host import Host
    from local.links.base import Stream

HEARTBEAT = 2.0
SILENCE = 10.0  # seconds without a frame after which a link is dead
LONGEST_EVENT = 1 << 20  # bytes without a line end that are no event
SLICE = 0.5  # seconds between two calls of `on_beat` while we wait to connect again


def _nothing(*_: object) -> None:
    """Take anything and do nothing."""


@dataclass(slots=True)
class Watchers:
    """Who is told what: `on_beat` is called at least every two seconds or so and may raise to end the following.

    `on_heard` is called with each word from the host, `on_gap` before the log goes on behind bytes that are not kept.
    """

    on_log: Callable[[bytes], None]
    on_event: Callable[[dict[str, Any]], None]
    on_link: Callable[[str], None] = _nothing
    on_beat: Callable[[], None] = _nothing
    on_heard: Callable[[], None] = _nothing
    on_gap: Callable[[], None] = _nothing


def follow(
    host: Host,
    *,
    bundle: str,
    workdir: str,
    run: str,
    on_log: Callable[[bytes], None],
    on_event: Callable[[dict[str, Any]], None],
    on_link: Callable[[str], None] = _nothing,
    on_beat: Callable[[], None] = _nothing,
    on_heard: Callable[[], None] = _nothing,
    on_gap: Callable[[], None] = _nothing,
    patience: float | None = None,
    offsets: Mapping[str, int] | None = None,
    until_end: bool = True,
    silence: float = SILENCE,
) -> Exit | None:
    """Stream a run's log and events until it is over; gives its exit, None when it has none (lost, or not followed).

    Raises GaveUp when the link stays lost for longer than `patience` seconds (None: for ever), UsageError when there
    is no such run. `until_end` False reads what is there now.
    """
    watchers = Watchers(on_log, on_event, on_link, on_beat, on_heard, on_gap)
    request = ReadRequest(
        workdir=workdir, run=run, offsets=dict(offsets or {}), follow=until_end, heartbeat=min(HEARTBEAT, silence / 4)
    )
    return Follower(host, bundle, request, watchers, patience=patience, silence=silence).go()


@dataclass
class Follower:
    """One following: how far it has come, and what it does about cuts."""

    host: Host
    bundle: str
    request: ReadRequest
    watchers: Watchers
    patience: float | None
    silence: float
    offsets: dict[str, int] = field(init=False)
    _line: bytes = b""  # an event that has come in part
    _cuts: Reconnecting = field(init=False)

    def __post_init__(self) -> None:
        self.offsets = {"log": 0, "events": 0, **self.request.offsets}
        self._cuts = Reconnecting(
            name=self.host.name,
            patience=self.patience,
            on_link=self.watchers.on_link,
            sleep=self._sleep,
            meanwhile="the run goes on, connecting again",
            remedy="Nothing is known to have failed: the run goes on by itself. Come back with "
            f"`fab -H {self.host.name} logs --follow --run {self.request.run}`.",
        )

    def go(self) -> Exit | None:
        """Follow over cuts."""
        return self._cuts.go(self._connection)

    # ---- one connection ----------------------------------------------------------------------------------------

    def _connection(self) -> Exit | None:
        request = ReadRequest(
            workdir=self.request.workdir,
            run=self.request.run,
            offsets=self.offsets,
            follow=self.request.follow,
            heartbeat=self.request.heartbeat,
        )
        with self.host.stream("read", request, bundle=self.bundle) as stream:
            return self._read(stream)

    def _read(self, stream: Stream) -> Exit | None:
        frames = Frames()
        framed = time.monotonic()
        while True:
            left = self.silence - (time.monotonic() - framed)
            if left <= 0:
                raise LinkLost(f"nothing was heard for {self.silence:g} s", where=self.host.name)
            data = stream.read(left)
            if not data:
                raise LinkLost("the stream ended before the run did", where=self.host.name)
            try:
                found = frames.feed(data)
            except BadStream as error:
                raise PayloadCrashed(f"the stream is damaged: {error}", where=self.host.name) from error
            for frame in found:
                framed = time.monotonic()
                self._cuts.heard()
                self.watchers.on_heard()
                if frame.header.get("kind") == "end":
                    return self._end(frame.header)
                self._take(frame)

    def _take(self, frame: Frame) -> None:
        """Pass on what is new in a frame."""
        name, offset = str(frame.header.get("file")), frame.header.get("offset")
        if frame.header.get("kind") == "gap" and name in self.offsets and type(frame.header.get("to")) is int:
            self._gap(name, frame.header["to"])
        if frame.header.get("kind") == "data" and name in self.offsets and type(offset) is int:
            reached = self.offsets[name]
            if offset > reached:
                raise PayloadCrashed(f"bytes {reached} to {offset} of {name} are missing", where=self.host.name)
            new = frame.body[reached - offset :]
            self.offsets[name] = reached + len(new)
            if new:
                self._cuts.came_further()
            if new and name == "log":
                self.watchers.on_log(new)
            elif new:
                self._events(new)
        self.watchers.on_beat()

    def _gap(self, name: str, to: int) -> None:
        """Go on behind bytes that the host has not kept."""
        if to > self.offsets[name]:
            self.watchers.on_link(f"bytes {self.offsets[name]:,} to {to:,} of the {name} are not kept on the host")
            self.offsets[name] = to
            if name == "log":
                self.watchers.on_gap()

    def _events(self, data: bytes) -> None:
        *lines, self._line = (self._line + data).split(b"\n")
        if len(self._line) > LONGEST_EVENT:
            self._line = b""  # its rest will be no JSON, and is passed over
        for line in lines:
            try:
                event = answers.sound(wire.parse(line), "event")
            except ValueError:
                continue  # torn by a crash over there
            if isinstance(event, dict):
                self.watchers.on_event(event)

    def _end(self, header: dict[str, Any]) -> Exit | None:
        if header.get("error"):
            raise UsageError(str(header["error"]), remedy="`fab runs` lists what is there.", where=self.host.name)
        if header.get("exit") is None:
            if header.get("lost"):
                self.watchers.on_link(f"the run is lost: {header['lost']}")
            return None
        try:
            return answers.decode(Exit, {"schema": wire.SCHEMA, **header["exit"]}, "exit")
        except (wire.WireError, TypeError) as error:
            raise PayloadCrashed(f"the stream's end is not understood: {error}", where=self.host.name) from error

    def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.watchers.on_beat()
            time.sleep(min(SLICE, left))
