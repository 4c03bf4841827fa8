"""What lies on a host: a run's folder, manifests, models, datasets, what programs print; and archives."""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import io
import json
import struct
import tarfile
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from hypothesis import strategies as st

from local import bundle, surface
from local.errors import PayloadCrashed
from remote import failures, install, locks, status, verdict, wire
from remote.engines.command import LineProgress
from remote.gate import rates
from remote.host import cuda, gpu, gpu_xml, kernel_log, shared_memory
from remote.model import model_config, model_folder, safetensors_header
from remote.paths import Output, Run
from remote.prompts import dataset
from remote.results import manifest, outputs
from remote.run import batch, events, household, logfile, runs
from remote.schema import (
    Exit,
    Job,
    LaunchRequest,
    ManifestClean,
    ManifestDamage,
    ManifestEntry,
    State,
    StatusRequest,
    SurfaceAnswer,
)
from tests.fuzz.budget import fuzzed
from tests.fuzz.strange import anything, cut, damaged, values, words

DATA = Path(__file__).resolve().parents[1] / "payload" / "data"
JOB = Job(name="j", engine="speculators", python="/p", workdir="/w", output="/o", model="/m", dataset="/d", layers=(1,))
STATE = State(
    run="20260101-000000-abcd",
    phase="loading",
    attempt=1,
    pid=1,
    pid_started=1.0,
    boot_id="b",
    started=1.0,
    heartbeat=2.0,
    output="/o",
)
ENTRY = ManifestEntry(
    index=3,
    file="data_3.pt",
    tokens=4,
    shape=(1, 4, 8),
    dtype="bfloat16",
    size=9,
    sha256="0" * 64,
    tokens_sha256="1" * 64,
)
FILES: dict[str, Any] = {
    "job.json": wire.encode(LaunchRequest(job=JOB, bundle="b", fingerprint="f")),
    "state.json": wire.encode(STATE),
    "exit.json": wire.encode(Exit(phase="done", code=0, ended=1.0, attempts=1)),
    "log.start": {"start": 3},
    "batch.json": {"size": 3},
    "shared.json": {"boot": "b", "before": [["psm_a", 3]], "made": [["psm_b", 4]]},
    "stop": {"grace": 3.0},
}
LINES = [
    {"n": 1, "event": "phase", "phase": "loading", "time": 1.0},
    {"n": 2, "event": "progress", "tokens": 3, "time": 9.0},
    {"n": 3, "event": "progress", "tokens": 30, "time": 99.0},
]


def _write(path: Path, value: Any) -> None:
    path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode("utf-8", "surrogatepass"))


@fuzzed(
    400,
    st.one_of(
        *(st.tuples(st.just(name), damaged(made) | values | st.binary(max_size=30)) for name, made in FILES.items())
    ),
)
def test_run_folders(folder: Path, drawn: Any) -> None:
    name, value = drawn
    root = folder / "runs" / "20260101-000000-abcd"
    root.mkdir(parents=True, exist_ok=True)
    for other, made in FILES.items():
        _write(root / other, value if other == name else made)
    run = Run(PurePosixPath(root))
    seen = runs.look(run)
    assert seen.run == run
    assert logfile.start(run) >= 0
    assert 1 <= batch.size(run, JOB) <= JOB.batch_size
    assert (household.wish(run) or 0.0) >= 0.0
    shared_memory.noted(run)
    answer = status.answer(StatusRequest(workdir=str(folder)))
    wire.dumps(answer)


@fuzzed(400, st.one_of(damaged(*LINES), cut(*(json.dumps(line).encode() for line in LINES))))
def test_event_files(folder: Path, value: Any) -> None:
    file = folder / "events.jsonl"
    line = value if isinstance(value, bytes) else json.dumps(value).encode()
    file.write_bytes(b"".join(json.dumps(each).encode() + b"\n" for each in LINES) + line + b"\n")
    log = events.EventLog(file, clock=lambda: 1.0)
    log.add("x", 1, {"value": "\ud800"})
    numbers = [
        event["n"] for event in map(events.parse, events.Tail(file).lines()) if event and type(event.get("n")) is int
    ]
    assert numbers[-1] == max(numbers)
    rates.times(rates._events(file))


