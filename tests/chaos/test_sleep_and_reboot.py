"""A laptop that sleeps through the end of a run; a host that loses its power and comes back."""

from __future__ import annotations

import os
import re
import shlex
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from local.links.base import Command
from local.links.here import HereLink
from remote import wire
from remote.host import processes
from remote.run import runs
from tests.chaos import networks
from tests.running import Lab, until
from tests.ssh import embedded, sshd

if TYPE_CHECKING:
    from local.links.base import Answer
    from local.links.here import HereStream

SLEEP = 14.0  # seconds: longer than the pulse bears silence, and than this server bears it
IMPATIENT = "ClientAliveInterval 2\nClientAliveCountMax 2"
BOOT = "/proc/sys/kernel/random/boot_id"


def test_a_laptop_that_sleeps_through_the_end_of_a_run_is_told_all_of_it(tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = f"echo first; while [ ! -e '{go}' ]; do sleep 0.05; done; for i in $(seq 1 300); do echo line $i; done"
    server = sshd.running(tmp_path, more=IMPATIENT) if sshd.program() else embedded.running(tmp_path)
    with server as host:
        networks.write_inventory(
            tmp_path, address="127.0.0.1", port=host.port, identity=host.identity, script=script
        )  # fmt: skip
        with networks.fab(tmp_path, "-H", "gpu", "extract") as fab:
            fab.until("first\n", 240.0)
            fab.process.send_signal(signal.SIGSTOP)
            go.touch()
            (run,) = runs.folders(str(tmp_path / "workdir"))
            until(lambda: runs.look(run).exit, "the end of the run")
            time.sleep(SLEEP)  # the fault itself: so long it sleeps
            assert "line 1\n" not in fab.text()
            fab.process.send_signal(signal.SIGCONT)
            assert fab.end() == 0
            said = fab.text()
    assert [int(number) for number in re.findall(r"line (\d+)", said)] == list(range(1, 301))
    assert said.count("first\n") == 1
    assert "Traceback" not in said


class NextBoot(HereLink):
    """This machine after its next boot, as far as its own name for the boot tells."""

    def __init__(self, home: Path, boot: Path) -> None:
        super().__init__(home)
        self._boot = boot

    def run(self, command: Command, *, stdin: bytes = b"", deadline: float = 30.0, limit: int = 64 * 2**20) -> Answer:
        return super().run(self._then(command), stdin=stdin, deadline=deadline, limit=limit)

    def stream(self, command: Command, *, stdin: bytes = b"") -> HereStream:
        return super().stream(self._then(command), stdin=stdin)

    def _then(self, command: Command) -> Command:
        program = f"mount --bind {shlex.quote(str(self._boot))} {BOOT} && exec {command}"
        return Command(("unshare", "--mount", "sh", "-c", program))


@networks.needs_namespaces
def test_a_host_that_lost_its_power_says_so_and_the_next_extract_goes_on(tmp_path: Path) -> None:
    before = Lab(tmp_path / "host")
    count = tmp_path / "count"
    script = f"echo x >> '{count}'; echo done 1/2; [ $(wc -l < '{count}') = 2 ] || sleep 600; echo done 2/2"
    run = before.start(script)
    until(lambda: before.state(run).samples.done == 1)
    state = before.state(run)
    everybody = [one for one in (processes.read(state.pid), *processes.started_by(state.pid)) if one]
    for process in everybody:  # all at once, and nobody has time to write anything
        processes.send(process, signal.SIGKILL)
    until(lambda: not any(processes.alive(one.pid, one.started) for one in everybody))
    boot = tmp_path / "boot_id"
    boot.write_text("00000000-1111-2222-3333-444444444444\n")
    after = Lab(tmp_path / "host", link=NextBoot(tmp_path / "host", boot))
    (told,) = after.status(run.id)
    assert (told.phase, told.cause) == ("lost", "the host was rebooted while the run went on")
    assert (told.samples.done, told.samples.total) == (1, 2)
    again = after.run(after.launch(after.job(script)).run or "")
    assert again.id != run.id
    ended = until(lambda: runs.look(again).exit)
    assert (ended.phase, ended.attempts) == ("done", 1)
    newest, oldest = after.status()
    assert (newest.phase, oldest.phase) == ("done", "lost")
    assert not after.clean_up()


@networks.needs_namespaces
def test_a_process_that_has_the_pid_and_the_start_of_a_supervisor_before_the_reboot_is_let_be(tmp_path: Path) -> None:
    """After a reboot both may come again by chance: only the boot's name tells."""
    lab = Lab(tmp_path / "host")
    run = lab.start("sleep 600")
    lab.kill_supervisor(run)
    state = lab.state(run)
    own = processes.read(os.getpid())
    assert own is not None
    Path(run.state).write_text(wire.dumps(replace(state, pid=own.pid, pid_started=float(own.started))))
    boot = tmp_path / "boot_id"
    boot.write_text("00000000-1111-2222-3333-444444444444\n")
    after = Lab(tmp_path / "host", link=NextBoot(tmp_path / "host", boot))
    (told,) = after.status(run.id)
    assert told.phase == "lost"
    assert after.stop(run.id).outcome == "stopped"  # this very process would be gone
    assert processes.of_run(run) == []
    for one in (lab, after):
        one.host.link.close()
