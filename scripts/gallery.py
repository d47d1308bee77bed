"""Every view of the page, and what strains it, as pictures to look through: `uv run poe gallery`.

Wide and narrow, light and dark: wide tables, long names, CJK, emoji, sixty agents, three projects with an alice each,
what waits for the person, a daemon that is gone. They are in `.pictures/gallery`, with a page that shows them all.
"""

from __future__ import annotations

import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.shells.served import Served, served  # noqa: E402
from tests.web.browser import PICTURES, chromium, visit  # noqa: E402
from tests.web.places import ALICE, BOB, places, prepare  # noqa: E402

from agent_worker.client.discovery import signal_daemon  # noqa: E402

GALLERY = PICTURES / "gallery"
WIDTHS = (1440, 390)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


def main() -> None:
    GALLERY.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as tmp, served(Path(tmp), alice=ALICE, bob=BOB) as daemon, chromium() as browser:
        for name in ("shop", "a-project-with-a-long-name-too-as-some-have"):
            daemon.beside(Path(tmp) / name)
        prepare(daemon)
        shots = [shot for width in WIDTHS for scheme in SCHEMES for shot in take(browser, daemon, width, scheme)]
        shots += list(take_offline(browser, daemon))
    (GALLERY / "index.html").write_text(index(shots))
    print(f"{len(shots)} pictures: {GALLERY / 'index.html'}")


def take(browser: Browser, daemon: Served, width: int, scheme: Literal["light", "dark"]) -> Iterator[str]:
    size: Any = {"width": width, "height": 900}
    with visit(browser, daemon, color_scheme=scheme, viewport=size, reduced_motion="reduce") as guest:
        page = guest.open()
        for name, place in places(guest).items():
            guest.go(place)
            yield picture(page, f"{name}-{width}-{scheme}")
        crowd(daemon)
        guest.go("#/home")
        page.reload()
        page.locator("#side li", has_text="colleague-59").wait_for(state="attached")
        page.locator("#main[data-place] .home").wait_for()  # a view that comes closes the menu
        if width < 720:
            page.get_by_role("button", name="Menu").click()
        yield picture(page, f"sixty-agents-{width}-{scheme}")


def crowd(daemon: Served) -> None:
    for n in range(60):
        (daemon.project / ".agents" / f"colleague-{n:02}.yaml").write_text("backend: mock\n")


def take_offline(browser: Browser, daemon: Served) -> Iterator[str]:
    with visit(browser, daemon, viewport={"width": 1440, "height": 900}) as guest:
        page = guest.open(guest.workspace())
        signal_daemon(daemon.home, daemon.client.found, signal.SIGKILL)
        page.get_by_text("Not connected").wait_for()
        yield picture(page, "offline-1440-light")


def picture(page: Page, name: str) -> str:
    page.screenshot(path=GALLERY / f"{name}.png", animations="disabled")
    return name


def index(shots: list[str]) -> str:
    figures = "\n".join(f'<figure><figcaption>{s}</figcaption><img src="{s}.png" alt="{s}"></figure>' for s in shots)
    style = "body{font:14px sans-serif} figure{margin:0 0 40px} img{border:1px solid #ccc;max-width:100%}"
    return f'<!doctype html><meta charset="utf-8"><title>Gallery</title><style>{style}</style>\n{figures}\n'


if __name__ == "__main__":
    main()
