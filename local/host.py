"""One host's payload: find its Python, push a bundle, call a verb, get the answer as a dataclass."""

from __future__ import annotations

import base64
import time
import zlib
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeVar

import remote
from local import answers, frames, startup
from local.crashes import NOT_UNDERSTOOD, VerbStream, crashed, end_of, ended
from local.errors import LinkLost, Unreachable
from local.interpreter import ECHO, Unexplained, no_shell, old, too_old, why_not
from local.links.base import Answer, Command
from remote import wire
from remote.paths import Workdir

if TYPE_CHECKING:
    from local.bundle import Packed
    from local.links.base import Link, Stream
    from remote.schema import RecallRequest

T = TypeVar("T")
SHELL = 15.0  # seconds for a word from the login shell
RECALL = 60.0  # seconds for an answer with facts in it: nvidia-smi may take its time
FRESH = 10.0  # seconds for which what connecting found is as good as asking again
HOME = '${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}'  # a session without one: as Python finds it then
ISOLATED = ("-I", "-B")  # neither the user's site-packages nor PYTHON* variables, and no bytecode beside the sources


@dataclass(frozen=True, kw_only=True, slots=True)
class Reached:
    """What the bootstrap found on the host; `asked` is this machine's clock when the host read its own as `now`.

    `recalled` is the encoded answer to the question that went along, None where the host had nothing to say to it.
    """

    python_version: str
    home: str
    user: str
    now: float
    workdir: str
    bundles: tuple[str, ...]
    executable: str = ""  # this Python, as a path
    recalled: str | None = None
    notices: tuple[str, ...] = ()  # what the user should know of the place that our files are in
    took: float = 0.0
    asked: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class _Look:
    """A reach that nobody has looked at yet: what went along, and when the answer came (monotonic)."""

    reached: Reached
    question: RecallRequest | None
    at: float


@dataclass(frozen=True, kw_only=True, slots=True)
class _Installed:
    outcome: str
    message: str = ""


