from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from local.static import baseline, fixes
from local.static.examine import Examination, Subject, examine
from tests.unit.static_packages import VLLM, library, surface

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRUDENT_GATE_CACHE", str(tmp_path / "cache"))


KNOWN = baseline.Baseline(
    library="lib",
    version="1.0",
    written_for={"vllm": ("1.0",)},
    defaults={"EngineConfig": {"caching": ("None",), "depth": ("7",), "names": ("['a']",)}},
    returns={"Engine.call": ("list[object]",), "Engine.step": ("str",)},
)


def seen(tmp_path: Path, main: str, *, known: baseline.Baseline | None = None, **more: object) -> Examination:
    files = {**VLLM, **library(main)}
    subject = Subject(surface(tmp_path, files), ("lib.main",), more.pop("patched", {}), **more)  # type: ignore[arg-type]
    return examine(subject, known=known)


def rules(examination: Examination) -> list[tuple[str, int]]:
    return [(problem.rule, problem.line) for problem in examination.standing]


def reasons(examination: Examination) -> list[str]:
    return [problem.dismissed for problem in examination.problems if problem.dismissed]


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("from vllm import Engine\nEngine(config=None, block_size=1, gone=2)", "unknown-argument"),
        ("from vllm import Engine\nEngine(config=None)", "missing-argument"),
        ("from vllm import Engine\nEngine(None, 1, 2)", "too-many-arguments"),
        ("\nfrom vllm import Gone", "unresolved-import"),
        ("\nimport vllm.gone", "unresolved-import"),
        ("from vllm import Engine\nEngine(None, 1).gone()", "unresolved-attribute"),
        ("\nnowhere", "undefined-name"),
    ],
)
def test_what_cannot_work_is_a_finding_at_its_line(tmp_path: Path, code: str, rule: str) -> None:
    found = seen(tmp_path, code)
    assert rules(found) == [(rule, 2)]
    (finding,) = found.findings()
    assert finding.severity == "error"
    assert finding.file == "lib/main.py"
    assert finding.text == code.splitlines()[1]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import torch.nn", "torch is not part of the surface"),
        ("try:\n    from vllm import Gone\nexcept ImportError:\n    Gone = None", "the code catches this error"),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from vllm import Gone", "only type checkers"),
        ("from vllm import Engine\ndef f(e: Engine):\n    e.stop(now='x')", "a belief about a value's type"),
    ],
)
def test_noise_is_dismissed_by_a_principle_that_it_names(tmp_path: Path, code: str, reason: str) -> None:
    found = seen(tmp_path, code)
    assert found.findings() == ()
    (note,) = found.findings(everything=True)
    assert note.severity == "note"
    assert reason in note.message


def test_a_guard_against_another_error_is_none(tmp_path: Path) -> None:
    assert rules(seen(tmp_path, "try:\n    from vllm import Gone\nexcept ValueError:\n    Gone = None")) != []


def test_type_ignore_hides_nothing(tmp_path: Path) -> None:
    code = "from vllm import Engine\nEngine(config=None, block_size=1, gone=2)  # type: ignore"
    assert rules(seen(tmp_path, code)) == [("unknown-argument", 2)]


MIXIN = """\
from vllm import Engine
class Extension:
    def hook(self):
        return self.{attribute}
def start():
    return dict(worker_extension_cls="lib.main.Extension")
"""


def test_what_the_host_class_of_a_mixin_provides_is_no_finding(tmp_path: Path) -> None:
    found = seen(tmp_path, MIXIN.format(attribute="model_runner"))
    assert found.standing == ()
    assert "vllm.v1.worker.gpu_worker.Worker" in reasons(found)[0]


def test_what_no_host_class_provides_is_one(tmp_path: Path) -> None:
    assert rules(seen(tmp_path, MIXIN.format(attribute="model_driver"))) == [("unresolved-attribute", 4)]


def test_a_class_that_nothing_mixes_in_must_have_its_own_attributes(tmp_path: Path) -> None:
    assert rules(seen(tmp_path, MIXIN.format(attribute="model_runner").replace(".Extension", ".Other"))) != []


def test_what_the_releases_it_was_written_for_get_too_is_no_news(tmp_path: Path) -> None:
    code = "from vllm import Engine\ndef f():\n    Engine(config=None)"
    first = seen(tmp_path, code)
    key = baseline.key("missing-argument", "lib/main.py", "f", first.standing[0].message)
    known = baseline.Baseline("lib", "1.0", {"vllm": ("1.0", "1.5")}, frozenset({key}))
    found = seen(tmp_path, code, known=known)
    assert found.standing == ()
    assert reasons(found) == ["vllm 1.0 to 1.5, for which lib 1.0 was written, gets the same report"]
    assert rules(seen(tmp_path, code.replace("def f", "def g"), known=known)) == [("missing-argument", 3)]


