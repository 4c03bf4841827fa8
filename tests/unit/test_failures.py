from __future__ import annotations

from pathlib import Path

import pytest

from remote.failure_table import ROWS
from remote.failures import classify, with_patterns
from remote.schema import Pattern

TRACE = 'Traceback (most recent call last):\n  File "/opt/job/extract.py", line 41, in main\n    engine.run()\n'
# One realistic log per row: what a job prints around the words, in our own words.
LOGS = [
    ("kernel: NVRM: Xid (PCI:0000:1b:00): 79, pid=1234, GPU has fallen off the bus.", "node-fatal", "gpu-hardware"),
    ("kernel: NVRM: Xid (PCI:0000:1b:00): 48, pid=77, name=python3, double bit", "node-fatal", "gpu-hardware"),
    ("kernel: NVRM: Xid (PCI:0000:1b:00): 31, pid=77, name=python3, MMU Fault", "transient", "gpu-application-fault"),
    ("kernel: NVRM: Xid (PCI:0000:1b:00): 46, pid=77, name=python3, timeout", "node-fatal", "gpu-hardware"),
    ("kernel: NVRM: Xid (PCI:0000:1b:00): 64, ECC page retirement", "node-fatal", "gpu-hardware"),
    ("kernel: NVRM: Xid (PCI:0000:1b:00): 74, NVLink: fatal error", "node-fatal", "gpu-hardware"),
    ("kernel: NVRM: Xid (PCI:0000:1b:00): 95, Uncontained ECC error", "node-fatal", "gpu-hardware"),
    ("kernel: NVRM: Xid (PCI:0000:1b:00): 119, Timeout waiting for RPC from GSP", "node-fatal", "gpu-hardware"),
    ("kernel: NVRM: Xid (PCI:0000:1b:00): 8, pid=77, name=python3", "transient", "gpu-application-fault"),
    ("kernel: NVRM: Xid (PCI:0000:1b:00): 11, pid=77, name=python3", "transient", "gpu-application-fault"),
    ("kernel: NVRM: Xid (PCI:0000:1b:00): 13, Graphics SM Warp Exception", "transient", "gpu-application-fault"),
    ("kernel: NVRM: Xid (PCI:0000:1b:00): 43, pid=77, Ch 00000008", "transient", "gpu-application-fault"),
    ("kernel: NVRM: Xid (PCI:0000:1b:00): 45, pid=77, Ch 00000009", "transient", "gpu-application-fault"),
    (TRACE + "RuntimeError: CUDA error: uncorrectable ECC error encountered", "transient", "gpu-ecc"),
    (TRACE + "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized",
     "fatal", "fabric-manager"),
    ("Failed to initialize NVML: Driver/library version mismatch", "fatal", "driver-mismatch"),
    ("CUDA error: the provided PTX was compiled with an unsupported toolchain.", "fatal", "driver-too-old"),
    ("CUDA error: no kernel image is available for execution on the device", "fatal", "torch-without-arch"),
    ("UserWarning: NVIDIA B200 with CUDA capability sm_100 is not compatible with the current PyTorch installation",
     "fatal", "torch-without-arch"),
    (TRACE + "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
     "transient", "illegal-memory-access"),
    (TRACE + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has 1.1 GiB free.",
     "fatal", "gpu-out-of-memory"),
    (TRACE + "ValueError: Free memory on device (11.2/178.4 GiB) on startup is less than desired GPU memory utilization"
     " (0.8, 142.7 GiB).", "fatal", "gpu-memory-taken"),
    (TRACE + "AssertionError: Error in memory profiling. Initial free memory 150.1 GiB, current 160.2 GiB.",
     "transient", "memory-profiling-race"),
    ("gpu01:41:88 [3] include/shm.h NCCL WARN Call to posix_fallocate failed: No space left on device",
     "fatal", "shm-too-small"),
    (TRACE + "OSError: [Errno 28] No space left on device: '/data/hidden_states/data_812.pt'", "fatal", "disk-full"),
    (TRACE + "RuntimeError: PytorchStreamWriter failed writing file data/3: file write failed", "fatal", "disk-full"),
    (TRACE + "OSError: [Errno 122] Disk quota exceeded", "fatal", "disk-quota"),
    (TRACE + "OSError: [Errno 27] File too large", "fatal", "file-too-large"),
    (TRACE + "safetensors_rust.SafetensorError: Error while serializing: IoError(Os { code: 28, kind: StorageFull })",
     "fatal", "disk-full"),
    (TRACE + "RuntimeError: I/O error: No space left (os error 28)", "fatal", "disk-full"),
    (TRACE + "MemoryError", "fatal", "host-out-of-memory"),
    (TRACE + "numpy.MemoryError: Unable to allocate 12.0 GiB", "fatal", "host-out-of-memory"),
    (TRACE + "RuntimeError: [enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.",
     "fatal", "host-out-of-memory"),
    ("kernel: Memory cgroup out of memory: Killed process 91 (VLLM::Worker) total-vm:9kB", "fatal",
     "host-out-of-memory"),
    ("prudent-gate: OutputMixed: the output folder /o holds 7 samples of another model (ab, this one is cd): …",
     "fatal", "other-model"),
    ("kernel: Out of memory: Killed process 4711 (python3) total-vm:200GB", "fatal", "host-out-of-memory"),
    (TRACE + "FileNotFoundError: [Errno 2] No such file or directory: '/home/u/.triton/cache/ab12/kernel.json'",
     "transient", "triton-cache-race"),
    (TRACE + "OSError: [Errno 116] Stale file handle: '/nfs/u/.triton/cache/ab12/kernel.so'",
     "transient", "triton-cache-race"),
    (TRACE + "OSError: [Errno 98] Address already in use", "transient", "port-taken"),
    (TRACE + "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address.",
     "transient", "port-taken"),
    (TRACE + "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer",
     "transient", "damaged-file"),
    (TRACE + "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
     "transient", "damaged-file"),
    (TRACE + "OSError: Cannot access gated repo for url https:// …", "fatal", "gated-model"),
    (TRACE + "OSError: Access to model owner/name is restricted. You must have access to it", "fatal", "gated-model"),
    (TRACE + "huggingface_hub.errors.GatedRepoError: 401 Client Error. Access denied", "fatal", "gated-model"),
    (TRACE + "huggingface_hub.errors.HfHubHTTPError: 429 Client Error: Too Many Requests for url: …",
     "transient", "hub-busy"),
    (TRACE + "requests.exceptions.HTTPError: 503 Server Error: Service Unavailable", "transient", "hub-busy"),
    (TRACE + "torch.distributed.DistBackendError: NCCL error: invalid usage, run again", "fatal", "nccl-usage"),
    (TRACE + "torch.distributed.DistBackendError: NCCL error in: x.cpp:90, invalid argument", "fatal", "nccl-usage"),
    (TRACE + "torch.distributed.DistBackendError: ncclRemoteError: remote process exited or there was a network error",
     "transient", "nccl-cascade"),
    ("[rank1]: ProcessGroupNCCL's watchdog got stuck; the process will abort", "transient", "nccl-cascade"),
    (TRACE + "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.", "transient", "engine-died"),
    (TRACE + "EOFError", "transient", "peer-gone"),
    (TRACE + "EOFError: marshal data too short", "transient", "damaged-bytecode"),
    (TRACE + "ValueError: bad marshal data (unknown type code)", "transient", "damaged-bytecode"),
    (TRACE + "SampleInvalid: hidden states 2 are not finite (NaN or infinity)", "fatal", "bad-hidden-states"),
    (TRACE + "ValueError: hidden_states of sample 3 contain NaN", "fatal", "bad-hidden-states"),
    ("hidden states 4 are all zero", "fatal", "bad-hidden-states"),
    ("[rank3]:[E1130 11:02:03] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=41)",
     "transient", "collective-timeout"),
    (TRACE + "torch.distributed.DistBackendError: NCCL error: unhandled system error", "transient", "nccl-cascade"),
    (TRACE + "TimeoutError: RPC call to sample_tokens timed out.", "transient", "engine-rpc-timeout"),
    (TRACE + "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
     "transient", "engine-died"),
    (TRACE + "ConnectionResetError: [Errno 104] Connection reset by peer", "transient", "peer-gone"),
    ("prudent-gate: DatasetError: /data/train.jsonl line 7: not JSON", "fatal", "unusable-job"),
    ("sample 17: hidden states of layer 30 are not finite", "fatal", "bad-hidden-states"),
    (TRACE + "ImportError: cannot import name 'x' from 'vllm'", "fatal", "import"),
    (TRACE + "ModuleNotFoundError: No module named 'speculators.data_generation'", "fatal", "import"),
    ("(EngineCore_DP0 pid=81) ERROR 11-30 11:02:03 [core.py:94] TypeError: f() missing 1 required positional argument",
     "fatal", "signature"),
    (TRACE + "TypeError: get_kv_cache_config_from_groups() got an unexpected keyword argument 'kv_cache_specs'",
     "fatal", "signature"),
    (TRACE + "AttributeError: 'LlamaModel' object has no attribute 'get_input_embeddings'", "fatal", "code"),
    (TRACE + "PermissionError: [Errno 13] Permission denied: '/data/train.jsonl'", "fatal", "permission"),
    (TRACE + "FileNotFoundError: [Errno 2] No such file or directory: '/data/train.jsonl'", "fatal", "no-such-file"),
    (TRACE + "pydantic_core._pydantic_core.ValidationError: 1 validation error for SchedulerConfig", "fatal", "config"),
]  # fmt: skip


