"""One stream of samples from one host, over any number of cuts, until all of them are here or told why not.

Asked for is only what is still missing, from the byte that was reached. A stream that brings nothing for a while is
dead, whatever TCP thinks; then we connect again.
"""

from __future__ import annotations

import contextlib
import re
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from local.errors import JobFailed, LinkLost, PrudentError
from local.fetching.arriving import Arriving, Closing, Landing
from local.fetching.place import NoPlace
from local.reconnecting import Reconnecting
from local.streaming import BadStream, Frames
from local.text import clean
from remote.schema import SendRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from local.fetching.place import Place
    from local.host import Host
    from local.links.base import Stream
    from local.streaming import Frame
    from remote.schema import ManifestEntry

LARGEST_MANIFEST = 1 << 30  # bytes; a sample has about half a thousand
SILENCE = 30.0  # seconds without a byte after which a link is dead: a disk over there may take its time
_NAME = re.compile(r"data_(\d{1,9})\.pt")


class Ended(Exception):
    """The fetch is to end: what is here stays."""


@dataclass(frozen=True, slots=True)
class Source:
    """A host's outputs: whom to ask, and for which folder."""

    host: Host
    bundle: str
    output: str


def _nothing(*_: object) -> None:
    """Take anything and do nothing."""


@dataclass(slots=True)
class Hearers:
    """Who is told what: bytes that came, samples that stand, what became of the link.

    `ending` ends the fetch; after `closing` nothing takes its place any more.
    """

    on_bytes: Callable[[int], None] = _nothing
    on_sample: Callable[[ManifestEntry], None] = _nothing
    on_link: Callable[[str], None] = _nothing
    ending: threading.Event = field(default_factory=threading.Event)
    closing: Closing = field(default_factory=Closing)