MODEL = """\
import types
def forward(self, input_ids):
    print(self.layers, self.norm, self.start, self.mine)
    return self.{method}(input_ids)
class Extension:
    def setup(self):
        model = self.model_runner.model
        inner = model.model
        inner.mine = 1
        inner.forward = types.MethodType(forward, inner)
def start():
    return dict(worker_extension_cls="lib.main.Extension")
"""


def test_a_method_that_models_lost_is_found_with_the_one_that_took_over(tmp_path: Path) -> None:
    found = seen(tmp_path, MODEL.format(method="old_embed"))
    assert rules(found) == [("model-attribute", 4)]
    (finding,) = found.findings()
    assert finding.text is not None
    assert finding.text[finding.column : finding.end_column] == "self.old_embed"
    assert finding.signature == "LlamaModel.embed_input_ids(input_ids)"
    assert finding.fix is not None
    assert "+    return self.embed_input_ids(input_ids)" in finding.fix


def test_a_model_method_that_is_there_is_no_finding(tmp_path: Path) -> None:
    assert seen(tmp_path, MODEL.format(method="embed_input_ids")).standing == ()


def test_an_attribute_that_the_code_asks_for_first_is_no_finding(tmp_path: Path) -> None:
    code = MODEL.format(method="old_embed").replace("print(", "hasattr(self, 'old_embed')\n    print(")
    assert seen(tmp_path, code).standing == ()


def test_a_function_bound_to_something_else_is_left_alone(tmp_path: Path) -> None:
    code = MODEL.format(method="old_embed").replace("self.model_runner.model", "open('x')")
    assert [rule for rule, _ in rules(seen(tmp_path, code)) if rule == "model-attribute"] == []


def test_an_unknown_architecture_says_nothing_and_a_known_one_is_held(tmp_path: Path) -> None:
    code = MODEL.format(method="old_embed")
    assert rules(seen(tmp_path, code, architectures=("LlamaForCausalLM",))) == [("model-attribute", 4)]


@pytest.mark.parametrize("architectures", [("KimiK25ForConditionalGeneration",), ("Nobody",), ()])
def test_an_architecture_whose_module_has_no_such_class_is_held_against_all(
    tmp_path: Path, architectures: tuple[str, ...]
) -> None:
    code = MODEL.format(method="old_embed")
    assert rules(seen(tmp_path, code, architectures=architectures)) == [("model-attribute", 4)]


DRIFT = """\
from vllm import Engine
from vllm.config import EngineConfig
class Maker:
    def __init__(self):
        self.engine = Engine(EngineConfig(depth=1{more}), block_size=2)
    def go(self):
        self.engine.step("x")
        answers = self.engine.call("a", rank=0)
        one = answers[0]
        every = self.engine.call("b")
        return one, every[0]
"""


def test_changed_defaults_and_returns_are_warnings_at_their_lines(tmp_path: Path) -> None:
    found = seen(tmp_path, DRIFT.format(more=""), known=KNOWN)
    assert rules(found) == [("changed-default", 5), ("changed-return", 7), ("changed-return", 9)]
    assert {finding.severity for finding in found.findings()} == {"warning"}
    assert (
        "`EngineConfig.caching` is left to its default, which is True now and was None" in found.findings()[0].message
    )


def test_a_default_that_the_code_sets_is_its_own(tmp_path: Path) -> None:
    found = seen(tmp_path, DRIFT.format(more=", caching=False"), known=KNOWN)
    assert "changed-default" not in dict(rules(found))


def test_a_series_made_for_the_release_has_seen_what_changed(tmp_path: Path) -> None:
    found = seen(tmp_path, DRIFT.format(more=""), known=KNOWN, reviewed=True)
    assert found.standing == ()
    assert set(reasons(found)) >= {"the patch series was made for this release"}


def test_without_a_baseline_nothing_is_said_of_changes(tmp_path: Path) -> None:
    assert seen(tmp_path, DRIFT.format(more="")).standing == ()


def test_patched_text_is_what_is_checked(tmp_path: Path) -> None:
    code = "from vllm import Engine\nEngine(config=None)"
    patched = {"lib/main.py": "from vllm import Engine\n\nEngine(config=None, block_size=1, more=2)"}
    assert rules(seen(tmp_path, code, patched=patched)) == [("unknown-argument", 3)]
    assert (tmp_path / "site/lib/main.py").read_text() == code


def test_a_module_that_is_gone_is_named(tmp_path: Path) -> None:
    subject = Subject(surface(tmp_path, {**VLLM, **library("")}), ("lib.gone", "other.gone"), {})
    messages = [finding.message for finding in examine(subject).findings()]
    assert messages == [
        "there is no module lib.gone in lib 1.0",
        "there is no module other.gone in the host, where other is not installed",
    ]


