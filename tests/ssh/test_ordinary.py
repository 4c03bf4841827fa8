"""The whole of a run as an ordinary user of a host: no root, no sudo, no port and no package of ours."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from local import runs
from local.follow import follow
from remote.host import processes
from remote.schema import FactsRequest, HostFacts
from tests.running import Lab
from tests.ssh import sshd
from tests.ssh.servers import Server, free_port, make_key

if TYPE_CHECKING:
    from collections.abc import Iterator

UID = 54321  # of nobody who exists
PYTHON = next((path for path in ("/usr/bin/python3", sys.executable) if os.access(path, os.X_OK)), "")


def reachable() -> bool:
    """Tell whether an ordinary user can start that Python, and whether it is new enough."""
    words = [PYTHON, "-I", "-c", "import sys; sys.exit(sys.version_info < (3, 10))"]
    try:
        return subprocess.run(words, user=UID, group=UID, extra_groups=[], cwd="/", check=False).returncode == 0
    except OSError:
        return False


pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user runs all other tests already"),
    pytest.mark.skipif(sshd.program() is None, reason="no sshd here"),
]


START = """
mount --bind "$0/passwd" /etc/passwd && mount --bind "$0/group" /etc/group || exit 9
exec setpriv --reuid="$1" --regid="$1" --clear-groups "$2" -D -e -f "$0/config"
"""


@pytest.fixture
def server() -> Iterator[Server]:
    """An sshd of an ordinary user, whose account exists in its own mount namespace alone."""
    if not reachable():
        pytest.skip("no Python that an ordinary user could start")
    folder = Path(tempfile.mkdtemp(prefix="ordinary-"))
    for name in ("host_key", "user_key"):
        make_key(folder / name)
    shutil.copy(folder / "user_key.pub", folder / "authorized_keys")
    home = folder / "home"
    home.mkdir()
    for name, line in (("passwd", f"ordinary:x:{UID}:{UID}::{home}:/bin/sh\n"), ("group", f"ordinary:x:{UID}:\n")):
        (folder / name).write_text(Path("/etc", name).read_text("utf-8") + line, "utf-8")
    port = free_port()
    (folder / "config").write_text(sshd.CONFIG.format(port=port, folder=folder, home=home, more=""), "utf-8")
    for path in (folder, *folder.rglob("*")):
        os.chown(path, UID, UID)
        path.chmod(0o700 if path.is_dir() else 0o644 if path.name in {"passwd", "group"} else 0o600)
    process = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", START, str(folder), str(UID), str(sshd.program())],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        if not sshd._ready(process, port):
            pytest.skip("no mount namespace can be made here")
        yield Server(kind="sshd", port=port, folder=folder, home=home, pid=process.pid, user="ordinary")
    finally:
        sshd.stop(process)
        shutil.rmtree(folder)


def test_nothing_needs_root(server: Server) -> None:
    """Facts, push, launch, follow, status and stop, all of them as that user and in that user's home."""
    lab = Lab(server.home, python=PYTHON, link=server.link(pin_file=server.folder / "pins"))
    try:
        reached = lab.host.reach()
        assert (reached.home, reached.notices) == (str(server.home), ())
        facts = lab.host.call("facts", FactsRequest(job=lab.job()), HostFacts, bundle=lab.bundle, deadline=60.0)
        assert facts.hostname
        run = lab.start("id -u; echo done 1/1; sleep 300")
        lab.logged(run, str(UID))
        owners = {psutil.Process(process.pid).uids().real for process in processes.of_run(run)}
        assert owners == {UID}
        assert runs.stop(lab.host, bundle=lab.bundle, grace=2.0).outcome == "stopped"
        ended = follow(
            lab.host, bundle=lab.bundle, workdir=lab.workdir, run=run.id, on_log=lambda _: None, on_event=lambda _: None
        )
        assert ended is not None
        assert (ended.phase, ended.left_running) == ("stopped", ())
        for path in Path(lab.workdir).rglob("*"):
            found = path.lstat()
            assert found.st_uid == UID
            assert path.is_symlink() or stat.S_IMODE(found.st_mode) & 0o077 == 0, path
    finally:
        assert lab.clean_up() == []
