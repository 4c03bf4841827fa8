"""Samples on their way: part files that grow, are held against the manifest when whole, synced, and only then renamed.

Small ones are synced together: a disk takes as long for one file as for a hundred.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import threading
import time
from typing import TYPE_CHECKING

from local.fetching.place import CHUNK, READABLE, told

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from local.fetching.place import Place
    from remote.schema import ManifestEntry

LARGE = 4 << 20  # bytes from which a sample is synced by itself
MOST, MUCH, LONG = 256, 64 << 20, 5.0  # samples, bytes and seconds after which what is whole is synced


class Arriving:
    """A sample of which `at` bytes are here; what an earlier fetch has left is gone on with."""

    def __init__(self, place: Place, entry: ManifestEntry) -> None:
        self.entry = entry
        self._path = place.part(entry)
        self._final = place.sample(entry)
        self._digest = hashlib.sha256()
        self.synced = False
        self.at = 0
        with told(self._path):
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, READABLE)
            self._take_up()

    def _take_up(self) -> None:
        """Hash what is here; more than there can be is begun anew."""
        if os.fstat(self._file).st_size > self.entry.size:
            os.ftruncate(self._file, 0)
        while data := os.read(self._file, CHUNK):
            self._digest.update(data)
            self.at += len(data)

    @property
    def whole(self) -> bool:
        """Tell whether nothing more is to come."""
        return self.at >= self.entry.size

    def add(self, offset: int, data: bytes) -> int:
        """Take what is new in these bytes; gives how many that were."""
        new = memoryview(data)[max(0, self.at - offset) :]
        with told(self._path):
            left = new
            while left:
                left = left[os.write(self._file, left) :]
        self._digest.update(new)
        self.at += len(new)
        return len(new)

    def right(self) -> bool:
        """Tell whether a whole sample is what the manifest says; one that is not is thrown away."""
        right = self._digest.hexdigest() == self.entry.sha256
        with told(self._path):
            if right and self.entry.size >= LARGE:
                os.fsync(self._file)  # by itself: what else waits to be written is not waited for
                self.synced = True
            self.close()
            if not right:
                self._path.unlink()
        return right

    def land(self) -> None:
        """Take the place of a sample that is whole, right and on the disk."""
        with told(self._path):
            self._path.replace(self._final)

    def close(self) -> None:
        """Let go of the file; what is here stays for the next fetch."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class Closing:
    """Tells when no sample takes its place any more: the manifest of what stands is about to be written."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closed = False

    def close(self) -> None:
        """Let nothing more stand; what is under way has been told of when this returns."""
        with self._lock:
            self._closed = True

    def unless_closed(self, act: Callable[[], None]) -> None:
        """Act now, and whoever closes waits; do nothing when it is closed."""
        with self._lock:
            if not self._closed:
                act()


class Landing:
    """Samples that are whole and right, until so many are synced together and take their places."""

    def __init__(
        self, place: Place, on_sample: Callable[[ManifestEntry], None], closing: Closing | None = None
    ) -> None:
        self._place = place
        self._on_sample = on_sample
        self._closing = closing or Closing()
        self._held: list[Arriving] = []
        self._size = 0
        self._since = time.monotonic()

    def add(self, arriving: Arriving) -> None:
        """Take one more; lands all when they are many, much, or have waited, and what is synced already at once."""
        if arriving.synced:
            self._stand(arriving)
            return
        self._since = self._since if self._held else time.monotonic()
        self._held.append(arriving)
        self._size += arriving.entry.size
        if len(self._held) >= MOST or self._size >= MUCH or time.monotonic() - self._since > LONG:
            self.land()

    def land(self) -> None:
        """Sync what is held, and give each its name."""
        held, self._held, self._size = self._held, [], 0
        if not held:
            return
        with told(self._place.samples):
            _sync(self._place.samples)
        for arriving in held:
            self._stand(arriving)

    def _stand(self, arriving: Arriving) -> None:
        def stand() -> None:
            arriving.land()
            self._on_sample(arriving.entry)

        self._closing.unless_closed(stand)


def _sync(folder: Path) -> None:
    """Bring all of a folder's file system to the disk; where only everything can be synced, everything is."""
    try:
        sync = ctypes.CDLL(None, use_errno=True).syncfs
    except AttributeError:
        os.sync()
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if sync(descriptor):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(folder))
    finally:
        os.close(descriptor)
