"""The level `contract` on classes and capture code made for the purpose; the stack's tests hold it on the real ones."""

import json
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from remote import architecture, capture, constants, contract, geometry, model_config
from remote.architecture import Code, Unresolved
from remote.blueprint import Blueprint
from remote.schema import Finding, GateSpec, Job

KIMI = Path(__file__).parent.parent / "data" / "kimi-k2.5"

MODELS = """
    from typing import Literal

    def make_layers(count, layer_fn, prefix):
        return 0, count, [layer_fn(prefix=f"{prefix}.{n}") for n in range(count)]

    def init_vllm_registered_model(vllm_config, *, hf_config=None, architectures=None):
        raise AssertionError("no model is made")

    class ModuleList(list):
        pass

    class Norm:
        pass

    class Layer:
        def forward(self, positions, hidden_states, residual):
            if residual is None:
                residual = hidden_states
            return hidden_states, residual

    class OtherLayer:
        def forward(self, positions, hidden_states, residual, *, scale=None):
            return hidden_states, residual

    class OddLayer:
        def forward(self, hidden_states, position_ids):
            hidden_states = hidden_states + 1
            return hidden_states

    class SummingLayer:
        def forward(self, positions, hidden_states, residual=None):
            def inner():
                return 1, 2, 3
            hidden_states = hidden_states + residual
            return hidden_states

    class Inner:
        def __init__(self, *, vllm_config, prefix="", layer_type=Layer):
            self.start_layer, self.end_layer, self.layers = make_layers(
                4, lambda prefix: layer_type(vllm_config, prefix), prefix="x"
            )
            self.norm = Norm() if prefix else Norm()

        def embed_input_ids(self, input_ids):
            return input_ids

        def forward(self, input_ids, positions):
            return input_ids

    class InnerOfOthers(Inner):
        def __init__(self, *, vllm_config, prefix=""):
            super().__init__(vllm_config=vllm_config, prefix=prefix, layer_type=OtherLayer)

    class InnerListed:
        def __init__(self):
            self.layers = ModuleList([OddLayer(n) for n in range(3)])
            self.start_layer = self.end_layer = 0
            self.norm: Norm = Norm()

        def embed_input_ids(self, input_ids):
            return input_ids

    class InnerSumming(Inner):
        def __init__(self):
            self.layers = ModuleList([SummingLayer()])
            self.start_layer = self.end_layer = self.norm = None

    class Text:
        supports_eagle3 = True

        def __init__(self, *, vllm_config, prefix=""):
            self.model = self._make(vllm_config=vllm_config, prefix=prefix)
            self.lm_head = Norm()

        def _make(self, vllm_config, prefix):
            return Inner(vllm_config=vllm_config, prefix=prefix)

    class TextOfOthers(Text):
        inner_type = InnerOfOthers

        def _make(self, vllm_config, prefix):
            made = self.inner_type(vllm_config=vllm_config, prefix=prefix)
            return made

    class Plain:
        def __init__(self):
            self.model = InnerListed()
            self.lm_head = Norm()

    class Summing:
        supports_eagle3 = True

        def __init__(self):
            self.model = InnerSumming()

    class Tower:
        def __init__(self):
            self.layers = ModuleList([OddLayer()])

    class Wrapper:
        def __init__(self, vllm_config):
            self.vision = Tower()
            self.language_model = init_vllm_registered_model(
                vllm_config, hf_config=vllm_config.text_config, architectures=["Plain"]
            )

    class WrapperByConfig:
        supports_eagle3 = True

        def __init__(self, vllm_config):
            self.language_model = init_vllm_registered_model(vllm_config, hf_config=vllm_config.text_config)

    class Circle:
        supports_eagle3 = True

        def __init__(self):
            inner = other
            other = inner
            self.model = inner

        def make(self):
            self.model = self.make()
            return self.make()

    class Opaque:
        supports_eagle3 = True

        def __getattr__(self, name):
            return name
"""

WORKER = """
    import types
    from itertools import islice

    def supports_eagle3(model):
        return getattr(model, "supports_eagle3", False)

    def _patched(self, input_ids, positions, inputs_embeds=None):
        hidden_states = inputs_embeds if inputs_embeds is not None else self.embed_input_ids(input_ids)
        residual = None
        extension = self._extension
        for idx, layer in enumerate(islice(self.layers, self.start_layer, self.end_layer)):
            hidden_states, residual = layer(
                hidden_states=hidden_states, positions=positions, residual=residual
            )
        return self.norm(hidden_states, residual)

    class Extension:
        def setup(self, layer_ids):
            model = self.model_runner.model
            if not supports_eagle3(model):
                raise ValueError("not supported")
            base = model.model
            base._extension = self
            base.forward = types.MethodType(_patched, base)
"""


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[str, str], ModuleType]]:
    """Give a maker of modules from source, imported from real files and forgotten afterwards."""
    made = []

    def module(name: str, source: str) -> ModuleType:
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(source))
        made.append(name)
        return __import__(name)

    sys.path.insert(0, str(tmp_path))
    before = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    yield module
    sys.dont_write_bytecode = before
    sys.path.remove(str(tmp_path))
    for name in made:
        sys.modules.pop(name, None)


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


# ---- numbers ---------------------------------------------------------------------------------------------------


def _job(**changes: object) -> Job:
    return Job(name="j", engine="speculators", python="p", workdir="w", output="o", **changes)


