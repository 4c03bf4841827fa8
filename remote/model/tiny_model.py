"""Role `tiny-model`: a tiny random Llama with tokenizer and chat template, and a dataset for it. No network.

    tiny-model FOLDER [--layers 8] [--hidden 64] [--seed 0] [--dataset FILE] [--conversations 64] [--max-model-len 2048]

The model has a real architecture in a few hundred kilobytes (bf16 safetensors); the same seed makes the same files.
`--dataset` writes conversations of very different length, from one word to beyond the maximum length. Exit code 0.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import Any

TEXT = """
the a of to and in that is was he for it with as his on be at by had not are but from or have an they which one
you were her all she there would their we him been has when who will more no if out so said what up its about
into than them can only other new some could time these two may then do first any my now such like our over man
me even most made after also did many before must through back years where much your way well down should
because each just those people how too little state good very make world still own see men work long get here
between both life being under never day same another know while last might us great old year off come since
against go came right used take three
"""
WORDS = TEXT.split()
ROLES = ("system", "user", "assistant")
SPECIAL = ("<|end|>", "<|pad|>", *(f"<|{role}|>" for role in ROLES))
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>\n{{ message['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)


def main(arguments: list[str]) -> int:
    """Make what the arguments ask for; gives the exit code."""
    parser = argparse.ArgumentParser(prog="tiny-model", description="Make a tiny random model and a dataset for it.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dataset", type=Path)
    parser.add_argument("--conversations", type=int, default=64)
    parser.add_argument("--max-model-len", type=int, default=2048)
    asked = parser.parse_args(arguments)
    make_model(asked.folder, layers=asked.layers, hidden=asked.hidden, seed=asked.seed)
    if asked.dataset:
        lines = conversations(asked.conversations, longest=asked.max_model_len, seed=asked.seed)
        asked.dataset.parent.mkdir(parents=True, exist_ok=True)
        asked.dataset.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return 0


def make_model(folder: Path, *, layers: int = 8, hidden: int = 64, seed: int = 0) -> None:
    """Write model and tokenizer; heads are 32 wide, what the CPU's attention kernels ask for at least."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = _tokenizer(seed)
    config = LlamaConfig(
        vocab_size=-(-len(tokenizer) // 64) * 64,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=max(2, hidden // 32),
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=32768,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        initializer_range=0.05,  # layers that change the states plainly, yet not so wild that bf16 drowns them
    )
    torch.manual_seed(seed)
    model: Any = LlamaForCausalLM(config).to(torch.bfloat16)
    model.save_pretrained(folder, safe_serialization=True)
    tokenizer.save_pretrained(folder)


def conversations(count: int, *, longest: int = 2048, seed: int = 0) -> list[dict[str, Any]]:
    """Give conversations whose lengths run from one word to beyond `longest` tokens, in no order."""
    chance = random.Random(seed)  # noqa: S311 - the same every time, which is the point
    sizes = [_size(index, count, longest) for index in range(count)]
    chance.shuffle(sizes)
    return [{"conversations": _conversation(chance, size, index)} for index, size in enumerate(sizes)]


def _size(index: int, count: int, longest: int) -> int:
    """Spread sizes geometrically from 1 to 1.25 × `longest` words (a word is about a token)."""
    largest = max(2.0, longest * 1.25)
    return max(1, round(float(largest ** (index / max(1, count - 1)))))


def _conversation(chance: random.Random, words: int, index: int) -> list[dict[str, str]]:
    turns = 1 if words < 24 else 1 + index % 3  # noqa: PLR2004
    share = max(1, words // (2 * turns))
    answer = max(1, words - share * (2 * turns - 1))  # the last answer takes what the division left
    return [
        turn
        for number in range(turns)
        for turn in (
            {"from": "human", "value": _text(chance, share)},
            {"from": "gpt", "value": _text(chance, answer if number == turns - 1 else share)},
        )
    ]


def _text(chance: random.Random, words: int) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(words))


def _tokenizer(seed: int) -> Any:
    """Train a byte-level BPE on the built-in words."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=640,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    chance = random.Random(seed)  # noqa: S311
    tokenizer.train_from_iterator([_text(chance, 400) for _ in range(40)], trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=SPECIAL[0], pad_token=SPECIAL[1])
    fast.chat_template = CHAT_TEMPLATE
    return fast
