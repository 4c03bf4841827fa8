"""Plain `fab`'s executor: one pipeline per host, hosts side by side; a host that fails stops, the others go on.

`fabric.yaml` names it. The exit code is the worst of all hosts (local.errors.worst); 130 after Ctrl-C.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import threading
import time
import traceback
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fabric.executor import Executor as FabricExecutor
from invoke.context import Context
from invoke.exceptions import Exit
from rich.markup import escape

from local import early, errors, folders, inventory, output, targets
from local.later import Room
from local.masks import mask
from local.rendezvous import Party
from local.screen import Screen
from local.session import Interrupted, Session
from local.steps import Chosen, OnHosts, OnLaptop, OnTargets
from local.summary import print_error, print_summary, print_way_back
from local.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from invoke.tasks import Call

    from local import dealing
else:  # few commands deal anything
    dealing = Room("local.dealing")

INTERRUPTED = 130
COMMON = ("inventory", "job", "strict_host_keys")  # options that hold for the whole chain
PATIENCE = 3.0  # seconds that pipelines get to let go of their hosts after Ctrl-C


class Executor(FabricExecutor):  # type: ignore[misc]
    """Runs a chain of tasks the way design.md's command line promises."""

    def execute(self, *tasks: Any) -> dict[Any, Any]:
        """Run the tasks; leaves by `Exit` with the worst exit code unless all went well."""
        try:
            early.take_over()
            with output.guarded():
                code = self._told(*tasks)
        except errors.PrudentError as error:  # what was held of standard output cannot be written
            print_error(Screen().console, error)
            code = error.exit_code
        if code:
            raise Exit(code=code)
        return {}

    def _told(self, *tasks: Any) -> int:
        """Run the tasks; whatever goes wrong is told here, and comes back as an exit code."""
        screen = Screen()
        try:
            code = self._execute(screen, self.normalize(tasks))
        except errors.PrudentError as error:
            print_error(screen.console, error)
            code = error.exit_code
        except KeyboardInterrupt:
            code = INTERRUPTED
        except Exception:  # noqa: BLE001 - the last resort: told in one line, kept whole in a file
            code = _crashed(screen, "fab")
        return code

    def _execute(self, screen: Screen, calls: list[Call]) -> int:
        if self.core[0].args.hosts.value is not None and self.core.remainder:
            raise errors.UsageError(
                "`fab -H … -- COMMAND` is not offered here", remedy="Use ssh, which checks host keys."
            )
        codes = [0]
        for on_hosts, group in itertools.groupby(calls, key=lambda call: isinstance(call.task, OnHosts)):
            if on_hosts:
                codes.append(self._on_hosts(screen, [Step(call.task, call.kwargs) for call in group]))
            else:
                codes += [self._on_laptop(screen, call) for call in group]
            if any(codes):
                break
        return errors.worst(codes) or max(codes)

    def _on_laptop(self, screen: Screen, call: Call) -> int:
        """Run a task once: ours gets the screen (and targets, where it is about some), any other its usual context."""
        if isinstance(call.task, OnTargets):
            step = Step(call.task, call.kwargs)
            return int(call.task.body(self._chosen(screen, step), **step.options) or 0)
        first = screen if isinstance(call.task, OnLaptop) else Context(self.config)
        return int(call.task.body(first, **call.kwargs) or 0)

    def _chosen(self, screen: Screen, step: Step) -> Chosen:
        """Give the hosts of the command line to a task that takes them all at once."""

        def named() -> list[targets.Target]:
            return [self._as_told(target, [step]) for target in self._targets([step], needs_job=step.task.needs_job)]

        return Chosen(screen, named(), named, self._inventory(step.common["inventory"]))

    def _on_hosts(self, screen: Screen, steps: list[Step]) -> int:
        chosen = self._targets(steps, needs_job=any(step.task.needs_job for step in steps))
        told = [self._as_told(target, steps) for target in chosen]
        for step in steps:
            step.task.prepare(told, step.options)
        sessions = list(_sessions(screen, told))
        with _one_ctrl_c():
            interrupted = _all([Pipeline(screen, session, steps) for session in sessions], screen)
            codes = [session.code for session in sessions] + [_finish(screen, sessions, step) for step in steps]
            if not all(step.task.brief for step in steps):
                print_summary(screen.console, sessions)
        return INTERRUPTED if interrupted else errors.worst(codes)

    def _targets(self, steps: list[Step], *, needs_job: bool) -> tuple[targets.Target, ...]:
        """Give the hosts that the command line names, with their job."""
        file, job = _common(steps, "inventory"), _common(steps, "job")
        known = inventory.load(self._inventory(file))
        return targets.resolve(known, self.core[0].args.hosts.value, job, needs_job=needs_job)

    def _as_told(self, target: targets.Target, steps: list[Step]) -> targets.Target:
        """Let fab's own options win: -i for the key, -S for ssh_config, -t for the seconds to connect in."""
        told = self.core[0].args
        changes: dict[str, Any] = {}
        if told["identity"].value:
            changes["identity_file"] = str(folders.at_home(told["identity"].value[-1]))
        if told["ssh-config"].value:
            changes["ssh_config"] = targets.config(str(folders.at_home(told["ssh-config"].value)), "-S")
        if (seconds := told["connect-timeout"].value) is not None:
            changes["connect_timeout"] = _at_least_one(seconds)
        if any(step.common["strict_host_keys"] for step in steps):
            changes["host_key"] = "strict"
        return replace(target, ssh=replace(target.ssh, **changes))

    def _inventory(self, named: str | None) -> Path:
        """Give the file: the option, else the environment, else the project's configuration."""
        if named is not None and not named.strip():  # such as "$UNSET": hosts of another file must not be taken for it
            raise errors.UsageError("names no file", where="--inventory", remedy="Write --inventory FILE, or nothing.")
        if path := named or os.environ.get("FABRIC_INVENTORY"):
            return folders.at_home(path)
        return Path(__file__).resolve().parent.parent / str(self.config.get("inventory") or "inventories/demo.toml")