@pytest.mark.parametrize(("log", "kind", "cause"), LOGS, ids=[f"{index}-{row[2]}" for index, row in enumerate(LOGS)])
def test_known_texts_are_known_amid_a_log(log: str, kind: str, cause: str) -> None:
    noise = "INFO 11-30 11:00:00 [loader.py:1] Loading weights 40%\rLoading weights 80%\n"
    failure = classify(noise + log + "\nCUDA_LAUNCH_BLOCKING=1 may help\n", 1)
    assert (failure.kind, failure.cause) == (kind, cause)
    assert failure.root_line is not None
    assert failure.root_line in log
    assert failure.advice


def test_every_row_has_a_log() -> None:
    assert {row.cause for row in ROWS} == {cause for _, _, cause in LOGS}


def test_every_cause_is_in_the_documents() -> None:
    told = (Path(__file__).parents[2] / "docs" / "failures.md").read_text(encoding="utf-8")
    assert {row.cause for row in ROWS if f"`{row.cause}`" not in told} == set()


def test_the_root_comes_before_its_cascade_wherever_it_stands() -> None:
    log = (
        "EngineDeadError: EngineCore encountered an issue.\n"
        "RuntimeError: NCCL error: unhandled system error\n"
        "(Worker_TP3 pid=4) ERROR [worker.py:9] torch.OutOfMemoryError: CUDA out of memory.\n"
        "RuntimeError: Engine core initialization failed. See root cause above.\n"
    )
    assert classify(log, 1).cause == "gpu-out-of-memory"