def test_a_broken_source_is_a_finding_too(tmp_path: Path) -> None:
    found = seen(tmp_path, "def f(:\n")
    assert {problem.rule for problem in found.standing} == {"syntax"}


def test_the_suggested_patch_is_in_the_form_of_the_series(tmp_path: Path) -> None:
    code = "from vllm import Engine\nMY_BLOCK_SIZE = 4\nEngine(\n    config=None,\n    gone=1,\n)\n"
    found = seen(tmp_path, code)
    text = found.suggest(subject="Do it", why="Because.", applies_to="lib==1.0")
    assert text.startswith(
        "Subject: Do it\nApplies-To: lib==1.0\n\nBecause.\n---\n--- a/lib/main.py\n+++ b/lib/main.py\n"
    )
    assert "-    gone=1,\n" in text
    assert "+    block_size=MY_BLOCK_SIZE,\n" in text


def test_what_was_read_of_the_models_is_kept_and_damage_to_it_is_survived(tmp_path: Path) -> None:
    code = MODEL.format(method="old_embed")
    files = {**VLLM, **library(code)}
    named = dataclasses.replace(surface(tmp_path, files), fingerprint="f" * 64)
    subject = Subject(named, ("lib.main",), {})
    first = examine(subject).findings()
    (kept,) = (tmp_path / "cache" / "models").iterdir()
    assert examine(subject).findings() == first
    for damage in ("", "[]", '{"a": 1}', '{"a": [[1, 2, 3]]}', "\ud800".encode("utf-8", "replace").decode()):
        kept.write_text(damage)
        assert examine(subject).findings() == first


MOVED = {"vllm/deep/__init__.py": "", "vllm/deep/er.py": "class Gone:\n    pass\ndef helper(): ...\n"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from vllm.engine import Gone\n", "from vllm.deep.er import Gone\n"),
        (
            "from vllm.engine import Engine, Gone as G\n",
            "from vllm.engine import Engine\nfrom vllm.deep.er import Gone as G\n",
        ),
        ("from vllm.lost import Gone, helper\n", "from vllm.deep.er import Gone, helper\n"),
        (
            "def f():\n    from vllm.lost import (\n        Gone,\n    )\n",
            "def f():\n    from vllm.deep.er import Gone\n",
        ),
    ],
)
def test_a_name_that_moved_is_imported_from_its_new_home(tmp_path: Path, before: str, after: str) -> None:
    subject = Subject(surface(tmp_path, {**VLLM, **MOVED, **library(before)}), ("lib.main",), {})
    examination = examine(subject)
    (problem,) = examination.standing
    assert "is defined in vllm.deep.er" in problem.message
    assert problem.edit is not None
    assert fixes.apply(before, [problem.edit]) == after


def test_a_name_with_two_homes_or_none_is_left_to_the_reader(tmp_path: Path) -> None:
    more = {**MOVED, "vllm/deep/two.py": "class Gone: ...\n"}
    code = "from vllm.engine import Gone\nfrom vllm.engine import Never\n"
    found = examine(Subject(surface(tmp_path, {**VLLM, **more, **library(code)}), ("lib.main",), {}))
    assert [(problem.line, problem.edit) for problem in found.standing] == [(1, None), (2, None)]


def test_an_argument_that_no_overload_takes_is_a_finding(tmp_path: Path) -> None:
    overloads = """\
from typing import Literal, overload
@overload
def run(a: int, wait: Literal[True]) -> int: ...
@overload
def run(a: int, wait: Literal[False]) -> str: ...
def run(a: int, wait: bool) -> int | str: ...
"""
    code = "from vllm.many import run\nrun(a=1, wait=True, gone=2)\nrun(a=1, wait='x')\n"
    found = examine(Subject(surface(tmp_path, {**VLLM, "vllm/many.py": overloads, **library(code)}), ("lib.main",), {}))
    assert [(problem.rule, problem.line) for problem in found.standing] == [("unknown-argument", 2)]
    assert found.standing[0].edit is not None


def test_a_patched_module_beside_the_gates_own_is_judged_by_what_its_patch_brings_in(tmp_path: Path) -> None:
    old = "from vllm import Engine\nEngine(config=None)\n"
    files = {**VLLM, **library("", side=old)}
    patched = {"lib/side.py": old + "Engine(config=None, block_size=1, gone=1)\n", "lib/new.py": "import vllm.never\n"}
    found = examine(Subject(surface(tmp_path, files), ("lib.main",), patched))
    assert [(p.rule, p.file, p.line) for p in found.standing] == [
        ("unresolved-import", "lib/new.py", 1),
        ("unknown-argument", "lib/side.py", 3),
    ]
    assert len(reasons(found)) == 1
    assert examine(Subject(surface(tmp_path, files), ("lib.main",), {"lib/side.py": old})).standing == ()
