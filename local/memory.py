"""What the laptop remembers of the last gate: enough to ask the right question in the first breath next time.

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

from local import bundle, folders, pruning, surface
from remote import wire
from remote.engines.defaults import gate_of
from remote.schema import RecallRequest

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from local.levels.context import Context
    from remote.schema import HostFacts, Job

WORDS = ("home", "workdir", "python", "job", "payload", "bundle")
FIELDS = (*WORDS, "passed", "reviewed", "architectures", "sources", "texts", "patched")
KEPT = 500  # hints; far more than anybody has hosts and jobs


@dataclass(frozen=True, kw_only=True, slots=True)
class Hint:
    """What a gate was about: home, working folder and Python on the host, the bundle, the sources and their SHA-256.

    Where it did not pass, the levels are looked at again: then the next question is for the packages' sources, too.
    """

    home: str
    workdir: str
    python: str
    job: str
    payload: str
    bundle: str
    passed: bool
    reviewed: bool
    architectures: tuple[str, ...]
    sources: tuple[str, ...]
    texts: Mapping[str, str] = field(repr=False)
    patched: Mapping[str, str] = field(repr=False)

    def question(self, job: Job, *, fresh: bool = False) -> RecallRequest | None:
        """Give what to ask a host for this job; None where job or payload are no longer those of that gate."""
        job = replace(job, workdir=self.workdir)
        if _digest(job) != self.job or bundle.pack(None, {}).id != self.payload:
            return None
        return RecallRequest(
            job=job,
            bundle=self.bundle,
            sources=self.sources,
            held=tuple(sorted(self.texts)),
            surfaces=surface.held() if (fresh or not self.passed) and gate_of(job).modules else None,
        )


def find(host: str, job: str, *, choice: Collection[str] = ()) -> Hint | None:
    """Give the hint for a host, a job by name, and a choice of patches; a damaged one is none."""
    try:
        known = wire.parse(_path(host, job, choice).read_bytes())
        lists = {name: tuple(map(str, known[name])) for name in ("sources", "architectures")}
        hint = Hint(**{name: known[name] for name in FIELDS} | lists)
        whole = all(isinstance(getattr(hint, name), str) for name in WORDS) and isinstance(hint.passed, bool)
        whole = whole and all(isinstance(text, str) for text in hint.patched.values())
        whole = whole and all(digest_of(text) == digest for digest, text in hint.texts.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return hint if whole else None


def keep(context: Context, *, home: str, passed: bool, choice: Collection[str] = ()) -> None:
    """Remember a gate, for this user only."""
    job, facts = context.job, context.facts
    hint = {
        "home": home,
        "workdir": job.workdir,
        "python": job.python,
        "job": _digest(job),
        "payload": bundle.pack(None, {}).id,
        "bundle": context.bundle,
        "passed": passed,
        "reviewed": context.reviewed,
        "architectures": facts.architectures,
        "sources": [source.path for source in facts.sources],
        "texts": {digest_of(source.text): source.text for source in facts.sources if source.text is not None},
        "patched": dict(context.applied.files),
    }
    path = _path(context.host.name, job.name, choice)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, encoding="utf-8", delete=False) as file:
        json.dump(hint, file)
    Path(file.name).replace(path)
    pruning.keep_newest(KEPT, path)


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
