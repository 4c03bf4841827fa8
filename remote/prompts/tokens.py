"""Samples to tokens and loss mask, with speculators' own functions: the masks are those that its training expects."""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
import types
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remote.prompts import dataset

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from remote.schema import Job

PACKAGE = "speculators.data_generation"


@dataclass(frozen=True, slots=True)
class Tokens:
    """One sample's tokens, compactly; `problem` says why it has none."""

    index: int
    where: str
    input_ids: array[int]
    loss_mask: bytes
    problem: str | None = None

    def __len__(self) -> int:
        return len(self.input_ids)

    @property
    def sha256(self) -> str:
        """Name the tokens and their mask."""
        return digest(self.input_ids, self.loss_mask)


class Naming:
    """Names a dataset by tokens and masks of all its samples, in order."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def add(self, sample: Tokens) -> None:
        """Take the next sample in."""
        self._digest.update(sample.sha256.encode())

    @property
    def name(self) -> str:
        """Give the name of what was taken in so far."""
        return self._digest.hexdigest()


def digest(input_ids: array[int], loss_mask: bytes) -> str:
    """Give the SHA-256 of tokens (as 32-bit little-endian numbers) and mask."""
    words = array("i", input_ids)
    if sys.byteorder == "big":
        words.byteswap()
    return hashlib.sha256(words.tobytes() + b"|" + loss_mask).hexdigest()


def tokenise(job: Job, longest: int, only: Container[int] | None = None) -> Iterator[Tokens]:
    """Give the tokens of every sample (or of `only` some), cut to `longest`; raises DatasetError."""
    vocabulary = _vocabulary(job.model)
    encode: _Encoder | None = None
    for sample in dataset.read(job.dataset):
        if only is not None and sample.index not in only:
            continue
        if sample.input_ids is not None and sample.loss_mask is not None:
            ids, mask = sample.input_ids[:longest], sample.loss_mask[:longest]
        else:
            encode = encode or _Encoder(job.model, longest)
            ids, mask = encode(sample.conversation or ())
        yield Tokens(sample.index, sample.where, array("i", ids), bytes(mask), _problem(ids, vocabulary))


def _problem(ids: tuple[int, ...], vocabulary: int | None) -> str | None:
    if not ids:
        return "gives no tokens (the chat template refuses it, or it has no turn of system, user or assistant)"
    if vocabulary is not None and max(ids) >= vocabulary:
        return f"has token {max(ids)}, but the model's vocabulary ends at {vocabulary - 1}"
    return None


def _vocabulary(model: str) -> int | None:
    """Give the size of the model's vocabulary; a token beyond it would end every process on a GPU."""
    try:
        config = json.loads((Path(model) / "config.json").read_text("utf-8"))
        size = config.get("vocab_size") or config.get("text_config", {}).get("vocab_size")
    except (OSError, ValueError, AttributeError):
        return None
    return size if isinstance(size, int) else None


class _Encoder:
    """Conversation → (input_ids, loss_mask), as `speculators.data_generation.preprocessing` does it."""

    def __init__(self, model: str, longest: int) -> None:
        from transformers import AutoTokenizer

        self._functions: Any = _preprocessing()
        self._tokenizer: Any = AutoTokenizer.from_pretrained(model, trust_remote_code=True)
        self._longest = longest
        if self._tokenizer.chat_template is None:
            raise dataset.DatasetError(
                f"{model}: its tokenizer has no chat template, which conversations need; add one, or give input_ids"
            )
        self._pattern = self._functions._detect_assistant_pattern(self._tokenizer)  # noqa: SLF001 - its only home

    def __call__(self, conversation: tuple[dict[str, str], ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        examples = {"conversations": [list(conversation)]}
        done = self._functions._preprocess_batch(examples, self._tokenizer, self._longest, self._pattern)  # noqa: SLF001
        if not done["input_ids"]:
            return (), ()
        return tuple(done["input_ids"][0].tolist()), tuple(done["loss_mask"][0].tolist())


def _preprocessing() -> types.ModuleType:
    """Import the module without its package's `__init__`, which would import all of vLLM (half a minute)."""
    if PACKAGE in sys.modules:
        return importlib.import_module(f"{PACKAGE}.preprocessing")
    import speculators

    bare = types.ModuleType(PACKAGE)
    bare.__path__ = [str(Path(folder) / "data_generation") for folder in speculators.__path__]
    sys.modules[PACKAGE] = bare
    try:
        return importlib.import_module(f"{PACKAGE}.preprocessing")
    finally:
        del sys.modules[PACKAGE]  # the engine imports the package as it is
