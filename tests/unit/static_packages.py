"""Small packages in the shape of vLLM and a library of its, for the static level's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from local.static.tree import Surface

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    Pins = Mapping[str, str]

VLLM = {
    "vllm/__init__.py": "from vllm.engine import Engine as Engine\n",
    "vllm/engine.py": """\
from dataclasses import dataclass
class Base:
    def stop(self, now: bool) -> None: ...
class Engine(Base):
    def __init__(self, config: "EngineConfig", block_size: int) -> None:
        self.config = config
    def call(self, method: str, rank: int | None = None, wait: float = 1.0) -> object:
        \"\"\"Returns one answer if rank is given, otherwise a list.\"\"\"
    def step(self, plan: str) -> str | None: ...
@dataclass
class Other:
    size: int
""",
    "vllm/config/__init__.py": "from vllm.config.engine import EngineConfig as EngineConfig\n",
    "vllm/config/engine.py": """\
from dataclasses import dataclass, field
@dataclass
class EngineConfig:
    depth: int
    caching: bool = True
    names: list[str] = field(default_factory=lambda: ["a"])
    made: int = field(init=False, default=3)
""",
    "vllm/v1/__init__.py": "",
    "vllm/v1/worker/__init__.py": "",
    "vllm/v1/worker/worker_base.py": "class WorkerBase:\n    rank = 0\n",
    "vllm/v1/worker/gpu_worker.py": """\
from vllm.v1.worker.worker_base import WorkerBase
class Worker(WorkerBase):
    def load(self) -> None:
        self.model_runner = object()
""",
    "vllm/model_executor/__init__.py": "",
    "vllm/model_executor/models/__init__.py": "",
    "vllm/model_executor/models/registry.py": '_TEXT = {"LlamaForCausalLM": ("llama", "LlamaForCausalLM")}\n',
    "vllm/model_executor/models/llama.py": """\
import torch
class LlamaModel(torch.nn.Module):
    def __init__(self) -> None:
        self.start, self.layers = 0, []
        self.norm = object()
    def embed_input_ids(self, input_ids): ...
    def forward(self, input_ids): ...
class MistralModel(LlamaModel):
    def forward(self, input_ids): ...
""",
    "vllm/model_executor/models/odd.py": """\
class Tower:
    def forward(self): ...
    def old_embed(self, input_ids): ...
""",
}


def surface(root: Path, files: Mapping[str, str], *, name: str = "site", versions: Pins | None = None) -> Surface:
    """Write sources and give them as a surface."""
    for file, text in files.items():
        path = root / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return Surface(roots=(root / name,), versions=tuple((versions or {"vllm": "2.0", "lib": "1.0"}).items()))


def library(main: str, **others: str) -> dict[str, str]:
    """Give a library `lib` with the module `lib.main`."""
    return {"lib/__init__.py": "", "lib/main.py": main, **{f"lib/{name}.py": text for name, text in others.items()}}