class Step:
    """One task of the chain with its options, less those that the executor reads itself."""

    def __init__(self, task: Any, given: dict[str, Any]) -> None:
        self.task = task
        self.common = {name: given.get(name) for name in COMMON}
        self.options = {name: value for name, value in given.items() if name not in COMMON}


class Pipeline(threading.Thread):
    """One host's chain of steps."""

    def __init__(self, screen: Screen, session: Session, steps: list[Step]) -> None:
        super().__init__(name=f"pipeline {session.name}", daemon=True)  # Ctrl-C must not wait for a dead link
        self.screen = screen
        self.session = session
        self.steps = steps
        self.ended = threading.Event()  # is_alive() is no help: an interrupted join() takes the thread for ended

    def run(self) -> None:
        """Take the steps in order until one fails."""
        began = time.monotonic()
        try:
            for step in self.steps:
                if not self._well(step):
                    break
        except Interrupted:
            self.session.code = INTERRUPTED
        except BaseException:
            self.session.code = 1  # whatever it was: a pipeline that broke off has not gone well
            raise
        finally:
            self.session.seconds = time.monotonic() - began
            try:
                if self.session.party is not None:
                    dealing.bow_out(self.session, sharing=any(step.task.meets for step in self.steps))
            finally:
                self.session.let_go()
                self.session.out.finish()
                self.ended.set()

    def _well(self, step: Step) -> bool:
        session, name = self.session, str(step.task.name)
        before = session.word
        try:
            session.check_interrupt()
            session.values[name] = step.task.body(session, **step.options)
        except errors.PrudentError as error:
            session.check_interrupt()
            session.error, session.code = error, error.exit_code
            print_error(session.console, error, session.secrets.values(), host=session.name, named=not session.alone)
        except Exception as error:  # noqa: BLE001 - one host's crash must not hide the others'
            session.check_interrupt()
            session.error, session.code = error, _crashed(self.screen, session.name)
        if session.error is not None and session.word == before:
            session.word = ""  # what an earlier step left says nothing of this failure
        session.steps.append((name, session.error is None))
        return session.error is None


