"""Do the job's numbers fit the model's? Layers, tensor-parallel width, length of prompts. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from remote.schema import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remote.model.model_config import ModelConfig
    from remote.schema import Job

LONGER_ALLOWED = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"


def judge(job: Job, config: ModelConfig, file: str) -> tuple[Finding, ...]:
    """Give the findings about a job's numbers on a model."""
    return (*_layers(job, config, file), *_width(job, config, file), *_length(job, config, file))


def _layers(job: Job, config: ModelConfig, file: str) -> Iterator[Finding]:
    if config.layers is None:
        yield Finding(
            rule="model-config",
            file=file,
            severity="warning",
            message="config.json does not say how many layers there are.",
        )
        return
    if outside := [layer for layer in job.layers if not 0 <= layer < config.layers]:
        numbers = ", ".join(map(str, outside))
        of = f" (in its {config.text_key})" if config.text_key else ""
        message = f"the job asks for layers {numbers}; the model has the layers 0 to {config.layers - 1}{of}."
        yield Finding(rule="layers", file=file, message=message)


def _width(job: Job, config: ModelConfig, file: str) -> Iterator[Finding]:
    """Say what a tensor-parallel width does not divide, as vLLM asserts it while it builds the model."""
    width = job.tensor_parallel
    if config.heads is not None and config.heads % width:
        message = f"tensor_parallel {width} does not divide the {config.heads} attention heads: vLLM refuses."
        yield Finding(rule="tensor-parallel", file=file, message=message)
    experts = config.moe_intermediate if config.experts else None
    for what, size in (("the feed-forward width", config.intermediate), ("the experts' width", experts)):
        if size is not None and size % width:  # a warning: not every model that states a width has layers of it
            message = f"tensor_parallel {width} does not divide {what} ({size}): vLLM refuses where a layer has it."
            yield Finding(rule="tensor-parallel", file=file, severity="warning", message=message)
    heads = config.kv_heads
    if heads is not None and not config.mla and heads % width and width % heads:
        message = f"tensor_parallel {width} neither divides the {heads} key and value heads nor is a multiple of them."
        yield Finding(rule="tensor-parallel", file=file, message=message)


def _length(job: Job, config: ModelConfig, file: str) -> Iterator[Finding]:
    limit = config.max_positions
    if limit is not None and job.max_model_len > limit and job.env.get(LONGER_ALLOWED) != "1":
        message = (
            f"max_model_len {job.max_model_len} is more than the {limit} positions that the model knows: vLLM refuses."
        )
        yield Finding(rule="max-model-len", file=file, message=message)
