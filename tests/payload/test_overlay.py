"""The overlay: patched files in place of the installed ones, for our processes alone, however it came to be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from remote import overlay

if TYPE_CHECKING:
    from conftest import Stage

    from remote.paths import Bundle

ROOT = Path(__file__).parents[2]
PACKAGE = {
    "pkg/__init__.py": "from pkg import a\n",
    "pkg/a.py": "who = 'installed'\n",
    "pkg/b.py": "other = 'installed'\n",
    "pkg/data/table.txt": "rows\n",
    "pkg/deep/__init__.py": "",
    "pkg/deep/er/__init__.py": "",
    "pkg/deep/er/c.py": "who = 'installed'\n",
    "pkg/__pycache__/a.cpython-310.pyc": "stale",
}
PATCHED = {"pkg/a.py": "who = 'patched'\n", "pkg/deep/er/c.py": "who = 'patched'\n"}
ASK = (
    "import json, pkg.a, pkg.b, pkg.deep.er.c as c; print(json.dumps([pkg.a.who, pkg.b.other, c.who, pkg.a.__file__]))"
)


@pytest.fixture
def bundle(stage: Stage) -> Bundle:
    stage.write(PACKAGE)
    return stage.push(stage.job(), PATCHED)


def seen(stage: Stage, bundle: Bundle, script: str = ASK) -> list[str]:
    """Ask a process that has the overlay first on its path, as the job's have."""
    path = f"{bundle.overlay}:{stage.site}"
    done = subprocess.run(
        [stage.python, "-B", "-c", script],
        env={"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
    )
    return [str(word) for word in json.loads(done.stdout)]


def test_the_patched_files_stand_in_place_of_theirs(stage: Stage, bundle: Bundle) -> None:
    overlay.ensure(bundle, stage.python)
    assert seen(stage, bundle) == ["patched", "installed", "patched", f"{bundle.overlay}/pkg/a.py"]


def test_nobody_else_sees_them_and_nothing_is_written(stage: Stage, bundle: Bundle) -> None:
    before = stage.checksum()
    overlay.ensure(bundle, stage.python)
    seen(stage, bundle)
    assert stage.checksum() == before
    done = subprocess.run(
        [stage.python, "-B", "-c", "import pkg.a; print(pkg.a.who)"],
        env={"PYTHONPATH": str(stage.site)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "installed\n"


def test_real_folders_only_on_the_way_and_no_bytecode(stage: Stage, bundle: Bundle) -> None:
    overlay.ensure(bundle, stage.python)
    root = Path(bundle.overlay, "pkg")
    assert (root / "data").is_symlink()
    assert (root / "b.py").is_symlink()
    assert not (root / "deep").is_symlink()
    assert not (root / "deep" / "er").is_symlink()
    assert not (root / "a.py").is_symlink()
    assert not (root / "__pycache__").exists()
    assert (root / "data" / "table.txt").read_text() == "rows\n"


def test_nothing_patched_is_an_empty_folder(stage: Stage) -> None:
    bundle = stage.push(stage.job())
    overlay.ensure(bundle, "/nonexistent/python")
    assert list(Path(bundle.overlay).iterdir()) == []


def test_a_second_time_changes_nothing(stage: Stage, bundle: Bundle) -> None:
    overlay.ensure(bundle, stage.python)
    before = Path(bundle.overlay, "pkg").stat().st_ino
    overlay.ensure(bundle, stage.python)
    assert Path(bundle.overlay, "pkg").stat().st_ino == before


@pytest.mark.parametrize("change", ["added", "removed", "moved"])
def test_another_set_of_installed_files_makes_another_overlay(stage: Stage, bundle: Bundle, change: str) -> None:
    overlay.ensure(bundle, stage.python)
    if change == "added":
        stage.write({"pkg/new.py": "x = 1"})
    elif change == "removed":
        (stage.site / "pkg" / "b.py").unlink()
    else:
        stage.site.joinpath("pkg", "b.py").rename(stage.site / "pkg" / "z.py")
    overlay.ensure(bundle, stage.python)
    names = {path.name for path in Path(bundle.overlay, "pkg").iterdir()}
    assert names == {path.name for path in (stage.site / "pkg").iterdir()} - {"__pycache__"}
    assert len(list(Path(bundle.root).glob("overlay-*"))) == 1


def test_an_edit_of_an_unpatched_file_shows_through(stage: Stage, bundle: Bundle) -> None:
    overlay.ensure(bundle, stage.python)
    stage.write({"pkg/b.py": "other = 'edited'\n"})
    assert seen(stage, bundle)[1] == "edited"


def test_what_a_killed_builder_left_is_in_nobodys_way(stage: Stage, bundle: Bundle) -> None:
    for name in (".overlay-0123.tmp", "overlay-0123"):
        (Path(bundle.root) / name / "pkg").mkdir(parents=True)
    Path(bundle.root, ".overlay.tmp").symlink_to("nowhere")
    Path(bundle.overlay).symlink_to("overlay-gone")
    overlay.ensure(bundle, stage.python)
    assert seen(stage, bundle)[0] == "patched"
    assert len(list(Path(bundle.root).glob("*overlay-*"))) == 1


def test_a_folder_that_stands_there_gives_way(stage: Stage, bundle: Bundle) -> None:
    Path(bundle.overlay, "pkg").mkdir(parents=True)
    overlay.ensure(bundle, stage.python)
    assert seen(stage, bundle)[0] == "patched"


def test_many_builders_at_once_end_well(stage: Stage, bundle: Bundle) -> None:
    script = (
        "import sys; from pathlib import PurePosixPath; from remote import overlay; from remote.paths import Bundle;"
        "overlay.ensure(Bundle(PurePosixPath(sys.argv[1])), sys.argv[2])"
    )

    def build(_: int) -> int:
        words = [sys.executable, "-c", script, str(bundle.root), stage.python]
        return subprocess.run(words, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False).returncode

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(build, range(6))) == {0}
    assert seen(stage, bundle)[0] == "patched"
    assert [path.name for path in Path(bundle.root).glob(".overlay*")] == [".overlay.lock"]


def test_new_files_and_folders_of_a_patch_are_there(stage: Stage) -> None:
    stage.write(PACKAGE)
    bundle = stage.push(stage.job(), {"pkg/fresh/__init__.py": "", "pkg/fresh/x.py": "y = 'new'"})
    overlay.ensure(bundle, stage.python)
    assert seen(stage, bundle, "import pkg.fresh.x as x; print('[\"' + x.y + '\"]')") == ["new"]


def test_a_module_of_one_file_is_patched_too(stage: Stage) -> None:
    stage.write({"one.py": "who = 'installed'"})
    bundle = stage.push(stage.job(), {"one.py": "who = 'patched'"})
    overlay.ensure(bundle, stage.python)
    assert seen(stage, bundle, "import one; print('[\"' + one.who + '\"]')") == ["patched"]


def test_the_parts_of_a_namespace_stay_together(stage: Stage, tmp_path: Path) -> None:
    stage.write({"space/a/__init__.py": "", "space/a/x.py": "who = 'installed'"})
    other = tmp_path / "other" / "space" / "b"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("who = 'other'")
    job = stage.job(env={"PYTHONPATH": f"{stage.site}:{tmp_path / 'other'}"})
    bundle = stage.push(job, {"space/a/x.py": "who = 'patched'"})
    overlay.ensure(bundle, stage.python)
    script = "import json, space.a.x as x, space.b as b; print(json.dumps([x.who, b.who]))"
    assert seen(stage, bundle, script) == ["patched", "other"]


@pytest.mark.parametrize("python", ["/nonexistent/python", "/bin/false", "/bin/echo"])
def test_a_python_that_is_none_is_a_clear_failure(bundle: Bundle, python: str) -> None:
    with pytest.raises(overlay.OverlayFailed, match=python):
        overlay.ensure(bundle, python)
    assert not Path(bundle.overlay).exists()


def test_a_package_that_is_not_installed_is_a_clear_failure(stage: Stage) -> None:
    bundle = stage.push(stage.job(), {"absent/x.py": ""})
    with pytest.raises(overlay.OverlayFailed, match="no package absent"):
        overlay.ensure(bundle, stage.python)


@pytest.mark.parametrize("folder", ["with space", "quo'te", "ünï", "line\nbreak", "-dash", "$(x)"])
def test_hostile_folder_names_are_just_names(stage: Stage, folder: str) -> None:
    stage.root = stage.root / folder
    stage.write(PACKAGE)
    bundle = stage.push(stage.job(), PATCHED)
    overlay.ensure(bundle, stage.python)
    assert seen(stage, bundle)[:3] == ["patched", "installed", "patched"]
