"""An SSH server inside the test process, for machines without sshd and as a second opinion where there is one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from typing import TYPE_CHECKING, Any, ClassVar

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
        # Its helper thread belongs to the server: it is started now, not in the midst of a test.
        asyncio.run_coroutine_threadsafe(asyncio.to_thread(int), loop).result(15)
        yield Server(kind="embedded", port=listener.get_port(), folder=folder, home=home)
        asyncio.run_coroutine_threadsafe(_end(listener), loop).result(15)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(15)
        loop.close()


class _Door(asyncssh.SSHServer):
    """Keeps count of connections, so that the end of the server is theirs too."""

    open: ClassVar[set[asyncssh.SSHServerConnection]] = set()

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self.open.add(conn)

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:  # noqa: ARG002
        return True  # it is a jump host too


async def _listen(folder: Path, home: Path) -> asyncssh.SSHAcceptor:
    async def serve(process: asyncssh.SSHServerProcess[bytes]) -> None:
        await _serve(process, home)

    return await asyncssh.listen(
        "127.0.0.1",
        0,
        server_factory=_Door,
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
    # asyncssh's own redirection closes the whole connection when a command does not read its input.
    output = asyncio.gather(_pump(child.stdout, process.stdout), _pump(child.stderr, process.stderr))
    feeding = asyncio.ensure_future(_pump(process.stdin, child.stdin, close=True))
    closed = asyncio.ensure_future(process.wait_closed())
    await asyncio.wait({closed, output}, return_when=asyncio.FIRST_COMPLETED)
    feeding.cancel()
    if not output.done():
        _hang_up(child)
    await asyncio.gather(output, feeding, return_exceptions=True)
    code = await child.wait()
    if not closed.done():
        process.exit(code if code >= 0 else 128 - code)
        await closed


async def _pump(source: Any, sink: Any, *, close: bool = False) -> None:
    with contextlib.suppress(OSError, asyncssh.Error):
        while data := await source.read(1 << 16):
            sink.write(data)
            await sink.drain()
    if close:
        sink.close()


def _hang_up(child: Any) -> None:
    """Close the command's pipes, as a lost connection does."""
    child._transport.close()


async def _end(listener: asyncssh.SSHAcceptor) -> None:
    listener.close()
    await listener.wait_closed()
    for connection in _Door.open:
        connection.abort()
        await connection.wait_closed()
    _Door.open.clear()
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
