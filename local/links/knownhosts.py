"""known_hosts files: keys and lines, read as OpenSSH reads them, never written; what is not understood is told."""

from __future__ import annotations

import base64
import binascii
import contextlib
import fnmatch
import hashlib
import hmac
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

REVOKED = "@revoked"
AUTHORITY = "@cert-authority"
MARKERS = {"", REVOKED, AUTHORITY}
FIELDS = 3  # names, type, key
BLANKS = re.compile("[ \\t]+")  # what parts words there: `str.split` knows many more


@dataclass(frozen=True, slots=True)
class Key:
    """A public key: its type and its wire form."""

    kind: str
    blob: bytes

    @property
    def fingerprint(self) -> str:
        """Give the fingerprint as OpenSSH prints it."""
        digest = base64.b64encode(hashlib.sha256(self.blob).digest()).decode().rstrip("=")
        return f"{self.kind} SHA256:{digest}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a known_hosts file."""

    file: Path
    line: int
    marker: str
    patterns: str
    key: Key

    def names(self, host: str) -> bool:
        """Tell whether the line speaks of a host (`host` or `[host]:port`)."""
        if self.patterns.startswith("|"):
            return _hashed(self.patterns, host)
        return matches(self.patterns, host)

    @property
    def place(self) -> str:
        """Give where the line stands."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Contents:
    """What known_hosts files hold: their entries, and what could not be used, with its place."""

    entries: tuple[Entry, ...] = ()
    unused: tuple[str, ...] = ()


def matches(patterns: str, name: str) -> bool:
    """Tell whether a comma-separated list of OpenSSH's patterns (`*`, `?`, `!` for none of these) means a name."""
    matched = False
    for pattern in patterns.lower().split(","):
        negated = pattern.startswith("!")
        # Brackets are literal here: they stand around hosts with a port.
        if fnmatch.fnmatchcase(name.lower(), pattern.removeprefix("!").replace("[", "[[]")):
            if negated:
                return False
            matched = True
    return matched


def contents(files: Iterable[Path]) -> Contents:
    """Read known_hosts files; a file that is not there says nothing."""
    entries: list[Entry] = []
    unused: list[str] = []
    for file in files:
        for found in _lines(file):
            if isinstance(found, Entry):
                entries.append(found)
            else:
                unused.append(found)
    return Contents(tuple(entries), tuple(unused))


def read(files: Iterable[Path]) -> tuple[Entry, ...]:
    """Give the entries alone."""
    return contents(files).entries


def public_key(words: list[str]) -> Key:
    """Read the `type base64` of a public key; raises ValueError that says what is wrong."""
    if len(words) < FIELDS - 1:
        raise ValueError("it does not end in a key's type and the key")
    try:
        blob = base64.b64decode(words[1], validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError("its key is not base64") from error
    kind = blob[4 : 4 + int.from_bytes(blob[:4])] if len(blob) > 4 else b""  # noqa: PLR2004 - the length's own length
    if kind != words[0].encode():
        raise ValueError(f"its key is not of the type {words[0]}")
    return Key(words[0], blob)


def _lines(file: Path) -> Iterator[Entry | str]:
    try:
        text = file.read_bytes().decode("utf-8", "replace")
    except FileNotFoundError:
        return
    except OSError as error:
        yield f"{file} cannot be read ({error.strerror or error})"
        return
    for number, line in enumerate(text.split("\n"), 1):
        words = [word for word in BLANKS.split(line.removesuffix("\r")) if word]
        if not words or words[0].startswith("#"):
            continue
        marker = words.pop(0) if words[0].startswith("@") else ""
        try:
            key = public_key(words[1:])
        except ValueError as error:
            yield f"{file}:{number} is not understood: {error}"
            continue
        if marker in MARKERS:
            yield Entry(file=file, line=number, marker=marker, patterns=words[0], key=key)
        else:
            yield f"{file}:{number} is not understood: its marker {marker[:40]} is not known"


def _hashed(pattern: str, host: str) -> bool:
    """Tell whether a hashed name (`|1|salt|hash`) is a host's."""
    with contextlib.suppress(binascii.Error, ValueError):
        _, method, salt, digest = pattern.split("|")
        found = hmac.digest(base64.b64decode(salt, validate=True), host.lower().encode(), "sha1")
        return method == "1" and hmac.compare_digest(found, base64.b64decode(digest, validate=True))
    return False