def test_kimis_numbers_are_those_of_its_text_model() -> None:
    config = model_config.read(KIMI)
    assert (config.layers, config.hidden, config.heads, config.vocabulary) == (61, 7168, 64, 163840)
    assert config.max_positions == 262144
    assert (config.text_key, config.text_architectures) == ("text_config", ("DeepseekV3ForCausalLM",))
    assert config.remote_code == ("configuration_kimi_k25.py", "modeling_kimi_k25.py")


@pytest.mark.parametrize(
    ("changes", "rules"),
    [
        ({"layers": (2, 30, 58, 60), "tensor_parallel": 8}, []),
        ({"layers": (61,)}, ["layers"]),
        ({"layers": (-1, 5)}, ["layers"]),
        ({"tensor_parallel": 6}, ["tensor-parallel", "tensor-parallel"]),
        ({"tensor_parallel": 128}, ["tensor-parallel"]),
        ({"max_model_len": 262145}, ["max-model-len"]),
        ({"max_model_len": 262145, "env": {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}}, []),
    ],
)
def test_numbers_that_do_not_fit(changes: dict[str, object], rules: list[str]) -> None:
    found = geometry.judge(_job(**changes), model_config.read(KIMI), "config.json")
    assert [finding.rule for finding in found] == rules


@pytest.mark.parametrize(
    ("scaling", "limit"),
    [
        (None, 4096),
        ({"type": "linear", "factor": 4.0}, 16384),
        ({"rope_type": "yarn", "factor": 64.0, "original_max_position_embeddings": 1024}, 65536),
        ({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}, 4096),
        ({"rope_type": "default"}, 4096),
        ("nonsense", 4096),
    ],
)
def test_positions_of_a_stretched_rope(scaling: object, limit: int) -> None:
    config = model_config.parse({"max_position_embeddings": 4096, "rope_scaling": scaling})
    assert config.max_positions == limit


@pytest.mark.parametrize(("heads", "width", "fits"), [(8, 4, True), (2, 8, True), (8, 8, True), (6, 4, False)])
def test_key_and_value_heads_are_divided_or_copied(heads: int, width: int, fits: bool) -> None:  # noqa: FBT001
    config = model_config.parse({"num_hidden_layers": 2, "num_attention_heads": 24, "num_key_value_heads": heads})
    assert (geometry.judge(_job(tensor_parallel=width), config, "f") == ()) is fits


# ---- constants -------------------------------------------------------------------------------------------------


class _Cache:
    """A configuration as vLLM has it: it lists what it knows, and checks some of it."""

    block_size: constants.typing.Literal[16, 32]

    def __init__(self, block_size: int, *, cache_memory: float = 0.5) -> None:
        self.block_size = block_size  # type: ignore[assignment]
        if cache_memory > 1:
            raise ValueError("cache_memory must be at most 1")


CONSTANTS = """
    VLLM_BLOCK_SIZE = {size}
    MAX_NUM_SEQS: int = 32
    CACHE_MEMORY_FRACTION = {fraction}

    def make(self):
        return CacheConfig(block_size=VLLM_BLOCK_SIZE, cache_memory=CACHE_MEMORY_FRACTION, other=self.x)
"""


@pytest.mark.parametrize(
    ("size", "fraction", "rules"),
    [("16", "0.2", []), ("17", "0.2", ["constant-value"]), ("16", "1.5", ["constant-value", "cache-config"]),
     ("0", "0.2", ["constant-value", "constant-value"]), ("'16'", "0.2", ["constant-value", "constant-value"])],
)  # fmt: skip
def test_constants_are_held_against_the_installed_class(
    make: Callable[[str, str], ModuleType], size: str, fraction: str, rules: list[str]
) -> None:
    module = make("made_constants", CONSTANTS.format(size=size, fraction=fraction))
    found = [*constants.sane(module, _job(batch_size=8)), *constants.cache_config(module, _Cache)]
    assert [finding.rule for finding in found] == rules
    assert all(finding.line for finding in found)


def test_a_batch_larger_than_a_step_is_a_warning(make: Callable[[str, str], ModuleType]) -> None:
    module = make("made_constants", CONSTANTS.format(size=16, fraction=0.2))
    (finding,) = constants.sane(module, _job(batch_size=33))
    assert (finding.rule, finding.severity, finding.line) == ("batch-size", "warning", 3)


@pytest.mark.parametrize(
    ("wanted", "rules"),
    [
        ({"made_constants:VLLM_BLOCK_SIZE": 16}, []),
        ({"made_constants:VLLM_BLOCK_SIZE": 64}, ["constant-value"]),
        ({"made_constants:NOTHING": 1}, ["constant-missing"]),
        ({"no.such.module:A": 1}, ["constant-missing"]),
        ({"made_constants": 1}, ["constant-missing"]),
        ({"": 1}, ["constant-missing"]),
    ],
)
def test_constants_that_the_job_expects(
    make: Callable[[str, str], ModuleType], wanted: dict[str, int], rules: list[str]
) -> None:
    make("made_constants", CONSTANTS.format(size=16, fraction=0.2))
    values, found = constants.expected(wanted)
    assert [finding.rule for finding in found] == rules
    assert all(value == 16 for value in values.values())


# ---- the level -------------------------------------------------------------------------------------------------


def test_the_level_tells_everything_at_once(make: Callable[[str, str], ModuleType], tmp_path: Path) -> None:
    models = make("made_models", MODELS)
    make("made_worker", WORKER)
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["Wrapper"], "num_hidden_layers": 2}))
    check = contract.check(
        _job(model=str(tmp_path), layers=(7,)),
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
    check = contract.check(_job(), GateSpec(), distributions={}, patched=False)
    assert (check.status, check.findings) == ("pass", ())
