"""Chromium and a daemon for the tests of the page: one of each per module, a fresh page for each test."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from tests.needs import needs
from tests.patience import PATIENCE
from tests.shells.served import Served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page
else:
    Browser = ConsoleMessage = Page = Any  # names for a reader

CHROMIUM = shutil.which("chromium") or ""
#: What a browser has beside the page: an address bar whose list is two pages of its own, opened for each test (half of
#: what it costs), a process in reserve, questions to its makers. Of several such switches the last one counts, so those
#: that Playwright turns off are here too.
FEATURES = (
    "WebUIOmniboxPopup",
    "WebUIOmniboxAimPopup",
    "WebUIOmniboxFullPopup",
    "SpareRendererForSitePerProcess",
    "AimEnabled",
    "AvoidCorsURLLoaderRestartOnRedirect",
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsFirstBalancedModeAutoEnable",
    "HttpsUpgrades",
    "LensOverlay",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationHints",
    "PaintHolding",
    "PreconnectToSearch",
    "ThirdPartyStoragePartitioning",
)
SWITCHES = (
    f"--disable-features={','.join(FEATURES)}",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
PICTURES = Path(__file__).parent.parent.parent / ".pictures"  #: kept, to be looked at; not in git
WIDTHS = (1440, 820, 390)

needs_chromium = needs("chromium", there=bool(CHROMIUM))


@contextmanager
def chromium() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright  # takes as long as all of us: only where a browser is started

    with sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=CHROMIUM or None, args=list(SWITCHES))
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Visit:
    """One page, signed in, that writes down whatever it should not do."""

    page: Page
    daemon: Served
    complaints: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)  #: requests that went elsewhere

    def open(self, place: str = "#/home") -> Page:
        self.page.goto(f"http://{self.daemon.here}/#code={code_of(self.daemon)}")
        self.page.wait_for_selector("#side .panel", state="attached")
        self.page.wait_for_selector("body[data-live=true]")
        return self.go(place)

    def go(self, place: str) -> Page:
        self.page.evaluate("place => { location.hash = place }", place)
        wait(self.page, "() => document.getElementById('main').dataset.place === location.hash")
        return self.page

    def workspace(self, name: str = "review", **more: str) -> str:
        return self.place(f"workspace/{name}", **more)

    def place(self, kind: str, **more: str) -> str:
        return f"#/{kind}?{urlencode({'in': str(self.daemon.project), **more}, safe='/')}"


@contextmanager
def visit(browser: Browser, daemon: Served, **how: Any) -> Iterator[Visit]:
    context = browser.new_context(**how)
    context.set_default_timeout(PATIENCE * 1000)
    page = context.new_page()
    made = Visit(page, daemon)
    page.on("pageerror", lambda error: made.complaints.append(str(error)))
    page.on("console", lambda told: made.complaints.append(told.text) if _is_complaint(told) else None)
    page.on("request", lambda each: made.foreign.append(each.url) if daemon.here not in each.url else None)
    try:
        yield made
    finally:
        context.close()


def _is_complaint(told: ConsoleMessage) -> bool:
    """Also what a policy forbids. That the daemon refused something is an answer like any other."""
    return told.type == "error" and "the server responded with a status of 4" not in told.text


def code_of(daemon: Served) -> str:
    answer = daemon.client.request("POST", "/page/code", {"project": str(daemon.project)})[1]
    return str(answer["code"])


def wait(page: Page, holds: str, arg: Any = None) -> Any:
    """Until a function of the page holds."""
    return page.wait_for_function(holds, arg=arg).json_value()


def start(daemon: Served, tag: str = "main", workflow: str = "review") -> dict[str, Any]:
    made: dict[str, Any] = daemon.do("POST", "/workflows", workflow=workflow, tag=tag)
    return made


def workspace_of_one(daemon: Served, workflow: str, agent: str, *entries: Any) -> None:
    """A workflow of its own, running, with one mock agent that plays this."""
    text = (
        f"agents: {{ {agent}: {{ backend: mock, {script(*entries).strip()} }} }}\nworkspace: {{ provider: sqlite }}\n"
    )
    (daemon.project / ".workflows" / f"{workflow}.yaml").write_text(text)
    start(daemon, workflow=workflow)


def say(daemon: Served, text: str, to: str = "@review") -> dict[str, Any]:
    made: dict[str, Any] = daemon.do("POST", "/send", to=to, message=text)
    return made


def script(*entries: Any) -> str:
    """Of a mock agent, as its file has it."""
    return "script: " + json.dumps(list(entries), ensure_ascii=False) + "\n"
