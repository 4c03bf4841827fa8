"""All streams of a fetch side by side: so many to each host, what fails at one host asked of the next that has it."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from local.errors import PrudentError
from local.fetching import plan
from local.fetching.arriving import Closing
from local.fetching.place import NoPlace
from local.fetching.stream import Ended, Hearers, SampleStream

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from local.fetching.place import Place
    from local.fetching.plan import Holding
    from local.fetching.stream import Source
    from remote.schema import ManifestEntry

MOST_STREAMS = 16  # on this laptop, however many hosts
LEAVING = 3.0  # seconds that streams get to let go after Ctrl-C


@dataclass
class Share:
    """What came of one host."""

    came: int = 0
    size: int = 0
    began: float = 0.0
    ended: float = 0.0
    error: PrudentError | None = None

    @property
    def seconds(self) -> float:
        """Give how long its streams took."""
        return max(0.0, self.ended - self.began)


@dataclass
class Crew:
    """Fetches missing samples; after `go`, `came` has those that stand now and `failed` why others do not."""

    sources: Mapping[str, Source]
    holdings: Sequence[Holding]
    place: Place
    parallel: int
    patience: float | None
    on_bytes: Callable[[str, int], None]
    on_sample: Callable[[str, ManifestEntry], None]
    on_link: Callable[[str, str], None]
    came: dict[int, plan.Standing] = field(default_factory=dict)
    failed: dict[int, tuple[str, str]] = field(default_factory=dict)  # index → host, why
    shares: dict[str, Share] = field(default_factory=dict)
    _ending: threading.Event = field(default_factory=threading.Event)
    _closing: Closing = field(default_factory=Closing)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _fault: BaseException | None = None

    def go(self, missing: set[int]) -> None:
        """Fetch; raises NoPlace where the laptop's disk takes no more, after everything has been let go of."""
        tried: set[tuple[int, str]] = set()
        while left := missing - self.came.keys():
            living = [held for held in self.holdings if self._share(held.name).error is None]
            dealt = plan.deal(living, left, tried)
            if not dealt:
                break
            self._round(dealt)
            tried |= {(entry.index, name) for name, entries in dealt.items() for entry in entries}
            if self._fault is not None:
                raise self._fault
        for index in missing - self.came.keys() - self.failed.keys():
            holders = [held.name for held in self.holdings if index in held.entries]
            self.failed[index] = (holders[0], "was not reached")

    def _share(self, name: str) -> Share:
        return self.shares.setdefault(name, Share())

    def _round(self, dealt: Mapping[str, list[ManifestEntry]]) -> None:
        each = max(1, min(self.parallel, MOST_STREAMS // len(dealt)))
        streams = [
            (name, self._stream(name, part)) for name, entries in dealt.items() for part in plan.streams(entries, each)
        ]
        threads = [
            threading.Thread(target=self._one, args=pair, name=f"fetch {pair[0]}", daemon=True) for pair in streams
        ]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except BaseException:
            self._leave([stream for _, stream in streams], threads)
            raise

    def _leave(self, streams: Sequence[SampleStream], threads: Sequence[threading.Thread]) -> None:
        """End all streams: what has come stays, and is gone on with next time."""
        self._ending.set()
        for stream in streams:
            stream.let_go()
        until = time.monotonic() + LEAVING
        for thread in threads:
            if thread.ident is not None:
                thread.join(max(0.0, until - time.monotonic()))
        self._closing.close()  # a slow disk still syncs for one: what it gives no name stays a part

    def _stream(self, name: str, entries: Sequence[ManifestEntry]) -> SampleStream:
        hearers = Hearers(
            on_bytes=lambda count: self._bytes(name, count),
            on_sample=lambda entry: self._sample(name, entry),
            on_link=lambda said: self.on_link(name, said),
            ending=self._ending,
            closing=self._closing,
        )
        return SampleStream(self.sources[name], self.place, entries, hearers, self.patience)

    def _one(self, name: str, stream: SampleStream) -> None:
        share = self._share(name)
        share.began = share.began or time.monotonic()
        try:
            stream.go()
        except Ended:
            pass
        except NoPlace as error:
            self._fault = error
            self._ending.set()
        except PrudentError as error:
            share.error = error
        except BaseException as error:  # noqa: BLE001 - told by the thread that waits for us
            self._fault = error
            self._ending.set()
        finally:
            with self._lock:
                self.failed.update({index: (name, why) for index, why in stream.failed.items()})
            share.ended = time.monotonic()

    def _bytes(self, name: str, count: int) -> None:
        with self._lock:
            self._share(name).size += count
        self.on_bytes(name, count)

    def _sample(self, name: str, entry: ManifestEntry) -> None:
        with self._lock:
            self.came[entry.index] = (entry, name)
            self.failed.pop(entry.index, None)
            self._share(name).came += 1
        self.on_sample(name, entry)
