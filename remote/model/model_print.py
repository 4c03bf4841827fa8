"""The fingerprint of a model: what tells two models apart, without reading all of their weights.

Two fine-tunes of one model share configuration and index. So each weight file is sampled as well: its size, its start
(the header is there) and its middle and end.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

WHOLE = ("config.json", "model.safetensors.index.json", "pytorch_model.bin.index.json")
WEIGHTS = ("*.safetensors", "*.bin")
PIECE = 64 << 10


def fingerprint(model: str) -> str:
    """Give the fingerprint of a model's folder; empty where there is none to look at."""
    folder = Path(model)
    try:
        if not model or not (folder / "config.json").is_file():
            return ""
        digest = hashlib.sha256()
        for name in WHOLE:
            if (folder / name).is_file():
                _add(digest, name, (folder / name).read_bytes())
        for path in sorted(path for pattern in WEIGHTS for path in folder.glob(pattern) if path.is_file()):
            _add(digest, path.name, _sampled(path))
    except OSError:
        return ""
    return digest.hexdigest()


def _sampled(path: Path) -> bytes:
    size = path.stat().st_size
    with path.open("rb") as file:
        pieces = [file.read(PIECE)]
        for offset in (size // 2, max(0, size - PIECE)):
            file.seek(offset)
            pieces.append(file.read(PIECE))
    return b"%d" % size + b"".join(pieces)


def _add(digest: hashlib._Hash, name: str, data: bytes) -> None:
    digest.update(f"{name}\0{len(data)}\0".encode() + data)
