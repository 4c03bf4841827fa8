from __future__ import annotations

import contextlib
import io
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from local import checktask, matrix
from local.errors import GateRefused, PrudentError, UsageError
from local.static import releases
from local.tasks import laptop
from remote.schema import GateSpec, Job
from tests.unit.static_packages import VLLM, library, surface

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from local.static.tree import Surface

JOB = Job(
    name="j", engine="command", python="/p", workdir="/w", output="/o", gate=GateSpec(modules=("lib.main",))
)  # fmt: skip
BROKEN = "from vllm import Engine\nSIZE = 1\nMORE = 2\nEngine(config=None, block_size=SIZE, gone=2)\n"
_DIFF = """\
--- a/lib/main.py
+++ b/lib/main.py
@@ -2,3 +2,3 @@
 SIZE = 1
 MORE = 2
-Engine(config=None, block_size=SIZE, gone=2)
+Engine(config=None, block_size=SIZE)
"""
PATCH = f"""\
Subject: Drop what is gone
Applies-To: lib==1.0; vllm>=2,<3

The argument is gone, and nothing took its place, so it is not passed any more.
---
{_DIFF}"""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRUDENT_GATE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def sources(tmp_path: Path) -> Surface:
    return surface(tmp_path, {**VLLM, **library(BROKEN)})


@pytest.fixture
def series(tmp_path: Path) -> Path:
    root = tmp_path / "patches"
    (root / "lib-1.0").mkdir(parents=True)
    (root / "lib-1.0" / "0001-drop.patch").write_text(PATCH)
    return root


def test_check_says_no_without_the_patch_and_suggests_it(sources: Surface, series: Path) -> None:
    outcome = checktask.check(JOB, sources, root=series, without=("0001",))
    assert outcome.failed
    assert [check.status for check in outcome.checks] == ["pass", "fail"]
    assert "+Engine(config=None, block_size=SIZE)\n" in outcome.suggestion
    assert "Applies-To: vllm==2.0" in outcome.suggestion


def test_check_passes_with_it(sources: Surface, series: Path) -> None:
    outcome = checktask.check(JOB, sources, root=series)
    assert not outcome.failed
    assert outcome.suggestion == ""
    assert outcome.checks[1].facts["modules"] == ["lib.main"]


def test_a_job_without_modules_is_skipped(sources: Surface, series: Path) -> None:
    job = Job(name="j", engine="command", python="/p", workdir="/w", output="/o")
    assert checktask.check(job, sources, root=series).checks[1].status == "skip"


def test_a_patch_that_does_not_apply_ends_the_check(sources: Surface, series: Path) -> None:
    (series / "lib-1.0" / "0001-drop.patch").write_text(PATCH.replace("SIZE = 1", "SIZE = 7"))
    outcome = checktask.check(JOB, sources, root=series)
    assert [check.id for check in outcome.checks] == ["patch"]
    assert outcome.failed


def test_a_change_of_a_patch_is_noticed(series: Path) -> None:
    file = series / "lib-1.0" / "0001-drop.patch"
    pauses = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            file.write_text(PATCH + "\n")

    seen = checktask.changes(series, pause=pause)
    next(seen)
    assert pauses == []
    next(seen)
    assert len(pauses) == 2


