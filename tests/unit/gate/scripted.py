"""A host that answers the gate from a script."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field, replace
from typing import Any

from local import gate, memory
from local.levels import probe
from local.links.fake import FakeStream
from remote import surface, wire
from remote.channel import FRAME, MARK
from remote.schema import (
    Check,
    Finding,
    HostFacts,
    ProbeAnswer,
    ProbeRequest,
    RecallAnswer,
    RecallRequest,
    SourceFile,
    SurfaceAnswer,
    SurfaceRequest,
    Verdict,
    VerdictAnswer,
    VerdictRequest,
)
from tests.unit.test_levels import facts, mend

SERIES = (mend("0001", "speculators==0.3.0", "1\n", "2\n"), mend("0002", "speculators==0.3.0", "2\n", "3\n"))
PROVEN = (
    Check(id="import", status="pass", seconds=20.0),
    *(Check(id=level, status="pass", facts={"bound": 38}) for level in probe.LEVELS[1:]),
)
# Sources small enough to be sent with every gate, and whole enough for the type checker.
SOURCES = {
    f"speculators/{name}": b""
    for name in (
        "__init__.py",
        "data_generation/__init__.py",
        "data_generation/custom_worker.py",
        "data_generation/vllm_hidden_states_generator.py",
    )
}
BROKEN = Check(id="import", status="fail", findings=(Finding(rule="import-error", message="no"),))


@dataclass
class Reached:
    python_version: str = "3.12.3"
    home: str = "/root"
    user: str = "root"
    now: float = 0.0
    asked: float = 0.0
    recalled: str | None = None


def frame(kind: str, body: bytes = b"") -> bytes:
    return MARK + FRAME + b" " + json.dumps({"kind": kind, "size": len(body)}).encode() + b"\n" + body


@dataclass
class FakeHost:
    """A host that answers from a script, remembers verdicts, and notes what it was asked."""

    facts: HostFacts = field(default_factory=facts)
    proven: tuple[Check, ...] = PROVEN
    source: str | None = "1\n"
    python: str = "3.12.3"
    away: Exception | None = None
    name: str = "gpu01"
    workdir: str = "/root/absolute"
    said: list[str] = field(default_factory=list)
    requests: list[Any] = field(default_factory=list)
    asked: list[RecallRequest | None] = field(default_factory=list)
    bundles: set[str] = field(default_factory=set)
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    streams: list[FakeStream] = field(default_factory=list)
    breaks: list[bytes | Exception] = field(default_factory=list)  # what the stream of checks has before its end

    def look(self, question: RecallRequest | None = None) -> Reached:
        self.said.append("reach and recall" if question else "reach")
        self.asked.append(question)
        if self.away:
            raise self.away
        now = gate.time.time()
        return Reached(python_version=self.python, now=now, asked=now, recalled=self.on_recall(question))

    def on_recall(self, question: RecallRequest | None) -> str | None:
        if question is None or question.bundle not in self.bundles:
            return None
        facts = self.on_facts(question)
        sources = tuple(
            replace(source, text=None) if source.sha256 in question.held else source for source in facts.sources
        )
        known = self.on_verdict(VerdictRequest(job=question.job, bundle=question.bundle))
        found = self.on_surface(SurfaceRequest(job=question.job, held=question.surfaces or ()))
        brought = found if question.surfaces is not None else None
        return wire.dumps(RecallAnswer(facts=replace(facts, sources=sources), known=known, surface=brought))

    def push(self, packed: Any) -> bool:
        new = packed.id not in self.bundles
        self.bundles.add(packed.id)
        return new

    def call(self, verb: str, request: Any, answer: type, *, bundle: str, deadline: float) -> Any:
        assert bundle in self.bundles
        assert deadline > 0
        self.said.append(f"{verb} store" if getattr(request, "store", None) else verb)
        self.requests.append(request)
        answered = getattr(self, f"on_{verb}")(request)
        assert isinstance(answered, answer)
        return answered

    def on_facts(self, request: Any) -> HostFacts:
        digest = memory.digest_of(self.source) if self.source is not None else None
        sources = tuple(SourceFile(path=path, text=self.source, sha256=digest) for path in request.sources)
        return replace(self.facts, sources=sources)

    def on_surface(self, request: Any) -> SurfaceAnswer:
        fingerprint = surface.digest(SOURCES)
        data = "" if fingerprint in request.held else base64.b64encode(surface.pack(SOURCES)).decode()
        return SurfaceAnswer(fingerprint=fingerprint, python="3.12", versions={}, data=data)

    def on_probe(self, _: Any) -> ProbeAnswer:
        return ProbeAnswer(checks=self.proven)

    def stream(self, verb: str, request: Any, *, bundle: str) -> FakeStream:
        assert bundle in self.bundles
        assert isinstance(request, ProbeRequest)
        self.said.append(verb)
        self.requests.append(request)
        sent = [frame("check", wire.dumps(check).encode()) for check in self.proven]
        self.streams.append(FakeStream([*sent, *self.breaks, frame("end")]))
        return self.streams[-1]

    def on_verdict(self, request: Any) -> VerdictAnswer:
        fingerprint = f"{request.bundle}{self.facts.distributions}"
        if request.store and request.still and request.store.fingerprint != fingerprint:
            return VerdictAnswer(fingerprint=fingerprint, basis=self.facts.basis)
        if request.store:
            self.verdicts[request.store.fingerprint] = request.store
            return VerdictAnswer(fingerprint=request.store.fingerprint)
        passes = [kept for key, kept in self.verdicts.items() if key != fingerprint and kept.verdict == "pass"]
        return VerdictAnswer(
            fingerprint=fingerprint,
            verdict=self.verdicts.get(fingerprint),
            previous=passes[-1] if passes else None,
        )


Run = "Callable[..., GateOutcome]"


def ids(checks: Any) -> list[str]:
    return [check.id for check in checks]
