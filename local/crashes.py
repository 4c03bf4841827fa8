"""Our own code on a host that ended in an unforeseen way: told whole, whether it answers once or streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from local.errors import LinkLost, PayloadCrashed

if TYPE_CHECKING:
    from types import TracebackType

    from local.links.base import Answer, Stream

KILLED = {
    129: "SIGHUP",
    130: "SIGINT",
    137: "SIGKILL",
    143: "SIGTERM",
}  # exit codes as shells tell signals from outside
KEPT = 2000  # characters of each output that an account quotes
NOT_UNDERSTOOD = 2  # the payload's exit code for a request that it cannot understand


def ended(verb: str, answer: Answer, *, where: str) -> LinkLost | PayloadCrashed:
    """Give the error of a verb that ended with a code: killed over there it says no more than a lost link does."""
    signal = KILLED.get(answer.code or 0)
    if signal is None:
        return crashed(verb, f"ended with exit code {answer.code}", answer, where=where)
    return LinkLost(
        f"`{verb}` was killed on the host ({signal}), by somebody or for lack of memory, and gave no answer",
        remedy="Say the same again: it is safe. A run that was started goes on, and `extract` attaches to it.",
        where=where,
    )


def crashed(verb: str, what: str, answer: Answer, *, where: str) -> PayloadCrashed:
    """Give the account of a crash: what is known of it, and the ends of both outputs."""
    if answer.code == NOT_UNDERSTOOD:
        said = end_of(answer.stderr).rpartition("\n")[2]
        return PayloadCrashed(f"`{verb}` was not understood: {said}", where=where)
    parts = [f"`{verb}` {what}"]
    for name, output in (("stdout", answer.stdout), ("stderr", answer.stderr)):
        if text := end_of(output):
            parts.append(f"--- {name} ---\n{text}")
    return PayloadCrashed("\n".join(parts), where=where)


def end_of(output: bytes) -> str:
    """Give the end of an output as text."""
    text = output.decode("utf-8", "replace").strip()
    return text if len(text) <= KEPT else f"…{text[-KEPT:]}"


class VerbStream:
    """A verb's stream that tells a crash from an end: the one raises PayloadCrashed, the other reads as b""."""

    def __init__(self, stream: Stream, verb: str, *, where: str) -> None:
        self._stream = stream
        self._verb = verb
        self._where = where
        self._closed = False

    def read(self, timeout: float) -> bytes:
        """Give the next bytes, b"" at the end; raises LinkLost or PayloadCrashed."""
        try:
            data = self._stream.read(timeout)
        except LinkLost as error:
            error.where = error.where or self._where
            raise
        if not data and not self._closed:
            ending = self._stream.ending()
            if ending.code:  # no code at all is a matter of the link
                raise ended(self._verb, ending, where=self._where)
        return data

    def ending(self) -> Answer:
        """Tell how the verb ended."""
        return self._stream.ending()

    def close(self) -> None:
        """End reading."""
        self._closed = True
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
