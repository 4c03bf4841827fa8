"""Role `attempt`: one process of a run. Extracts what is missing, writes each sample whole, tells events.

Works in the run folder, reads `job.json` there, appends events to the file that `PRUDENT_GATE_EVENTS` names; standard
output and error are the run's log. Exit codes: 0 every sample stands · 10 some samples failed, all others stand ·
11 more samples failed than the job allows ·
143 stopped by SIGTERM, the batch in hand written · 2 the job or its dataset cannot be used (one line says why) ·
anything else is a failure whose traceback is in the log.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from remote import files, ranges, wire
from remote.engines import base
from remote.model import model_print
from remote.paths import EVENTS_ENV, Output, Run
from remote.prompts import tokens
from remote.prompts.dataset import DatasetError
from remote.prompts.shard import Shard, hold
from remote.results import manifest, outputs
from remote.results.outputs import OutputMixed
from remote.results.samples import SampleInvalid
from remote.run import batch as batches
from remote.run import hand, suspects
from remote.schema import LaunchRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

    from remote.engines.base import Engine
    from remote.prompts.counted import Counted
    from remote.prompts.tokens import Tokens
    from remote.schema import Job

TOLD_EVERY = 5000
DONE, UNUSABLE, SOME_FAILED, TOO_MANY, STOPPED = 0, 2, 10, 11, 128 + signal.SIGTERM


def main(arguments: list[str]) -> int:
    """Run the attempt in the current folder and end the process with its exit code."""
    if arguments:
        sys.stderr.write("attempt: takes no arguments\n")
        return UNUSABLE
    code = _attempt()
    sys.stdout.flush()
    sys.stderr.flush()
    # The engine is closed and every file stands: all that the interpreter would still do is to take vLLM's modules
    # apart, which costs seconds of every stop. An exception that nobody foresaw does not come by here.
    os._exit(code)


def _attempt() -> int:
    stop = Stop()
    try:
        request = wire.loads(LaunchRequest, Path("job.json").read_bytes(), "job.json")
        shard = None if request.shard is None else Shard(ranges.parse(request.shard), request.job.dataset)
        events, engine = Events(os.environ.get(EVENTS_ENV)), base.make(request.job)
        known = None if request.dealt is None else hold(request.job, engine.longest, request.dealt)
        return Attempt(request.job, engine, events, stop, shard=shard, known=known).run()
    except (DatasetError, OutputMixed, wire.WireError, ranges.RangeError) as error:
        _say(f"{type(error).__name__}: {error}")
        return UNUSABLE
    except TooManyFailed as error:
        _say(str(error))
        return TOO_MANY
    except Stopped:
        _say("stopped")
        return STOPPED


class Stopped(BaseException):
    """SIGTERM came while there was nothing in hand."""


class TooManyFailed(Exception):
    """More samples failed than the job allows: it is not these samples, it is the job."""


class Stop:
    """SIGTERM: at once while nothing is in hand, else at the end of the batch."""

    def __init__(self) -> None:
        self._wished = False
        self._holding = False
        signal.signal(signal.SIGTERM, self._wish)

    def __enter__(self) -> None:
        self._holding = True

    def __exit__(self, *exception: object) -> None:
        self._holding = False
        if self._wished:
            raise Stopped

    def _wish(self, _number: int, _frame: FrameType | None) -> None:
        if not self._holding and not self._wished:
            self._wished = True
            raise Stopped
        self._wished = True


class Events:
    """Appends events to the file that the supervisor reads; nowhere when there is none."""

    def __init__(self, path: str | None) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600) if path else None

    def tell(self, event: str, **fields: Any) -> None:
        """Append one event with one write."""
        if self._descriptor is not None:
            line = json.dumps({"event": event, **fields}, ensure_ascii=False)
            files.write_all(self._descriptor, line.encode() + b"\n")


class Attempt:
    """Extracts the missing samples of a job."""

    def __init__(
        self,
        job: Job,
        engine: Engine,
        events: Events,
        stop: Stop,
        *,
        shard: Shard | None = None,
        known: Counted | None = None,
    ) -> None:
        self._job = job
        self._known = known
        self._shard = shard
        self._engine = engine
        self._events = events
        self._stop = stop
        self._output = Output(PurePosixPath(job.output))
        self._total = self._done = self._failed = self._tokens = 0
        self._run = Run(PurePosixPath())
        self._size = batches.size(self._run, job)
        self._suspects = suspects.read(self._run)
        self._model = model_print.fingerprint(job.model)
        self._wrote = False

    def run(self) -> int:
        """Do the attempt; gives the exit code."""
        try:
            return self._work()
        except (Stopped, TooManyFailed):
            self._vouch()
            raise

    def _work(self) -> int:
        self._events.tell("phase", phase="loading")
        missing = self._plan()
        if missing:
            _say(f"loading {self._job.model}")
            started = time.monotonic()
            try:
                self._engine.load()
                _say(f"loaded in {time.monotonic() - started:.1f} s")
                self._events.tell("phase", phase="extracting")
                for batch in self._batches(missing):
                    self._extract(batch)
            finally:
                self._engine.close()
        self._vouch()
        self._events.tell("phase", phase="verifying")
        _say(f"{self._done} of {self._total} samples stand, {self._failed} failed")
        return SOME_FAILED if self._failed else DONE

    def _batches(self, missing: Sequence[Tokens]) -> Iterator[Sequence[Tokens]]:
        """Give the samples in batches; those that may have ended the engine last and alone."""
        calm = [sample for sample in missing if sample.index not in self._suspects.samples]
        # Where some are suspected, one that is not goes first: it shows at the least risk that the engine is well.
        done = 1 if self._suspects.samples and calm else 0
        yield from (calm[:1] for _ in range(done))
        while done < len(calm):  # the size may shrink on the way
            batch = calm[done : done + self._size]
            yield batch
            done += len(batch)
        yield from ([sample] for sample in missing if sample.index in self._suspects.samples)

    def _plan(self) -> list[Tokens]:
        """Tokenise the dataset and hold it against the output folder, all before the costly load."""
        samples: list[Tokens] = []
        shard = self._shard
        for sample in tokens.tokenise(self._job, self._engine.longest, shard.samples if shard else None):
            samples.append(sample)
            if len(samples) % TOLD_EVERY == 0:  # the log shows life through a long dataset
                _say(f"{len(samples)} samples tokenised")
        sound = [sample for sample in samples if sample.problem is None]
        whole = shard.whole if shard else 0
        is_of = self._known.is_of if self._known else lambda _: True
        found = outputs.find_missing(self._output, sound, self._job.layers, self._model, total=whole, is_of=is_of)
        self._total, self._done, self._tokens = len(samples), found.done, found.tokens_done
        given_up = self._suspects.failed
        failed = [sample for sample in found.samples if sample.index in given_up]
        unusable = [sample for sample in samples if sample.problem is not None]
        self._events.tell(
            "plan",
            total=self._total,
            done=self._done,
            tokens_total=sum(map(len, samples)),
            tokens_done=self._tokens,
            failed=len(failed) + len(unusable),
        )
        missing = [sample for sample in found.samples if sample.index not in given_up]
        of = f" (this host's part of {whole})" if shard else ""
        _say(f"{self._total} samples{of}: {self._done} stand ({found.adopted} adopted), {len(missing)} to extract")
        for damage in found.damaged:
            _say(f"{damage}: computed again")
        if found.aside:
            _say(f"{found.aside} sample files are not of this job: renamed to data_<index>.pt{outputs.ASIDE}")
        for sample in unusable:
            self._fail(sample, f"{sample.where}: {sample.problem}")
        for sample in failed:
            self._fail(sample, f"{sample.where}: {given_up[sample.index]}")
        self._hold_to_limit()
        return missing

    def _hold_to_limit(self) -> None:
        if self._failed > self._job.retry.max_failed_samples:
            raise TooManyFailed(f"{self._failed} samples failed, {self._job.retry.max_failed_samples} may")

    def _vouch(self) -> None:
        """Say in the manifest that this attempt ended in order: the next start need not hash what it wrote."""
        if self._wrote:
            with contextlib.suppress(OSError):  # a full disk: then the next start does hash it
                manifest.vouch(self._output)

    def _extract(self, batch: Sequence[Tokens]) -> None:
        with self._stop:
            for sample, states in self._states(batch):
                self._keep(sample, states)
            self._events.tell("progress", done=self._done, failed=self._failed, total=self._total, tokens=self._tokens)
        self._hold_to_limit()

    def _states(self, batch: Sequence[Tokens]) -> Iterator[tuple[Tokens, list[Any] | Exception]]:
        """Give each sample's states, or why it alone has none; raises when it is the engine that fails."""
        try:
            yield from zip(batch, self._asked(batch), strict=True)
        except Exception as error:
            if not self._engine.alive():
                raise
            hand.drop(self._run)
            if len(batch) > 1 and batches.ran_out(error):
                self._halve(len(batch))
                half = len(batch) // 2
                yield from self._states(batch[:half])
                yield from self._states(batch[half:])
                return
            traceback.print_exc()
            _say("the batch failed; its samples are tried one by one")
            answers = [self._alone(sample) for sample in batch]
            if all(isinstance(answer, Exception) for answer in answers):
                self._engine.extract([batch[0].input_ids[:1]])  # raises where no prompt works any more
            yield from zip(batch, answers, strict=True)

    def _asked(self, batch: Sequence[Tokens]) -> list[list[Any]]:
        """Ask the engine; what is in hand meanwhile is noted, in case that it ends and we with it."""
        with hand.taken(self._run, [sample.index for sample in batch]):
            return self._engine.extract([sample.input_ids for sample in batch])

    def _halve(self, size: int) -> None:
        """Remember that so many samples at once are too many for the memory there is."""
        half = max(1, size // 2)
        if half < self._size:
            self._size = half
            batches.shrink(self._run, half)
            self._events.tell("batch-halved", size=half)
            _say(f"memory ran out on a batch of {size}: going on with batches of {half}")

    def _alone(self, sample: Tokens) -> list[Any] | Exception:
        try:
            return self._asked([sample])[0]
        except Exception as error:
            if not self._engine.alive():
                raise
            hand.drop(self._run)
            return error

    def _keep(self, sample: Tokens, states: list[Any] | Exception) -> None:
        if isinstance(states, Exception):
            self._fail(sample, f"{sample.where}: {type(states).__name__}: {states}")
            return
        try:
            outputs.write(self._output, sample, states, self._engine.layers, self._model)
            self._wrote = True
        except SampleInvalid as error:
            self._fail(sample, f"{sample.where}: {error}")
            return
        self._done += 1
        self._tokens += len(sample)

    def _fail(self, sample: Tokens, cause: str) -> None:
        self._failed += 1
        self._events.tell("sample-failed", index=sample.index, cause=cause[:1000])
        _say(f"sample {sample.index} failed: {cause}")


def _say(text: str) -> None:
    sys.stderr.write(f"prudent-gate: {text}\n")
    sys.stderr.flush()
