"""Every path that both sides share, in one place. Pure: nothing here touches the file system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import PurePosixPath

PHASES = (
    "starting", "loading", "extracting", "verifying", "retrying", "done", "failed", "stopped", "lost", "unknown",
)  # fmt: skip
ENDED = ("done", "failed", "stopped", "lost")

# Names in a process's environment.
RUN_ENV = "PRUDENT_GATE_RUN"  # the run folder: the mark by which a run's processes are found
EVENTS_ENV = "PRUDENT_GATE_EVENTS"  # the file to which an attempt appends its events, one JSON object per line
ATTEMPT_ENV = "PRUDENT_GATE_ATTEMPT"  # the attempt's number, from 1


@dataclass(frozen=True, slots=True)
class Workdir:
    """`<workdir>`: bundles, verdicts and runs of one user on one host."""

    root: PurePosixPath

    @property
    def bundles(self) -> PurePosixPath:
        return self.root / "bundles"

    @property
    def verdicts(self) -> PurePosixPath:
        return self.root / "verdicts"

    @property
    def runs(self) -> PurePosixPath:
        return self.root / "runs"

    @property
    def cache(self) -> PurePosixPath:
        return self.root / "cache"

    @property
    def census(self) -> PurePosixPath:
        """Lengths and digests of datasets that were counted once."""
        return self.cache / "census"

    def bundle(self, bundle: str) -> Bundle:
        return Bundle(self.bundles / bundle)

    def verdict(self, fingerprint: str) -> PurePosixPath:
        return self.verdicts / f"{fingerprint}.json"

    def run(self, run: str) -> Run:
        return Run(self.runs / run)


@dataclass(frozen=True, slots=True)
class Bundle:
    """`<workdir>/bundles/<sha256>`: read-only once it stands."""

    root: PurePosixPath

    @property
    def payload(self) -> PurePosixPath:
        """Holds the package `remote`."""
        return self.root / "payload"

    @property
    def vendor(self) -> PurePosixPath:
        """Holds the carried libraries (tenacity); on the supervisor's path only."""
        return self.root / "vendor"

    @property
    def entry(self) -> PurePosixPath:
        return self.payload / "remote" / "__main__.py"

    @property
    def patched(self) -> PurePosixPath:
        """The patched files alone, package-relative."""
        return self.root / "patched"

    @property
    def overlay(self) -> PurePosixPath:
        """A mirror of links with the patched files in place of theirs; first on PYTHONPATH."""
        return self.root / "overlay"

    @property
    def manifest(self) -> PurePosixPath:
        return self.root / "bundle.json"


@dataclass(frozen=True, slots=True)
class Run:
    """`<workdir>/runs/<run-id>`: the truth about one run."""

    root: PurePosixPath

    @property
    def id(self) -> str:
        return self.root.name

    @property
    def job(self) -> PurePosixPath:
        """The LaunchRequest without its secrets."""
        return self.root / "job.json"

    @property
    def state(self) -> PurePosixPath:
        return self.root / "state.json"

    @property
    def events(self) -> PurePosixPath:
        return self.root / "events.jsonl"

    @property
    def log(self) -> PurePosixPath:
        return self.root / "log"

    @property
    def supervisor_log(self) -> PurePosixPath:
        return self.root / "supervisor.log"

    @property
    def exit(self) -> PurePosixPath:
        return self.root / "exit.json"

    @property
    def stop(self) -> PurePosixPath:
        return self.root / "stop"

    @property
    def log_start(self) -> PurePosixPath:
        """The log's first byte that is still kept: `{"start": N}`; absent while all is."""
        return self.root / "log.start"

    @property
    def batch(self) -> PurePosixPath:
        """The number of samples that a batch may have since memory ran out: `{"size": N}`."""
        return self.root / "batch.json"

    @property
    def hand(self) -> PurePosixPath:
        """The samples that the engine was asked for and has not answered yet: `{"samples": [N, …]}`."""
        return self.root / "hand.json"

    @property
    def suspects(self) -> PurePosixPath:
        """The samples that may end the engine, and those that have been given up for it."""
        return self.root / "suspects.json"

    @property
    def shared(self) -> PurePosixPath:
        """The shared memory that the run's processes have made, as was last seen."""
        return self.root / "shared.json"

    @property
    def sockets(self) -> PurePosixPath:
        """The name of the folder that the attempt's sockets are in."""
        return self.root / "sockets"

    @property
    def hooks_log(self) -> PurePosixPath:
        """What the hooks on this host have said."""
        return self.root / "hooks.log"

    @property
    def hooks_events(self) -> PurePosixPath:
        """How the hooks on this host have ended, one JSON object per line."""
        return self.root / "hooks.events"

    @property
    def ballast(self) -> PurePosixPath:
        """Room that is kept so that the end can be written on a full disk."""
        return self.root / "ballast"

    @property
    def verified(self) -> PurePosixPath:
        """The last check of the run's outputs, and when it was made."""
        return self.root / "verified.json"

    @property
    def vitals(self) -> PurePosixPath:
        """What the GPUs and the disk were like while the run went on: one JSON object per line."""
        return self.root / "vitals.jsonl"

    def attempt_events(self, attempt: int) -> PurePosixPath:
        return self.root / f"attempt-{attempt}.events"


@dataclass(frozen=True, slots=True)
class Output:
    """The job's output folder. Only sample files end in `.pt`: the trainer takes every such file it finds."""

    root: PurePosixPath

    @property
    def manifest(self) -> PurePosixPath:
        return self.root / "manifest.jsonl"

    @property
    def lock(self) -> PurePosixPath:
        """Held (flock) by the supervisor for life; its content is the JSON `{"run": id, "workdir": path}`."""
        return self.root / ".prudent-gate.lock"

    @property
    def identity(self) -> PurePosixPath:
        """A random id: two hosts that find the same one write to one folder."""
        return self.root / ".prudent-gate.id"

    def sample(self, index: int) -> PurePosixPath:
        return self.root / f"data_{index}.pt"
