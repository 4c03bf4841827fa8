"""Host keys: what to do about the key or certificate that a host shows, and our own pin file.

The user's and the system's files are read, never written. Unknown keys are pinned in a file of our own.
"""

from __future__ import annotations

import base64
import fcntl
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from local import folders
from local.errors import HostKeyError, UsageError
from local.links import hostcerts, revocations
from local.links.knownhosts import AUTHORITY, REVOKED, Contents, Entry, Key, contents, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from io import FileIO
    from pathlib import Path

    from local.links.hostcerts import Certificate

__all__ = ["Contents", "Entry", "Judgement", "Key", "Trust", "judge", "pin", "pins", "preferred", "read", "verify"]

# Which signature algorithms a key of a type can make, strongest first.
ALGORITHMS = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the files say about a key: `entry` is the line that speaks against it, `why` what is wrong beside."""

    verdict: Literal["known", "new", "changed", "revoked"]
    entry: Entry | None = None
    why: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trust:
    """Whose word counts for a host: files of known keys, our pins, a list of revoked keys, and how strictly."""

    files: Sequence[Path]
    pin_file: Path
    strict: bool
    revoked: Path | None = None
    signatures: tuple[str, ...] = hostcerts.SIGNATURES
    where: str = ""
    now: float = field(default_factory=time.time)


def judge(
    entries: Iterable[Entry],
    host: str,
    key: Key,
    certificate: Certificate | None = None,
    *,
    now: float = 0.0,
    signatures: tuple[str, ...] = hostcerts.SIGNATURES,
) -> Judgement:
    """Decide about a key that a host shows. Any line that knows it is enough, a revocation beats them all."""
    # A host that we know by one type of key and that shows only another has changed: it was asked for the known first.
    spoken = [entry for entry in entries if entry.names(host)]
    own = [entry for entry in spoken if entry.marker == ""]
    shown = {key.blob, *((certificate.authority.blob,) if certificate else ())}
    for entry in spoken:
        if entry.marker == REVOKED and entry.key.blob in shown:
            return Judgement("revoked", entry)
    if any(entry.key.blob == key.blob for entry in own):
        return Judgement("known")
    why = ""
    for entry in spoken:
        if certificate and entry.marker == AUTHORITY and entry.key.blob == certificate.authority.blob:
            name = host[1:].partition("]")[0] if host.startswith("[") else host
            why = hostcerts.why_not(certificate, name, now=now, signatures=signatures) or ""
            if not why:
                return Judgement("known")
    if own:
        same_kind = [entry for entry in own if entry.key.kind == key.kind]
        return Judgement("changed", (same_kind or own)[0], why)
    return Judgement("new", why=why)


def preferred(entries: Iterable[Entry], host: str, offered: Sequence[str]) -> list[str]:
    """Order the host key algorithms: certificates where an authority speaks for the host, then the types known for it.

    Certificates are not asked for where no authority could vouch for one.
    """
    names = {host, host[1:].partition("]")[0]} if host.startswith("[") else {host}
    spoken = [entry for entry in entries if any(entry.names(name) for name in names)]
    certified = any(entry.marker == AUTHORITY for entry in spoken)
    kinds = {entry.key.kind for entry in spoken if entry.marker == ""}
    known = [name for kind in sorted(kinds) for name in ALGORITHMS.get(kind, (kind,)) if name in offered]
    certificates = [name for name in offered if name.endswith(hostcerts.SUFFIX)]
    plain = [name for name in offered if name not in certificates]
    first = [name for name in plain if name in known]
    return [*(certificates if certified else ()), *first, *(name for name in plain if name not in known)]


def pins() -> Path:
    """Give the place of our own known_hosts file."""
    return folders.state() / "known_hosts"


def pin(file: Path, host: str, key: Key) -> Judgement:
    """Remember a new host's key: appended under a lock, after another look at what stands there by now."""
    descriptor = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "r+b", buffering=0) as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        judgement = judge(read([file]), host, key)
        if judgement.verdict == "new":
            before = opened.read()
            start = b"" if not before or before.endswith(b"\n") else b"\n"
            line = f"{host} {key.kind} {base64.b64encode(key.blob).decode()}\n"
            _append(opened, start + line.encode())
    return judgement


