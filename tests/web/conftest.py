"""One browser and one daemon for each module of tests of the page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.shells.served import Served
from tests.web.browser import Browser, Visit, chromium, visit


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as made:
        yield made


@pytest.fixture
def guest(browser: Browser, daemon: Served) -> Iterator[Visit]:
    """A page. Whatever it complained of, or asked of others, fails the test."""
    with visit(browser, daemon, viewport={"width": 1280, "height": 800}) as made:
        yield made
        assert not made.complaints
        assert not made.foreign
