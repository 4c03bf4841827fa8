r"""The bootstrap: its source is sent as the program text of `python -I -B -c …`, so it stands alone.

    reach WORKDIR                     who and where we are, and which bundles are here
    reach WORKDIR ID < question       and what the payload of that bundle recalls, where it is here (gate/recall.py)
    install WORKDIR ID SHA256 < tar   unpack a bundle into WORKDIR/bundles/ID

One frame on stdout (as in remote/channel.py), exit 0; what can go wrong is an answer: `outcome` is installed, present,
damaged (the archive is not what was sent) or refused (`message` says why). Python 3.6 can still read this file, so that
an old Python is told from a broken one.

Nothing in WORKDIR is used that another user put there, and no bundle whose files are not those that its name stands
for: such a one is not named to the controller, and `install` puts whole files in place of its own.
"""

import contextlib
import fcntl
import hashlib
import importlib
import io
import json
import os
import shutil
import stat
import sys
import tarfile
import tempfile
import time
import zlib
from typing import Any

STALE = 24 * 3600.0  # an unfinished push older than this has nobody behind it
INCOMING = ".incoming-"
ROOMS = ("bundles", "runs", "verdicts", "cache")  # of the workdir, for nobody but their owner
CODE = ("payload", "vendor", "patched")  # folders of a bundle that hold its listed files and nothing else
LOOKED_AT = 6  # bundles, the newest first: an older one is pushed again should it be wanted
LARGEST = 256 << 20  # bytes of an unpacked bundle; ours have some two million


def reach(workdir: str) -> Any:
    """Give what the controller must know before it pushes anything."""
    folder = os.path.join(workdir, "bundles")  # noqa: PTH118 - plain strings keep the bootstrap small
    return {
        "python_version": "{}.{}.{}".format(*sys.version_info[:3]),
        "home": os.path.expanduser("~"),  # noqa: PTH111
        "user": os.environ.get("USER") or os.environ.get("LOGNAME") or str(os.geteuid()),
        "now": time.time(),
        "executable": sys.executable,
        "workdir": workdir,
        "bundles": [] if _foreign(workdir, folder) else [name for name in _newest(folder) if whole(folder, name)],
        "notices": _exposed(workdir),
    }


def recall(workdir: str, bundle: str, question: bytes) -> Any:
    """Ask the payload of a bundle that is here; None where nobody can be asked: the caller goes on step by step."""
    payload = os.path.join(workdir, "bundles", bundle, "payload")  # noqa: PTH118
    bundles = os.path.join(workdir, "bundles")  # noqa: PTH118
    if _foreign(workdir, bundles) or not whole(bundles, bundle):
        return None
    sys.path.insert(0, payload)
    try:
        room = importlib.import_module("remote.gate.recall")
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
        if foreign := _foreign(workdir, *(os.path.join(workdir, name) for name in ROOMS)):  # noqa: PTH118
            return {"outcome": "refused", "message": foreign}
        os.makedirs(workdir, mode=0o700, exist_ok=True)  # noqa: PTH103
        for name in ROOMS:
            _room(os.path.join(workdir, name))  # noqa: PTH118
        if whole(bundles, bundle):
            return {"outcome": "present"}
        _sweep(bundles)
        return _place(bundles, target, bundle, data)
    except OSError as error:
        return {"outcome": "refused", "message": f"{error.strerror}: {error.filename or bundles}"}
    except (ValueError, tarfile.TarError, EOFError, zlib.error) as error:
        return {"outcome": "refused", "message": f"not a bundle: {error}"}


def _place(bundles: str, target: str, bundle: str, data: bytes) -> Any:
    temporary = tempfile.mkdtemp(prefix=INCOMING, dir=bundles)
    try:
        _unpack(data, temporary)
        _check(temporary, bundle)
        _settle(temporary)
        with _alone(bundles):
            if whole(bundles, bundle):  # another push was quicker, with the same content
                return {"outcome": "present"}
            if os.path.isdir(target) and not os.path.islink(target):  # noqa: PTH112, PTH114
                _mend(temporary, target)
            else:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(target)  # noqa: PTH108 - a link or a file in its place
                os.rename(temporary, target)  # noqa: PTH104
        _sync(bundles)
        return {"outcome": "installed"}
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def _alone(folder: str) -> Any:
    """Let one push after the other put its bundle in place."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems lock no folder: then the last one's files stand
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _mend(source: str, target: str) -> None:
    """Put whole parts in place of a damaged bundle's; its overlay, which a run may stand on, stays."""
    aside = tempfile.mkdtemp(prefix=INCOMING, dir=os.path.dirname(target))  # noqa: PTH120
    try:
        for name in sorted({*os.listdir(source), *CODE}):  # noqa: PTH208
            old, new = os.path.join(target, name), os.path.join(source, name)  # noqa: PTH118
            if os.path.lexists(old):
                os.rename(old, os.path.join(aside, name))  # noqa: PTH104, PTH118
            if os.path.lexists(new):
                os.rename(new, old)  # noqa: PTH104
        _sync(target)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def whole(bundles: str, bundle: str) -> bool:
    """Tell whether a bundle is what its name says: its files all there as listed, and no other code among them."""
    root = os.path.join(bundles, bundle)  # noqa: PTH118
    try:
        with open(os.path.join(root, "bundle.json"), "rb") as file:  # noqa: PTH118, PTH123
            text = file.read()
        if hashlib.sha256(text).hexdigest() != bundle:
            return False
        listed = json.loads(text.decode())["files"]
        return bool(_found(root) == {name: digest for name, digest in listed.items() if name.split("/")[0] in CODE})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _found(root: str) -> Any:
    """Give what stands in a bundle's code folders, by its SHA-256; links and the like have none."""
    found = {}
    waiting = [name for name in CODE if os.path.lexists(os.path.join(root, name))]  # noqa: PTH118
    while waiting:
        name = waiting.pop()
        path = os.path.join(root, name)  # noqa: PTH118
        mode = os.lstat(path).st_mode
        if stat.S_ISDIR(mode):
            waiting += [name + "/" + inner for inner in os.listdir(path)]  # noqa: PTH208
        else:
            found[name] = _digest(path) if stat.S_ISREG(mode) else None
    return found


