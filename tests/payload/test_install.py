"""Bundles on a host: used only when they are what their names say, mended when they are not, and nobody else's."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import stat
import sys
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from local import bundle
from local.host import Host
from local.links.here import HereLink
from remote import install

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BARE = bundle.pack(None, {"a/b.py": "x = 1\n"})


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    assert place(folder) == {"outcome": "installed"}
    return folder


def place(folder: Path) -> Any:
    return install.install(str(folder), BARE.id, BARE.sha256, BARE.data)


def entry(folder: Path) -> Path:
    return folder / "bundles" / BARE.id / "payload" / "remote" / "__main__.py"


def changed(folder: Path) -> None:
    entry(folder).write_text("print('not ours')\n", "utf-8")


def shortened(folder: Path) -> None:
    os.truncate(entry(folder), 10)


def gone(folder: Path) -> None:
    entry(folder).unlink()


def added(folder: Path) -> None:
    (folder / "bundles" / BARE.id / "payload" / "json.py").write_text("print('not ours')\n", "utf-8")


def linked(folder: Path) -> None:
    other = folder / "other.py"
    entry(folder).rename(other)
    entry(folder).symlink_to(other)


def led_away(folder: Path) -> None:
    vendor = folder / "bundles" / BARE.id / "vendor"
    vendor.rename(folder / "vendor")
    vendor.symlink_to(folder / "vendor")


def renamed(folder: Path) -> None:
    (folder / "bundles" / BARE.id / "bundle.json").write_text("{}", "utf-8")


def replaced(folder: Path) -> None:
    root = folder / "bundles" / BARE.id
    root.rename(folder / "elsewhere")
    root.write_text("a file", "utf-8")


@pytest.mark.parametrize("damage", [changed, shortened, gone, added, linked, led_away, renamed, replaced])
def test_a_bundle_that_is_not_what_its_name_says_is_not_used_and_is_mended(
    work: Path, damage: Callable[[Path], None]
) -> None:
    host = Host(HereLink(work.parent), name="here", python=sys.executable, workdir=str(work))
    assert host.reach().bundles == (BARE.id,)
    overlay = work / "bundles" / BARE.id / "overlay"
    overlay.mkdir()
    damage(work)
    assert host.reach().bundles == ()
    assert host.push(BARE)
    assert host.reach().bundles == (BARE.id,)
    assert "not ours" not in entry(work).read_text("utf-8")
    assert overlay.is_dir() or damage is replaced, "a run may stand on it"
    assert not [path for path in (work / "bundles").iterdir() if path.name.startswith(".")]


def test_a_damaged_bundle_is_not_asked_for_what_it_recalls(work: Path) -> None:
    added(work)
    (work / "bundles" / BARE.id / "payload" / "json.py").write_text("raise SystemExit('ran')\n", "utf-8")
    assert install.recall(str(work), BARE.id, b"{}") is None


def test_what_a_run_leaves_does_not_spoil_its_bundle(work: Path) -> None:
    (work / "bundles" / BARE.id / "overlay").mkdir()
    (work / "bundles" / BARE.id / "job.json.lock").touch()
    assert install.whole(str(work / "bundles"), BARE.id)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
@pytest.mark.parametrize("inner", ["", "bundles", "runs"])
def test_a_folder_of_another_user_is_refused(work: Path, inner: str) -> None:
    os.chown(work / inner, 12345, 12345)
    answer = place(work)
    assert answer["outcome"] == "refused"
    assert "belongs to another user (uid 12345)" in answer["message"]
    assert install.reach(str(work))["bundles"] == ([BARE.id] if inner == "runs" else [])
    os.chown(work / inner, 0, 0)


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o755, 0o700])
def test_rooms_that_others_could_read_are_closed(work: Path, mode: int) -> None:
    for room in install.ROOMS:
        (work / room).chmod(mode)
    assert place(work) == {"outcome": "present"}
    assert {stat.S_IMODE((work / room).stat().st_mode) for room in install.ROOMS} == {0o700}


@pytest.mark.parametrize(("mode", "told"), [(0o700, 0), (0o755, 0), (0o1777, 0), (0o777, 1), (0o757, 1)])
def test_a_way_that_others_can_change_is_told(work: Path, mode: int, told: int) -> None:
    work.parent.chmod(mode)
    said = install.reach(str(work))["notices"]
    assert len(said) == told, said
    assert all(str(work.parent) in each and f"{mode:04o}" in each for each in said)
    work.parent.chmod(0o700)


def archive(*members: tuple[str, bytes], kind: bytes = tarfile.REGTYPE) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as made:
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.size, member.type, member.linkname = len(data), kind, "/etc/passwd"
            made.addfile(member, io.BytesIO(data))
    return gzip.compress(raw.getvalue())


@pytest.mark.parametrize(
    "data",
    [
        archive(("../x", b"")),
        archive(("/abs", b"")),
        archive(("a/../../x", b"")),
        archive(("./x", b"")),
        archive(("", b"")),
        archive(("a", b"1"), ("a", b"2")),
        archive(("a", b"1"), ("a/b", b"2")),
        archive(("a", b""), kind=tarfile.SYMTYPE),
        archive(("a", b""), kind=tarfile.LNKTYPE),
        archive(("a", b""), kind=tarfile.CHRTYPE),
        archive(("a", b""), kind=tarfile.FIFOTYPE),
        archive(("a", b""), kind=tarfile.DIRTYPE),
        archive(("a", b"x"))[:-12],
        gzip.compress(b"x" * 2000),
        b"",
        b"\x1f\x8b",
        b"no archive",
    ],
    ids=lambda data: f"{len(data)} bytes",  # an archive has the time in it, and workers must agree on the names
)
def test_an_archive_that_is_no_bundle_writes_nothing(tmp_path: Path, data: bytes) -> None:
    answer = install.install(str(tmp_path / "work"), "0" * 64, hashlib.sha256(data).hexdigest(), data)
    assert answer["outcome"] == "refused", answer
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")}
    assert left <= {"work", *(f"work/{room}" for room in install.ROOMS)}


def test_an_archive_that_unpacks_to_a_disk_full_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "LARGEST", 1 << 20)
    data = archive(("a", bytes(8 << 20)))
    assert len(data) < 1 << 16
    answer = install.install(str(tmp_path), "0" * 64, hashlib.sha256(data).hexdigest(), data)
    assert answer == {"outcome": "refused", "message": "not a bundle: it does not end, or is too large"}
