"""Is a model folder whole? Findings from its facts: index, shards and sizes; tokenizer; unfinished copies."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from remote.model.model_folder import INDEX
from remote.schema import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from remote.model.model_folder import ModelFolder

VOCABULARIES = (
    "tokenizer.json", "tokenizer.model", "tiktoken.model", "spiece.model", "vocab.json", "vocab.txt", "tekken.json",
)  # fmt: skip
SPARSE_FROM = 1 << 20
NAMED = 3  # so many files are named, the others counted


def judge(model: ModelFolder, *, conversations: bool = False) -> tuple[Finding, ...]:
    """Give every finding about a folder; `conversations` says that a chat template is needed."""
    if not model.exists or model.error is not None:
        return (_missing(model),)
    return (
        *_about_config(model),
        *_about_copy(model),
        *_about_weights(model),
        *_about_shards(model),
        *_about_tokenizer(model),
        *(_about_template(model) if conversations else ()),
    )


def _missing(model: ModelFolder) -> Finding:
    if model.error is None:
        why = "there is no such folder: give the job's `model` the path of a model folder on this host"
    else:
        why = f"cannot be used as a model folder: {model.error}"
    return Finding(rule="model-missing", file=model.path, message=f"the model {model.path}: {why}.")


def _about_config(model: ModelFolder) -> Iterator[Finding]:
    place = _place(model, "config.json")
    if model.config is None:
        yield Finding(rule="model-config", file=place, line=model.config_line, message=f"{model.config_error}.")
        return
    if not model.config.architectures:
        message = "config.json names no `architectures`: vLLM has to guess which class the model is."
        yield Finding(rule="model-config", file=place, severity="warning", message=message)
    for name in model.config.remote_code:
        if name not in model.files:
            message = (
                f"config.json's `auto_map` points to {name}, which is not in the folder: copy the model's .py files."
            )
            yield Finding(rule="model-code-missing", file=_place(model, name), message=message)


def _about_copy(model: ModelFolder) -> Iterator[Finding]:
    if model.partial:
        message = (
            f"a download or copy into this folder has not finished, or was broken off: {_some(model.partial)}. "
            "Let it finish or start it again; delete what an abandoned one left behind."
        )
        yield Finding(rule="model-unfinished", file=_place(model, model.partial[0]), message=message)
    for name in model.growing:
        message = f"{name} changes while we look at it: the model is still being written. Wait for the copy to end."
        yield Finding(rule="model-growing", file=_place(model, name), message=message)


def _about_weights(model: ModelFolder) -> Iterator[Finding]:
    place = _place(model, INDEX)
    if model.index_error is not None:
        message = f"{INDEX} cannot be read ({model.index_error}): copy it again."
        yield Finding(rule="model-index", file=place, message=message)
    elif model.index is not None:
        yield from _about_index(model)
    elif not model.headers and not _other_weights(model):
        message = "the folder holds no weights (no .safetensors, .bin or .gguf): none have come yet."
        yield Finding(rule="model-weights-missing", file=model.path, message=message)
    elif numbered := _unindexed(model):
        message = f"{numbered} stands here without {INDEX}: the download is not complete, or the index was left out."
        yield Finding(rule="model-index", file=place, message=message)


def _about_shards(model: ModelFolder) -> Iterator[Finding]:
    for name, header in model.headers.items():
        stat = model.files[name]
        if header.error is not None and name not in model.growing:
            message = f"{name}: {header.error}. Fetch or copy this file again."
            yield Finding(rule="model-shard-damaged", file=_place(model, name), message=message)
        elif stat.size > SPARSE_FROM and 0 < stat.on_disk < stat.size // 2:
            message = (
                f"{name} has {stat.size:,} bytes but takes {stat.on_disk:,} on disk: space set aside by a copy that "
                "has not filled it yet, or a file system that compresses."
            )
            yield Finding(rule="model-shard-sparse", severity="warning", file=_place(model, name), message=message)


def _about_index(model: ModelFolder) -> Iterator[Finding]:
    index = model.index or {}
    shards = sorted(set(index.values()))
    if missing := [shard for shard in shards if shard not in model.files]:
        message = (
            f"{len(missing)} of the {len(shards)} shards that the index names are not here: {_some(missing)}. The "
            "download is not complete: run it again, it takes up where it stopped."
        )
        yield Finding(rule="model-shard-missing", file=_place(model, INDEX), message=message)
    whole = [shard for shard in shards if shard in model.headers and model.headers[shard].whole]
    for shard in whole:
        held = model.headers[shard].tensors
        if absent := [name for name, home in index.items() if home == shard and name not in held]:
            message = (
                f"{len(absent)} tensors that the index places in {shard} are not in it ({absent[0]}): index and "
                "shards are of different versions of the model. Copy them together."
            )
            yield Finding(rule="model-index-mismatch", file=_place(model, shard), message=message)
    total = sum(model.headers[shard].data for shard in whole)
    if model.index_total is not None and len(whole) == len(shards) and total != model.index_total:
        message = (
            f"the index says {model.index_total:,} bytes of weights, the shards hold {total:,}: harmless where the "
            "model was published so, else index and shards are of different versions."
        )
        yield Finding(rule="model-index-total", severity="warning", file=_place(model, INDEX), message=message)


def _about_tokenizer(model: ModelFolder) -> Iterator[Finding]:
    if not any(name in VOCABULARIES or name.endswith(".tiktoken") for name in model.files):
        some = ", ".join(VOCABULARIES[:NAMED])
        message = f"the folder holds no tokenizer (none of {some}, …): copy the tokenizer files of the model too."
        yield Finding(rule="tokenizer-missing", file=model.path, message=message)
    elif "tokenizer_config.json" not in model.files:
        message = "there is no tokenizer_config.json: the tokenizer's special tokens are guessed."
        place = _place(model, "tokenizer_config.json")
        yield Finding(rule="tokenizer-config-missing", severity="warning", file=place, message=message)


def _about_template(model: ModelFolder) -> Iterator[Finding]:
    if not model.chat_template:
        message = (
            "the dataset holds conversations, and the model has no chat template to write them with (neither in "
            "tokenizer_config.json nor as chat_template.jinja): add the model's own, or give token ids in the dataset."
        )
        yield Finding(rule="chat-template-missing", file=_place(model, "tokenizer_config.json"), message=message)


def _other_weights(model: ModelFolder) -> bool:
    return any(name.endswith((".bin", ".gguf", ".pth", ".pt")) for name in model.files)


def _unindexed(model: ModelFolder) -> str | None:
    """Name a shard that is one of several and stands without an index."""
    whole = "-00001-of-00001.safetensors"
    return next((name for name in model.headers if "-of-" in name and not name.endswith(whole)), None)


def _place(model: ModelFolder, name: str) -> str:
    return str(PurePath(model.path, name))


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
