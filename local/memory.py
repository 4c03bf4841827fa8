"""What the laptop remembers of gates that passed: enough to ask the right question in the first breath next time.

A hint, never a proof: it names the bundle that the host is asked about, and holds the sources that need not travel
again. What the host answers is decided upon as ever; a wrong hint costs the calls that it would have saved.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from local import bundle, folders
from remote import wire
from remote.schema import RecallRequest

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from remote.schema import HostFacts, Job

FIELDS = ("home", "workdir", "python", "job", "payload", "bundle", "texts")
KEPT = 500  # hints; far more than anybody has hosts and jobs


@dataclass(frozen=True, kw_only=True, slots=True)
class Hint:
    """What a passed gate was about: home, working folder and Python on the host, the bundle, sources by SHA-256."""

    home: str
    workdir: str
    python: str
    job: str
    payload: str
    bundle: str
    texts: Mapping[str, str] = field(repr=False)

    def question(self, job: Job, sources: Collection[str]) -> RecallRequest | None:
        """Give what to ask a host for this job; None where job or payload are no longer those that passed."""
        job = replace(job, workdir=self.workdir)
        if _digest(job) != self.job or bundle.pack(None, {}).id != self.payload:
            return None
        return RecallRequest(job=job, bundle=self.bundle, sources=tuple(sources), held=tuple(sorted(self.texts)))


def find(host: str, job: str, *, choice: Collection[str] = ()) -> Hint | None:
    """Give the hint for a host, a job by name, and a choice of patches; a damaged one is none."""
    try:
        known = json.loads(_path(host, job, choice).read_text("utf-8"))
        hint = Hint(**{name: known[name] for name in FIELDS})
    except (OSError, ValueError, KeyError, TypeError):
        return None
    whole = all(isinstance(text, str) and digest_of(text) == digest for digest, text in hint.texts.items())
    return hint if whole else None


def keep(host: str, job: Job, *, home: str, bundle_id: str, facts: HostFacts, choice: Collection[str] = ()) -> None:
    """Remember a gate that passed, for this user only."""
    hint = {
        "home": home,
        "workdir": job.workdir,
        "python": job.python,
        "job": _digest(job),
        "payload": bundle.pack(None, {}).id,
        "bundle": bundle_id,
        "texts": {digest_of(source.text): source.text for source in facts.sources if source.text is not None},
    }
    path = _path(host, job.name, choice)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, encoding="utf-8", delete=False) as file:
        json.dump(hint, file)
    Path(file.name).replace(path)
    aged = sorted(path.parent.iterdir(), key=lambda each: each.stat().st_mtime, reverse=True)
    for old in aged[KEPT:]:
        old.unlink(missing_ok=True)


def filled(facts: HostFacts, texts: Mapping[str, str]) -> HostFacts | None:
    """Give facts with the texts put back that did not travel; None where one is not at hand."""
    if any(source.sha256 and source.text is None and source.sha256 not in texts for source in facts.sources):
        return None
    sources = tuple(
        replace(source, text=texts[source.sha256]) if source.sha256 and source.text is None else source
        for source in facts.sources
    )
    return replace(facts, sources=sources)


def digest_of(text: str) -> str:
    """Give the SHA-256 of a text as the host reckons it."""
    return hashlib.sha256(text.encode()).hexdigest()


def _digest(job: Job) -> str:
    """Name a job without keeping it: its environment may hold what is nobody's business."""
    return digest_of(wire.dumps(job))


def _path(host: str, job: str, choice: Collection[str]) -> Path:
    name = digest_of(json.dumps([host, job, sorted(choice)]))[:32]
    folder = folders.cache() / "gates"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / f"{name}.json"
