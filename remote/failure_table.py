"""The texts by which failed attempts are known: data, read from top to bottom, the specific before the general.

A **root** names what went wrong; a **cascade** is what other parts say because of it and counts only when no root is
found. `general` rows are exception types: they count only where a traceback ends, never inside a sentence.
Kinds: transient (the same attempt may pass), fatal (it will not), node-fatal (not on this host).
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One known text. `budget` caps the retries below the job's own; `at_start` rows count only before any progress."""

    pattern: re.Pattern[str]
    kind: str
    cause: str
    advice: str
    role: str = "root"
    budget: int | None = None
    at_start: bool = False
    then: str | None = None  # the kind that it becomes when its budget is spent
    own: bool = False  # the user's: it decides before all others
    if_reaped: str | None = None  # the kind that it has when leftovers of an earlier attempt had to be ended


def _text(pattern: str, kind: str, cause: str, advice: str, **more: object) -> Row:
    return Row(pattern=re.compile(pattern), kind=kind, cause=cause, advice=advice, **more)  # type: ignore[arg-type]


def _raised(names: str, kind: str, cause: str, advice: str, **more: object) -> Row:
    return _text(rf"^(?:\w+\.)*(?:{names})(?::|$)", kind, cause, advice, role="general", **more)


# What never decides, with all that follows in its line: advice, noise of a shutdown, and single samples that failed
# while the others went on.
ADVICE = re.compile(
    r"CUDA_LAUNCH_BLOCKING|TORCH_USE_CUDA_DSA|CUDA kernel errors might be asynchronously reported"
    r"|prudent-gate: sample \d+ failed|resource_tracker:|NCCL_DEBUG=|For debugging consider"
    r"|PYTORCH_(?:CUDA_)?ALLOC_CONF"
)

