from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.pages import browser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.pages.browser import Tab


@pytest.fixture(scope="session")
def tab() -> Iterator[Tab]:
    if browser.program() is None:
        pytest.skip("no browser is installed: apt-get install chromium")
    with browser.running() as running:
        yield running
