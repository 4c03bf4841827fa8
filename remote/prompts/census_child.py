"""Role `census-child`: request on stdin, answer on the pipe. Counts the dataset, and looks who works on the output.

Nothing of a sample's file is read: what stands is told by name, size and manifest, as at the start of an attempt.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import sys
import tempfile
import time
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from remote import children, files, leash, locks, ranges, wire
from remote.engines import base
from remote.gate import estimate, rates
from remote.gate.inputs import DEFAULT_LAYERS
from remote.model import model_folder, model_print
from remote.paths import Output
from remote.prompts import counted
from remote.prompts.dataset import DatasetError
from remote.results import manifest, outputs
from remote.run import runs
from remote.schema import CensusAnswer, CensusRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remote.prompts.counted import Counted
    from remote.schema import Job

ID = re.compile(r"[0-9a-f]{32}")
WRITING = 5  # looks at an id that is none, before it is one that nobody completes
SAME = ("engine", "model", "dataset", "layers", "max_model_len")  # what makes another run's samples ours


def main(arguments: list[str]) -> int:
    """Answer the request on stdin; gives the exit code."""
    del arguments
    leash.hold()
    request = wire.loads(CensusRequest, sys.stdin.buffer.read(), "census-child")
    children.reply(taken(request.job))
    return 0


def taken(job: Job) -> CensusAnswer:
    """Take the census of a job."""
    try:
        known = counted.count(job, base.make(job).longest)
    except (DatasetError, base.EngineError) as error:
        return CensusAnswer(trouble=str(error))
    output = Output(PurePosixPath(job.output))
    try:
        Path(output.root).mkdir(parents=True, exist_ok=True)
        folder, unwritten = _named(output)
        standing = ranges.tell(_standing(job, output, known, model := model_print.fingerprint(job.model)))
    except OSError as error:
        return CensusAnswer(trouble=f"the output folder {output.root} cannot be used: {error.strerror}")
    run, working, busy = _at_work(job, output, len(known.lengths))
    speed = rates.measured(job, 1)  # of weights: its rate of loading is loads per second then
    return CensusAnswer(
        total=len(known.lengths),
        lengths=ranges.pack(known.lengths),
        dataset=known.name(),
        model=model,
        folder=folder,
        standing=standing,
        working=working,
        run=run,
        busy=busy or ("" if run else unwritten),
        tokens_per_second=speed.tokens,
        load_seconds=1 / speed.load if speed.load else None,
        room=_room(job, known),
    )


def _named(output: Output) -> tuple[str, str]:
    """Give the id of an output folder, and why it takes none: what stands in a full one counts all the same."""
    try:
        return identity(output), ""
    except OSError as error:
        said = f"its output folder {output.root} cannot be written ({error.strerror})"
        return secrets.token_hex(16), said


def identity(output: Output) -> str:
    """Give the id of an output folder, the same for everybody who writes to it, whoever asks first."""
    path = Path(output.identity)
    if (found := _settled(path)) is None:
        _make(path)
        found = _settled(path)
    return found or ""


def _settled(path: Path) -> str | None:
    """Read an id, None where there is none; what is none for good (torn by a crash, a full disk) is removed."""
    for _ in range(WRITING):
        try:
            text = files.read(path).decode("ascii", "replace").strip()
        except FileNotFoundError:
            return None
        if ID.fullmatch(text):
            return text
        time.sleep(0.1)  # another may be writing it
    path.unlink(missing_ok=True)  # it would make one folder of two
    return None


def _make(path: Path) -> None:
    """Make an id that was not there, unless another is first."""
    descriptor, made = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
    try:
        files.write_all(descriptor, secrets.token_hex(16).encode())
        os.fsync(descriptor)
        _name(made, path)
    finally:
        os.close(descriptor)
        Path(made).unlink()


def _name(made: str, path: Path) -> None:
    with contextlib.suppress(FileExistsError):
        try:
            os.link(made, path)  # whole or not at all, on network file systems too
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            with path.open("x", encoding="ascii") as file:
                file.write(Path(made).read_text("ascii"))


def _standing(job: Job, output: Output, known: Counted, model: str) -> Iterator[int]:
    sizes = outputs.sample_sizes(output)
    for index, entry in manifest.read(output).entries.items():
        ours = entry.model in {"", model} or not model
        layers = not job.layers or entry.layers == job.layers
        if ours and layers and entry.size == sizes.get(index) and known.is_of(entry):
            yield index


def _room(job: Job, known: Counted) -> int | None:
    """Give the tokens whose samples fit into what the output's file system has left, less what is too tight."""
    config = model_folder.read(job.model).config
    if config is None or config.hidden is None or not known.lengths:
        return None
    layers = len(set(job.layers)) or DEFAULT_LAYERS
    each = estimate.sample_bytes(1, layers=layers, hidden=config.hidden, dtype_size=config.dtype_size)
    frame = estimate.SAMPLE_OVERHEAD
    mean = max(1.0, sum(known.lengths) / len(known.lengths))
    return int(shutil.disk_usage(job.output).free * estimate.TIGHT / (each - frame + frame / mean))


def _at_work(job: Job, output: Output, total: int) -> tuple[str | None, str, str]:
    """Give the run that is alive on the output folder, its samples, and why nothing can be dealt here besides it."""
    holder = locks.holder(output)
    run = runs.find(holder.workdir, holder.run) if holder else None
    seen = runs.look(run) if run else None
    if holder is None or seen is None or not seen.active:
        return None, "", ""
    request = seen.request
    if request is None or any(getattr(request.job, name) != getattr(job, name) for name in SAME):
        return holder.run, "", f"the run {holder.run}, which has this output folder, is of another job or dataset"
    shard = ranges.tell(range(total)) if request.shard is None else request.shard
    if os.path.realpath(holder.workdir) != os.path.realpath(job.workdir):
        return None, shard, f"the run {holder.run} of the workdir {holder.workdir} writes to this output folder"
    return holder.run, shard, ""
