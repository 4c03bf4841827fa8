"""Under the stack: both levels of the job in argv[1], the contract with the models in argv[2:-1]; to argv[-1].

Each model is held against the patched capture code and, under `as released: NAME`, against the file in site-packages.
"""

import dataclasses
import importlib
import importlib.metadata
import importlib.util
import json
import sys
from pathlib import Path

from remote import wire
from remote.engines.defaults import gate_of
from remote.gate import contract, levels
from remote.schema import Check, GateSpec, Job

WORKER = "speculators/data_generation/custom_worker.py"


def main() -> None:
    job = wire.loads(Job, Path(sys.argv[1]).read_text())
    gate = gate_of(job)
    for name in gate.modules:
        importlib.import_module(name)
    released()
    answers: dict[str, list[Check]] = {"job": list(levels.after_imports(job, patched=True))}
    for model in sys.argv[2:-1]:
        changed = dataclasses.replace(job, model=model, layers=())
        name = Path(model).name
        answers[name] = [contract.check(changed, gate, distributions={}, patched=True)]
        bare = GateSpec(modules=("released",))
        answers[f"as released: {name}"] = [contract.check(changed, bare, distributions={}, patched=False)]
    told = {name: [dataclasses.asdict(check) for check in checks] for name, checks in answers.items()}
    Path(sys.argv[-1]).write_text(json.dumps(told))


def released() -> None:
    """Import the worker of site-packages, as module `released`, beside the patched one of the overlay."""
    file = importlib.metadata.distribution("speculators").locate_file(WORKER)
    spec = importlib.util.spec_from_file_location("released", str(file))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["released"] = module
    spec.loader.exec_module(module)


main()