def _digest(path: str) -> str:
    with open(path, "rb") as file:  # noqa: PTH123
        return hashlib.sha256(file.read()).hexdigest()


def _newest(bundles: str) -> Any:
    """Name the newest bundles of a folder."""
    aged = []
    with contextlib.suppress(OSError):
        for name in os.listdir(bundles):  # noqa: PTH208
            with contextlib.suppress(OSError):
                if not name.startswith("."):
                    aged.append((os.stat(os.path.join(bundles, name)).st_mtime, name))  # noqa: PTH116, PTH118
    return [name for _, name in sorted(aged, reverse=True)[:LOOKED_AT]]


def _foreign(*folders: str) -> str:
    """Say which of these folders another user owns: whoever does can put other code in place of ours."""
    for folder in folders:
        with contextlib.suppress(OSError):
            owner = os.stat(folder).st_uid  # noqa: PTH116
            if owner != os.geteuid():
                return f"{folder} belongs to another user (uid {owner}); name another `workdir`, or give it to this one"
    return ""


def _room(path: str) -> None:
    """Make a folder for its owner only, or make it so."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)  # noqa: PTH102
    found = os.stat(path)  # noqa: PTH116
    if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) & 0o077:
        os.chmod(path, 0o700)  # noqa: PTH101


def _exposed(workdir: str) -> Any:
    """Tell of a folder on the way to the workdir in which others could put another one in its place."""
    path = os.path.realpath(workdir)
    while True:
        with contextlib.suppress(OSError):
            found = os.stat(path)  # noqa: PTH116
            if _open_to_others(found) or found.st_uid not in {0, os.geteuid()}:
                how = f"mode {stat.S_IMODE(found.st_mode):04o}, owner {found.st_uid}"
                return [f"others can change {path}, on the way to the workdir ({how}), and so run code as this user"]
        if path in {"/", ""}:
            return []
        path = os.path.dirname(path)  # noqa: PTH120


def _open_to_others(found: os.stat_result) -> bool:
    if found.st_mode & stat.S_ISVTX:
        return False
    group = found.st_mode & stat.S_IWGRP and found.st_gid not in {0, os.getegid()}
    return bool(group or found.st_mode & stat.S_IWOTH)


def _unpack(data: bytes, folder: str) -> None:
    """Write the members by our own hand: plain files only, below the folder only; all looked at first."""
    stream = zlib.decompressobj(wbits=31)
    raw = stream.decompress(data, LARGEST)
    if stream.unconsumed_tail or not stream.eof:
        raise ValueError("it does not end, or is too large")
    with tarfile.open(fileobj=io.BytesIO(raw), mode="r:") as archive:
        members = archive.getmembers()
        for member in members:
            parts = member.name.split("/")
            if not member.isreg() or member.issparse() or any(part in {"", ".", ".."} for part in parts):
                raise ValueError(f"member {member.name!r} is not a plain file inside it")
        if len({member.name for member in members}) < len(members):
            raise ValueError("it holds a file twice")
        for member in members:
            path = os.path.join(folder, *member.name.split("/"))  # noqa: PTH118
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)  # noqa: PTH103, PTH120
            source = archive.extractfile(member)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
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
        began = time.monotonic()
        if len(arguments) > 2:  # noqa: PLR2004
            answer["recalled"] = recall(workdir, arguments[2], sys.stdin.buffer.read())
        answer["took"] = time.monotonic() - began
    else:
        answer = install(workdir, arguments[2], arguments[3], sys.stdin.buffer.read())
    body = json.dumps({"schema": 1, **answer}).encode()
    head = "\x1ePRUDENT-GATE {} {}\n".format(len(body), hashlib.sha256(body).hexdigest())  # noqa: UP032
    sys.stdout.buffer.write(head.encode() + body)
    sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
