"""An SSH server inside the test process, for machines without sshd and as a second opinion where there is one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from typing import TYPE_CHECKING, Any

import asyncssh

from tests.ssh.servers import Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Server]:
    """Run an embedded server whose files live in `folder`."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    for name in ("host_key", "user_key"):
        key = asyncssh.generate_private_key("ssh-ed25519")
        key.write_private_key(str(folder / name))
        (folder / name).chmod(0o600)
        key.write_public_key(str(folder / f"{name}.pub"))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="embedded sshd")
    thread.start()
    try:
        listener = asyncio.run_coroutine_threadsafe(_listen(folder, home), loop).result(15)
        yield Server(kind="embedded", port=listener.get_port(), folder=folder, home=home)
        asyncio.run_coroutine_threadsafe(_end(listener), loop).result(15)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(15)
        loop.close()


async def _listen(folder: Path, home: Path) -> asyncssh.SSHAcceptor:
    async def serve(process: asyncssh.SSHServerProcess[bytes]) -> None:
        await _serve(process, home)

    return await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[str(folder / "host_key")],
        authorized_client_keys=str(folder / "user_key.pub"),
        process_factory=serve,
        encoding=None,
    )


async def _serve(process: asyncssh.SSHServerProcess[bytes], home: Path) -> None:
    child = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", process.command or "",
        cwd=home, env={"HOME": str(home), "PATH": os.environ["PATH"], "USER": process.get_extra_info("username")},
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    await process.redirect(stdin=child.stdin, stdout=child.stdout, stderr=child.stderr)
    closed = asyncio.ensure_future(process.wait_closed())
    ended = asyncio.ensure_future(child.wait())
    await asyncio.wait({closed, ended}, return_when=asyncio.FIRST_COMPLETED)
    if ended.done():
        await process.stdout.drain()
        process.exit(max(0, ended.result()))
    else:
        _hang_up(child)
        await ended


def _hang_up(child: Any) -> None:
    """Close the command's pipes, as a lost connection does."""
    child._transport.close()


async def _end(listener: asyncssh.SSHAcceptor) -> None:
    listener.close()
    await listener.wait_closed()
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
