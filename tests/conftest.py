"""For all tests: what a test leaves behind fails it."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tests import leaks

if TYPE_CHECKING:
    from collections.abc import Iterator


# A busy machine is no failure: what an example takes says nothing.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# In a shell's background SIGINT is ignored, by all that is started from there, too: the tests' Ctrl-C would do nothing.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# What a terminal or a CI says of itself is read by every test and program; a test that is about it sets it itself.
for _name in ("CLICOLOR_FORCE", "COLUMNS", "FORCE_COLOR", "LINES", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
    os.environ.pop(_name, None)
os.environ["TERM"] = "xterm-256color"


class _Ownership:
    """Lets what fixtures of wider scope start belong to them; a plugin, since a session's fixtures ask no conftest."""

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        before = leaks.things() if fixturedef.scope != "function" else set()
        result = yield
        if fixturedef.scope != "function":
            leaks.owned.update(leaks.things() - before)
        return result


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Ownership(), "ownership")


@pytest.fixture(autouse=True)
def _nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    before = leaks.things()
    yield
    left = leaks.left_behind(before, request.node.funcargs.get("tmp_path"))
    assert not left, f"left behind: {'; '.join(str(thing) for thing in left)}"