@fuzzed(
    900,
    cut(
        *(
            wire.dumps(word).encode() + b"\n"
            for word in (ENTRY, ManifestDamage(index=3, damaged="x"), ManifestClean(clean=True))
        )
    ),
)
def test_manifests(folder: Path, data: bytes) -> None:
    output = Output(PurePosixPath(folder))
    Path(output.manifest).write_bytes(wire.dumps(ENTRY).encode() + b"\n" + data)
    book = manifest.read(output)
    assert all(type(index) is int for index in book.entries)
    Path(output.lock).write_bytes(data)
    locks.holder(output)
    assert set(outputs.read_manifest(output)) == set(book.entries)


@fuzzed(2000, st.one_of(damaged(wire.encode(ENTRY), {"schema": 1, "clean": True}), anything))
def test_manifest_values(folder: Path, value: Any) -> None:
    del folder
    book = manifest.Book()
    book.take(json.dumps(value).encode())
    assert len(book.entries) <= 1


@fuzzed(
    600,
    st.one_of(
        cut(b'{"schema": 1}'),
        damaged({"schema": 1, "fingerprint": "0" * 64, "checks": []}).map(lambda v: json.dumps(v).encode()),
    ),
)
def test_verdict_files(folder: Path, data: bytes) -> None:
    (folder / f"{'0' * 64}.json").write_bytes(data)
    assert verdict.read(folder, "0" * 64) is None
    verdict.last_pass(folder, "j", "1" * 64)


@fuzzed(
    1500,
    cut(
        *((DATA / name).read_bytes() for name in ("nvidia-smi-8xB200.txt", "nvidia-smi-lost.txt")),
        b"0, NVIDIA, GPU-1, 100, 5, 1.0\n",
    ),
)
def test_nvidia_smi_rows(folder: Path, data: bytes) -> None:
    del folder
    found = gpu.parse(data.decode("utf-8", "replace"))
    assert found.gpus or found.error
    assert all(card.memory_total >= 0 for card in found.gpus)
    wire.dumps(found)


@fuzzed(
    700,
    cut(
        *((DATA / name).read_bytes()[:20000] + b"</gpu></nvidia_smi_log>" for name in ("fake-nvidia-smi-b200.xml",)),
        b"<nvidia_smi_log><gpu><uuid>x</uuid></gpu></nvidia_smi_log>",
    ),
)
def test_nvidia_smi_documents(folder: Path, data: bytes) -> None:
    del folder
    found = gpu_xml.parse(data.decode("utf-8", "replace"))
    if found is not None:
        wire.dumps(found)


@fuzzed(
    1500,
    cut(b"[   12.5] NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus.\n[ 1.0] NVRM: loading NVIDIA\n"),
)
def test_kernel_logs(folder: Path, data: bytes) -> None:
    del folder
    assert all(0 <= xid.code < 10_000 for xid in kernel_log.parse(data.decode("utf-8", "replace"), 100.0))


@fuzzed(400, cut(b"__version__ = '2.10'\ncuda: str = '12.8'\n"))
def test_torch_versions(folder: Path, data: bytes) -> None:
    file = folder / "version.py"
    file.write_bytes(data)
    found = cuda.torch(file, look=False)
    assert found is None or isinstance(found.version, str)


def _header(value: Any) -> bytes:
    text = json.dumps(value).encode()
    return struct.pack("<Q", len(text)) + text


TENSORS = {"a": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}, "__metadata__": {"format": "pt"}}


@fuzzed(1500, st.one_of(damaged(TENSORS).map(_header), cut(_header(TENSORS) + b"\0" * 4)))
def test_safetensors(folder: Path, data: bytes) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(data)
    found = safetensors_header.read(file)
    assert found.error is None or found.error
    assert not found.whole or found.needed == len(data)


INDEX = {"metadata": {"total_size": 4}, "weight_map": {"a": "model.safetensors"}}
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": 4,
    "hidden_size": 8,
    "vocab_size": 32,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
    "rope_scaling": {"type": "yarn", "factor": 2.0},
    "auto_map": {"AutoConfig": "c.C"},
    "torch_dtype": "bfloat16",
    "text_config": {"hidden_size": 8, "rope_scaling": {"factor": 2}},
}


