"""The level `contract` on classes and capture code made for the purpose; the stack's tests hold it on the real ones."""

import json
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from remote.gate import contract
from remote.model import architecture, capture, model_config
from remote.model.architecture import Code, Unresolved
from remote.model.blueprint import Blueprint
from remote.schema import Finding, GateSpec
from tests.payload.contract_models import MODELS, WORKER, job


def _code(module: ModuleType) -> Code:
    source = Path(str(module.__file__)).read_text()
    return Code(module=module.__name__, file=str(module.__file__), captures=capture.read(source), names=vars(module))


def _held(
    make: Callable[[str, str], ModuleType], name: str, worker: str = WORKER, text: str = "Text"
) -> tuple[Finding, ...]:
    models = make("made_models", MODELS)
    config = model_config.parse({"architectures": [name], "text_config": {"architectures": [text]}})
    target = architecture.resolve(config, lambda one: getattr(models, one, None))
    return architecture.hold(target, _code(make("made_worker", worker)))


# ---- what capture code asks ------------------------------------------------------------------------------------


def test_capture_code_is_read_as_it_is_written() -> None:
    (one,) = capture.read(textwrap.dedent(WORKER))
    assert one.function == "_patched"
    assert one.paths == {("model",)}
    assert [(guard.function, guard.paths) for guard in one.guards] == [("supports_eagle3", {()})]
    assert {use.name for use in one.uses} == {"embed_input_ids", "layers", "start_layer", "end_layer", "norm"}
    (call,) = one.layers
    assert (call.attribute, call.positional, call.unpacked) == ("layers", 0, 2)
    assert call.keywords == ("hidden_states", "positions", "residual")
    assert one.place.text.strip() == "base = model.model"
    assert one.place.text[one.place.column : one.place.end_column] == "model.model"


@pytest.mark.parametrize(
    ("code", "paths"),
    [
        ("model.model", {("model",)}),
        ("model.language_model.model", {("language_model", "model")}),
        ("getattr(model, 'language_model', model).model", {("language_model", "model"), ("model",)}),
        ("(model.language_model if x else model).model", {("language_model", "model"), ("model",)}),
        ("model.get_language_model().model", {("get_language_model()", "model")}),
        ("inner(model).model", {("text", "model"), ("model",)}),
        ("(model.text or model).model", {("text", "model"), ("model",)}),
        ("self.model_runner.get_model().model", {("model",)}),
        ("unknown(model).model", set()),
        ("self.somewhere", set()),
        ("model\n        base = base.model", {("model",)}),
        ("model\n        if x:\n            base = base.inner()\n        base = base.model", {("model",)}),
        (
            "model\n        if x:\n            base = base.get_language_model()\n        base = base.model",
            {("model",), ("get_language_model()", "model")},
        ),
        ("getattr(getattr(model, 'language_model', model), 'model', None)", {("language_model", "model"), ("model",)}),
    ],
)
def test_paths_are_followed_as_far_as_they_can_be(code: str, paths: set[tuple[str, ...]]) -> None:
    helper = "def inner(one):\n    two = one\n    if two:\n        return one.text\n    return two\n"
    (one,) = capture.read(helper + textwrap.dedent(WORKER).replace("base = model.model\n", f"base = {code}\n"))
    assert one.paths == paths


@pytest.mark.parametrize("source", ["", "x = 1", "def broken(:", "import types\ntypes.MethodType(print, 1)", "\0"])
def test_modules_without_capture_code_ask_nothing(source: str) -> None:
    assert capture.read(source) == ()


# ---- what a class has ------------------------------------------------------------------------------------------


def test_parts_are_followed_through_methods_defaults_and_what_subclasses_pass(
    make: Callable[[str, str], ModuleType],
) -> None:
    models = make("made_models", MODELS)
    blueprint = Blueprint(lambda name: getattr(models, name, None), ("Text",))
    assert blueprint.parts(models.Text, "model") == {models.Inner}
    assert blueprint.parts(models.Inner, "layers") == {models.Layer}
    assert models.OtherLayer in blueprint.parts(models.InnerOfOthers, "layers")
    assert blueprint.parts(models.Plain, "model") == {models.InnerListed}
    assert blueprint.parts(models.Wrapper, "language_model") == {models.Plain}
    assert blueprint.parts(models.WrapperByConfig, "language_model") == {models.Text}
    assert blueprint.find(models.Wrapper, ("layers", "norm")) == ("language_model", "model")
    assert blueprint.find(models.Wrapper, ("layers",)) == ("vision",)
    assert blueprint.find(models.Wrapper, ("nothing",)) is None