@pytest.fixture
def chosen(sources: Surface, series: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give what `fab check` is handed: a host whose sources are kept, a series of our own, a console to look at."""
    monkeypatch.setattr(laptop.surface, "remembered", lambda *_: sources)
    monkeypatch.setattr(laptop.surface, "architectures", lambda *_: ())
    monkeypatch.setattr(laptop.patches, "SERIES", series)
    monkeypatch.setattr(checktask.check, "__kwdefaults__", checktask.check.__kwdefaults__ | {"root": series})
    screen = SimpleNamespace(console=Console(file=io.StringIO(), width=200))
    return SimpleNamespace(targets=[SimpleNamespace(name="gpu01", job=JOB)], screen=screen)


def test_a_patch_that_is_half_written_does_not_end_the_watch(
    chosen: Any, series: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, console = series / "lib-1.0" / "0001-drop.patch", chosen.screen.console

    def edits(_root: Path) -> Iterator[None]:
        yield
        for text in (PATCH[:40], "\udcff", "", PATCH.replace("SIZE = 1", "SIZE = 7"), PATCH):
            file.write_text(text, errors="surrogateescape")
            console.file.seek(0)
            console.file.truncate()
            yield
            seen.append(console.file.getvalue())

    seen: list[str] = []
    monkeypatch.setattr(checktask, "changes", edits)
    laptop.check(chosen, watch=True)
    assert [("error" in text, "static  " in text) for text in seen] == [*[(True, False)] * 4, (False, True)]


def test_a_suggestion_goes_to_a_file_or_to_standard_output(
    chosen: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "suggested.patch"
    for name in (str(file), "-"):
        with pytest.raises(GateRefused):
            laptop.check(chosen, suggest=name, no_patches=True)
    assert capsys.readouterr().out == file.read_text()
    assert file.read_text().startswith("Subject: ")
    assert not (tmp_path / "-").exists()
    with pytest.raises(UsageError, match="the suggested patch cannot be written: that is a folder"):
        laptop.check(chosen, suggest=str(tmp_path), no_patches=True)


@pytest.mark.parametrize(
    ("source", "everything", "said"),
    [
        ("SIZE = 1\n", False, "nothing was found that wants a fix; nothing was written"),
        ("import nobody\n", True, "nothing was found that wants a fix; nothing was written"),
        ("from vllm import Nowhere\n", False, "no fix is known for what was found; nothing was written"),
    ],
)
def test_that_nothing_is_suggested_says_why(
    chosen: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, said: str, *, everything: bool
) -> None:
    other = surface(tmp_path, {**VLLM, **library(source)}, name="other")
    monkeypatch.setattr(laptop.surface, "remembered", lambda *_: other)
    file = tmp_path / "suggested.patch"
    with contextlib.suppress(GateRefused):
        laptop.check(chosen, suggest=str(file), no_patches=True, everything=everything)
    shown = chosen.screen.console.file.getvalue()
    assert [line for line in shown.splitlines() if "nothing was written" in line] == [said]
    assert ("nobody is not part of the surface" in shown) == everything  # a note, which wants no fix
    assert not file.exists()


def test_a_job_without_modules_needs_no_sources(chosen: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("PRUDENT_GATE_CACHE", str(tmp_path / "cache"))
    chosen.targets[0].job = Job(name="j", engine="command", python="/p", workdir="/w", output="/o")
    laptop.check(chosen)
    assert "skipped: the job's gate names no modules" in chosen.screen.console.file.getvalue()
    chosen.targets[0].job = JOB
    with pytest.raises(UsageError, match="no sources of gpu01's packages are kept"):
        laptop.check(chosen)


def test_hosts_that_need_different_patches_are_not_written_over_each_other(
    chosen: Any, sources: Surface, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits = surface(tmp_path, {**VLLM, **library("SIZE = 1\n")}, name="fits")
    other = surface(tmp_path, {**VLLM, **library(BROKEN.replace("gone=2", "lost=3"))}, name="other")
    kept = {"gpu01": sources, "gpu02": fits, "gpu03": other, "gpu04": sources}
    monkeypatch.setattr(laptop.surface, "remembered", lambda name, _job: kept[name])
    chosen.targets = [SimpleNamespace(name=name, job=JOB) for name in ("gpu01", "gpu02", "gpu04")]
    file = tmp_path / "suggested.patch"
    with pytest.raises(GateRefused, match="gpu01, gpu04"):
        laptop.check(chosen, suggest=str(file), no_patches=True)
    assert "-Engine(config=None, block_size=SIZE, gone=2)" in file.read_text()
    file.unlink()
    chosen.targets.append(SimpleNamespace(name="gpu03", job=JOB))
    with pytest.raises(UsageError, match="gpu01, gpu04, gpu03 need patches of their own"):
        laptop.check(chosen, suggest=str(file), no_patches=True)
    assert not file.exists()


def test_the_matrix_shows_each_release_as_it_is_and_patched(
    tmp_path: Path, sources: Surface, series: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    takes = VLLM["vllm/engine.py"].replace("block_size: int)", "block_size: int, gone: int)")
    fits = surface(tmp_path, {**VLLM, "vllm/engine.py": takes}, name="old")
    new = surface(tmp_path, VLLM, name="new")
    roots = {"1.0": fits.roots[0], "2.0": new.roots[0]}

    def fetch(name: str, version: str) -> releases.Release:
        if version not in roots:
            raise PrudentError(f"{name} {version} cannot be fetched")
        return releases.Release(name, version, roots[version])

    monkeypatch.setattr(releases, "fetch", fetch)
    patches = checktask.patches.load_series(series)
    rows = list(matrix.matrix(JOB, "vllm", ("1.0", "2.0", "9.9"), under=sources, series=patches))
    assert [(row.bare.verdict, row.patched.verdict, row.fits) for row in rows] == [
        ("fits", "fits", True),
        ("no", "fits", True),
        ("unknown", "unknown", False),
    ]
    assert matrix.cells(rows[1])[:4] == ("2.0", "no: 1 error", "fits", "0001")
    assert rows[2].trouble == "vllm 9.9 cannot be fetched"


def test_releases_are_chosen_by_name_by_range_or_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "versions", lambda _name: ("0.9.0", "0.10.0", "0.11.0", "0.12.0"))
    assert matrix.choose("vllm", "0.11.0, 0.9.0,") == ("0.11.0", "0.9.0")
    assert matrix.choose("vllm", ">=0.10,<0.12") == ("0.10.0", "0.11.0")
    assert matrix.choose("vllm", limit=2) == ("0.11.0", "0.12.0")
    assert matrix.choose("vllm", limit=2, installed="0.9.0+cpu") == ("0.9.0", "0.11.0", "0.12.0")
    for there in ("0.12.0", "0.11.0+cu128", "0.10.1.dev3+g123", "", None):  # among them, none of the index, unknown
        assert matrix.choose("vllm", limit=2, installed=there) == ("0.11.0", "0.12.0")
    for nothing in (",", " , ,", " "):
        with pytest.raises(UsageError, match="names no release"):
            matrix.choose("vllm", nothing)


@pytest.mark.parametrize("wanted", [">=9", ">=abc", ">=0.9"])
def test_ranges_that_cannot_be_looked_at_say_why(wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "versions", lambda _name: ("0.9.0", "0.10.0", "0.11.0", "0.12.0"))
    with pytest.raises(UsageError):
        matrix.choose("vllm", wanted, limit=3)


@pytest.mark.parametrize(
    ("name", "version"), [("../x", "1.0"), ("--index-url", "1"), ("", "1"), ("vllm", "latest"), ("vllm", "1.0 --pre")]
)
def test_names_and_versions_that_are_none_never_reach_a_client(name: str, version: str) -> None:
    with pytest.raises(UsageError):
        releases.fetch(name, version)
