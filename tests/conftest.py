"""For all tests: what a test leaves behind fails it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests import leaks

if TYPE_CHECKING:
    from collections.abc import Iterator


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
