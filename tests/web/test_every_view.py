"""Every view: axe, which others wrote, finds nothing wrong, everything has a name and can be read, and it fits."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.needs import AXE, needs
from tests.shells.served import Served, served
from tests.web.browser import PICTURES, WIDTHS, Browser, needs_chromium, visit, wait
from tests.web.places import ALICE, BOB, places, prepare

pytestmark = needs_chromium

AUDIT = Path(__file__).with_name("audit.js").read_text()
LOOKS = list(itertools.product((1440, 390), ("light", "dark")))
#: Everything is open, and what was fetched for it is there.
UNFOLDED = (
    """() => [...document.querySelectorAll('main details[data-load][open]')].every((e) => e.children.length > 1)"""
)
#: What can be pressed or filled in, and is not whole on the screen, nor in something that scrolls to it.
CUT_OFF = """() => [...document.querySelectorAll('main :is(a, button, input, textarea, select, summary)')]
  .filter((e) => {
  if (!e.checkVisibility({ checkVisibilityCSS: true }) || !e.getClientRects().length) return false;
  for (let p = e.parentElement; p.tagName !== 'MAIN'; p = p.parentElement)
    if (['auto', 'scroll'].includes(getComputedStyle(p).overflowX) && p.matches('pre, table, .prose *')) return false;
  const { left, right } = e.getBoundingClientRect();
  return left < -1 || right > innerWidth + 1;
}).map((e) => e.outerHTML.slice(0, 120))"""
RUN = """async () => (await axe.run(document, { resultTypes: ['violations'] })).violations.map((found) =>
  `${found.id}: ${found.help}: ${found.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(' | ')}`)"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("axe"), alice=ALICE, bob=BOB) as made:
        prepare(made)
        yield made


@needs("axe-core", there=AXE.exists())
@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_axe_finds_nothing_wrong(browser: Browser, daemon: Served, width: int, scheme: Any) -> None:
    size: Any = {"width": width, "height": 900}
    found: dict[str, list[str]] = {}
    with visit(browser, daemon, color_scheme=scheme, viewport=size, reduced_motion="reduce") as guest:
        page = guest.open()
        page.evaluate(AXE.read_text())
        for name, place in places(guest).items():
            guest.go(place)
            page.evaluate("() => document.querySelectorAll('main details').forEach((each) => { each.open = true })")
            wait(page, UNFOLDED)
            wrong = page.evaluate(RUN)
            if wrong:
                found[name] = wrong
    assert not found, "\n".join(f"{name}: {each}" for name, all_of in found.items() for each in all_of)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_has_a_name_and_can_be_read(browser: Browser, daemon: Served, scheme: Any) -> None:
    with visit(browser, daemon, color_scheme=scheme, viewport={"width": 1440, "height": 900}) as guest:
        guest.open()
        for name, place in places(guest).items():
            guest.go(place)
            assert guest.page.evaluate(AUDIT) == [], f"{name}, {scheme}"


@pytest.mark.parametrize("width", WIDTHS)
def test_every_view_fits_its_width(browser: Browser, daemon: Served, width: int) -> None:
    PICTURES.mkdir(exist_ok=True)
    with visit(browser, daemon, viewport={"width": width, "height": 900}) as guest:
        page = guest.open()
        for name, place in places(guest).items():
            guest.go(place)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name
            assert page.evaluate(CUT_OFF) == [], name
            page.screenshot(path=PICTURES / f"{name}-{width}.png")
        if width < 720:
            page.get_by_role("button", name="Menu").click()
            page.locator("#side").get_by_role("link", name="alice").click()
            page.get_by_role("heading", name="alice").wait_for()
