"""The demo's model and dataset, made once by the payload's own role under the stack's Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from local.errors import PrudentError, UsageError

if TYPE_CHECKING:
    from local.demo.place import Place

CONVERSATIONS = 64
LONGEST = 512
ROOT = Path(__file__).resolve().parent.parent.parent


def ensure(place: Place) -> bool:
    """Make model and dataset unless they are there; gives whether they were made now."""
    if (place.model / "config.json").exists() and place.dataset.exists():
        return False
    if not place.stack_python.exists():
        raise UsageError("the CPU stack is not installed", where=str(place.stack_python), remedy="Run: make stack")
    with tempfile.TemporaryDirectory(prefix=".material-", dir=place.root) as half:
        made = Path(half) / "material"
        made.mkdir()
        _make(place, made)
        shutil.rmtree(place.material, ignore_errors=True)
        made.rename(place.material)
    return True


def _make(place: Place, folder: Path) -> None:
    """Run `tiny-model` with the stack's Python, which alone has torch and transformers."""
    words = [str(place.stack_python), "-m", "remote", "tiny-model", str(folder / "model")]
    words += ["--dataset", str(folder / "train.jsonl"), "--conversations", str(CONVERSATIONS)]
    words += ["--max-model-len", str(LONGEST)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": str(place.root / "pycache")}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, cwd=folder, check=False)
    if done.returncode:
        raise PrudentError(f"the tiny model could not be made (exit {done.returncode}):\n{done.stderr[-2000:]}")
