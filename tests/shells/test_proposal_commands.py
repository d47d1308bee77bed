"""Deciding with a team from outside: the command line and HTTP, against a real daemon."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests import stored
from tests.patience import eventually
from tests.shells.served import follow, served
from tests.shells.terminal import Terminal

ELECTS = """
name: elects
agents: { ann: { backend: mock }, bea: { backend: mock } }
workspace: { document_owner: elect }
kickoff: "@ann begin"
"""


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    with served(tmp_path_factory.mktemp("proposals")) as daemon:
        (daemon.project / ".workflows" / "elects.yaml").write_text(ELECTS)
        made = Terminal(daemon)
        made.says("start", "review")
        yield made


def create(terminal: Terminal, *arguments: str) -> Any:
    return terminal.json("proposal", "create", "@review", *arguments)


def show(terminal: Terminal, number: int) -> Any:
    return terminal.json("proposal", "show", "@review", str(number))


def voted(terminal: Terminal, number: int, *names: str) -> None:
    """Mock agents vote by themselves; that takes a moment."""
    assert eventually(lambda: set(names) <= {vote["voter"] for vote in show(terminal, number)["votes"]})


def test_a_person_asks_votes_and_sees_what_was_decided(terminal: Terminal) -> None:
    made = create(
        terminal, "Which index?", "--option", "tree", "--option", "hash", "--voter", "alice", "--voter", "user"
    )
    number = made["number"]
    assert (made["state"], made["missing"], made["tally"]) == ("open", ["alice", "user"], {"tree": 0, "hash": 0})
    voted(terminal, number, "alice")
    said = terminal.says("proposal", "vote", "@review", str(number), "TREE", "--reason", "sorted")
    assert f"proposal {number}  Which index?" in said
    assert "  2  tree  alice, user" in said
    assert "resolved: → tree" in said
    assert "Which index?" in terminal.says("proposal", "list", "@review")
    assert "Which index?" not in terminal.says("proposal", "list", "@review", "--open")
    assert "- resolved: tree" in terminal.says("doc", "read", "@review", "decisions.md")


def test_what_waits_for_a_vote_is_in_the_inbox_and_answered_from_there(terminal: Terminal) -> None:
    made = create(terminal, "Release?", "--kind", "approval", "--veto", "--voter", "bob")
    voted(terminal, made["number"], "bob")
    (item,) = terminal.json("inbox")
    assert (item["kind"], item["answers"]) == ("veto", ["approve", "deny"])
    assert "Release?" in item["text"]
    assert "is vetoed" in terminal.says("inbox", "deny", item["id"], "the tests are red")
    shown = show(terminal, made["number"])
    assert (shown["state"], shown["result"]) == ("vetoed", "vetoed: the tests are red")
    assert terminal.json("inbox") == []


def test_an_agents_question_to_the_person_is_answered_with_an_option(terminal: Terminal) -> None:
    script = (
        "backend: mock\nscript:\n"
        "  - call:\n      tool: team_proposal_create\n"
        "      with: { question: Tea or coffee?, options: [tea, coffee], voters: [user] }\n"
        "  - say: ''\n  - say: I will bring it\n"
    )
    (terminal.daemon.project / ".agents" / "tim.yaml").write_text(script)
    (terminal.daemon.project / ".workflows" / "tea.yaml").write_text(
        "agents: { tim: { ref: tim } }\nworkspace: { provider: sqlite }\nkickoff: '@tim ask'\n"
    )
    terminal.says("start", "tea")
    (item,) = eventually(lambda: terminal.json("inbox"))
    assert (item["kind"], item["workspace"]) == ("vote", "tea")
    assert terminal.run("inbox", "answer", item["id"], "water").returncode == 2
    assert terminal.says("inbox", "answer", item["id"], "coffee") == "done; proposal 1 is resolved\n"
    assert eventually(lambda: "I will bring it" in terminal.says("peek", "@tea"))
    terminal.says("stop", "@tea")


def test_approving_and_cancelling(terminal: Terminal) -> None:
    made = create(terminal, "Ship it?", "--veto", "--voter", "alice")
    voted(terminal, made["number"], "alice")
    assert "resolved: → yes" in terminal.says("proposal", "approve", "@review", str(made["number"]))
    other = create(terminal, "And this?", "--voter", "user")
    said = terminal.says("proposal", "cancel", "@review", str(other["number"]), "no need")
    assert "cancelled: no need" in said


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("vote", "@review", "999", "yes"), "there is no proposal 999 here"),
        (("vote", "@nothing", "1", "yes"), "there is no workflow nothing"),
        (("create", "@review", "Which?", "--option", "one"), "2 to 50 options"),
        (("create", "@review", "Which?", "--voter", "nobody"), "hint: voters: alice, bob, user"),
        (("create", "@review", "Which?", "--minutes", "99999"), "7 days"),
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(terminal: Terminal, arguments: tuple[str, ...], sentence: str) -> None:
    done = terminal.run("proposal", *arguments)
    assert done.returncode == 2
    assert sentence in done.stderr


def test_a_run_with_an_election_says_what_was_decided(terminal: Terminal) -> None:
    said = terminal.says("run", "elects")
    assert "[PROPOSAL] 1: Who owns the documents" in said
    assert said.index("[RESOLVED] 1:") < said.index("@ann begin")
    assert "decided: Who owns the documents of this workspace?" in said
    documents = terminal.daemon.project / ".workspace" / "elects" / "main" / "documents"
    assert "- resolved: ann" in (documents / "decisions.md").read_text()


def test_votes_and_decisions_are_streamed(terminal: Terminal) -> None:
    daemon = terminal.daemon
    connection, events = follow(daemon, daemon.query("/events?at=@review&kind=proposal,vote,decision"))
    made = daemon.do("POST", "/proposals", at="@review", question="Live?", voters=["alice", "user"], vote="yes")
    kinds = [next(events)["event"] for _ in range(4)]
    connection.close()
    assert kinds == ["proposal", "vote", "vote", "decision"]
    shown = daemon.client.request("GET", daemon.query(f"/proposals/{made['number']}?at=@review"))[1]
    assert shown["tally"] == {"yes": 2, "no": 0}


def test_a_person_writes_the_documents_of_an_owner(terminal: Terminal) -> None:
    daemon = terminal.daemon
    daemon.do(
        "POST",
        "/proposals",
        at="@review",
        question="Who?",
        kind="election",
        role="document_owner",
        voters=["user"],
        vote="bob",
    )
    assert "is at revision" in terminal.says("doc", "append", "@review", "plan.md", "- Friday")
    assert [row["document_owner"] for row in daemon.read(stored.workspaces, workflow="review")] == ["bob"]
