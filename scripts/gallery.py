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

from tests import stored  # noqa: E402
from tests.patience import eventually  # noqa: E402
from tests.shells.served import Served, served  # noqa: E402
from tests.web.browser import PICTURES, Visit, chromium, say, script, start, visit  # noqa: E402

from agent_worker.client.discovery import signal_daemon  # noqa: E402

GALLERY = PICTURES / "gallery"
WIDTHS = (1440, 390)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
LONG_NAME = "a-reviewer-with-a-name-that-is-as-long-as-names-may-be"

TABLE = """Measured, **all of it**:

| case | before | after | a cell that is much wider than anybody wants it to be, and yet somebody wrote it |
|---|---:|---:|---|
| 一万条消息 | 1.2 s | 0.1 s | `src/agent_worker/daemon/web/static/conversation.js` is where the time went |
| emoji 👩‍👩‍👧 🇨🇭 ✍🏽 | 3 ms | 3 ms | fine |

```python
def follow(channel: str) -> None:
    print(f"一 {channel} 👍")
```
https://example.org/a/very/long/address/that/nobody/breaks/by/hand/and/that/has/no/spaces/in/it/at/all.html"""
ALICE = "soul: { role: reviewer, principles: [be kind] }\ntools: [{ name: bash, approve: true }]\n" + script(
    {"call": {"tool": "team_doc_create", "with": {"name": "plan.md", "text": "# Plan\n\n- one\n- 二\n"}}},
    {"call": {"tool": "team_doc_append", "with": {"name": "plan.md", "text": "- three\n"}}},
    {"say": TABLE},
    {"call": {"tool": "bash", "with": {"command": "git status --short | head -5 && rm -rf build/"}}},
    {"say": "done"},
)
ASKS = {"question": "Which database shall it be?", "options": ["postgres", "sqlite"]}
BOB = script({"call": {"tool": "ask_user", "with": ASKS}}, {"say": "noted"}, {"fail": "permanent"})


def main() -> None:
    GALLERY.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as tmp, served(Path(tmp), alice=ALICE, bob=BOB) as daemon, chromium() as browser:
        prepare(daemon, Path(tmp))
        shots = [shot for width in WIDTHS for scheme in SCHEMES for shot in take(browser, daemon, width, scheme)]
        shots += list(take_offline(browser, daemon))
    (GALLERY / "index.html").write_text(index(shots))
    print(f"{len(shots)} pictures: {GALLERY / 'index.html'}")


def prepare(daemon: Served, tmp: Path) -> None:
    """A team at work, a colleague with a long name, and two other projects with people of the same names."""
    (daemon.project / ".agents" / f"{LONG_NAME}.yaml").write_text("backend: mock\n" + script({"say": "短い返事 👍"}))
    for name in ("shop", "a-project-with-a-long-name-too-as-some-have"):
        daemon.beside(tmp / name)
    daemon.do("POST", "/trust")
    start(daemon)
    say(daemon, "@alice please measure, and @bob think of the database")
    settled(daemon, "a question", lambda: len(daemon.ask("GET", daemon.query("/inbox")).json) >= 1)
    settled(daemon, "the table", lambda: any("Measured" in row["text"] for row in daemon.read(stored.messages)))
    daemon.do("POST", "/send", to="alice", message="and look at what is there")
    daemon.do("POST", "/ask", agent=LONG_NAME, message="你好")
    settled(daemon, "an approval", lambda: len(daemon.ask("GET", daemon.query("/inbox")).json) >= 2)
    daemon.do("PUT", "/agents/alice/memory", key="measured", value="with ten thousand messages, 一万条")
    choice = {"options": ["tabs", "spaces", "两者都不"], "voters": ["user", "alice", "bob"]}
    daemon.do("POST", "/proposals", at="@review", question="Tabs or spaces?", **choice)


def settled(daemon: Served, what: str, holds: Any) -> None:
    assert eventually(holds), f"{what} did not come"


def places(guest: Visit) -> dict[str, str]:
    run = guest.daemon.read(stored.runs, name="alice")[0]["id"]
    return {
        "home": "#/home",
        "inbox": "#/inbox",
        "workspace": guest.workspace(),
        "decisions": guest.workspace(tab="decisions"),
        "documents": guest.workspace(tab="documents"),
        "map": guest.workspace(tab="map"),
        "document": guest.place("doc/review", name="plan.md"),
        "agent": guest.place("agent/alice"),
        "long-name": guest.place(f"agent/{LONG_NAME}"),
        "run": guest.place(f"run/{run}"),
        "file": guest.place("file/.agents%2Falice.yaml"),
        "audit": guest.place("audit/alice"),
        "new-agent": guest.place("new/agent"),
        "new-project": "#/new-project",
        "new-document": guest.place("new-document/review"),
        "new-proposal": guest.place("new-proposal/review"),
        "start": guest.place("start/review"),
        "approval": guest.place("approval"),
        "search": "#/search/alice",
        "team": guest.workspace(tab="team"),
        "nowhere": "#/workspace/nope",
    }


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
