"""The manifest of an output folder: one line per sample written, later lines that take a word back or vouch for it.

`ManifestEntry` says that a sample stands, `ManifestDamage` that its file was found damaged, `ManifestClean` that
whoever wrote the lines above ended in order. The last word on a sample counts; a line that cannot be read (torn by a
crash) is passed over.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from remote import files, wire
from remote.schema import ManifestClean, ManifestDamage, ManifestEntry

if TYPE_CHECKING:
    from remote.paths import Output

Word = ManifestEntry | ManifestDamage | ManifestClean
KINDS: tuple[type[Word], ...] = (ManifestEntry, ManifestDamage, ManifestClean)


@dataclass(slots=True)
class Book:
    """What the manifest says: `condemned` were found damaged since, `fresh` were written since the last clean end."""

    entries: dict[int, ManifestEntry] = field(default_factory=dict)
    condemned: set[int] = field(default_factory=set)
    fresh: dict[int, None] = field(default_factory=dict)  # in the order of writing

    def take(self, line: bytes) -> None:
        """Take one line in."""
        for kind in KINDS:
            with contextlib.suppress(wire.WireError, UnicodeDecodeError):
                self._take(wire.loads(kind, line, "manifest"))
                return

    def _take(self, word: Word) -> None:
        if isinstance(word, ManifestClean):
            self.fresh.clear()
            return
        self.fresh.pop(word.index, None)
        if isinstance(word, ManifestDamage):
            self.entries.pop(word.index, None)
            self.condemned.add(word.index)
        else:
            self.entries[word.index] = word
            self.condemned.discard(word.index)
            self.fresh[word.index] = None


def read(output: Output) -> Book:
    """Read the manifest; none is an empty one."""
    book = Book()
    with contextlib.suppress(FileNotFoundError), files.opened(output.manifest) as file:
        for line in file:
            book.take(line)
    return book


def record(output: Output, word: Word) -> None:
    """Append one line, durably."""
    files.append_line(output.manifest, wire.dumps(word).encode())


def condemn(output: Output, entry: ManifestEntry, why: str) -> bool:
    """Take back the word on a sample, so that the next start computes it again; False when it has another by now."""
    if read(output).entries.get(entry.index) != entry:
        return False
    record(output, ManifestDamage(index=entry.index, damaged=why[:300]))
    return True


def vouch(output: Output) -> None:
    """Say that what was written so far was written in order."""
    record(output, ManifestClean(clean=True))
