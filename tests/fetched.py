"""Output folders of our own making: samples that are any bytes, with a manifest that tells the truth or does not."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from remote.paths import Output
from remote.results import manifest
from remote.schema import ManifestEntry

if TYPE_CHECKING:
    from collections.abc import Iterable


def entry(index: int, data: bytes, **changes: Any) -> ManifestEntry:
    """Give the manifest's line of a sample that is these bytes."""
    said: dict[str, Any] = {
        "index": index, "file": f"data_{index}.pt", "tokens": 4, "shape": (2, 4, 8), "dtype": "bfloat16",
        "size": len(data), "sha256": hashlib.sha256(data).hexdigest(),
        "tokens_sha256": hashlib.sha256(b"tokens %d" % index).hexdigest(), "layers": (2, 5), "model": "m" * 16,
    }  # fmt: skip
    return ManifestEntry(**{**said, **changes})


def folder(root: Path, indices: Iterable[int], *, size: int = 1000, seed: int = 0, **changes: Any) -> dict[int, bytes]:
    """Write samples of `size` bytes with their manifest; gives their bytes."""
    root.mkdir(parents=True, exist_ok=True)
    output = Output(PurePosixPath(root))
    found = {}
    for index in indices:
        data = random.Random(f"{seed} {index}").randbytes(size)  # noqa: S311 - guards nothing
        Path(output.sample(index)).write_bytes(data)
        manifest.record(output, entry(index, data, **changes))
        found[index] = data
    return found
