"""Does the model's tokenizer load, and does its chat template write a conversation? Runs in the job's Python."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from remote.schema import Finding

QUESTION, ANSWER = "prudent question", "prudent answer"
TURNS = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": ANSWER}]


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizerFacts:
    """What came of trying; `rendered` is the conversation as the template writes it."""

    name: str = ""
    size: int = 0
    offsets: bool = False
    rendered: str | None = None
    load_error: str | None = None
    render_error: str | None = None


def attempt(model: str, *, conversations: bool) -> TokenizerFacts:
    """Load the tokenizer and, for conversations, render two turns."""
    try:
        from transformers import AutoTokenizer

        tokenizer: Any = AutoTokenizer.from_pretrained(model, trust_remote_code=True)
        facts = TokenizerFacts(
            name=type(tokenizer).__name__, size=len(tokenizer), offsets=bool(getattr(tokenizer, "is_fast", False))
        )
    except Exception as error:  # noqa: BLE001 - a tokenizer may bring code of its own: whatever it raises is the answer
        return TokenizerFacts(load_error=_one_line(error))
    if not conversations:
        return facts
    try:
        rendered = tokenizer.apply_chat_template(TURNS, tokenize=False, add_generation_prompt=False)
    except Exception as error:  # noqa: BLE001 - likewise a template
        return dataclasses.replace(facts, render_error=_one_line(error))
    return dataclasses.replace(facts, rendered=str(rendered))


def judge(facts: TokenizerFacts, *, file: str, vocabulary: int | None, conversations: bool) -> tuple[Finding, ...]:
    """Give the findings about a tokenizer."""
    if facts.load_error is not None:
        message = f"the tokenizer cannot be loaded: {facts.load_error}. Copy the model's tokenizer files whole."
        return (Finding(rule="tokenizer-broken", file=file, message=message),)
    found = []
    if conversations:
        found += _about_template(facts, file)
    if vocabulary is not None and facts.size > vocabulary:
        message = (
            f"the tokenizer knows {facts.size} tokens, the model {vocabulary}: a prompt with one of the others would "
            "end the run. Are tokenizer and model of the same release?"
        )
        found.append(Finding(rule="tokenizer-larger-than-model", file=file, message=message, severity="warning"))
    return tuple(found)


def _about_template(facts: TokenizerFacts, file: str) -> list[Finding]:
    found = []
    if not facts.offsets:
        message = (
            f"{facts.name} is a tokenizer that gives no character offsets (not a fast one), and speculators makes the "
            "loss mask of conversations from them: every conversation would be skipped. Give input_ids and loss_mask "
            "in the dataset, or the model a tokenizer.json."
        )
        found.append(Finding(rule="tokenizer-without-offsets", file=file, message=message))
    if facts.render_error is not None:
        message = f"the chat template fails on a conversation of two turns: {facts.render_error}"
        found.append(Finding(rule="chat-template-broken", file=file, message=message))
    elif facts.rendered is not None and (QUESTION not in facts.rendered or ANSWER not in facts.rendered):
        message = (
            "the chat template drops what was said: of two turns it wrote "
            f"{facts.rendered[:200]!r}. Is it the template of this model?"
        )
        found.append(Finding(rule="chat-template-drops-turns", file=file, message=message))
    return found


def _one_line(error: BaseException) -> str:
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= 300 else f"{text[:300]}…"  # noqa: PLR2004 - one paragraph
