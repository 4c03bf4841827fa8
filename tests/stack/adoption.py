"""In the stack's Python: `ANSWER`. A real sample file that has lost its line, with a bit flipped at many places."""

from __future__ import annotations

import json
import random
import sys
import tempfile
from array import array
from pathlib import Path, PurePosixPath
from typing import Any

import torch

from remote.paths import Output
from remote.prompts.tokens import Tokens
from remote.results import outputs, samples

LAYERS = (1, 2)
FLIPS = 400


def sample(index: int) -> Tokens:
    """Give a sample of eight tokens."""
    ids = array("q", range(index, index + 8))
    return Tokens(index=index, where=f"line {index}", input_ids=ids, loss_mask=bytes([1] * 8))


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Tell whether two documents hold the same numbers."""
    pairs = [*zip(one["hidden_states"], other["hidden_states"], strict=True)]
    pairs += [(one[name], other[name]) for name in ("input_ids", "loss_mask")]
    return all(torch.equal(left, right) for left, right in pairs)


def main(answer: str) -> None:
    """Write how many were adopted although their numbers had changed, adopted as they were, and computed again."""
    told = {"wrong": 0, "right": 0, "again": 0, "whole": 0}
    with tempfile.TemporaryDirectory() as folder:
        output = Output(PurePosixPath(folder))
        wanted = [sample(0), sample(1)]
        for one in wanted:
            outputs.write(output, one, [torch.randn(8, 16).bfloat16() for _ in LAYERS], LAYERS)
        path, manifest = Path(output.sample(1)), Path(output.manifest)
        line, data = manifest.read_bytes().splitlines(keepends=True)[0], path.read_bytes()
        written = samples.load(path)
        dice = random.Random(4)  # noqa: S311 - replayable
        for place in [None, *(dice.randrange(len(data)) for _ in range(FLIPS))]:
            spoilt = bytearray(data)
            if place is not None:
                spoilt[place] ^= 1 << dice.randrange(8)
            path.write_bytes(spoilt)
            manifest.write_bytes(line)
            if outputs.find_missing(output, wanted, LAYERS).samples:
                told["again"] += 1
            elif place is None:
                told["whole"] += 1
            else:
                told["right" if same(samples.load(path), written) else "wrong"] += 1
    Path(answer).write_text(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1])
