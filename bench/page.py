"""How soon the web page shows what happens: from a message handed over to its pixels. Prints Markdown.

    uv run python -m bench.page [--write docs/figures/page.md]

A real daemon, a real Chromium without a screen, a channel of ten thousand messages. Needs what
`poe test-setup` installs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from tests.shells.served import Served, served
from tests.web.browser import CHROMIUM, Page, Visit, chromium, say, start, visit, wait
from tests.web.test_workspace import fill

from measures.figure import Figure, middle, ms, table, write_page

MESSAGES = 10_000
TIMES = 15
BURST = 50
MOST = 0.1  # seconds: what a person takes for at once
FIRST_PAINT = 0.15

HEAD = """# How soon the page shows it

Written by `uv run python -m bench.page --write docs/figures/page.md`; [how to read it](../../bench/README.md).
"""

#: A new row is painted when the frame after the next has begun.
WATCH = """() => {
  window.painted = {};
  const note = (text) => requestAnimationFrame(() => requestAnimationFrame(() => {
    painted[text] = (performance.timeOrigin + performance.now()) / 1000 }));
  new MutationObserver((all) => all.forEach((each) => each.addedNodes.forEach((node) => {
    const found = /mark-\\d+/g[Symbol.match](node.textContent || '') || [];
    found.forEach(note) }))).observe(document.querySelector('.rows'), {childList: true}) }"""


def measure(folder: Path) -> list[Figure]:
    with served(folder) as daemon, chromium() as browser:
        fill(daemon, start(daemon)["id"], MESSAGES)
        with visit(browser, daemon, viewport={"width": 1280, "height": 800}) as guest:
            page = guest.open(guest.workspace())
            page.locator(".msg", has_text=f"number {MESSAGES}").wait_for()
            page.evaluate(WATCH)
            return [_one(daemon, page), _many(daemon, page), _opened(guest), _loaded(guest)]


def _one(daemon: Served, page: Page) -> Figure:
    shown, answered = [], []
    for number in range(TIMES):
        took, painted = _say(daemon, page, f"mark-{number}")
        answered.append(took)
        shown.append(painted)
    value, answer = middle(shown), middle(answered)
    return Figure(
        f"a message → painted, {MESSAGES:,} in the channel",
        ms(value),
        "",
        f"the answer to its sender: {ms(answer)}",
        value / answer,
        f"≤ {ms(MOST)}",
        value <= MOST,
        value / MOST,
        cost=value,
    )


def _say(daemon: Served, page: Page, text: str) -> tuple[float, float]:
    """Seconds until it was accepted, and until it was on the screen."""
    began = time.time()
    say(daemon, text)
    took = time.time() - began
    return took, float(wait(page, "(text) => window.painted[text]", text)) - began


def _many(daemon: Served, page: Page) -> Figure:
    began = time.time()
    for number in range(BURST):
        say(daemon, f"mark-{1000 + number}")
    sent = time.time() - began
    last = float(wait(page, "(text) => window.painted[text]", f"mark-{1000 + BURST - 1}")) - began
    behind = max(0.0, last - sent)
    return Figure(
        f"{BURST} messages at once, the last → painted",
        f"{ms(behind)} after it was accepted",
        "",
        f"sending them: {ms(sent)}",
        last / sent,
        f"≤ {ms(MOST)}",
        behind <= MOST,
        behind / MOST,
        cost=behind,
    )


def _opened(guest: Visit) -> Figure:
    """From another view back to the channel."""
    there, home = [], []
    for _ in range(TIMES):
        home.append(_timed(lambda: guest.go("#/home")))
        there.append(_timed(lambda: guest.go(guest.workspace())))
    value, other = middle(there), middle(home)
    return Figure("the channel opened", ms(value), "", f"the first view opened: {ms(other)}", value / other, cost=value)


#: Of a page that is loaded: milliseconds until the frame after its messages are there has begun.
FIRST = """
  const seen = new MutationObserver(() => {
    if (!document.querySelector('.rows > .msg')) return;
    seen.disconnect();
    requestAnimationFrame(() => requestAnimationFrame(() => { window.first = performance.now() })) });
  seen.observe(document, {childList: true, subtree: true});
"""


def _loaded(guest: Visit) -> Figure:
    """A browser that is signed in loads the address of the channel anew: frame, modules, view, first paint."""
    page, took, blank = guest.page, [], []
    page.add_init_script(FIRST)
    guest.go(guest.workspace())
    for _ in range(TIMES):
        page.reload(wait_until="commit")
        took.append(float(wait(page, "() => window.first")) / 1000)
        blank.append(float(page.evaluate("performance.getEntriesByType('navigation')[0].responseEnd")) / 1000)
    value, other = middle(took), middle(blank)
    return Figure(
        f"the channel loaded anew, {MESSAGES:,} in it, to its first paint",
        ms(value),
        "",
        f"its empty frame fetched: {ms(other)}",
        value / other,
        f"≤ {ms(FIRST_PAINT)}",
        value <= FIRST_PAINT,
        value / FIRST_PAINT,
        cost=value,
    )


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="also write the page here")
    options = parser.parse_args()
    if not CHROMIUM:
        sys.exit("chromium is not installed: uv run poe test-setup")
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="page-") as folder:
        figures = measure(Path(folder))
    print(table(figures))
    if options.write:
        write_page(options.write, HEAD, figures, time.perf_counter() - begun)


if __name__ == "__main__":
    main()
