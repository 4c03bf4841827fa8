"""The folder on the laptop: where samples come to stand, what stands already, and its merged manifest."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
from typing import TYPE_CHECKING
from urllib.parse import quote

from local.errors import GaveUp, PrudentError
from local.fetching.plan import sane
from local.summary import size
from remote import files, wire
from remote.schema import ManifestEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from local.fetching.plan import Holding, Standing

SPARE = 64 << 20  # bytes that a fetch leaves free
CHUNK = 1 << 20
READABLE = 0o644
OWN = {"samples", "manifest.jsonl"}  # names that no host's folder may have
_SAMPLE = re.compile(r"data_(\d{1,9})\.pt")
_PART = re.compile(r"\.data_(\d{1,9})\.pt\.[0-9a-f]{16}\.part")


class NoPlace(PrudentError):
    """The laptop's disk is full, or the folder cannot be written."""


@contextlib.contextmanager
def told(path: Path) -> Iterator[None]:
    """Tell what the laptop's file system says against us in our words."""
    try:
        yield
    except OSError as error:
        raise NoPlace(
            f"{error.filename or path} cannot be written: {error.strerror or error}",
            remedy="Make room, or name another folder with --to; the same command then goes on where it stood.",
            where="this laptop",
        ) from error


class Place:
    """One folder that outputs are fetched to."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.samples = root / "samples"
        self.manifest = root / "manifest.jsonl"

    def __repr__(self) -> str:
        return f"<outputs in {self.root}>"

    def host_manifest(self, host: str) -> Path:
        """Give where a host's manifest goes; whatever its name, the folder is right below ours, and none of ours."""
        name = quote(host, safe="@").lstrip(".") or "host"
        return self.root / (f"{name}.host" if name.lower() in OWN else name) / "manifest.jsonl"

    def keep_manifest(self, host: str, data: bytes) -> Path:
        """Put a host's manifest in its place, whole."""
        path = self.host_manifest(host)
        with told(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            files.replace(path, data, mode=READABLE)
        return path

    def sample(self, entry: ManifestEntry) -> Path:
        """Give where a sample comes to stand."""
        return self.samples / f"data_{entry.index}.pt"

    def part(self, entry: ManifestEntry) -> Path:
        """Give where a sample grows: a name of its own for each content, and none that a trainer takes."""
        return self.samples / f".data_{entry.index}.pt.{entry.sha256[:16]}.part"

    def came(self, entry: ManifestEntry) -> int:
        """Give how many bytes of a sample have come already."""
        with contextlib.suppress(OSError):
            return min(self.part(entry).stat().st_size, entry.size)
        return 0

    def make(self) -> None:
        """Make the folder for samples."""
        with told(self.samples):
            self.samples.mkdir(parents=True, exist_ok=True)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep the folder for samples to ourselves; raises GaveUp where another fetch fills it.

        Two that write to one part file take it away from each other. Where there are no locks, we go without.
        """
        with told(self.samples):
            folder = os.open(self.samples, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if _taken(folder):
                raise GaveUp(
                    f"another fetch is filling {self.samples}",
                    remedy="Let it end, then run this again: what it has brought stands then. Or choose another --to.",
                    where="this laptop",
                )
            yield
        finally:
            os.close(folder)

    def make_room(self, wanted: Iterable[ManifestEntry]) -> int:
        """Give how many bytes are to come; raises NoPlace where they do not fit."""
        coming = sum(entry.size - self.came(entry) for entry in wanted)
        with told(self.root):
            free = shutil.disk_usage(self.samples).free
        if coming + SPARE > free:
            raise NoPlace(
                f"{size(coming)} are to come, and {self.samples} has {size(free)} free",
                remedy="Make room, name another folder with --to, or fetch a part of them with --indices.",
                where="this laptop",
            )
        return coming

    # ---- what stands already -----------------------------------------------------------------------------------

    def lines(self) -> dict[int, Standing]:
        """Give what the merged manifest says, with the host that each sample came from."""
        found = {}
        with told(self.manifest), contextlib.suppress(FileNotFoundError), self.manifest.open("rb") as file:
            for line in file:
                with contextlib.suppress(wire.WireError, ValueError, TypeError):
                    entry = wire.loads(ManifestEntry, line, "manifest")
                    if sane(entry):
                        found[entry.index] = (entry, str(json.loads(line).get("host", "")))
        return found

    def sizes(self) -> dict[int, int]:
        """Give the size of every sample file that stands."""
        with told(self.samples), os.scandir(self.samples) as found:
            return {
                int(match[1]): item.stat().st_size
                for item in found
                if (match := _SAMPLE.fullmatch(item.name)) and item.is_file(follow_symlinks=False)
            }

    def standing(
        self, wanted: Iterable[int], holdings: Iterable[Holding], on_hash: Callable[[int], None]
    ) -> dict[int, Standing]:
        """Give which of the wanted samples stand: by our own line where a host says the same, else by their hash."""
        own, sizes, holdings = self.lines(), self.sizes(), list(holdings)
        found = {}
        for index in wanted:
            if index not in sizes:
                continue
            fitting = [
                (held.entries[index], held.name)
                for held in holdings
                if index in held.entries and held.entries[index].size == sizes[index]
            ]
            line = own.get(index)
            if line and any(entry.sha256 == line[0].sha256 for entry, _ in fitting):
                found[index] = line
            elif fitting:
                on_hash(index)
                digest = _sha256(self.sample(fitting[0][0]))
                if right := [pair for pair in fitting if pair[0].sha256 == digest]:
                    found[index] = right[0]
        return found

    def keep_lines(self, came: Mapping[int, Standing]) -> int:
        """Write the merged manifest: what it said of files that stand, and what came; gives how many lines it has."""
        sizes = self.sizes()
        lines = {**self.lines(), **came}
        whole = {index: lines[index] for index in sorted(lines) if sizes.get(index) == lines[index][0].size}
        text = "".join(
            json.dumps({**wire.encode(entry), "host": host}, separators=(",", ":")) + "\n"
            for entry, host in whole.values()
        )
        with told(self.manifest):
            files.sync_folder(self.samples)
            files.replace(self.manifest, text.encode(), mode=READABLE)
        return len(whole)

    def sweep(self) -> None:
        """Remove what had come of samples that stand by now, as another host had them, or as they were before."""
        standing = self.sizes().keys() & self.lines().keys()
        with contextlib.suppress(OSError):
            for path in self.samples.glob(".data_*.part"):
                if (match := _PART.fullmatch(path.name)) and int(match[1]) in standing:
                    path.unlink()

    def strangers(self) -> list[int]:
        """Give samples that stand here and that the merged manifest does not tell of: a trainer would take them."""
        return sorted(self.sizes().keys() - self.lines().keys())


def _taken(folder: int) -> bool:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    return False


def _sha256(path: Path) -> str:
    with told(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
