"""Follow a run over any number of cuts: bytes by offset, each exactly once and in order, until the run is over.

A link is dead when no frame has come for a while, whatever TCP thinks: the payload beats every two seconds. Then we
connect again and ask for what is missing. Losing the link says nothing about the run and never touches it.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import tenacity

from local.errors import Denied, GaveUp, LinkLost, PayloadCrashed, PrudentError, Unreachable, UsageError
from local.streaming import BadStream, Frame, Frames
from remote import wire
from remote.schema import Exit, ReadRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from local.host import Host
    from local.links.base import Stream

HEARTBEAT = 2.0
SILENCE = 10.0  # seconds without a frame after which a link is dead
LONGEST_DELAY = 15.0
CRASHES = 3  # of the reading over there without anything new between them: then it is given up
SLICE = 0.5  # seconds between two calls of `on_beat` while we wait to connect again


def _nothing(*_: object) -> None:
    """Take anything and do nothing."""


@dataclass(slots=True)
class Watchers:
    """Who is told what: `on_beat` is called at least every two seconds or so and may raise to end the following."""

    on_log: Callable[[bytes], None]
    on_event: Callable[[dict[str, Any]], None]
    on_link: Callable[[str], None] = _nothing
    on_beat: Callable[[], None] = _nothing


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
    patience: float | None = None,
    offsets: Mapping[str, int] | None = None,
    until_end: bool = True,
    silence: float = SILENCE,
) -> Exit | None:
    """Stream a run's log and events until it is over; gives its exit, None when it has none (lost, or not followed).

    Raises GaveUp when the link stays lost for longer than `patience` seconds (None: for ever), UsageError when there
    is no such run. `until_end` False reads what is there now.
    """
    watchers = Watchers(on_log, on_event, on_link, on_beat)
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
    _heard: float = 0.0
    _fresh: bool = False  # something was heard on this connection
    _lost: bool = False
    _crashes: int = 0  # of the reading over there, since something new was read

    def __post_init__(self) -> None:
        self.offsets = {"log": 0, "events": 0, **self.request.offsets}

    def go(self) -> Exit | None:
        """Follow over cuts."""
        self._heard = time.monotonic()
        retrying = tenacity.Retrying(
            retry=self._again,
            wait=tenacity.wait_exponential(multiplier=0.25, max=LONGEST_DELAY) + tenacity.wait_random(0, 0.5),
            stop=self._out_of_patience,
            sleep=self._sleep,
            before_sleep=self._announce,
            retry_error_callback=self._give_up,
        )
        ended: Exit | None = retrying(self._connection)
        return ended

    # ---- one connection ----------------------------------------------------------------------------------------

    def _connection(self) -> Exit | None:
        self._fresh = False
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
                raise LinkLost(f"the stream is damaged: {error}", where=self.host.name) from error
            for frame in found:
                framed = time.monotonic()
                self._heard_again()
                if frame.header.get("kind") == "end":
                    return self._end(frame.header)
                self._take(frame)

    def _take(self, frame: Frame) -> None:
        """Pass on what is new in a frame."""
        name, offset = frame.header.get("file"), frame.header.get("offset")
        if frame.header.get("kind") == "gap" and name in self.offsets and type(frame.header.get("to")) is int:
            self._gap(name, frame.header["to"])
        if frame.header.get("kind") == "data" and name in self.offsets and type(offset) is int:
            reached = self.offsets[name]
            if offset > reached:
                raise LinkLost(f"bytes {reached} to {offset} of {name} are missing", where=self.host.name)
            new = frame.body[reached - offset :]
            self.offsets[name] = reached + len(new)
            self._crashes = 0
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

    def _events(self, data: bytes) -> None:
        *lines, self._line = (self._line + data).split(b"\n")
        for line in lines:
            try:
                event = json.loads(line)
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
            return wire.decode(Exit, {"schema": wire.SCHEMA, **header["exit"]}, "exit")
        except (wire.WireError, TypeError) as error:
            raise LinkLost(f"the end of the stream cannot be understood: {error}", where=self.host.name) from error

    # ---- cuts, as tenacity asks for them -----------------------------------------------------------------------

    def _heard_again(self) -> None:
        if self._lost:
            self.watchers.on_link(f"the link is back after {time.monotonic() - self._heard:.1f} s")
        self._lost = False
        self._fresh = True
        self._heard = time.monotonic()

    def _again(self, state: Any) -> bool:
        error = state.outcome.exception()
        if isinstance(error, PayloadCrashed):  # it may have been killed over there, but a fault of ours stays one
            self._crashes += 1
            if self._crashes >= CRASHES:
                return False
        elif isinstance(error, Denied) or not isinstance(error, LinkLost | Unreachable):
            return False
        if self._fresh:
            state.attempt_number = 1  # this connection worked: the delays start over
        return True

    def _out_of_patience(self, state: Any) -> bool:
        del state
        return self.patience is not None and time.monotonic() - self._heard >= self.patience

    def _announce(self, state: Any) -> None:
        if not self._lost:
            why = state.outcome.exception().message
            self.watchers.on_link(f"the link is lost ({why}); the run goes on, connecting again")
        self._lost = True

    def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.watchers.on_beat()
            time.sleep(min(SLICE, left))

    def _give_up(self, state: Any) -> Exit | None:
        error = state.outcome.exception()
        said = error.message if isinstance(error, PrudentError) else str(error)
        raise GaveUp(
            f"no link for {self.patience:.0f} s: {said}",
            remedy=f"Nothing is known to have failed: the run goes on by itself. Come back with "
            f"`fab -H {self.host.name} logs --follow --run {self.request.run}`.",
            where=self.host.name,
        ) from error
