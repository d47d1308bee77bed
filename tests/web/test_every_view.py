"""Every view: axe, which others wrote, finds nothing wrong, everything has a name and can be read, and it fits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.needs import AXE, needs
from tests.shells.served import Served, served
from tests.web.browser import WIDTHS, Browser, Page, needs_chromium, visit, wait
from tests.web.places import ALICE, BOB, places, prepare

pytestmark = needs_chromium

AUDIT = Path(__file__).with_name("audit.js").read_text()
WIDE = max(WIDTHS)
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
#: What somebody is asked to decide on, and cannot read without moving it sideways.
HALF_READ = """() => [...document.querySelectorAll('main :is(.item, .consent, .call) pre')]
  .filter((e) => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1).map((e) => e.outerHTML.slice(0, 120))"""
RUN = """async (only) => (await axe.run(document, { resultTypes: ['violations'], ...only })).violations.map((found) =>
  `${found.id}: ${found.help}: ${found.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(' | ')}`)"""
ALL_RULES: dict[str, Any] = {}
COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}  # all that dark can change

Found = dict[str, list[str]]  #: by view and look


@dataclass(frozen=True)
class Faults:
    too_wide: Found = field(default_factory=dict)
    nameless: Found = field(default_factory=dict)
    axe: Found = field(default_factory=dict)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("axe"), alice=ALICE, bob=BOB) as made:
        prepare(made)
        yield made


@pytest.fixture(scope="module")
def faults(browser: Browser, daemon: Served) -> Faults:
    """Every view, opened once and looked at in all ways."""
    faults = Faults()
    with visit(browser, daemon, color_scheme="light", viewport=_size(WIDE), reduced_motion="reduce") as guest:
        page = guest.open()
        if AXE.exists():
            page.evaluate(AXE.read_text())
        for name, place in places(guest).items():
            guest.go(place)
            _look(page, name, faults)
        assert not guest.complaints
        assert not guest.foreign
    return faults


def _look(page: Page, view: str, faults: Faults) -> None:
    for width in WIDTHS:  # the narrowest is the last
        page.set_viewport_size(_size(width))
        wide = [""] if page.evaluate("document.documentElement.scrollWidth") > width else []
        faults.too_wide[f"{view}, {width}"] = wide + page.evaluate(CUT_OFF) + page.evaluate(HALF_READ)
    menu = page.locator("main details.menu > summary")
    if menu.count():
        menu.click()
        faults.too_wide[f"{view}, its menu"] = page.evaluate(CUT_OFF)
        menu.click()
    _audit(page, f"{view}, narrow, light", faults)
    page.evaluate("() => document.querySelectorAll('main details').forEach((each) => { each.open = true })")
    wait(page, UNFOLDED)
    _axe(page, f"{view}, narrow, light", faults, ALL_RULES)
    page.emulate_media(color_scheme="dark")
    _audit(page, f"{view}, narrow, dark", faults)
    page.set_viewport_size(_size(WIDE))
    _audit(page, f"{view}, wide, dark", faults)
    _axe(page, f"{view}, wide, dark", faults, COLOURS)
    page.emulate_media(color_scheme="light")
    _audit(page, f"{view}, wide, light", faults)
    _axe(page, f"{view}, wide, light", faults, ALL_RULES)


def _audit(page: Page, look: str, faults: Faults) -> None:
    faults.nameless[look] = page.evaluate(AUDIT)


def _axe(page: Page, look: str, faults: Faults, rules: dict[str, Any]) -> None:
    if AXE.exists():
        faults.axe[look] = page.evaluate(RUN, rules)


def _size(width: int) -> Any:
    return {"width": width, "height": 900}


@needs("axe-core", there=AXE.exists())
def test_axe_finds_nothing_wrong(faults: Faults) -> None:
    assert faults.axe, "it was not asked"
    assert told(faults.axe) == ""


def test_everything_has_a_name_and_can_be_read(faults: Faults) -> None:
    assert told(faults.nameless) == ""


def test_every_view_fits_its_width(faults: Faults) -> None:
    assert told(faults.too_wide) == ""


def told(found: Found) -> str:
    return "\n".join(f"{look}: {each}" for look, all_of in found.items() for each in all_of)


def test_on_a_narrow_screen_the_menu_leads_to_an_agent(browser: Browser, daemon: Served) -> None:
    with visit(browser, daemon, viewport=_size(min(WIDTHS))) as guest:
        page = guest.open()
        page.get_by_role("button", name="Menu").click()
        page.locator("#side").get_by_role("link", name="alice").click()
        page.get_by_role("heading", name="alice").wait_for()


def test_what_is_open_over_the_page_closes_by_escape_and_by_a_tap_beside_it(browser: Browser, daemon: Served) -> None:
    with visit(browser, daemon, viewport=_size(min(WIDTHS)), has_touch=True) as guest:
        page = guest.open(guest.workspace("copies"))
        side = "() => document.getElementById('side').classList.contains('open')"
        page.get_by_role("button", name="Menu").tap()
        wait(page, side)
        page.touchscreen.tap(380, 450)
        wait(page, f"() => !({side})()")
        page.get_by_role("button", name="Menu").tap()
        wait(page, side)
        page.keyboard.press("Escape")
        wait(page, f"() => !({side})()")
        more = page.locator("details.menu > summary")
        more.focus()
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Restart").focus()
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Restart").wait_for(state="hidden")
        wait(page, "() => document.activeElement.matches('details.menu > summary')")
