"""In the stack's Python: `ALONE SPLIT… ANSWER`. Are the states of each sample in `ALONE` those in the other folders?"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch


def main(alone: str, split: list[str], answer: str) -> None:
    """Write the answer: samples, how many are equal to the last bit, and the worst relative distance of a token."""
    told: dict[str, Any] = {"samples": 0, "equal": 0, "worst": 0.0, "unlike": []}
    for file in sorted(Path(alone).glob("data_*.pt")):
        (other,) = [found for folder in split if (found := Path(folder) / file.name).exists()]
        one, two = torch.load(file, weights_only=True), torch.load(other, weights_only=True)
        told["samples"] += 1
        same = all(torch.equal(one[name], two[name]) for name in ("input_ids", "loss_mask"))
        if not same or [state.shape for state in one["hidden_states"]] != [
            state.shape for state in two["hidden_states"]
        ]:
            told["unlike"].append(file.name)
            continue
        pairs = list(zip(one["hidden_states"], two["hidden_states"], strict=True))
        told["equal"] += all(torch.equal(mine, theirs) for mine, theirs in pairs)
        told["worst"] = max(told["worst"], *(distance(mine.float(), theirs.float()) for mine, theirs in pairs))
    Path(answer).write_text(json.dumps(told))


def distance(mine: torch.Tensor, theirs: torch.Tensor) -> float:
    """Give the largest distance of a token's two states, relative to their length."""
    return float(((mine - theirs).norm(dim=-1) / mine.norm(dim=-1)).max())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:-1], sys.argv[-1])
