"""RevokedHostKeys of ssh_config: a list of public keys, or a KRL, which OpenSSH's own tool reads for us."""

from __future__ import annotations

import base64
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from local.errors import HostKeyError
from local.links.knownhosts import public_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from local.links.knownhosts import Key

KRL = b"SSHKRL\n"
SECONDS = 10.0


def revoked(file: Path, keys: Sequence[Key], *, where: str = "") -> Key | None:
    """Give the key that a revocation list names; a list that cannot be read lets no host pass, as in OpenSSH."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise _unreadable(file, error.strerror or str(error), where) from error
    if content.startswith(KRL):
        return next((key for key in keys if _in_krl(file, key, where)), None)
    listed = set()
    for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        try:
            listed.add(public_key(words).blob)
        except ValueError as error:
            raise _unreadable(file, f"line {number} is not understood: {error}", where) from error
    return next((key for key in keys if key.blob in listed), None)


def _in_krl(file: Path, key: Key, where: str) -> bool:
    program = shutil.which("ssh-keygen")
    if program is None:
        raise _unreadable(file, "it is a KRL, which needs OpenSSH's ssh-keygen to be read", where)
    with tempfile.TemporaryDirectory(prefix="prudent-gate-") as folder:
        public = Path(folder) / "key.pub"
        public.write_text(f"{key.kind} {base64.b64encode(key.blob).decode()}\n")
        try:
            answer = subprocess.run(
                [program, "-Q", "-f", str(file), str(public)],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise _unreadable(file, f"ssh-keygen does not answer within {SECONDS:g} s", where) from error
    if answer.returncode == 0:
        return False
    if answer.stdout.rstrip().endswith("REVOKED"):
        return True
    raise _unreadable(file, (answer.stderr or answer.stdout).strip().rpartition("\n")[2], where)


def _unreadable(file: Path, why: str, where: str) -> HostKeyError:
    return HostKeyError(
        f"the revoked keys of {file} cannot be read: {why}",
        remedy="ssh_config's RevokedHostKeys names it: no host is trusted until it can be read.",
        where=where,
    )
