"""A team at work with everything in it that the page shows, and the address of every view: axe, the tests of every view
and the gallery look at these and no others, so that a new view is added once."""

from __future__ import annotations

import subprocess
from typing import Any

import yaml
from tests import stored
from tests.patience import eventually
from tests.shells.served import Served
from tests.web.browser import Visit, say, script, start

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
    *({"say": "fine"} for _ in range(4)),
)
ASKS = {"question": "Which database shall it be?", "options": ["postgres", "sqlite"]}
BOB = script(
    {"call": {"tool": "team_doc_suggest", "with": {"document": "plan.md", "suggestion": "- two and a half"}}},
    {"call": {"tool": "ask_user", "with": ASKS}},
    {"say": "noted"},
)
#: One who was told what contradicts what it knows, and may become another; one who fails; two who change one file.
WISH = "always explain the trade-offs to me"
SOL = "soul: { role: adviser, principles: [be brief] }\n" + script(
    {"call": {"tool": "soul_suggest", "with": {"value": "Always explain the trade-offs", "quote": WISH}}},
    {"say": "I will"},
    {"call": {"tool": "memory_write", "with": {"key": "deploys", "value": "We deploy on Mondays"}}},
    {"say": "noted"},
)
FAILS = script({"fail": "permanent"})
OWNED = "agents: { alice: { ref: alice }, bob: { ref: bob } }\nworkspace: { provider: sqlite, document_owner: alice }\n"
COPIES = "agents: { nina: { ref: nina }, otto: { ref: otto } }\nworkspace: { provider: sqlite }\n"


def _changes(text: str) -> str:
    call = {"call": {"tool": "write_file", "with": {"path": "app.py", "text": text}}}
    return "tools: [read_file, write_file]\nisolate: worktree\n" + script(call, {"say": "changed"})


OTHERS = {
    LONG_NAME: script({"say": "短い返事 👍"}),
    "sol": SOL,
    "fay": FAILS,
    "nina": _changes("print('from nina')\n"),
    "otto": _changes("print('from otto')\n"),
}


def prepare(daemon: Served) -> None:
    """The project of a daemon that was served with alice=ALICE, bob=BOB becomes such a team."""
    project = daemon.project
    for name, text in OTHERS.items():
        (project / ".agents" / f"{name}.yaml").write_text(f"backend: mock\n{text}")
    (project / ".workflows" / "review.yaml").write_text(OWNED)
    (project / ".workflows" / "copies.yaml").write_text(COPIES)
    (project / "app.py").write_text("print('old')\n")
    for words in (["init", "-q"], ["add", "app.py"], ["commit", "-qm", "begin"]):
        settings = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
        subprocess.run(["git", *settings, *words], cwd=project, capture_output=True, check=True)
    known = project / ".agents" / "sol" / "memory" / "working.yaml"
    known.parent.mkdir(parents=True)
    known.write_text(yaml.safe_dump({"deploys": {"value": "We deploy on Fridays", "by": "user"}}))
    daemon.do("POST", "/trust")
    _talk(daemon)


def _talk(daemon: Served) -> None:
    start(daemon)
    start(daemon, workflow="copies")
    say(daemon, "@alice please measure, and @bob think of the database")
    _comes(daemon, "question")
    settled("the table", lambda: any("Measured" in row["text"] for row in daemon.read(stored.messages)))
    daemon.do("POST", "/send", to="alice", message="and look at what is there")
    daemon.do("POST", "/ask", agent=LONG_NAME, message="你好")
    _comes(daemon, "approval")
    daemon.do("PUT", "/agents/alice/memory", key="measured", value="with ten thousand messages, 一万条")
    choice = {"options": ["tabs", "spaces", "两者都不"], "voters": ["user", "alice", "bob"]}
    daemon.do("POST", "/proposals", at="@review", question="Tabs or spaces?", **choice)
    for message in (WISH, "look around"):
        daemon.do("POST", "/serve", agent="sol", message=message)
    daemon.do("POST", "/send", to="fay", message="try it")
    say(daemon, "@nina @otto improve it", to="@copies")
    for kind in ("soul", "dispute", "failure"):
        _comes(daemon, kind)
    settled("an overlap", lambda: any("have both changed" in row["text"] for row in daemon.read(stored.messages)))


def _comes(daemon: Served, kind: str) -> None:
    settled(f"a {kind}", lambda: any(row["kind"] == kind for row in daemon.read(stored.inbox)))


def settled(what: str, holds: Any) -> None:
    assert eventually(holds), f"{what} did not come"


def places(guest: Visit) -> dict[str, str]:
    """Every view, by name."""
    run, failed = (guest.daemon.read(stored.runs, name=name)[0]["id"] for name in ("alice", "fay"))
    return {
        "home": "#/home",
        "inbox": "#/inbox",
        "settings": "#/settings",
        **{tab: guest.workspace(tab=tab) for tab in ("channel", "team", "documents", "decisions", "map")},
        "message": guest.workspace(seq="2"),
        "copies": guest.workspace("copies"),
        "overlap": guest.workspace("copies", tab="map"),
        "no-decisions": guest.workspace("copies", tab="decisions"),
        "no-documents": guest.workspace("copies", tab="documents"),
        "document": guest.place("doc/review", name="plan.md"),
        "agent": guest.place("agent/alice"),
        "guard": guest.place("agent/sol"),
        "long-name": guest.place(f"agent/{LONG_NAME}"),
        "run": guest.place(f"run/{run}"),
        "failed-run": guest.place(f"run/{failed}"),
        "file": guest.place("file/.agents%2Falice.yaml"),
        "new-agent": guest.place("new/agent"),
        "new-workflow": guest.place("new/workflow"),
        "new-project": "#/new-project",
        "new-document": guest.place("new-document/review"),
        "new-proposal": guest.place("new-proposal/review"),
        "start": guest.place("start/review"),
        "approval": guest.place("approval"),
        "runs": guest.place("runs"),
        "search": "#/search/alice",
        "nothing-found": "#/search/zzzz",
        "audit": guest.place("audit/alice"),
        "nowhere": "#/workspace/nope",
    }
