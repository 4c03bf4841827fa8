"""The bundle: reproducible, complete, named by its content."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from dataclasses import replace

import pytest

from local.bundle import Packed, pack
from local.errors import UsageError
from remote import wire
from remote.schema import Job

JOB = Job(name="tiny", engine="speculators", python="/venv/bin/python", workdir="/w", output="/out")


def members(packed: Packed) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(packed.data)) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]


def test_the_same_content_gives_the_same_bytes() -> None:
    assert pack(JOB, {"a/x.py": "1\n", "b/y.py": "2\n"}).data == pack(JOB, {"b/y.py": "2\n", "a/x.py": "1\n"}).data


def test_other_content_has_another_name() -> None:
    jobs = [None, JOB, replace(JOB, layers=(1,))]
    patches: list[dict[str, str]] = [{}, {"a.py": ""}, {"a.py": "\n"}, {"b.py": ""}]
    assert len({pack(job, patched).id for job in jobs for patched in patches}) == 12


def test_the_name_is_the_manifests_and_the_manifest_names_every_file() -> None:
    packed = pack(JOB, {"pkg/mod.py": "x = 'é'\n"})
    files = members(packed)
    manifest = files.pop("bundle.json")
    assert hashlib.sha256(manifest).hexdigest() == packed.id
    assert json.loads(manifest)["files"] == {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}


def test_what_is_inside() -> None:
    files = members(pack(JOB, {"pkg/mod.py": "x = 'é'\n"}))
    assert "payload/remote/__main__.py" in files
    assert "payload/remote/engines/__init__.py" in files
    assert "vendor/tenacity/__init__.py" in files
    assert files["patched/pkg/mod.py"] == "x = 'é'\n".encode()
    assert wire.loads(Job, files["job.json"]) == JOB
    assert not [name for name in files if "__pycache__" in name or name.endswith((".patch", ".pyc"))]


def test_members_are_plain_private_and_dateless() -> None:
    with tarfile.open(fileobj=io.BytesIO(pack(None, {}).data)) as archive:
        found = {(m.isreg(), m.mode, m.mtime, m.uid, m.gid, m.uname) for m in archive}
    assert found == {(True, 0o600, 0, 0, 0, "")}


@pytest.mark.parametrize("name", ["/etc/passwd", "../x.py", "a/../../x.py", "", "."])
def test_patched_names_stay_inside(name: str) -> None:
    with pytest.raises(UsageError, match="not a path inside a package"):
        pack(None, {name: ""})


def test_repr_tells_the_size() -> None:
    packed = pack(None, {})
    assert repr(packed) == f"<bundle {packed.id[:12]}, {len(packed.data) / 1024:.0f} KiB>"
    assert len(packed.data) < 400_000
