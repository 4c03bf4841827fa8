"""The servers of the tests over SSH: a real sshd where one is installed, and an embedded one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ssh import embedded, sshd
from tests.ssh.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.ssh.servers import Server


def pytest_report_header() -> str:
    program = sshd.program()
    return f"sshd: {program}" if program else "sshd: not installed, the embedded server takes its place"


@pytest.fixture(scope="session")
def embedded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with embedded.running(tmp_path_factory.mktemp("embedded")) as server:
        yield server


@pytest.fixture(scope="session")
def sshd_server(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server for the whole session: tests may end its connections, but not itself."""
    if sshd.program() is None:
        yield request.getfixturevalue("embedded_server")
        return
    with sshd.running(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
def proxy(sshd_server: Server) -> Iterator[Proxy]:
    with Proxy(sshd_server.port) as running:
        yield running
