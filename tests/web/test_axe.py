"""Axe, which others wrote, finds nothing wrong with any view: wide and narrow, light and dark."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from tests import stored
from tests.needs import AXE, needs
from tests.patience import eventually
from tests.shells.served import Served, served
from tests.web.browser import Browser, Visit, needs_chromium, say, script, start, visit, wait

pytestmark = [needs_chromium, needs("axe-core", there=AXE.exists())]

ALICE = "soul: { role: reviewer, principles: [be kind] }\ntools: [{ name: bash, approve: true }]\n" + script(
    {"call": {"tool": "team_doc_create", "with": {"name": "plan.md", "text": "# Plan\n\n- one\n"}}},
    {"call": {"tool": "team_doc_read", "with": {"name": "plan.md"}}},
    {"say": "@bob please look:\n\n```python\nprint('a')\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"},
    {"call": {"tool": "bash", "with": {"command": "rm -rf build/"}}},
    {"say": "done"},
)
BOB = script(
    {"call": {"tool": "team_doc_suggest", "with": {"document": "plan.md", "suggestion": "- two"}}},
    {"call": {"tool": "ask_user", "with": {"question": "Tea or coffee?", "options": ["tea", "coffee"]}}},
    {"say": "looked"},
)
OWNED = "agents: { alice: { ref: alice }, bob: { ref: bob } }\nworkspace: { provider: sqlite, document_owner: alice }\n"
LOOKS = list(itertools.product((1440, 390), ("light", "dark")))
#: Everything is open, and what was fetched for it is there.
UNFOLDED = (
    """() => [...document.querySelectorAll('main details[data-load][open]')].every((e) => e.children.length > 1)"""
)
RUN = """async () => (await axe.run(document, { resultTypes: ['violations'] })).violations.map((found) =>
  `${found.id}: ${found.help}: ${found.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(' | ')}`)"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("axe"), alice=ALICE, bob=BOB) as made:
        (made.project / ".workflows" / "review.yaml").write_text(OWNED)
        made.do("POST", "/trust")
        start(made)
        say(made, "@alice begin")
        made.do("POST", "/proposals", at="@review", question="Tabs?", options=["yes", "no"], voters=["user"])
        assert eventually(lambda: "question" in kinds(made))
        made.do("POST", "/send", to="alice", message="and now")
        made.do("PUT", "/agents/alice/memory", key="tea", value="green")
        assert eventually(lambda: "approval" in kinds(made))
        yield made


def kinds(daemon: Served) -> set[str]:
    return {str(row["kind"]) for row in daemon.read(stored.inbox)}


def places(guest: Visit) -> dict[str, str]:
    run = guest.daemon.read(stored.runs, name="alice")[0]["id"]
    return {
        "home": "#/home",
        "inbox": "#/inbox",
        **{tab: guest.workspace(tab=tab) for tab in ("channel", "team", "documents", "decisions", "map")},
        "document": guest.place("doc/review", name="plan.md"),
        "agent": guest.place("agent/alice"),
        "run": guest.place(f"run/{run}"),
        "file": guest.place("file/.agents%2Falice.yaml"),
        "new": guest.place("new/workflow"),
        "search": "#/search/alice",
        "audit": guest.place("audit/alice"),
        "new-agent": guest.place("new/agent"),
        "new-project": "#/new-project",
        "new-document": guest.place("new-document/review"),
        "new-proposal": guest.place("new-proposal/review"),
        "start": guest.place("start/review"),
        "approval": guest.place("approval"),
        "nowhere": "#/workspace/nope",
    }


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