def _append(opened: FileIO, line: bytes) -> None:
    """Write a line whole or not at all: half a key would be another key, and the host one that has changed."""
    size = opened.seek(0, os.SEEK_END)
    try:
        left = memoryview(line)
        while left:
            left = left[opened.write(left) :]  # a full disk takes a part, and says so by the count
        os.fsync(opened.fileno())
    except OSError:
        opened.truncate(size)
        raise


def verify(host: str, key: Key, trust: Trust, certificate: Certificate | None = None) -> str | None:
    """Let a host's key pass or raise HostKeyError; gives the notice of a key that was pinned just now."""
    found = contents((*trust.files, trust.pin_file))
    if trust.revoked is not None:
        keys = (key, *((certificate.authority,) if certificate else ()))
        if listed := revocations.revoked(trust.revoked, keys, where=trust.where):
            raise HostKeyError(
                f"the host key of {host} is revoked by {trust.revoked}: {listed.fingerprint}", where=trust.where
            )
    judgement = _judged(found.entries, host, key, certificate, trust)
    if judgement.verdict == "new" and not judgement.why and not trust.strict:
        judgement = _pinned(host, key, trust)
        if judgement.verdict == "new":
            told = f"{host} was not known; its key is now pinned in {trust.pin_file}: {key.fingerprint}"
            return f"{told}. {_unread(found)}".strip() if found.unused else told
    if judgement.verdict != "known":
        raise _refusal(host, key, judgement, trust, found)
    return None


def _judged(entries: Sequence[Entry], host: str, key: Key, certificate: Certificate | None, trust: Trust) -> Judgement:
    judgement = judge(entries, host, key, certificate, now=trust.now, signatures=trust.signatures)
    if judgement.verdict == "new" and host.startswith("["):
        # As OpenSSH does: a key known for the host serves on its other ports too; another key there is no change.
        name = host[1:].partition("]")[0]
        plain = judge(entries, name, key, certificate, now=trust.now, signatures=trust.signatures)
        if plain.verdict in {"known", "revoked"}:
            return plain
        return Judgement("new", why=judgement.why or plain.why)
    return judgement


def _pinned(host: str, key: Key, trust: Trust) -> Judgement:
    try:
        return pin(trust.pin_file, host, key)
    except OSError as error:
        raise UsageError(
            f"the new host key of {host} cannot be pinned: {trust.pin_file}: {error.strerror or error}",
            remedy="Let this user write it, or name another folder: export PRUDENT_GATE_STATE=/some/folder",
            where=trust.where,
        ) from error


def _refusal(host: str, key: Key, judgement: Judgement, trust: Trust, found: Contents) -> HostKeyError:
    entry, where = judgement.entry, trust.where
    unread = f" {_unread(found)}" if found.unused else ""
    if judgement.verdict == "revoked" and entry is not None:
        return HostKeyError(f"the host key of {host} is revoked by {entry.place}: {entry.key.fingerprint}", where=where)
    if judgement.why:
        return HostKeyError(
            f"{host} shows a certificate of a trusted authority that does not hold: {judgement.why}; "
            f"its key is {key.fingerprint}",
            remedy="Have the host's certificate renewed by its authority (ssh-keygen -s … -h), and look at this "
            "machine's clock and at the name that you use for the host.",
            where=where,
        )
    if entry is None:
        return HostKeyError(
            f"the host key of {host} is not known, and the choice is strict: {key.fingerprint}",
            remedy="Compare the fingerprint with the host's own; then connect once with ssh, or add it to "
            f"{trust.pin_file}.{unread}",
            where=where,
        )
    return HostKeyError(
        f"the host key of {host} has changed: it shows {key.fingerprint}, {entry.place} holds {entry.key.fingerprint}. "
        "Somebody may be between you and the host, or the machine was set up anew",
        remedy=f"If you know why it changed, remove the old key: ssh-keygen -f {entry.file} -R '{host}'{unread}",
        where=where,
    )


def _unread(found: Contents) -> str:
    more = len(found.unused) - 1
    return f"Not used: {found.unused[0]}{f' (and {more} more)' if more else ''}."
