"""Stories of runs for the pages' tests: a long one on eight GPUs with faults, and words that would do harm."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import Any

from remote.schema import (
    Check,
    Excerpt,
    Exit,
    Finding,
    GpuReading,
    Job,
    LaunchRequest,
    RunStatus,
    Samples,
    Story,
    Verdict,
    Verified,
    VerifyAnswer,
    Vitals,
    Written,
)

START = 1_790_000_000.0
GIB = 2**30
RUN = "20260921-131320-abcd"
HOSTILE = [
    "<script>alert(document.title)</script>",
    "</pre></style></script><img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)" x=\'',
    "{{ 7 * 7 }}{% raw %}",
    "[click](javascript:alert(1)) ![x](http://192.0.2.1/pixel.png) <http://192.0.2.1>",
    "| a | b |\n---\n# heading\n````\n<b>out</b>",
    "\x1b]0;title\x07\x1b[2J\u202egnp.exe\u2028\ud800",
    "a" * 4000,
    "",
]
JOB = Job(
    name="kimi-k2", engine="speculators", python="/root/ml-env/bin/python3", workdir="/root/.prudent-gate",
    output="/data/hidden_states", model="/data/Kimi-K2.5", dataset="/data/train.jsonl", layers=(2, 30, 58, 60),
    tensor_parallel=8, env={"CUDA_HOME": "/usr/local/cuda-12.8"}, secret_env=("HF_TOKEN",),
)  # fmt: skip
MISSING = Finding(
    rule="missing-argument", message="Scheduler requires 'block_size', which is not given",
    file="speculators/data_generation/vllm_hidden_states_generator.py", line=148, column=25, end_column=34,
    text="        self.scheduler = Scheduler(", callee="vllm.v1.core.sched.scheduler.Scheduler",
    signature="(vllm_config, kv_cache_config, structured_output_manager, block_size, log_stats: bool = False)",
    fix="@@ -148,3 +148,4 @@\n         self.scheduler = Scheduler(\n+            block_size=16,\n-            x,",
)  # fmt: skip


def checks(*, last: str = "rehearsal") -> tuple[Check, ...]:
    inputs = {"time": {"load": 1080.0, "extract": 5400.0, "assumed": True, "usd": 64.8}}
    host = {
        "gpus": ["NVIDIA B200"] * 8, "device": "cuda", "versions": {"vllm": "0.16.0", "speculators": "0.3.0"},
        "output_free": 900 * GIB,
    }  # fmt: skip
    made = (
        Check(id="reach", status="pass", seconds=0.3, facts={"python": "3.12.3", "user": "root"}),
        Check(id="host", status="warn", seconds=1.1, facts=host, findings=(replace(MISSING, severity="warning"),)),
        Check(id="patch", status="pass", seconds=0.1, facts={"patches": {"0001": "applies", "0002": "upstream"}}),
        Check(id="static", status="pass", seconds=2.0),
        Check(id="import", status="pass", seconds=24.0),
        Check(id="inputs", status="pass", seconds=3.0, facts=inputs),
        Check(id="rehearsal", status="pass", seconds=31.0),
    )
    return made[: [check.id for check in made].index(last) + 1]


def verdict(**changes: Any) -> Verdict:
    given: dict[str, Any] = {
        "fingerprint": "ab" * 32, "bundle": "cd" * 32, "verdict": "pass", "level": "rehearsal", "decided": START - 60,
        "checks": checks(), "changed": ("vllm 0.15.1 → 0.16.0",),
        "basis": {"job": "kimi-k2", "python": "3.12.3", "driver": "580.65", "package vllm": "0.16.0"},
    }  # fmt: skip
    return Verdict(**{**given, **changes})


def refused() -> Verdict:
    again = replace(MISSING, line=310)
    other = replace(MISSING, rule="unexpected-argument", callee="vllm.v1.request.Request.__init__", message="no eos")
    third = replace(MISSING, callee="vllm.v1.core.kv_cache_utils.get_kv_cache_config", message="it requires x")
    failed = Check(id="static", status="fail", seconds=2.0, findings=(MISSING, again, other, third))
    return verdict(verdict="fail", level="static", decided=START - 600, checks=(*checks(last="patch"), failed))


def events() -> list[dict[str, Any]]:
    """Three attempts: one dies while loading, one after an hour, the third does the rest."""
    made: list[dict[str, Any]] = []

    def tell(after: float, attempt: int, event: str, **fields: Any) -> None:
        made.append({"n": len(made) + 1, "time": START + after, "attempt": attempt, "event": event, **fields})

    tell(0, 0, "started", run=RUN, pid=7, job="kimi-k2")
    tell(1, 1, "attempt", pid=11)
    tell(9, 1, "phase", phase="loading")
    tell(
        600,
        1,
        "attempt-ended",
        code=1,
        cause="port-taken",
        root_line="Address already in use",
        **{"class": "transient"},
    )
    tell(601, 2, "retry", delay=5.0, cause="port-taken")
    tell(606, 2, "attempt", pid=12)
    tell(615, 2, "phase", phase="loading")
    tell(1700, 2, "phase", phase="extracting")
    for step in range(200):
        tokens = int(2_000_000 * step / 200)
        tell(1701 + 18 * step, 2, "progress", done=5 * step, failed=0, total=2000, tokens=tokens)
    tell(5400, 2, "hang", waiting="progress for 900 s", action="restart")
    tell(5402, 2, "attempt-ended", code=137, cause="hang", root_line=None, **{"class": "transient"})
    tell(5410, 3, "attempt", pid=13)
    tell(5420, 3, "phase", phase="loading")
    tell(6500, 3, "phase", phase="extracting")
    for step in range(200):
        done = int(2e6 + 9950 * step + 30_000 * math.sin(step / 9))
        tell(6501 + 10 * step, 3, "progress", done=1000 + 5 * step, failed=0, total=2000, tokens=done)
    tell(8600, 3, "phase", phase="verifying")
    tell(8700, 3, "attempt-ended", code=0, cause=None, **{"class": "done"})
    tell(8700, 3, "ended", phase="done", code=0)
    return made


def vitals() -> list[dict[str, Any]]:
    """What eight cards did, in the form in which the supervisor notes it; some minutes told nothing."""
    return [
        asdict(
            Vitals(
                time=START + after, attempt=1, phase="extracting", samples=0, failed=0, tokens=0,
                disk_free=int((900 - after / 60) * GIB), gpus=tuple(card(after, index) for index in range(8)),
            )
        )
        for after in range(10, 8700, 40)
    ]  # fmt: skip


def card(after: int, index: int) -> GpuReading:
    if after % 400 < 40:
        return GpuReading(index=index, trouble="lost")
    return GpuReading(
        index=index, name="NVIDIA B200", utilisation=int(50 + 45 * math.sin(after / 300 + index)),
        memory_used=(140 + index) * GIB, memory_total=180 * GIB,
        temperature=int(55 + 10 * math.sin(after / 800)) + index,
    )  # fmt: skip


def story(**changes: Any) -> Story:
    samples = Samples(total=2000, done=2000)
    given: dict[str, Any] = {
        "run": RUN,
        "now": START + 9000,
        "status": RunStatus(
            run=RUN, phase="done", attempt=3, pid=7, started=START, last_seen=START + 8700, output=JOB.output,
            samples=samples, tokens=3_990_000, tokens_total=3_990_000, log_bytes=5_000_000, exit=0, job=JOB.name,
            bundle="cd" * 32,
        ),
        "request": LaunchRequest(job=JOB, bundle="cd" * 32, fingerprint="ab" * 32),
        "exit": Exit(phase="done", code=0, ended=START + 8700, attempts=3, samples=samples),
        "verdict": verdict(),
        "refused": (refused(),),
        "events": tuple(events()),
        "vitals": tuple(vitals()),
        "excerpts": (
            Excerpt(why="attempt 1: port-taken", lines=("INFO start", "Address already in use", "Traceback"), marked=1),
            Excerpt(why="the end of the log", lines=tuple(f"line {number} " + "x" * 180 for number in range(40))),
        ),
        "written": Written(
            samples=2000, tokens=3_990_000, size=61 * 10**9, shortest=12, longest=2048, dtypes=("bfloat16",),
            layers=JOB.layers, hidden=(7168,), models=("ef" * 32,),
        ),
        "verified": Verified(
            time=START + 8800,
            answer=VerifyAnswer(
                total=2000, valid=2000, missing=0, damaged=0, extra=0, tokens=3_990_000, size=61 * 10**9
            ),
        ),
        "loads": (1085.0, 1080.0),
    }  # fmt: skip
    return Story(**{**given, **changes})


def hostile() -> Story:
    """A story whose every word of the host's tries to be more than a word."""
    words = "\n".join(HOSTILE)
    bad = Finding(
        rule=HOSTILE[2], message=words, file=HOSTILE[1], line=1, column=0, text=words, callee=HOSTILE[0],
        signature=f"({HOSTILE[1]})", fix=f"+{words}", severity=HOSTILE[2],
    )  # fmt: skip
    check = Check(id=HOSTILE[0], status=HOSTILE[2], facts={"patches": {HOSTILE[0]: HOSTILE[1]}}, findings=(bad,))
    told = [
        {"n": 1, "time": START, "attempt": 1, "event": word, word: word, "class": word, "cause": word}
        for word in HOSTILE
    ]
    odd: list[dict[str, Any]] = [
        {"event": "progress", "time": "soon", "attempt": "one", "tokens": HOSTILE[0]},
        {"event": "progress", "time": START + 1, "attempt": 1, "tokens": True, "done": None},
        {"event": "phase", "time": START + 1, "attempt": 1, "phase": HOSTILE[0]},
        {"event": "attempt-ended", "time": START + 2, "attempt": 1, "class": HOSTILE[0], "cause": HOSTILE[1]},
        {"event": "phase", "time": START + 1e300, "attempt": 2, "phase": {"a": 1}},
    ]
    base = story()
    return replace(
        base,
        run=HOSTILE[0],
        status=replace(base.status, phase=HOSTILE[1], cause=words, output=words, job=HOSTILE[0]),
        exit=Exit(phase="failed", code=1, ended=START + 9, attempts=1, cause=words, root_line=words, advice=words),
        request=LaunchRequest(job=replace(JOB, name=words, env={words: words}), bundle=words, fingerprint=words),
        verdict=verdict(checks=(check,), basis={words: words, f"package {HOSTILE[1]}": HOSTILE[0]}, changed=(words,)),
        refused=(verdict(verdict="fail", checks=(replace(check, status="fail"),)),),
        events=(*told, *odd),
        vitals=(
            {"time": START, "gpus": [None, {"utilisation": HOSTILE[0]}, {"utilisation": 1e300}], "disk_free": "much"},
        ),
        excerpts=(Excerpt(why=words, lines=tuple(HOSTILE), marked=0),),
        written=replace(base.written, dtypes=tuple(HOSTILE), models=tuple(HOSTILE)) if base.written else None,
        faults=tuple(HOSTILE),
    )
