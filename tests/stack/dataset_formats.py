"""In the stack's Python: `FOLDER ANSWER`. The same samples as parquet file and `datasets` folder, and bad ones."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet

from remote.prompts import dataset

GOOD = [{"conversations": [{"from": "human", "value": f"hé {n}"}, {"from": "gpt", "value": "yes"}]} for n in range(300)]
READY = [{"input_ids": [n, 1], "loss_mask": [0, 1]} for n in range(3)]


def read(path: Path) -> Any:
    """Give (index, where, content) of the samples, or the refusal."""
    try:
        return [[one.index, one.where, one.conversation or one.input_ids] for one in dataset.read(str(path))]
    except dataset.DatasetError as error:
        return str(error)


def main(folder: str, answer: str) -> None:
    """Write the answer."""
    root = Path(folder)
    for name, rows in {"good": GOOD, "ready": READY, "bad": [*READY, {"input_ids": [1], "loss_mask": []}]}.items():
        pyarrow.parquet.write_table(pa.Table.from_pylist(rows), root / f"{name}.parquet")
        datasets.Dataset.from_list(rows).save_to_disk(str(root / name))
    (root / "cut.parquet").write_bytes((root / "good.parquet").read_bytes()[:-100])
    datasets.DatasetDict({"train": datasets.Dataset.from_list(READY)}).save_to_disk(str(root / "splits"))
    (root / "other").mkdir()
    names = [
        "good",
        "ready",
        "bad",
        "splits",
        "other",
        *(f"{name}.parquet" for name in ("good", "ready", "bad", "cut")),
    ]
    Path(answer).write_text(json.dumps({name: read(root / name) for name in names}))


if __name__ == "__main__":
    main(*sys.argv[1:])