@dataclass
class SampleStream:
    """Some samples of one host; `failed` says of each that cannot be had why."""

    source: Source
    place: Place
    entries: Sequence[ManifestEntry]
    hearers: Hearers
    patience: float | None
    silence: float = SILENCE
    failed: dict[int, str] = field(default_factory=dict)
    _left: dict[int, ManifestEntry] = field(init=False)
    _wrong: set[int] = field(default_factory=set)  # came wrong once
    _cuts: Reconnecting = field(init=False)
    _stream: Stream | None = None
    _landing: Landing = field(init=False)

    def __post_init__(self) -> None:
        self._left = {entry.index: entry for entry in self.entries}
        self._landing = Landing(self.place, self.hearers.on_sample, self.hearers.closing)
        self._cuts = Reconnecting(
            name=self.source.host.name,
            patience=self.patience,
            on_link=self._tell,
            sleep=self._sleep,
            meanwhile="connecting again",
            remedy="What has come is kept: the same command goes on where it stood.",
        )

    def go(self) -> None:
        """Fetch all of them; raises GaveUp, Ended, or what no other try would mend."""
        try:
            while self._left:
                self._cuts.go(self._connection)
        except NoPlace:
            raise  # the disk takes nothing more: what is whole is found again as a part
        except BaseException:
            self._landing.land()
            raise
        self._landing.land()

    def let_go(self) -> None:
        """Close the connection under a reading that is to end."""
        if self._stream is not None:
            with contextlib.suppress(Exception):
                self._stream.close()

    # ---- one connection ----------------------------------------------------------------------------------------

    def _connection(self) -> None:
        self._check_ending()
        offsets = {str(index): came for index, entry in self._left.items() if (came := self.place.came(entry))}
        request = SendRequest(output=self.source.output, indices=tuple(self._left), offsets=offsets)
        asked = dict(self._left)
        with self.source.host.stream("send", request, bundle=self.source.bundle) as self._stream:
            self._read(_frames(self._stream, self.silence, self.source.host.name))
        for index in asked.keys() & self._left.keys() - self._wrong:
            self._fail(index, "was not sent whole: it may be written anew just now")

    def _read(self, frames: Iterator[Frame]) -> None:
        arriving: Arriving | None = None
        try:
            for frame in frames:
                self._check_ending()
                self._cuts.heard()
                if frame.header.get("kind") == "end":
                    self._end(frame.header)
                    return
                arriving = self._take(frame, arriving)
        finally:
            if arriving is not None:
                arriving.close()

    def _take(self, frame: Frame, arriving: Arriving | None) -> Arriving | None:
        """Take one frame; gives the sample that is still on its way after it."""
        entry = self._entry(frame)
        if entry is None:
            return arriving
        if frame.header.get("kind") == "not":
            self._fail(entry.index, clean(str(frame.header.get("why", "cannot be sent"))))
            return arriving
        if frame.header.get("of") != entry.size:
            self._fail(entry.index, f"is {frame.header.get('of')} bytes there, its manifest says {entry.size}")
            return arriving
        if arriving is None or arriving.entry is not entry:
            if arriving is not None:
                arriving.close()
            arriving = Arriving(self.place, entry)
        self._add(arriving, frame)
        if not arriving.whole:
            return arriving
        self._finish(arriving)
        return None

    def _entry(self, frame: Frame) -> ManifestEntry | None:
        """Give the sample that a frame is of, None for one that is not, or no more, asked for."""
        match = _NAME.fullmatch(str(frame.header.get("file")))
        return self._left.get(int(match[1])) if match else None

    def _add(self, arriving: Arriving, frame: Frame) -> None:
        offset = frame.header.get("offset")
        if type(offset) is not int or offset > arriving.at:
            arriving.close()
            raise LinkLost(f"bytes of {arriving.entry.file} are missing in the stream", where=self.source.host.name)
        try:
            new = arriving.add(offset, frame.body)
        except PrudentError:
            arriving.close()
            raise
        if new:
            self._cuts.came_further()
            self.hearers.on_bytes(new)

    def _finish(self, arriving: Arriving) -> None:
        entry = arriving.entry
        if arriving.right():
            del self._left[entry.index]
            self._landing.add(arriving)
            return
        self.hearers.on_bytes(-entry.size)
        if entry.index in self._wrong:
            self._fail(entry.index, "came twice with another SHA-256 than its manifest says")
        self._wrong.add(entry.index)

    def _fail(self, index: int, why: str) -> None:
        if self._left.pop(index, None) is not None:
            self.failed[index] = why

    def _end(self, header: dict[str, Any]) -> None:
        if header.get("error"):
            raise JobFailed(
                clean(str(header["error"])), remedy="Its manifest was there before: look at the host.",
                where=self.source.host.name,
            )  # fmt: skip

    def _check_ending(self) -> None:
        if self.hearers.ending.is_set():
            raise Ended

    def _tell(self, said: str) -> None:
        self._check_ending()  # a link that is let go is not lost
        self.hearers.on_link(said)

    def _sleep(self, seconds: float) -> None:
        if self.hearers.ending.wait(seconds):
            raise Ended


def read_manifest(source: Source, silence: float = SILENCE) -> bytes | str:
    """Give a host's manifest, or, as text, why there is none; raises LinkLost."""
    request = SendRequest(output=source.output, manifest=True)
    found = bytearray()
    with source.host.stream("send", request, bundle=source.bundle) as stream:
        for frame in _frames(stream, silence, source.host.name):
            if why := frame.header.get("why") or frame.header.get("error"):
                return clean(str(why))
            if frame.header.get("kind") == "end":
                break
            found += frame.body
            if len(found) > LARGEST_MANIFEST:
                return f"it has more than {LARGEST_MANIFEST >> 20} MiB: no dataset has so many samples"
    return bytes(found)


def _frames(stream: Stream, silence: float, host: str) -> Iterator[Frame]:
    """Give a stream's frames; raises LinkLost when it falls silent, is damaged, or ends without an end."""
    frames = Frames()
    ended = False
    while not ended:
        data = stream.read(silence)
        if not data:
            raise LinkLost("the stream ended before all was sent", where=host)
        try:
            for frame in frames.feed(data):
                ended = frame.header.get("kind") == "end"
                yield frame
        except BadStream as error:
            raise LinkLost(f"the stream is damaged: {error}", where=host) from error
