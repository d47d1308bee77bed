"""How soon the web page shows what happens: from a message handed over to its pixels. Prints Markdown.

    uv run python -m bench.page [--write docs/figures/page.md]

A real daemon, a real Chromium without a screen, a channel of ten thousand messages. Needs what
`poe test-setup` installs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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
A_SECOND = 50  # messages that arrive while somebody types
KEYS = 100
LONG_TASK = 0.05  # seconds: what browsers call long, and a person feels
PACE = 40  # milliseconds between two keys of a fast typist

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
            return [_one(daemon, page), _many(daemon, page), *_typed(daemon, page), _opened(guest), _loaded(guest)]


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


#: A key is painted when the frame it was handled in is done.
KEYSTROKES = """() => {
  window.typed = [];
  const box = document.querySelector('.compose textarea');
  box.addEventListener('keydown', ({ timeStamp }) => requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => typed.push((performance.now() - timeStamp) / 1000);
    port2.postMessage(null) })) }"""
SAID = """looked at **number {n}**: it breaks in `follow()`, see [the page](https://example.org/{n})

- first, what was measured
- then what to do

```python
def follow(channel: str) -> None:
    print(f"{{channel}} {n}")
```"""


def _typed(daemon: Served, page: Page) -> list[Figure]:
    """Each key that somebody types into the box: while nothing arrives, and while messages do."""
    page.locator(".compose textarea").click()
    page.evaluate(KEYSTROKES)
    quiet = _keys(page)
    page.locator(".compose textarea").fill("")
    with _talk(daemon) as said:
        busy = _keys(page)
        with _tasks(page) as tasks:
            _keys(page)
    value, other, longest = _high(busy), _high(quiet), max(tasks)
    while_ = f"while {said[0] / said[1]:.0f} messages a second arrive"
    return [
        Figure(
            f"a key typed {while_} → painted, 95 of 100",
            ms(value),
            "",
            f"while none arrives: {ms(other)}",
            value / other,
            f"≤ {ms(MOST)}",
            value <= MOST,
            value / MOST,
            cost=value,
        ),
        Figure(
            f"the longest that the page works in one go {while_}",
            "",
            ms(longest),
            f"a task in the middle: {ms(middle(tasks))}",
            longest / middle(tasks),
            f"≤ {ms(LONG_TASK)} CPU",
            longest <= LONG_TASK,
            longest / LONG_TASK,
            cost=longest,
        ),
    ]


@contextmanager
def _tasks(page: Page) -> Iterator[list[float]]:
    """CPU seconds of each task of the page's own thread in the block: as long, nothing that is typed is heard."""
    browser = page.context.new_cdp_session(page)
    events: list[dict[str, Any]] = []
    done: list[object] = []
    browser.on("Tracing.dataCollected", lambda told: events.extend(told["value"]))
    browser.on("Tracing.tracingComplete", lambda told: done.append(told))
    kinds = {"includedCategories": ["disabled-by-default-devtools.timeline"]}
    browser.send("Tracing.start", {"transferMode": "ReportEvents", "traceConfig": kinds})
    tasks: list[float] = []
    yield tasks
    browser.send("Tracing.end")
    while not done:
        page.wait_for_timeout(20)
    threads = {(each["pid"], each["tid"]) for each in events if each["args"].get("name") == "CrRendererMain"}
    tasks += [
        each.get("tdur", 0) / 1e6
        for each in events
        if each["name"] == "RunTask" and (each["pid"], each["tid"]) in threads and each.get("tdur", 0) > 500
    ]


def _keys(page: Page) -> list[float]:
    """Seconds from each key to its paint."""
    page.evaluate("() => { typed.length = 0 }")
    page.keyboard.type("the quick ", delay=PACE)
    page.keyboard.type(("brown foxes " * KEYS)[: KEYS - 10], delay=PACE)
    wait(page, "(count) => typed.length >= count", KEYS)
    return [float(each) for each in page.evaluate("typed")]


@contextmanager
def _talk(daemon: Served) -> Iterator[list[float]]:
    """Messages arrive, as evenly as can be, until the block is left; then it says how many, in how many seconds."""
    told, done = [0.0, 0.0], threading.Event()

    def go_on() -> None:
        began = time.perf_counter()
        while not done.wait(max(0.0, began + told[0] / A_SECOND - time.perf_counter())):
            say(daemon, SAID.format(n=int(told[0])))
            told[0] += 1
        told[1] = time.perf_counter() - began

    talker = threading.Thread(target=go_on)
    talker.start()
    try:
        yield told
    finally:
        done.set()
        talker.join()


def _high(values: list[float]) -> float:
    """95 of 100 are lower."""
    return sorted(values)[int(len(values) * 0.95)]


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
