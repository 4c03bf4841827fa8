r"""The bootstrap: its source is sent as the program text of `python -I -B -c …`, so it stands alone.

    reach WORKDIR                     who and where we are, and which bundles are here
    reach WORKDIR ID < question       and what the payload of that bundle recalls, where it is here (remote/recall.py)
    install WORKDIR ID SHA256 < tar   unpack a bundle into WORKDIR/bundles/ID

One frame on stdout (as in remote/channel.py), exit 0; what can go wrong is an answer: `outcome` is installed, present,
damaged (the archive is not what was sent) or refused (`message` says why). Python 3.6 can still read this file, so that
an old Python is told from a broken one.
"""

import contextlib
import gzip
import hashlib
import importlib
import io
import json
import os
import shutil
import sys
import tarfile
import tempfile
import time
from typing import Any

STALE = 24 * 3600.0  # an unfinished push older than this has nobody behind it
INCOMING = ".incoming-"


def reach(workdir: str) -> Any:
    """Give what the controller must know before it pushes anything."""
    folder = os.path.join(workdir, "bundles")  # noqa: PTH118 - plain strings keep the bootstrap small
    present = os.listdir(folder) if os.access(folder, os.R_OK | os.X_OK) else []  # noqa: PTH208
    return {
        "python_version": "{}.{}.{}".format(*sys.version_info[:3]),
        "home": os.path.expanduser("~"),  # noqa: PTH111
        "user": os.environ.get("USER") or os.environ.get("LOGNAME") or str(os.geteuid()),
        "now": time.time(),
        "executable": sys.executable,
        "workdir": workdir,
        "bundles": [name for name in present if not name.startswith(".")],
    }


def recall(workdir: str, bundle: str, question: bytes) -> Any:
    """Ask the payload of a bundle that is here; None where nobody can be asked: the caller goes on step by step."""
    payload = os.path.join(workdir, "bundles", bundle, "payload")  # noqa: PTH118
    if not os.path.isdir(payload):  # noqa: PTH112
        return None
    sys.path.insert(0, payload)
    try:
        room = importlib.import_module("remote.recall")
        return room.document(question)
    except Exception as error:  # noqa: BLE001 - whatever it is, the gate's own calls will meet it and tell
        sys.stderr.write(f"recall: {error!r}\n")
        return None


def install(workdir: str, bundle: str, digest: str, data: bytes) -> Any:
    """Unpack a bundle beside its place and move it in; whoever comes second finds it there."""
    if hashlib.sha256(data).hexdigest() != digest:
        return {"outcome": "damaged", "message": f"{len(data)} bytes arrived with another SHA-256"}
    bundles = os.path.join(workdir, "bundles")  # noqa: PTH118
    target = os.path.join(bundles, bundle)  # noqa: PTH118
    try:
        os.makedirs(bundles, mode=0o700, exist_ok=True)  # noqa: PTH103
        if os.stat(bundles).st_uid != os.geteuid():  # noqa: PTH116
            return {"outcome": "refused", "message": f"{bundles} belongs to another user"}
        if os.path.isdir(target):  # noqa: PTH112
            return {"outcome": "present"}
        _sweep(bundles)
        return _place(bundles, target, bundle, data)
    except OSError as error:
        return {"outcome": "refused", "message": f"{error.strerror}: {error.filename or bundles}"}
    except (ValueError, tarfile.TarError, EOFError) as error:
        return {"outcome": "refused", "message": f"not a bundle: {error}"}


def _place(bundles: str, target: str, bundle: str, data: bytes) -> Any:
    temporary = tempfile.mkdtemp(prefix=INCOMING, dir=bundles)
    try:
        _unpack(data, temporary)
        _check(temporary, bundle)
        _settle(temporary)
        try:
            os.rename(temporary, target)  # noqa: PTH104
        except OSError:
            if os.path.isdir(target):  # noqa: PTH112 - another push was quicker; both have the same content
                return {"outcome": "present"}
            raise
        _sync(bundles)
        return {"outcome": "installed"}
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _unpack(data: bytes, folder: str) -> None:
    """Write the members by our own hand: only plain files, only below the folder."""
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(data))) as archive:
        for member in archive:
            parts = member.name.split("/")
            if not member.isreg() or any(part in {"", ".", ".."} for part in parts):
                raise ValueError(f"member {member.name!r} is not a plain file inside it")
            path = os.path.join(folder, *parts)  # noqa: PTH118
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)  # noqa: PTH103, PTH120
            source = archive.extractfile(member)
            with open(path, "xb") as file:  # noqa: PTH123
                file.write(source.read() if source else b"")


def _check(folder: str, bundle: str) -> None:
    with open(os.path.join(folder, "bundle.json"), "rb") as file:  # noqa: PTH118, PTH123
        if hashlib.sha256(file.read()).hexdigest() != bundle:
            raise ValueError("its manifest has another name")


def _settle(folder: str) -> None:
    """Make everything below the folder durable: files first, then the names."""
    for root, _, names in os.walk(folder, topdown=False):
        for name in names:
            _sync(os.path.join(root, name))  # noqa: PTH118
        _sync(root)


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sweep(bundles: str) -> None:
    """Remove what pushes that were cut have left."""
    for name in os.listdir(bundles):  # noqa: PTH208
        path = os.path.join(bundles, name)  # noqa: PTH118
        with contextlib.suppress(OSError):
            if name.startswith(INCOMING) and time.time() - os.stat(path).st_mtime > STALE:  # noqa: PTH116
                shutil.rmtree(path)


def main(arguments: Any) -> int:
    """Do what the first argument names and answer with one frame."""
    os.umask(0o077)
    verb, workdir = arguments[0], os.path.abspath(os.path.expanduser(arguments[1]))  # noqa: PTH100, PTH111
    if verb == "reach":
        answer = reach(workdir)
        began = time.time()
        if len(arguments) > 2:  # noqa: PLR2004
            answer["recalled"] = recall(workdir, arguments[2], sys.stdin.buffer.read())
        answer["took"] = time.time() - began
    else:
        answer = install(workdir, arguments[2], arguments[3], sys.stdin.buffer.read())
    body = json.dumps({"schema": 1, **answer}).encode()
    head = "\x1ePRUDENT-GATE {} {}\n".format(len(body), hashlib.sha256(body).hexdigest())  # noqa: UP032
    sys.stdout.buffer.write(head.encode() + body)
    sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
