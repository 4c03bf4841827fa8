"""The rules of the house: which way imports run, what the payload may lean on, what the tree may not hold."""

from __future__ import annotations

import ast
import contextlib
import glob
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAYLOAD = sorted((ROOT / "remote").rglob("*.py"))
CONTROLLER = sorted((ROOT / "local").rglob("*.py"))
SHARED = ("wire", "schema", "paths", "failures", "failure_noise", "failure_table", "ranges", "masks", "torn")
CARRIED = {"tenacity"}  # the bundle brings it along
OURS = {"local", "remote"}
LONGEST = 400


def imports(path: Path, *, top: bool) -> set[str]:
    """Give the full names that a file imports; `top`: outside of functions and type checking only."""
    found: set[str] = set()
    pending: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while pending:
        node = pending.pop()
        if top and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if top and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending += node.orelse
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
        pending += ast.iter_child_nodes(node)
    return found


def tops(names: set[str]) -> set[str]:
    return {name.split(".")[0] for name in names}


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", PAYLOAD, ids=named)
def test_the_payload_never_imports_the_controller(path: Path) -> None:
    assert "local" not in tops(imports(path, top=False))


@pytest.mark.parametrize("path", PAYLOAD, ids=named)
def test_the_payload_leans_on_the_standard_library_alone(path: Path) -> None:
    foreign = tops(imports(path, top=True)) - set(sys.stdlib_module_names) - {"remote"} - CARRIED
    assert foreign == set(), "import it inside the function that needs it"


@pytest.mark.parametrize(
    "path",
    [path for path in PAYLOAD if path.relative_to(ROOT / "remote").parts[0].removesuffix(".py") in SHARED],
    ids=named,
)
def test_what_both_sides_share_imports_nothing_else_of_ours(path: Path) -> None:
    ours = {found for found in imports(path, top=False) if found.split(".")[0] in OURS}
    allowed = {f"remote.{shared}" for shared in SHARED}
    assert {found for found in ours if not any(found == one or found.startswith(f"{one}.") for one in allowed)} <= {
        "remote"
    }


@pytest.mark.parametrize("path", PAYLOAD, ids=named)
def test_the_payload_is_written_for_its_oldest_python(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 10))


@pytest.mark.parametrize("path", [*PAYLOAD, *CONTROLLER], ids=named)
def test_a_module_is_small_and_says_what_it_holds(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LONGEST
    assert not text or ast.get_docstring(ast.parse(text))


def listed() -> list[str]:
    """Give the files that git knows; where it does not answer for this tree, what is not hidden in it."""
    with contextlib.suppress(OSError, subprocess.CalledProcessError):  # no git, no repository, another user's
        return subprocess.run(
            ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.splitlines()
    return glob.glob("**/*", root_dir=ROOT, recursive=True)  # noqa: PTH207 - it passes the hidden by


@pytest.mark.parametrize("path", ["/nowhere", os.defpath])
def test_the_tree_is_listed_with_and_without_git(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", path)
    monkeypatch.setenv("GIT_DIR", str(tmp_path))  # which is no repository
    assert {"tests/unit/test_arrows.py", "Makefile"} <= set(listed())


def test_nothing_is_left_to_do_in_the_tree() -> None:
    words = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b")
    kinds = {".py", ".md", ".toml", ".yaml", ".yml", ".sh", ".txt"}
    files = [ROOT / name for name in listed()]
    assert len(files) > len(PAYLOAD)
    left = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in files
        if path.suffix in kinds and path.is_file()
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if words.search(line)
    ]
    assert left == []


def interpreters() -> list[str]:
    """Give this interpreter, and the oldest other one that the payload must run on."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    named = [found for minor in range(10, 16) if (found := shutil.which(f"python3.{minor}"))]
    others = [*named, *map(str, sorted(root.glob("versions/3.1[0-9].*/bin/python3")))]
    runs = [
        other for other in others if subprocess.run([other, "-c", ""], capture_output=True, check=False).returncode == 0
    ]
    return [sys.executable, *runs[:1]]


def test_the_payload_imports_in_a_clean_interpreter() -> None:
    modules = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in PAYLOAD]
    wanted = [name.removesuffix(".__init__") for name in modules if not name.endswith(".__main__")]
    script = (
        "import importlib, importlib.util, sys\n"
        "carried = {'tenacity'}\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "for name in sys.argv[2:]:\n"
        "    try:\n"
        "        importlib.import_module(name)\n"
        "    except ModuleNotFoundError as error:\n"
        "        if error.name not in carried:\n"
        "            raise\n"
    )
    for python in interpreters():
        done = subprocess.run(
            [python, "-I", "-S", "-B", "-c", script, str(ROOT), *wanted], capture_output=True, text=True, check=False
        )
        assert (python, done.returncode, done.stderr) == (python, 0, "")