def test_the_earliest_root_decides() -> None:
    first, second = "OSError: [Errno 98] Address already in use", "OSError: [Errno 28] No space left on device"
    assert classify(f"{first}\n{second}", 1).cause == "port-taken"
    assert classify(f"{second}\n{first}", 1).cause == "disk-full"


def test_a_warning_decides_only_when_nothing_else_does() -> None:
    warning = "WARNING: 429 Client Error: Too Many Requests; trying again in 1 s"
    assert classify(warning, 1).cause == "hub-busy"
    assert classify(f"{warning}\nModuleNotFoundError: No module named 'vllm'", 1).cause == "import"


@pytest.mark.parametrize(
    "line",
    [
        "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions, CUDA out of memory",
        "resource_tracker: There appear to be 3 leaked shared_memory objects, No space left on device",
        "prudent-gate: sample 17 failed: train.jsonl line 4: hidden states are not finite",
        "For debugging consider passing CUDA_LAUNCH_BLOCKING=1: an illegal memory access",
    ],
)
def test_advice_never_decides(line: str) -> None:
    assert classify(line, 1).cause == "unknown"


def test_exception_names_inside_a_sentence_do_not_decide() -> None:
    assert classify("INFO: falling back because of ImportError: flash_attn", 1).cause == "unknown"


def test_settings_are_blamed_only_before_any_progress() -> None:
    log = TRACE + "ValueError: max_model_len is too large"
    assert classify(log, 1).kind == "fatal"
    assert classify(log, 1, progressed=True).kind == "unknown"


def test_taken_memory_is_transient_when_leftovers_were_ended() -> None:
    log = "ValueError: Free memory on device (1/2 GiB) on startup is less than desired GPU memory utilization"
    assert classify(log, 1, reaped=True).kind == "transient"
    out = "torch.OutOfMemoryError: CUDA out of memory."
    assert (classify(out, 1).kind, classify(out, 1, reaped=True).kind) == ("fatal", "transient")


@pytest.mark.parametrize(
    ("code", "log", "kind", "cause"),
    [
        (75, "busy", "transient", "temporary"),
        (127, "sh: 1: extract: not found", "fatal", "command-not-found"),
        (137, "working", "unknown", "sigkill"),
        (139, "working", "unknown", "sigsegv"),
        (135, "working", "unknown", "sigbus"),
        (143, "working", "unknown", "sigterm"),
        (1, "", "transient", "no-output"),
        (1, "working", "unknown", "unknown"),
        (250, "working", "unknown", "signal-122"),
    ],
)
def test_without_a_known_text_the_exit_code_speaks(code: int, log: str, kind: str, cause: str) -> None:
    failure = classify(log, code)
    assert (failure.kind, failure.cause, failure.root_line) == (kind, cause, log or None)


