"""Kill a process between any two system calls that change something: counted with ptrace, on Linux, by ourselves.

`Trace(act, kill_at=k)` forks, lets the child act, and kills it right before its k-th such call (from 1); with `torn` a
writing call is let write half of its bytes first. Standard library only; the process that traces has one thread.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import signal
import struct
import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

TRACEME, SYSCALL, SETOPTIONS, GETREGSET, SETREGSET = 0, 24, 0x4200, 0x4204, 0x4205
TRACE_SYSTEM_CALLS_APART, KILL_WITH_TRACER = 1, 1 << 20
GENERAL_REGISTERS = 1
CREATE = os.O_CREAT
WRITE = "write"
# number → name; and where the registers hold the number, the flags of openat and the length of a write
MACHINES = {
    "x86_64": (
        {1: WRITE, 18: WRITE, 20: "writev", 74: "fsync", 75: "fdatasync", 76: "truncate", 77: "ftruncate", 82: "rename",
         83: "mkdir", 84: "rmdir", 87: "unlink", 88: "symlink", 90: "chmod", 91: "fchmod", 257: "openat",
         258: "mkdirat",
         263: "unlinkat", 264: "renameat", 316: "renameat2", 56: "clone", 57: "fork", 58: "vfork", 435: "clone3",
         73: "flock", 285: "fallocate"},
        15, 12, 12,
    ),
    "aarch64": (
        {64: WRITE, 68: WRITE, 66: "writev", 82: "fsync", 83: "fdatasync", 45: "truncate", 46: "ftruncate",
         34: "mkdirat", 35: "unlinkat", 36: "symlinkat", 38: "renameat", 52: "fchmod", 53: "fchmodat", 56: "openat",
         276: "renameat2", 220: "clone", 435: "clone3", 32: "flock",
         47: "fallocate"},
        8, 2, 2,
    ),
}  # fmt: skip
SUPPORTED = platform.system() == "Linux" and platform.machine() in MACHINES
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_LIBC.ptrace.restype = ctypes.c_long


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


@dataclass
class Trace:
    """What happened: the names of the calls that were made, and whether the child came to its end by itself."""

    act: Callable[[], object]
    kill_at: int | None = None
    torn: bool = False
    calls: list[str] = field(default_factory=list)
    finished: bool = False

    def go(self) -> Trace:
        """Fork, act, kill."""
        pid = os.fork()
        if not pid:
            _child(self.act)
        os.waitpid(pid, 0)
        _ptrace(SETOPTIONS, pid, TRACE_SYSTEM_CALLS_APART | KILL_WITH_TRACER)
        self._follow(pid)
        return self

    def _follow(self, pid: int) -> None:
        number, entering = 0, True
        while True:
            _ptrace(SYSCALL, pid, number)
            _, status = os.waitpid(pid, 0)
            if not os.WIFSTOPPED(status):
                code = os.waitstatus_to_exitcode(status)
                self.finished = code >= 0
                return
            number = os.WSTOPSIG(status)
            if number != signal.SIGTRAP | 0x80:  # a signal of its own: it goes on to the child
                continue
            number = 0
            if entering and self._enter(pid):
                return
            entering = not entering

    def _enter(self, pid: int) -> bool:
        """Count a call; kill when it is time. True when that is done."""
        names, at_number, at_flags, at_length = MACHINES[platform.machine()]
        registers = _registers(pid)
        name = names.get(registers[at_number])
        if name is None or (name == "openat" and not registers[at_flags] & CREATE):
            return False
        self.calls.append(name)
        if len(self.calls) != self.kill_at:
            return False
        if self.torn and name == WRITE and registers[at_length] > 1:
            registers[at_length] //= 2
            _set_registers(pid, registers)
            _ptrace(SYSCALL, pid, 0)
            os.waitpid(pid, 0)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return True


def _child(act: Callable[[], object]) -> None:
    code = 1
    with contextlib.suppress(BaseException):
        _ptrace(TRACEME, 0, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        try:
            act()
            code = 0
        except BaseException:  # noqa: BLE001 - its end is the answer
            traceback.print_exc()
    os._exit(code)


def _ptrace(request: int, pid: int, data: int) -> None:
    if _LIBC.ptrace(request, pid, None, data) == -1:
        raise OSError(ctypes.get_errno(), f"ptrace {request}")


def _registers(pid: int) -> list[int]:
    buffer = ctypes.create_string_buffer(512)
    vector = _Vector(ctypes.addressof(buffer), len(buffer))
    if _LIBC.ptrace(GETREGSET, pid, GENERAL_REGISTERS, ctypes.addressof(vector)) == -1:
        raise OSError(ctypes.get_errno(), "ptrace: reading registers")
    return list(struct.unpack_from(f"{vector.length // 8}Q", buffer.raw))


def _set_registers(pid: int, registers: list[int]) -> None:
    data = struct.pack(f"{len(registers)}Q", *registers)
    buffer = ctypes.create_string_buffer(data, len(data))
    vector = _Vector(ctypes.addressof(buffer), len(data))
    if _LIBC.ptrace(SETREGSET, pid, GENERAL_REGISTERS, ctypes.addressof(vector)) == -1:
        raise OSError(ctypes.get_errno(), "ptrace: writing registers")