class Host:
    """One host, through one link. `workdir` and `python` may start with `~/`: the host's home, once it is reached."""

    def __init__(self, link: Link, *, name: str, python: str, workdir: str) -> None:
        self.link = link
        self.name = name
        self._python = python
        self._workdir = workdir
        self._reached: Reached | None = None
        self._look: _Look | None = None
        self._bundles: set[str] = set()

    def __repr__(self) -> str:
        return f"<host {self.name}, python {self._python}, workdir {self._workdir}>"

    @property
    def reached(self) -> Reached:
        """Give what the first reach found; reaches the host when nothing has yet."""
        return self._reached or self.reach()

    @property
    def workdir(self) -> str:
        """Give the absolute working folder on the host."""
        return self.reached.workdir

    @property
    def python(self) -> str:
        """Give the job's Python as the host names it: a path, also where the inventory has a bare name."""
        if self._python.startswith("~/"):
            return str(PurePosixPath(self.reached.home) / self._python[2:])
        return self._python if "/" in self._python else self.reached.executable or self._python

    def reach(self, deadline: float = 15.0, *, question: RecallRequest | None = None) -> Reached:
        """Start the host's Python once, with a question to go along; raises Unreachable that says what is wrong."""
        words: tuple[str, ...] = ("reach", self._workdir)
        stdin = b""
        if question is not None:
            words, stdin, deadline = (*words, question.bundle), _document(question), RECALL
        before, began = time.time(), time.monotonic()
        reached = self._understand(self._bootstrap(*words, stdin=stdin, deadline=deadline), Reached)
        if too_old(reached.python_version):
            raise old(self._python, reached.python_version, where=self.name)
        self._reached = replace(reached, asked=before + (time.monotonic() - began - reached.took) / 2)
        self._bundles = set(reached.bundles)
        self._look = _Look(reached=self._reached, question=question, at=time.monotonic())
        return self._reached

    def look(self, question: RecallRequest | None = None) -> Reached:
        """Give what reaching the host finds now: connecting has just asked the same, or the host is asked again."""
        last, self._look = self._look, None
        if last is not None and last.question == question and time.monotonic() - last.at < FRESH:
            return last.reached
        reached = self.reach(question=question)
        self._look = None
        return reached

    def push(self, packed: Packed, deadline: float = 120.0) -> bool:
        """Bring a bundle to the host; gives False where it was already there."""
        if self._reached is None:
            self.reach()
        if packed.id in self._bundles:
            return False
        words = ("install", self.workdir, packed.id, packed.sha256)
        answer = self._bootstrap(*words, stdin=packed.data, deadline=deadline)
        installed = self._understand(answer, _Installed)
        if installed.outcome == "damaged":
            raise startup.input_lost(self.link, where=self.name) or LinkLost(
                f"the bundle was damaged on its way: {installed.message}", where=self.name
            )
        if installed.outcome not in {"installed", "present"}:
            raise Unreachable(
                f"the bundle cannot be put into {self.workdir}: {installed.message}",
                remedy="Make room or permissions there, or name another `workdir`.",
                where=self.name,
            )
        self._bundles.add(packed.id)
        return installed.outcome == "installed"

    def call(self, verb: str, request: Any, answer: type[T], *, bundle: str, deadline: float) -> T:
        """Call a verb of the payload; raises LinkLost or PayloadCrashed."""
        said = self.link.run(self._verb(verb, bundle), stdin=_document(request), deadline=deadline)
        if said.code is None:
            raise self._unfinished(f"`{verb}`", said)
        if said.code != 0:
            lost = startup.input_lost(self.link, where=self.name) if said.code == NOT_UNDERSTOOD else None
            raise lost or ended(verb, said, where=self.name)
        try:
            return answers.loads(answer, frames.answer_in(said.stdout), verb)
        except (frames.NoAnswer, wire.WireError) as error:
            raise crashed(verb, str(error), said, where=self.name) from error

    def stream(self, verb: str, request: Any, *, bundle: str) -> Stream:
        """Start a verb that streams, on a connection of its own."""
        return VerbStream(self.link.stream(self._verb(verb, bundle), stdin=_document(request)), verb, where=self.name)

    def _verb(self, verb: str, bundle: str) -> Command:
        entry = Workdir(PurePosixPath(self.workdir)).bundle(bundle).entry
        return Command((self.python, *ISOLATED, str(entry), verb))

    def _bootstrap(self, *words: str, deadline: float, stdin: bytes = b"") -> Answer:
        program = (*ISOLATED, "-c", _bootstrap_source(), *words)
        command = Command((self._python, *program))
        if self._python.startswith("~/"):  # only a shell there knows the home
            command = Command(("sh", "-c", f'exec "{HOME}/$0" "$@"', self._python[2:], *program))
        return self.link.run(command, stdin=stdin, deadline=deadline)

    def _understand(self, answer: Answer, document: type[T]) -> T:
        if answer.code is None:
            raise self._unfinished(self._python, answer)
        if answer.code == 0:
            try:
                return answers.loads(document, frames.answer_in(answer.stdout), "bootstrap")
            except (frames.NoAnswer, wire.WireError):
                pass  # told below from what it did write
        raise self._no_python(answer)

    def _no_python(self, answer: Answer) -> Unreachable:
        """Say what is wrong with the Python, unless the shell before it runs nothing at all."""
        error = why_not(self._python, answer, where=self.name)
        if isinstance(error, Unexplained):
            said = self.link.run(Command(("echo", ECHO)), deadline=SHELL)
            return no_shell(said, where=self.name) or startup.input_lost(self.link, where=self.name) or error
        return error

    def _unfinished(self, what: str, answer: Answer) -> LinkLost:
        said = end_of(answer.stderr)
        return LinkLost(
            f"{what} ended without an exit code: the link was lost, or something on the host killed it"
            + (f"; it last said: {said}" if said else ""),
            where=self.name,
        )


def _document(request: Any) -> bytes:
    return wire.dumps(request).encode()


def _bootstrap_source() -> str:
    """Give a program of one line without any character that a login shell, whichever it is, could take for its own."""
    source = (Path(remote.__file__).parent / "install.py").read_bytes()
    packed = base64.b64encode(zlib.compress(source, 9)).decode()
    return f"import base64,zlib;exec(zlib.decompress(base64.b64decode('{packed}')))"