ROWS = (
    # the host's GPUs and driver
    _text(r"NVRM: Xid \([^)]*\): (?:46|48|64|74|79|95|119)\b|has fallen off the bus", "node-fatal", "gpu-hardware",
          "The GPU reported a hardware fault; move the job to another host and have this one looked at."),
    _text(r"NVRM: Xid \([^)]*\): (?:8|11|13|31|43|45)\b", "transient", "gpu-application-fault",
          "The driver ended the program on the GPU (an application-side Xid)."),
    _text(r"uncorrectable ECC error", "transient", "gpu-ecc",
          "The GPU's memory has an uncorrectable error; one restart remaps the page, a second one means a bad GPU.",
          budget=1, then="node-fatal"),
    _text(r"Error 802: system not yet initialized", "fatal", "fabric-manager",
          "The NVSwitch fabric is not up: start nvidia-fabricmanager in exactly the driver's version."),
    _text(r"Driver/library version mismatch", "fatal", "driver-mismatch",
          "The driver was updated under the running kernel module: reboot the host."),
    _text(r"provided PTX was compiled with an unsupported toolchain", "fatal", "driver-too-old",
          "The driver is older than the CUDA version that the kernels were built with: update it."),
    _text(r"no kernel image is available for execution|sm_\d+ is not compatible", "fatal", "torch-without-arch",
          "The installed torch was not built for this GPU: install a build that lists its architecture."),
    _text(r"CUDA error: an illegal memory access|CUDA error: device-side assert", "transient", "illegal-memory-access",
          "A kernel touched memory that is not its own; some of these come back at the same place every time.",
          budget=1),
    # memory and disk: what is said about /dev/shm before what is said about disks
    _text(r"(?:torch\.(?:cuda\.)?OutOfMemoryError|CUDA out of memory|HIP out of memory)", "fatal", "gpu-out-of-memory",
          "Lower batch_size, max_model_len or memory_fraction; the same settings fail again.", if_reaped="transient"),
    _text(r"Free memory on device .* is less than desired GPU memory utilization", "fatal", "gpu-memory-taken",
          "Somebody else holds GPU memory, or memory_fraction is too high.", if_reaped="transient"),
    _text(r"Error in memory profiling\. Initial free memory", "transient", "memory-profiling-race",
          "Another process let go of GPU memory while vLLM measured it.", budget=1),
    _text(r"posix_fallocate failed: No space left on device|/dev/shm.*No space left|shared memory.*No space left",
          "fatal", "shm-too-small", "Make /dev/shm larger (containers: --shm-size or --ipc=host)."),
    _text(r"No space left on device|\bos error 28\b|StorageFull|PytorchStreamWriter failed writing file",
          "fatal", "disk-full", "Free space on the output's file system, then run `extract` again: it goes on."),
    _text(r"File too large|\[Errno 27\]", "fatal", "file-too-large",
          "A sample is larger than the output's file system (or `ulimit -f`) allows for one file: move the output."),
    _text(r"Disk quota exceeded", "fatal", "disk-quota",
          "Raise the quota or move the output, then run `extract` again."),
    _text(r"[Oo]ut of memory: Killed process|oom-kill:"
          r"|DefaultCPUAllocator: (?:can't|not enough)|Cannot allocate memory",
          "fatal", "host-out-of-memory", "The host ran out of memory: give it more, or ask for less at once."),
    # races that pass: before the generic texts that they contain
    _text(r"(?:\.triton/cache|TRITON_CACHE|/triton/).*(?:No such file|FileNotFoundError|Stale file handle)"
          r"|(?:FileNotFoundError|No such file or directory|Stale file handle).*(?:\.triton/|triton_?cache)",
          "transient", "triton-cache-race", "Several processes share a Triton cache: give the job a local one."),
    _text(r"EADDRINUSE|[Aa]ddress already in use|The server socket has failed to listen", "transient", "port-taken",
          "The port was taken between choosing and using it."),
    _text(r"MetadataIncompleteBuffer|failed finding central directory", "transient", "damaged-file",
          "A weight or sample file is damaged: fetch it again or delete it (samples are computed anew).",
          budget=1, then="fatal"),
    _text(r"GatedRepoError|Cannot access gated repo|is restricted\. You must have access", "fatal", "gated-model",
          "Accept the model's licence and give a token that may read it (secret_env = [\"HF_TOKEN\"])."),
    _text(r"(?:HTTP(?: Error|Error)?|Client Error|Server Error|status(?: code)?)\W{0,4}(?:429|50[0234])\b"
          r"|\b(?:429|50[0234]) (?:Client|Server) Error|Too Many Requests", "transient", "hub-busy",
          "The model hub was overloaded or is limiting requests."),
    _text(r"EOFError: marshal data too short|ValueError: bad marshal data", "transient", "damaged-bytecode",
          "A full disk left half a file in the bytecode cache; it is taken out before the next attempt."),
    # collectives: a timeout of an operation is a root, everything else there follows from something
    _text(r"NCCL.*(?:[Ii]nvalid usage|[Ii]nvalid argument)", "fatal", "nccl-usage",
          "NCCL was called wrongly: a fault of the code or of its versions."),
    _text(r"Watchdog caught collective operation timeout", "transient", "collective-timeout",
          "A collective did not finish in time: most often one rank waited for storage or had died.", budget=3),
    _text(r"ncclRemoteError|remote process exited or there was a network error|ncclSystemError"
          r"|NCCL.*(?:timeout|watchdog|abort|unhandled system error)|ProcessGroup\w*.*abort",
          "transient", "nccl-cascade", "A rank died or its network broke; its own words are missing.",
          role="cascade", budget=3),
    _text(r"RPC call to \S+ timed out", "transient", "engine-rpc-timeout",
          "The engine's workers stopped answering.", role="cascade", budget=3),
    _text(r"EngineDeadError|Engine core initialization failed|Failed core proc\(s\)|WorkerProc hit an exception"
          r"|Executor failed|Worker proc \S+ died unexpectedly",
          "transient", "engine-died", "The engine died without a word of its own.",
          role="cascade", budget=1),
    _text(r"Connection reset by peer|Connection closed by peer|Broken pipe|EOFError", "transient", "peer-gone",
          "Another process of the job went away.", role="cascade"),
    # data
    _text(r"[Hh]idden.states?\b.*\b(?:NaN|nan|[Ii]nf|not finite|all zeros?)\b", "fatal", "bad-hidden-states",
          "The hidden states are not finite or zero: the same input gives the same again."),
    _text(r"^prudent-gate: (?:DatasetError|WireError): ", "fatal", "unusable-job",
          "The job or its dataset cannot be used as it is; the line says where."),
    _text(r"^prudent-gate: OutputMixed: ", "fatal", "other-model",
          "Outputs of two models in one folder would be trained from as one."),
    _raised("MemoryError", "fatal", "host-out-of-memory",
            "The host ran out of memory: give it more, or ask for less at once."),
    # exception types: deterministic faults of code, versions and settings
    _raised("ImportError|ModuleNotFoundError", "fatal", "import",
            "The environment lacks a package or has another version."),
    _text(r"^(?:\w+\.)*TypeError: .*(?:unexpected keyword|required positional|required keyword|takes .* argument)",
          "fatal", "signature", "Code and installed package do not fit: `fab preflight` names the call.",
          role="general"),
    _raised("AttributeError|NameError|SyntaxError|IndentationError", "fatal", "code",
            "Code and installed package do not fit, or the script is wrong."),
    _raised("PermissionError", "fatal", "permission",
            "Give the user of the job access to the path named.", at_start=True),
    _raised("FileNotFoundError|NotADirectoryError|IsADirectoryError", "fatal", "no-such-file",
            "A path of the job is wrong.", at_start=True),
    _raised("(?:pydantic_core\\._pydantic_core\\.)?ValidationError|ValueError|KeyError|AssertionError", "fatal",
            "config", "A setting of the job is wrong.", at_start=True),
)  # fmt: skip