@fuzzed(900, st.tuples(damaged(INDEX), damaged(CONFIG)))
def test_model_folders(folder: Path, drawn: Any) -> None:
    index, config = drawn
    (folder / "model.safetensors").write_bytes(_header(TENSORS) + b"\0" * 4)
    _write(folder / model_folder.INDEX, index)
    _write(folder / "config.json", config)
    found = model_folder.read(folder, wait=lambda _: None)
    assert found.exists
    with contextlib.suppress(model_config.ConfigError):
        model_config.read(folder)


SAMPLES = [
    {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]},
    {"messages": [{"role": "user", "content": "a"}]},
    {"input_ids": [1, 2], "loss_mask": [0, 1]},
]


@fuzzed(
    1800,
    st.one_of(
        damaged(*SAMPLES).map(lambda value: json.dumps(value).encode()),
        cut(*(json.dumps(each).encode() for each in SAMPLES)),
    ),
)
def test_datasets(folder: Path, line: bytes) -> None:
    file = folder / "train.jsonl"
    file.write_bytes(json.dumps(SAMPLES[0]).encode() + b"\n" + line + b"\n")
    try:
        found = list(dataset.read(str(file)))
    except dataset.DatasetError as error:
        assert "train.jsonl" in str(error)
    else:
        assert [sample.index for sample in found] == list(range(len(found)))


TRACE = b"""Traceback (most recent call last):
  File "/x.py", line 3, in f
    g()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB
(EngineCore pid=3) ERROR EngineDeadError
Retry after 9999999999999999999 seconds
"""


@fuzzed(700, st.tuples(cut(TRACE), st.integers(-300, 300), st.booleans()))
def test_logs_of_failures(folder: Path, drawn: Any) -> None:
    del folder
    data, code, progressed = drawn
    found = failures.classify(data.decode("utf-8", "replace"), code, progressed=progressed)
    assert found.kind in {"transient", "fatal", "node-fatal", "unknown"}
    progress = LineProgress.of(r"done (?P<done>\S+)/(?P<total>\S+)")
    assert progress is not None
    progress.event(b"done " + data[:200] + b"/" + data[-200:])


def _tar(members: list[tuple[str, bytes, int]], *, packed: bool = True) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT, errors="surrogateescape") as archive:
        for name, data, kind in members:
            member = tarfile.TarInfo(name)
            member.type, member.size, member.linkname = bytes([kind]), len(data), "../../canary"
            archive.addfile(member, io.BytesIO(data))
    return gzip.compress(raw.getvalue()) if packed else raw.getvalue()


NAMES = st.one_of(
    words, st.sampled_from(["a", "a/b", "a/b", "../x", "/abs", "a/../../x", "./a", "a//b", "bundle.json"])
)
MEMBERS = st.lists(st.tuples(NAMES, st.binary(max_size=20), st.sampled_from(b"0012345657xg")), max_size=5)
BARE = bundle.pack(None, {})


@fuzzed(900, st.one_of(MEMBERS, cut(_tar([("a/b", b"x", 48), ("bundle.json", b"{}", 48)])), st.binary(max_size=100)))
def test_archives_for_a_host(folder: Path, drawn: Any) -> None:
    data = drawn
    if isinstance(drawn, list):
        try:
            data = _tar(drawn)
        except (ValueError, UnicodeError, tarfile.TarError):
            return  # such a name does not go into an archive at all
    work = folder / "work"
    answer = install.install(str(work), "0" * 64, hashlib.sha256(data).hexdigest(), data)
    assert answer["outcome"] == "refused", answer
    assert answer["message"]
    left = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    assert left <= {"work", *(f"work/{room}" for room in install.ROOMS)}, "nothing is left, nothing is outside"


@fuzzed(500, st.tuples(st.one_of(MEMBERS, st.binary(max_size=100)), words))
def test_sources_from_a_host(folder: Path, drawn: Any) -> None:
    members, fingerprint = drawn
    data = members
    if isinstance(members, list):
        try:
            data = _tar(members)
        except (ValueError, UnicodeError, tarfile.TarError):
            return
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRUDENT_GATE_CACHE", str(folder / "cache"))
        for name in (fingerprint, "0" * 64):
            answer = SurfaceAnswer(fingerprint=name, python="3.11", versions={}, data=base64.b64encode(data).decode())
            with pytest.raises(PayloadCrashed):
                surface.keep(answer)
    assert {path.name for path in folder.rglob("*")} <= {"cache", "surfaces"}