def test_what_sources_do_not_tell_is_unknown_not_absent(make: Callable[[str, str], ModuleType]) -> None:
    models = make("made_models", MODELS)
    blueprint = Blueprint(lambda _name: None)
    assert blueprint.has(models.Opaque, "model") is None
    assert blueprint.has(type("Sourceless", (), {}), "model") is None
    assert blueprint.has(models.Inner, "nothing") is False
    assert blueprint.has(models.Inner, "layers") is True
    assert blueprint.parts(models.Circle, "model") == frozenset()


# ---- the two together ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Text", "TextOfOthers", "Opaque", "Circle"])
def test_a_model_that_fits_and_one_of_which_nothing_is_known_have_no_finding(
    make: Callable[[str, str], ModuleType], name: str
) -> None:
    assert _held(make, name) == ()


def test_a_wrapper_is_refused_with_both_reasons_and_both_classes(make: Callable[[str, str], ModuleType]) -> None:
    guard, path, *_rest = _held(make, "Wrapper")
    assert guard.rule == "model-refused"
    assert "made_models.Wrapper, which does not declare SupportsEagle3" in guard.message
    assert "made_models.Plain does not declare SupportsEagle3 either" in guard.message
    assert guard.text is not None
    assert "if not supports_eagle3(model):" in guard.text
    assert path.rule == "model-path"
    assert "`model.language_model.model`" in path.message
    assert path.text is not None
    assert path.text.strip() == "base = model.model"


def test_a_wrapper_whose_class_declares_it_is_still_misplaced(make: Callable[[str, str], ModuleType]) -> None:
    assert [finding.rule for finding in _held(make, "WrapperByConfig")] == ["model-path"]


def test_capture_code_that_finds_the_text_model_takes_both(make: Callable[[str, str], ModuleType]) -> None:
    worker = WORKER.replace("model = self.model_runner.model", "whole = self.model_runner.model\n            "
                            'model = getattr(whole, "language_model", whole)')  # fmt: skip
    assert _held(make, "WrapperByConfig", worker) == ()


def test_a_method_that_was_renamed_is_named(make: Callable[[str, str], ModuleType]) -> None:
    (finding,) = _held(make, "Text", WORKER.replace("embed_input_ids", "get_input_embeddings"))
    assert finding.rule == "model-attribute"
    assert finding.callee == "made_models.Inner.get_input_embeddings"
    assert "`embed_input_ids` takes the same arguments" in finding.message
    assert finding.text is not None
    assert finding.text[finding.column : finding.end_column] == "self.get_input_embeddings"


def test_a_layer_that_is_called_otherwise_shows_its_signature(make: Callable[[str, str], ModuleType]) -> None:
    found = {finding.rule: finding for finding in _held(make, "Plain")}
    assert set(found) == {"model-refused", "layer-call"}
    assert found["layer-call"].signature == "(self, hidden_states, position_ids)"
    assert "position_ids" in found["layer-call"].message


def test_a_layer_that_gives_one_value_is_seen(make: Callable[[str, str], ModuleType]) -> None:
    (finding,) = _held(make, "Summing")
    assert finding.rule == "layer-result"
    assert "gives 1" in finding.message


def test_no_class_for_an_architecture() -> None:
    config = model_config.parse({"architectures": ["A", "B"]})
    with pytest.raises(Unresolved, match=r"no model class for this architecture \(A, B\)"):
        architecture.resolve(config, lambda _name: None)


def test_a_class_that_cannot_be_imported() -> None:
    def broken(name: str) -> type | None:
        raise ImportError(f"no kernels for {name}")

    with pytest.raises(Unresolved, match="ImportError: no kernels for A"):
        architecture.resolve(model_config.parse({"architectures": ["A"]}), broken)


# ---- the level -------------------------------------------------------------------------------------------------


def test_the_level_tells_everything_at_once(make: Callable[[str, str], ModuleType], tmp_path: Path) -> None:
    models = make("made_models", MODELS)
    make("made_worker", WORKER)
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["Wrapper"], "num_hidden_layers": 2}))
    check = contract.check(
        job(model=str(tmp_path), layers=(7,)),
        GateSpec(modules=("made_worker", "no.such.module"), constants={"made_worker:islice": 1}),
        distributions={"speculators": "0.4.0", "vllm": "0.17.0"},
        patched=False,
        registered=lambda name: getattr(models, name, None),
    )
    assert check.status == "fail"
    rules = [finding.rule for finding in check.findings]
    assert rules[:3] == ["version-pair-bad", "constant-value", "layers"]
    assert "model-refused" in rules
    assert check.facts["pair"] == {"speculators": "0.4.0", "vllm": "0.17.0", "patched": False, "known": "bad"}
    assert check.facts["model"]["class"] == "made_models.Wrapper"


def test_a_job_without_model_and_modules_passes() -> None:
    check = contract.check(job(), GateSpec(), distributions={}, patched=False)
    assert (check.status, check.findings) == ("pass", ())
