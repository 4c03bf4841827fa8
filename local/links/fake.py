"""A link of scripted answers and faults, alone or in front of a real link."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from local.errors import LinkLost
from local.links.base import Answer, Command

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from local.links.base import Link, Stream

Reply = Answer | Exception | Callable[[Command, bytes], Answer]


class FakeLink:
    """Answers by script, in order; what the script does not know goes to the link `behind`, if there is one.

    `ran` holds every command that was asked for, `reconnects` counts. While `silent` is set, nothing answers and every
    deadline passes, without anybody having to wait for it.
    """

    def __init__(self, replies: Iterable[Reply] = (), *, behind: Link | None = None) -> None:
        self.replies: deque[Reply] = deque(replies)
        self.streams: deque[FakeStream] = deque()
        self.ran: list[Command] = []
        self.reconnects = 0
        self.silent = False
        self._behind = behind
        self._drops = 0

    def drop(self, times: int = 1) -> None:
        """Lose the link at the next `times` uses."""
        self._drops += times

    def run(self, command: Command, *, stdin: bytes = b"", deadline: float = 30.0, limit: int = 64 * 2**20) -> Answer:
        """Give the next scripted answer."""
        self._use(command, deadline)
        if not self.replies:
            return self._real().run(command, stdin=stdin, deadline=deadline, limit=limit)
        reply = self.replies.popleft()
        if isinstance(reply, Exception):
            raise reply
        answer = reply if isinstance(reply, Answer) else reply(command, stdin)
        if len(answer.stdout) + len(answer.stderr) > limit:
            raise LinkLost(f"the command wrote more than {limit} bytes")
        return answer

    def stream(self, command: Command, *, stdin: bytes = b"") -> Stream:
        """Give the next scripted stream."""
        self._use(command, 0.0)
        return self.streams.popleft() if self.streams else self._real().stream(command, stdin=stdin)

    def reconnect(self) -> None:
        """Count; raises LinkLost while silent or dropping."""
        self.reconnects += 1
        self._use(None, 0.0)
        if self._behind is not None:
            self._behind.reconnect()

    def close(self) -> None:
        """Let go of the link behind."""
        if self._behind is not None:
            self._behind.close()

    def _use(self, command: Command | None, deadline: float) -> None:
        if command is not None:
            self.ran.append(command)
        if self.silent:
            raise LinkLost(f"no answer within {deadline:g} s")
        if self._drops:
            self._drops -= 1
            raise LinkLost("the connection broke")

    def _real(self) -> Link:
        if self._behind is None:
            raise AssertionError(f"nothing is scripted for {self.ran[-1]}")
        return self._behind


class FakeStream:
    """Scripted output: bytes are read, exceptions raised, and after the last of them output has ended."""

    def __init__(self, parts: Iterable[bytes | Exception], ended: Answer | None = None) -> None:
        self._parts = deque(parts)
        self._ended = ended or Answer(0, b"", b"")
        self.closed = False

    def read(self, timeout: float) -> bytes:  # noqa: ARG002 - the script says when nothing comes
        """Give the next part."""
        if self.closed or not self._parts:
            return b""
        part = self._parts.popleft()
        if isinstance(part, Exception):
            raise part
        return part

    def ending(self) -> Answer:
        """Give the scripted end."""
        return self._ended

    def close(self) -> None:
        """End reading."""
        self.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