def _common(steps: list[Step], option: str) -> str | None:
    """Give an option that holds for the whole chain, whichever task it was given to."""
    given = {str(value) for step in steps if (value := step.common[option]) is not None}
    if len(given) > 1:
        raise errors.UsageError(
            f"--{option} is given as {' and as '.join(sorted(given))}", remedy="One chain has one; run the tasks apart."
        )
    return given.pop() if given else None


def _at_least_one(seconds: int) -> float:
    if seconds < 1:
        raise errors.UsageError(f"{seconds} s to connect in are too few", where="-t", remedy="Give it 5 or more.")
    return float(seconds)


def _finish(screen: Screen, sessions: list[Session], step: Step) -> int:
    """Let a step show what all hosts gave; what keeps it from that must not hide how the hosts stand."""
    try:
        step.task.finish(sessions, step.options)
    except errors.PrudentError as error:
        print_error(screen.console, error)
        return error.exit_code
    return 0


def _sessions(screen: Screen, chosen: list[targets.Target]) -> Iterator[Session]:
    width = max(len(target.name) for target in chosen) if len(chosen) > 1 else 0
    party = Party([target.name for target in chosen]) if width else None
    for index, target in enumerate(chosen):
        secrets = [value for name in target.job.secret_env if (value := os.environ.get(name))]
        console, out = screen.for_host(target.name, index, width, secrets)
        session = Session(target, console, out, alone=not width)
        session.everyone, session.party = screen.console, party
        yield session


@contextlib.contextmanager
def _one_ctrl_c() -> Iterator[None]:
    """Let the first Ctrl-C interrupt; further ones must not cut short how to come back to a run."""

    def first(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.default_int_handler(number, frame)

    before = signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _all(threads: list[Pipeline], screen: Screen) -> bool:
    """Run all pipelines to their end; True when Ctrl-C ended our watching (what runs on the hosts goes on)."""
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.ended.wait()
    except KeyboardInterrupt:
        _leave([thread for thread in threads if not thread.ended.is_set()], screen)
        return True
    return False


def _leave(threads: list[Pipeline], screen: Screen) -> None:
    """Let go of the hosts that are still at work, and say how to come back to each."""
    for thread in threads:
        thread.session.interrupted.set()
        thread.session.let_go()
    until = time.monotonic() + PATIENCE
    for thread in threads:
        thread.ended.wait(max(0.0, until - time.monotonic()))
    screen.console.show_cursor(show=True)
    for thread in threads:
        session = thread.session
        session.code = INTERRUPTED
        session.word = f"{session.word}, not watched" if session.run else "interrupted"
        print_way_back(screen.console, session.name, session.run)


def _crashed(screen: Screen, where: str) -> int:
    """Keep the traceback in a file and say so in one line."""
    text = mask(traceback.format_exc(), screen.secrets)
    if os.environ.get("PRUDENT_GATE_DEBUG"):
        screen.console.print(text, markup=False, soft_wrap=True)
    last = escape(clean(text.strip().rpartition("\n")[2]))
    screen.console.print(
        f"[bold red]unexpected error[/] on {escape(where)}: {last}\nThis is a fault of ours; {_kept(text, where)}",
        soft_wrap=True,
    )
    return 1


def _kept(text: str, where: str) -> str:
    """Write the account to a file; says where it is, or how to see it where no file can be written."""
    try:
        folder = folders.state() / "crashes"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{where.replace('/', '_')}.txt"
        file.write_bytes(text.encode("utf-8", "backslashreplace"))
    except (errors.PrudentError, OSError):
        return "PRUDENT_GATE_DEBUG=1 shows the whole account"
    return f"the whole account is in {escape(str(file))}"
