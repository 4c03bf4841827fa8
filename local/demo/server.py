"""An SSH server in Python, for machines where no sshd is installed: `python -m local.demo.server FOLDER PORT`.

It needs no root, listens on 127.0.0.1 only, lets in the demo's key only, and does what sshd does for a command
without a terminal: the user's shell with `-c`, a fresh environment, binary streams, exit status or signal. A connection
that drops closes the command's streams and nothing else: what was started in a session of its own goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import asyncssh

from local.demo.place import Place

if TYPE_CHECKING:
    from asyncio.subprocess import Process

CHUNK = 1 << 16


async def serve(place: Place, port: int) -> None:
    """Listen until SIGTERM."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    server = await asyncssh.create_server(
        asyncssh.SSHServer,
        "127.0.0.1",
        port,
        server_host_keys=[str(place.host_key)],
        authorized_client_keys=str(place.authorized_keys),
        password_auth=False,
        kbdint_auth=False,
        process_factory=_session,
        encoding=None,
        line_editor=False,
        allow_pty=False,
        sftp_factory=True,
        login_timeout=30,
    )
    await ended.wait()
    server.close()


async def _session(channel: asyncssh.SSHServerProcess[bytes]) -> None:
    """Run one command and pass its streams and its end on."""
    account = pwd.getpwuid(os.getuid())
    shell = account.pw_shell or "/bin/sh"
    words = [shell, "-c", channel.command] if channel.command is not None else [shell]
    (stdout, its_stdout), (stderr, its_stderr) = os.pipe(), os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=its_stdout,
            stderr=its_stderr,
            cwd=_home(account),
            env=_environment(account, channel),
            start_new_session=True,
        )
    finally:
        os.close(its_stdout)
        os.close(its_stderr)
    feeding = asyncio.create_task(_feed(channel, process))
    try:
        await asyncio.gather(_drain(stdout, channel.stdout), _drain(stderr, channel.stderr))
        code = await process.wait()
    finally:
        feeding.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await feeding
    with contextlib.suppress(BrokenPipeError, ConnectionError):
        if code < 0:
            channel.exit_with_signal(signal.Signals(-code).name.removeprefix("SIG"))
        else:
            channel.exit(code)


def _home(account: pwd.struct_passwd) -> str:
    return account.pw_dir if Path(account.pw_dir).is_dir() else "/"


def _environment(account: pwd.struct_passwd, channel: asyncssh.SSHServerProcess[bytes]) -> dict[str, str]:
    """Give what a session of sshd has: the account's basics and the addresses."""
    peer, own = channel.get_extra_info("peername"), channel.get_extra_info("sockname")
    return {
        "HOME": account.pw_dir,
        "USER": account.pw_name,
        "LOGNAME": account.pw_name,
        "SHELL": account.pw_shell or "/bin/sh",
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "SSH_CONNECTION": f"{peer[0]} {peer[1]} {own[0]} {own[1]}",
        "SSH_CLIENT": f"{peer[0]} {peer[1]} {own[1]}",
    }


async def _feed(channel: asyncssh.SSHServerProcess[bytes], process: Process) -> None:
    """Pass the client's input on, and its signals to the command's process group."""
    pipe = process.stdin
    if pipe is None:
        return
    with contextlib.suppress(BrokenPipeError, ConnectionError, asyncssh.Error):
        while True:
            try:
                data = await channel.stdin.read(CHUNK)
            except asyncssh.SignalReceived as wish:
                _signal(process, wish.signal)
                continue
            except (asyncssh.BreakReceived, asyncssh.TerminalSizeChanged):
                continue
            if not data:
                break
            pipe.write(data)
            await pipe.drain()
    pipe.close()


def _signal(process: Process, name: str) -> None:
    number = getattr(signal, f"SIG{name}", None)
    if number is not None and process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)


async def _drain(descriptor: int, out: asyncssh.SSHWriter[bytes]) -> None:
    """Pass the command's output on; when the client has gone, close the pipe, so that writing to it fails."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    try:
        while data := await reader.read(CHUNK):
            out.write(data)
            await out.drain()
    except (BrokenPipeError, ConnectionError, asyncssh.Error):
        pass  # the client has gone
    finally:
        transport.close()


if __name__ == "__main__":
    asyncio.run(serve(Place(Path(sys.argv[1])), int(sys.argv[2])))
