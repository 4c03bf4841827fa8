"""Commands on SSH channels: bytes in, bytes out, and a deadline on everything."""

from __future__ import annotations

import contextlib
import selectors
import threading
import time
from typing import TYPE_CHECKING, Self

import paramiko

from local.errors import LinkLost, Unreachable
from local.links import forwarding
from local.links.base import Answer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from local.links.base import Command
    from local.links.connection import Connection

CHUNK = 1 << 16
KEPT = 1 << 13  # bytes of a stream's stderr that are kept
ENDING = 2.0  # seconds that the exit code may take from the end of the output
OPENING = 15.0
CROWDED = 3.0  # seconds for a session to become free
GRACE = 1.0  # what overruns its deadline by this is freed by closing the connection under it
BROKEN = (paramiko.SSHException, OSError, EOFError)


def run(connection: Connection, command: Command, stdin: bytes, deadline: float, limit: int) -> Answer:
    """Run a command to its end; raises LinkLost."""
    until = time.monotonic() + deadline
    late = f"no end within {deadline:g} s: {command.words[0]}"
    guard = threading.Timer(deadline + GRACE, connection.close, args=(late,))
    guard.daemon = True
    guard.start()
    try:
        with started(connection, command, stdin) as channel:
            return _Conversation(connection, channel, until, limit, late).answer()
    except BROKEN as error:
        raise connection.lost(f"the connection broke: {error or type(error).__name__}") from error
    finally:
        guard.cancel()


@contextlib.contextmanager
def started(connection: Connection, command: Command, stdin: bytes) -> Iterator[paramiko.Channel]:
    """Give the channel of a started command; what fails on it takes the connection along, so that nothing waits."""
    channel = _session(connection)
    try:
        if connection.lent:
            forwarding.ask(channel, connection.lent)
        start(channel, command, stdin)
        yield channel
    except BaseException:
        connection.close()
        raise
    finally:
        channel.close()  # frees its descriptors too, which Paramiko else leaves to the garbage collector


def _session(connection: Connection) -> paramiko.Channel:
    """Open a session; where the server has none to give, that of a command just ended may be free in a moment."""
    until = time.monotonic() + CROWDED
    while True:
        try:
            return connection.transport.open_session(timeout=OPENING)
        except paramiko.ChannelException as error:
            if time.monotonic() > until:
                raise Unreachable(
                    f"the server lets us in and opens no session: {error.text}",
                    remedy="Look at MaxSessions in its sshd_config, and at what else is open there.",
                ) from error
        time.sleep(0.05)


def start(channel: paramiko.Channel, command: Command, stdin: bytes) -> None:
    """Start a command on its channel and see that its input is fed."""
    channel.exec_command(str(command))
    threading.Thread(target=_feed, args=(channel, stdin), name="stdin", daemon=True).start()


class _Conversation:
    """What a command says until it ends."""

    def __init__(self, connection: Connection, channel: paramiko.Channel, until: float, limit: int, late: str) -> None:
        self._connection = connection
        self._channel = channel
        self._until = until
        self._limit = limit
        self._late = late

    def answer(self) -> Answer:
        stdout: list[bytes] = []
        stderr: list[bytes] = []
        with Readable(self._channel) as readable:
            while True:
                ended = has_ended(self._channel)  # asked first: what came before it is still read
                if drain(self._channel, stdout, stderr):
                    if sum(map(len, (*stdout, *stderr))) > self._limit:
                        raise LinkLost(f"the command wrote more than {self._limit} bytes")
                    continue
                if ended:
                    break
                if not readable.wait(self._left()):
                    raise LinkLost(self._late)
        return Answer(self._code(), b"".join(stdout), b"".join(stderr))

    def _left(self) -> float:
        return max(0.0, self._until - time.monotonic())

    def _code(self) -> int | None:
        if not self._channel.status_event.wait(self._left()):
            raise LinkLost(self._late)
        code: int = self._channel.exit_status
        if code >= 0:
            return code
        if not self._connection.alive:
            raise self._connection.lost("the connection broke")
        return None


class SshStream:
    """A command on a connection of its own whose output is read while it runs."""

    def __init__(self, connection: Connection, command: Command, stdin: bytes) -> None:
        self._connection = connection
        self._stderr: list[bytes] = []
        self._closed = False
        self._stack = contextlib.ExitStack()
        guard = threading.Timer(OPENING + GRACE, connection.close, args=("the host did not start the command",))
        guard.daemon = True
        guard.start()
        try:
            self._channel = self._stack.enter_context(started(connection, command, stdin))
        except BROKEN as error:
            connection.close()
            raise connection.lost(f"the connection broke: {error or type(error).__name__}") from error
        finally:
            guard.cancel()

    def read(self, timeout: float) -> bytes:
        """Give the next bytes, b"" at the end; raises LinkLost when none came in time or the link broke."""
        try:
            return self._next(timeout)
        except BROKEN as error:  # Paramiko answers what it reads (the window), and may find the socket gone
            if self._closed:
                return b""
            raise self._connection.lost(f"the connection broke: {error or type(error).__name__}") from error

    def _next(self, timeout: float) -> bytes:
        until = time.monotonic() + timeout
        stdout: list[bytes] = []
        with Readable(self._channel) as readable:
            while not self._closed:
                ended = has_ended(self._channel)
                drained = drain(self._channel, stdout, self._stderr)
                if stdout:
                    return b"".join(stdout)
                if ended and not drained:
                    break
                if not drained and not readable.wait(max(0.0, until - time.monotonic())):
                    raise LinkLost(f"nothing came for {timeout:g} s")
                self._stderr = [self._said()]
        if not self._closed and not self._channel.eof_received and not self._connection.alive:
            raise self._connection.lost("the connection broke")
        return b""

    def ending(self) -> Answer:
        """Tell how the command ended: its code and the end of its stderr."""
        self._channel.status_event.wait(ENDING)
        code: int = self._channel.exit_status
        return Answer(code if code >= 0 else None, b"", self._said())

    def _said(self) -> bytes:
        return b"".join(self._stderr)[-KEPT:]

    def close(self) -> None:
        """End reading by letting go of the connection: the command's next write fails."""
        self._closed = True
        self._connection.close()
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Readable:
    """Waits until a channel has something to read, or has ended."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self._selector = selectors.DefaultSelector()
        self._selector.register(channel.fileno(), selectors.EVENT_READ)

    def wait(self, timeout: float) -> bool:
        """Tell whether there is something within `timeout` seconds."""
        return bool(self._selector.select(timeout))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()


def has_ended(channel: paramiko.Channel) -> bool:
    """Tell whether no more output will come (what has come may still wait to be read)."""
    return bool(channel.eof_received or channel.closed)


def drain(channel: paramiko.Channel, stdout: list[bytes], stderr: list[bytes]) -> bool:
    """Take what is there, without waiting; tells whether there was anything."""
    found = False
    if channel.recv_ready():
        stdout.append(channel.recv(CHUNK))
        found = True
    if channel.recv_stderr_ready():
        stderr.append(channel.recv_stderr(CHUNK))
        found = True
    return found


def _feed(channel: paramiko.Channel, stdin: bytes) -> None:
    """Send the input; a command that wants no more of it is not a failure."""
    with contextlib.suppress(*BROKEN):
        for at in range(0, len(stdin), CHUNK):  # sendall copies all that is left at every packet
            channel.sendall(stdin[at : at + CHUNK])
        channel.shutdown_write()