@pytest.mark.parametrize("log", ["first\n\nlast words\n\n", "10%\r20%\rlast words\r\n", "x" * 9000 + "\nlast words"])
def test_an_unknown_failure_quotes_what_was_said_last(log: str) -> None:
    assert classify(log, 1).root_line == "last words"


def test_a_kill_for_memory_is_told_whatever_the_log_says() -> None:
    assert classify("Connection reset by peer", 137, out_of_memory=True).cause == "host-out-of-memory"
    assert classify("working", 1, out_of_memory=True).cause == "unknown"
    # A worker that the kernel killed has no words of its own: others say that it is gone.
    cascade = "RuntimeError: WorkerProc hit an exception."
    assert classify(cascade, 1).cause == "engine-died"
    failure = classify(cascade, 1, out_of_memory=True)
    assert (failure.cause, failure.root_line) == ("host-out-of-memory", cascade)
    assert classify("OSError: [Errno 98] Address already in use", 1, out_of_memory=True).cause == "port-taken"


@pytest.mark.parametrize("log", ["\0\x1b[31m\n" * 50, "x" * 1_000_000, "(" * 20_000, "[" * 20_000, "\r" * 10_000])
def test_hostile_logs_are_just_unknown(log: str) -> None:
    assert classify(log, 1).kind in ("unknown", "transient")


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        # The general text would take each of these: the specific row must stand before it.
        ("FileNotFoundError: [Errno 2] No such file or directory: '/h/.triton/cache/x.json'", "triton-cache-race"),
        ("NCCL WARN Error while creating shared memory segment /dev/shm/nccl-ab12 (size 9): No space left on device",
         "shm-too-small"),
        ("torch.distributed.DistBackendError: NCCL watchdog: Watchdog caught collective operation timeout",
         "collective-timeout"),
        ("ValueError: Free memory on device (1/9 GiB) on startup is less than desired GPU memory utilization (0.8)",
         "gpu-memory-taken"),
        ("AssertionError: Error in memory profiling. Initial free memory 1 GiB", "memory-profiling-race"),
        ("huggingface_hub.errors.GatedRepoError: 401 Client Error, retry after 429 Client Error", "gated-model"),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered, an illegal memory access", "gpu-ecc"),
        ("RuntimeError: PytorchStreamWriter failed writing file: OSError: [Errno 122] x", "disk-full"),
    ],
)  # fmt: skip
def test_the_specific_comes_before_the_general(line: str, cause: str) -> None:
    assert classify(TRACE + line, 1).cause == cause


OWN = (
    Pattern(match=r"storage gateway \d+ is resting", kind="transient", cause="gateway", advice="It wakes up."),
    Pattern(match="No space left", kind="node-fatal"),
)


def test_the_jobs_own_patterns_come_before_ours() -> None:
    rows = with_patterns(OWN)
    failure = classify(TRACE + "OSError: storage gateway 7 is resting: Address already in use", 1, rows=rows)
    assert (failure.kind, failure.cause, failure.advice) == ("transient", "gateway", "It wakes up.")
    failure = classify("OSError: [Errno 28] No space left on device", 1, rows=rows)
    assert (failure.kind, failure.cause) == ("node-fatal", "own-pattern")
    assert failure.advice
    assert classify("OSError: [Errno 98] Address already in use", 1, rows=rows).cause == "port-taken"


@pytest.mark.parametrize("prefix", ["", "WARNING: ", "prudent-gate: sample 3 failed: ", "CUDA_LAUNCH_BLOCKING "])
def test_the_jobs_own_patterns_decide_wherever_they_stand(prefix: str) -> None:
    log = f"OSError: [Errno 98] Address already in use\n{prefix}storage gateway 7 is resting"
    assert classify(log, 1, progressed=True, rows=with_patterns(OWN)).cause == "gateway"


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        (Pattern(match="(", kind="fatal"), r"retry\.patterns\[1\]\.match: not a regular expression"),
        (
            Pattern(match="x", kind="unknown"),
            r"retry\.patterns\[1\]\.kind: expected one of transient, fatal, node-fatal",
        ),
    ],
)
def test_a_pattern_that_is_none_is_named(pattern: Pattern, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        with_patterns((OWN[0], pattern))


@pytest.mark.parametrize(
    ("line", "seconds"),
    [("429 Client Error: Too Many Requests. Retry after 42 seconds", 42.0), ("HTTP 503, Retry-After: 7", 7.0),
     ("429 Client Error", 0.0), ("503 Server Error, retry after 99999 s", 900.0)],
)  # fmt: skip
def test_who_refuses_us_says_how_long_to_stay_away(line: str, seconds: float) -> None:
    assert classify(line, 1).wait == seconds
