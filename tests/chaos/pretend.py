"""A pretended host: stand-ins for torch and speculators installed in an environment, a dataset, what must come out.

Everything of ours is real: launch, supervisor, attempt, engine adapter, outputs, verify. Only the libraries that the
adapter drives are stand-ins (`standin/`), installed where a host has them: in the site-packages of the job's Python.
"""

from __future__ import annotations

import compileall
import dataclasses
import functools
import hashlib
import importlib.util
import json
import shutil
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from local.host import Host
from local.links.here import HereLink
from remote.paths import Bundle
from remote.schema import Job, Retry
from tests.running import BARE

if TYPE_CHECKING:
    import random
    from types import ModuleType

STANDIN = Path(__file__).parent / "standin"
LAYERS = (2, 5)
SAMPLES = 16
RETRY = Retry(transient=3, start_line=30.0, progress_line=2.5, backoff=0.05)


@functools.cache
def _generator() -> ModuleType:
    """Load the stand-in generator's formula without putting a `torch` on this process's path."""
    path = STANDIN / "speculators" / "data_generation" / "vllm_hidden_states_generator.py"
    spec = importlib.util.spec_from_file_location("chaos_formula", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    held = sys.modules.get("torch")
    sys.modules["torch"] = module  # only its name is needed
    try:
        spec.loader.exec_module(module)
    finally:
        if held is None:
            del sys.modules["torch"]
        else:
            sys.modules["torch"] = held
    return module


@dataclass(frozen=True)
class Pretence:
    """What many schedules share: the environment and the bundle, both compiled beforehand."""

    root: Path

    @classmethod
    def make(cls, root: Path) -> Pretence:
        """Make an environment as `venv` would, with the stand-ins in it, and put the bundle beside it."""
        made = cls(root)
        site = made.python.parent.parent / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
        made.python.parent.mkdir(parents=True)
        base = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
        made.python.symlink_to(base)
        (made.python.parent.parent / "pyvenv.cfg").write_text(f"home = {base.parent}\n")
        shutil.copytree(STANDIN, site / "site-packages", ignore=shutil.ignore_patterns("__pycache__"))
        Host(HereLink(root), name="here", python=str(made.python), workdir=str(root / "shared")).push(BARE)
        for folder in (site, made.bundle.root):
            compileall.compile_dir(folder, quiet=1)
        return made

    @property
    def python(self) -> Path:
        return self.root / "environment" / "bin" / "python"

    @property
    def bundle(self) -> Bundle:
        return Bundle(PurePosixPath(self.root / "shared" / "bundles" / BARE.id))

    def furnish(self, root: Path) -> None:
        """Give a schedule's workdir the bundle that stands already."""
        (root / "work").mkdir()
        (root / "work" / "bundles").symlink_to(self.bundle.root.parent)


@dataclass(frozen=True)
class Sample:
    """One sample of the dataset."""

    index: int
    tokens: list[int]
    mask: list[int]

    @property
    def document(self) -> dict[str, Any]:
        """Give what its file must hold, as the stand-in of torch writes it."""
        tables = _generator().states(self.tokens, list(LAYERS))
        return {
            "input_ids": {"dtype": "torch.int64", "values": self.tokens},
            "hidden_states": [{"dtype": "torch.float32", "values": table} for table in tables],
            "loss_mask": {"dtype": "torch.int64", "values": self.mask},
        }

    def stands(self, folder: Path) -> bool:
        """Tell whether its file is there, whole and right in every number."""
        try:
            with zipfile.ZipFile(folder / f"data_{self.index}.pt") as archive:
                return bool(json.loads(archive.read("archive/data.json")) == self.document)
        except (OSError, ValueError, KeyError, zipfile.BadZipFile, NotImplementedError, EOFError, RuntimeError):
            return False


def dataset(count: int, dice: random.Random) -> list[Sample]:
    """Draw samples of 1 to 12 tokens."""
    drawn = []
    for index in range(count):
        length = dice.randint(1, 12)
        drawn.append(
            Sample(index, [dice.randint(0, 999) for _ in range(length)], [dice.randint(0, 1) for _ in range(length)])
        )
    return drawn


def write_dataset(path: Path, samples: list[Sample]) -> None:
    """Write the samples as JSON lines of ready tokens."""
    lines = [json.dumps({"input_ids": sample.tokens, "loss_mask": sample.mask}) for sample in samples]
    path.write_text("\n".join(lines) + "\n")


def job(root: Path, python: str, **changes: Any) -> Job:
    """Give the job over `root/data.jsonl` into `root/out`."""
    made = Job(
        name="chaos", engine="speculators", python=python, workdir=str(root / "work"), output=str(root / "out"),
        model=str(root / "model"), dataset=str(root / "data.jsonl"), layers=LAYERS, batch_size=3, retry=RETRY,
        env={"STANDIN_SECONDS": "0.04"},
    )  # fmt: skip
    return dataclasses.replace(made, **changes)


def complaints(folder: Path, samples: list[Sample]) -> list[str]:
    """Say what is wrong with a finished output folder, by our own reading: nothing of the payload's code is asked."""
    found = [f"sample {sample.index} does not stand" for sample in samples if not sample.stands(folder)]
    names = {path.name for path in folder.iterdir()}
    expected = {f"data_{sample.index}.pt" for sample in samples}
    found += [f"left behind: {name}" for name in sorted(names - expected) if name.endswith(("pt", ".tmp"))]
    said: dict[int, dict[str, Any]] = {}
    lines = (folder / "manifest.jsonl").read_bytes().split(b"\n")
    for line in lines:
        try:
            entry = json.loads(line)
            said[entry["index"]] = entry
        except (ValueError, KeyError, TypeError):
            continue  # torn by a kill, and closed
    for sample in samples:
        path, entry = folder / f"data_{sample.index}.pt", said.get(sample.index, {})
        if path.exists() and entry.get("sha256") != hashlib.sha256(path.read_bytes()).hexdigest():
            found.append(f"the manifest's last word on sample {sample.index} is not its file")
    return found
