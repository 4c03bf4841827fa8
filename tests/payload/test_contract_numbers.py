"""The level `contract`: a model's numbers against the job's, and constants against the installed classes."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from remote.code import constants
from remote.model import geometry, model_config
from tests.payload.contract_models import job

KIMI = Path(__file__).parent.parent / "data" / "kimi-k2.5"


# ---- numbers ---------------------------------------------------------------------------------------------------


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
    found = geometry.judge(job(**changes), model_config.read(KIMI), "config.json")
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
    assert (geometry.judge(job(tensor_parallel=width), config, "f") == ()) is fits


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
    found = [*constants.sane(module, job(batch_size=8)), *constants.cache_config(module, _Cache)]
    assert [finding.rule for finding in found] == rules
    assert all(finding.line for finding in found)


def test_a_batch_larger_than_a_step_is_a_warning(make: Callable[[str, str], ModuleType]) -> None:
    module = make("made_constants", CONSTANTS.format(size=16, fraction=0.2))
    (finding,) = constants.sane(module, job(batch_size=33))
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
