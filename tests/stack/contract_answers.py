"""Under the stack: both levels of the job in argv[1], the contract with the models in argv[2:-1]; to argv[-1]."""

import dataclasses
import importlib
import json
import sys
from pathlib import Path

from remote import contract, levels, wire
from remote.engines.defaults import gate_of
from remote.schema import Job


def main() -> None:
    job = wire.loads(Job, Path(sys.argv[1]).read_text())
    for name in gate_of(job).modules:
        importlib.import_module(name)
    answers = {"job": [dataclasses.asdict(check) for check in levels.after_imports(job, patched=True)]}
    for model in sys.argv[2:-1]:
        changed = dataclasses.replace(job, model=model, layers=())
        check = contract.check(changed, gate_of(job), distributions=levels.installed(), patched=True)
        answers[Path(model).name] = [dataclasses.asdict(check)]
    Path(sys.argv[-1]).write_text(json.dumps(answers))


main()
