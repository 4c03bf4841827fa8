"""Host keys: what known_hosts files say about a host, what to do about the key it shows, and our own pin file.

The user's and the system's files are read, never written. Unknown keys are pinned in a file of our own.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import fcntl
import fnmatch
import hashlib
import hmac
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from local import folders
from local.errors import HostKeyError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

REVOKED = "@revoked"
# Which signature algorithms a key of a type can make, strongest first.
ALGORITHMS = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}


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
        if self.patterns.startswith("|1|"):
            return _hashed(self.patterns, host)
        matched = False
        for pattern in self.patterns.lower().split(","):
            negated = pattern.startswith("!")
            # Brackets are literal here: they stand around hosts with a port.
            if fnmatch.fnmatchcase(host.lower(), pattern.removeprefix("!").replace("[", "[[]")):
                if negated:
                    return False
                matched = True
        return matched


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the files say about a key: `entry` is the line that speaks against it."""

    verdict: Literal["known", "new", "changed", "revoked"]
    entry: Entry | None = None


def judge(entries: Iterable[Entry], host: str, key: Key) -> Judgement:
    """Decide about a key that a host shows. Any line that knows it is enough, a revocation beats them all."""
    # A host that we know by one type of key and that shows only another has changed: it was asked for the known first.
    spoken = [entry for entry in entries if entry.names(host)]
    own = [entry for entry in spoken if entry.marker == ""]
    for entry in spoken:
        if entry.marker == REVOKED and entry.key.blob == key.blob:
            return Judgement("revoked", entry)
    if any(entry.key.blob == key.blob for entry in own):
        return Judgement("known")
    if own:
        same_kind = [entry for entry in own if entry.key.kind == key.kind]
        return Judgement("changed", (same_kind or own)[0])
    return Judgement("new")


def preferred(entries: Iterable[Entry], host: str, offered: Sequence[str]) -> list[str]:
    """Order the host key algorithms so that the types known for a host come first."""
    kinds = {entry.key.kind for entry in entries if entry.marker == "" and entry.names(host)}
    known = [name for kind in sorted(kinds) for name in ALGORITHMS.get(kind, (kind,)) if name in offered]
    first = [name for name in offered if name in known]
    return [*first, *(name for name in offered if name not in known)]


def read(files: Iterable[Path]) -> tuple[Entry, ...]:
    """Read known_hosts files; what is missing, unreadable or not understood says nothing."""
    return tuple(entry for file in files for entry in _entries(file))


def pins() -> Path:
    """Give the place of our own known_hosts file."""
    return folders.state() / "known_hosts"


def pin(file: Path, host: str, key: Key) -> Judgement:
    """Remember a new host's key: appended under a lock, after another look at what stands there by now."""
    descriptor = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "r+b") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        judgement = judge(_entries(file), host, key)
        if judgement.verdict == "new":
            before = opened.read()
            start = b"" if not before or before.endswith(b"\n") else b"\n"
            line = f"{host} {key.kind} {base64.b64encode(key.blob).decode()}\n"
            opened.write(start + line.encode())
            opened.flush()
            os.fsync(opened.fileno())
    return judgement


def verify(host: str, key: Key, *, files: Sequence[Path], pin_file: Path, strict: bool, where: str = "") -> str | None:
    """Let a host's key pass or raise HostKeyError; gives the notice of a key that was pinned just now."""
    entries = read((*files, pin_file))
    judgement = judge(entries, host, key)
    if judgement.verdict == "new" and host.startswith("["):
        # As OpenSSH does: a key known for the host serves on its other ports too; another key there is no change.
        plain = judge(entries, host[1:].partition("]")[0], key)
        judgement = plain if plain.verdict in {"known", "revoked"} else judgement
    if judgement.verdict == "new" and not strict:
        try:
            judgement = pin(pin_file, host, key)
        except OSError as error:
            raise UsageError(
                f"the new host key of {host} cannot be pinned: {pin_file}: {error.strerror or error}",
                remedy="Let this user write it, or name another folder: export PRUDENT_GATE_STATE=/some/folder",
                where=where,
            ) from error
        if judgement.verdict == "new":
            return f"{host} was not known; its key is now pinned in {pin_file}: {key.fingerprint}"
    if judgement.verdict != "known":
        raise _refusal(host, key, judgement, pin_file, where)
    return None


def _refusal(host: str, key: Key, judgement: Judgement, pin_file: Path, where: str) -> HostKeyError:
    entry = judgement.entry
    if entry is None:
        return HostKeyError(
            f"the host key of {host} is not known, and `host_key` is strict: {key.fingerprint}",
            remedy=f"Compare the fingerprint with the host's own; then connect once with ssh, or add it to {pin_file}.",
            where=where,
        )
    place = f"{entry.file}:{entry.line}"
    if judgement.verdict == "revoked":
        return HostKeyError(f"the host key of {host} is revoked by {place}: {key.fingerprint}", where=where)
    return HostKeyError(
        f"the host key of {host} has changed: it shows {key.fingerprint}, {place} holds {entry.key.fingerprint}. "
        "Somebody may be between you and the host, or the machine was set up anew",
        remedy=f"If you know why it changed, remove the old key: ssh-keygen -f {entry.file} -R '{host}'",
        where=where,
    )


def _entries(file: Path) -> Iterator[Entry]:
    text = ""
    with contextlib.suppress(OSError):
        text = file.read_bytes().decode("utf-8", "replace")
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        marker = words.pop(0) if words and words[0].startswith("@") else ""
        if len(words) < 3 or words[0].startswith("#"):  # noqa: PLR2004 - patterns, type, key
            continue
        with contextlib.suppress(binascii.Error, ValueError):
            blob = base64.b64decode(words[2], validate=True)
            yield Entry(file=file, line=number, marker=marker, patterns=words[0], key=Key(words[1], blob))


def _hashed(pattern: str, host: str) -> bool:
    """Tell whether a hashed name (`|1|salt|hash`) is a host's."""
    with contextlib.suppress(binascii.Error, ValueError):
        _, _, salt, digest = pattern.split("|")
        found = hmac.digest(base64.b64decode(salt), host.encode(), "sha1")
        return hmac.compare_digest(found, base64.b64decode(digest))
    return False
