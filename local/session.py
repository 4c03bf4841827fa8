"""What a task is handed: one host with its job, reached when first needed, over one link for the whole chain."""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from dataclasses import replace
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from local import bundle, memory
from local.errors import Unreachable
from local.host import Host
from local.links.ssh import open_link
from local.masks import too_short
from local.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rich.console import Console

    from local.gate import GateOutcome
    from local.gateoptions import GateOptions
    from local.links.base import Link
    from local.memory import Hint
    from local.rendezvous import Party
    from local.screen import Lines
    from local.targets import Target
    from remote.schema import Job, RecallRequest

HANDSHAKES = 16  # at once: an sshd drops connections beyond its MaxStartups
TURN = 2.0  # seconds to wait for one's turn: hosts that do not answer must not keep the others waiting
_CONNECTING = threading.BoundedSemaphore(HANDSHAKES)
_PATHS = ("model", "dataset", "output")


@contextlib.contextmanager
def _turn() -> Iterator[None]:
    """Spread handshakes; who has waited long enough goes ahead."""
    mine = _CONNECTING.acquire(timeout=TURN)
    try:
        yield
    finally:
        if mine:
            _CONNECTING.release()


class Interrupted(BaseException):
    """The user pressed Ctrl-C: the pipeline lets go of its host."""


class Session:
    """One host's pipeline: what its steps share."""

    def __init__(
        self, target: Target, console: Console, out: Lines, *, alone: bool, connect: Callable[..., Link] = open_link
    ) -> None:
        self.target = target
        self.console = console
        self.everyone = console  # tells what concerns all hosts of the command
        self.party: Party | None = None  # the pipelines of the other hosts, where there are any
        self.out = out
        self.alone = alone
        self.interrupted = threading.Event()
        self.outcome: GateOutcome | None = None  # a gate that the chain has already been through
        self.run: str | None = None  # the run that the chain follows
        self.question: RecallRequest | None = None  # goes along when the host is first reached
        self.word = ""  # what the summary says of this host
        self.show_log = True  # of a run that is followed; the bar shows in any case
        self.values: dict[str, Any] = {}  # step → what it gave
        self.steps: list[tuple[str, bool]] = []
        self.error: Exception | None = None
        self.code = 0
        self.seconds = 0.0
        self.notices: list[str] = []  # what connecting had to say: a key pinned just now
        self._connect = connect
        self._host: Host | None = None

    def __repr__(self) -> str:
        return f"<session of {self.name}, {'reached' if self._host else 'not reached'}>"

    @property
    def name(self) -> str:
        """Give the host's name."""
        return self.target.name

    @property
    def host(self) -> Host:
        """Give the host, connected and reached; raises the connect errors."""
        if self._host is None:
            link = self._connect(self.target.ssh, ssh_config=self.target.ssh.ssh_config)
            host = Host(link, name=self.name, python=self.target.job.python, workdir=self.target.job.workdir)
            try:
                with _turn():
                    if not self.alone:
                        time.sleep(random.uniform(0, 0.1))  # noqa: S311 - spreads the handshakes, guards nothing
                    host.reach(question=self.question)
            except BaseException as error:
                link.close()
                if isinstance(error, Unreachable) and self.target.hint:
                    error.remedy = f"{error.remedy} {self.target.hint}".strip()
                raise
            self._host = host
            short = [f"{name} is too short to be masked in what is shown" for name in too_short(self.secrets)]
            self.notices = [*getattr(link, "notices", ()), *host.reached.notices, *short]
            for notice in self.notices:
                self.console.print(f"[yellow]note[/] {escape(clean(notice))}", soft_wrap=True)
        return self._host

    @cached_property
    def job(self) -> Job:
        """Give the job with its paths as this host names them: `~/` is the home there."""
        return self._placed(home=self.host.reached.home, workdir=self.host.workdir, python=self.host.python)

    def foresee(self, options: GateOptions) -> Hint | None:
        """Have the first breath ask what the gate will ask: home and working folder are those of last time.

        Where they are not, the gate sees that the question was another one, and asks its own. Gives what is remembered.
        """
        hint = memory.find(self.name, self.target.job.name, choice=options.choice)
        if self._host is None and hint is not None:
            job = self._placed(home=hint.home, workdir=hint.workdir, python=hint.python)
            self.question = hint.question(job, fresh=options.fresh)
        return hint

    def _placed(self, *, home: str, workdir: str, python: str) -> Job:
        job = self.target.job
        said = {key: getattr(job, key) for key in _PATHS}
        said = {
            key: str(PurePosixPath(home) / path[2:]) if path.startswith("~/") else path for key, path in said.items()
        }
        said["output"] = said["output"] or f"{workdir}/outputs/{job.name}"
        return replace(job, **said | {"python": python}, workdir=workdir)

    @cached_property
    def payload(self) -> str:
        """Give the id of the bare payload, which is on the host then: enough to ask about runs and facts."""
        packed = bundle.pack(None, {})
        self.host.push(packed)
        return packed.id

    @property
    def label(self) -> str:
        """Give the name to print before a line: none where every line of this host has it already."""
        return self.name if self.alone else ""

    @property
    def secrets(self) -> Mapping[str, str]:
        """Give the values of `secret_env` that this laptop has."""
        return {name: os.environ[name] for name in self.target.job.secret_env if os.environ.get(name)}

    def check_interrupt(self) -> None:
        """Leave the pipeline when the user has pressed Ctrl-C."""
        if self.interrupted.is_set():
            raise Interrupted

    def let_go(self) -> None:
        """Close the link; what was started on the host goes on."""
        if self._host is not None:
            with contextlib.suppress(Exception):
                self._host.link.close()
