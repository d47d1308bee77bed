"""M12, M13: votes and the documents of an owner, attacked with the token of a run on the real server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.attacks.insider import AGENT, Insider, environ_with_insider, holding
from tests.faults.report import LONG
from tests.shells.served import Served, served

WORKSPACE = "agents: { alice: { ref: alice }, bob: { ref: bob } }\n"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    tmp = tmp_path_factory.mktemp("decisions")
    with served(tmp, environ_with_insider(tmp), alice=AGENT) as made:
        (made.project / ".workflows" / "review.yaml").write_text(f"{WORKSPACE}workspace: {{ document_owner: bob }}\n")
        made.do("POST", "/trust")
        made.do("POST", "/workflows", workflow="review")
        yield made


@pytest.fixture(scope="module")
def alice(daemon: Served) -> Iterator[Insider]:
    with holding(daemon, "alice@review", "alice") as insider:
        yield insider


def votes(daemon: Served, number: int) -> dict[str, str]:
    shown = daemon.client.request("GET", daemon.query(f"/proposals/{number}?at=@review"))[1]
    return {vote["voter"]: vote["choice"] for vote in shown["votes"]}


def proposed(daemon: Served, *voters: str) -> int:
    made = daemon.do("POST", "/proposals", at="@review", question="Which?", options=["a", "b"], voters=list(voters))
    return int(made["number"])


def ended(daemon: Served, number: int) -> None:
    daemon.client.request("DELETE", daemon.query(f"/proposals/{number}?at=@review"))


def test_M12_a_vote_cast_twice_counts_once(daemon: Served, alice: Insider) -> None:
    number = proposed(daemon, "alice", "user")
    for choice in ("a", "b", "b"):
        assert alice.call("team_vote", proposal=number, choice=choice)[0]
    assert votes(daemon, number) == {"alice": "b"}
    ended(daemon, number)


@pytest.mark.parametrize("argument", ["voter", "agent", "name", "by", "workspace", "weight"])
def test_M12_nobody_votes_for_another(daemon: Served, alice: Insider, argument: str) -> None:
    number = proposed(daemon, "bob", "user")
    assert f"no argument {argument}" in alice.refused("team_vote", proposal=number, choice="a", **{argument: "bob"})
    assert "alice has no vote" in alice.refused("team_vote", proposal=number, choice="a")
    assert "alice" not in votes(daemon, number)
    ended(daemon, number)


def test_M12_after_the_close_nothing_changes(daemon: Served, alice: Insider) -> None:
    number = proposed(daemon, "alice")
    assert alice.call("team_vote", proposal=number, choice="a")[0]
    assert f"proposal {number} is over" in alice.refused("team_vote", proposal=number, choice="b")
    assert votes(daemon, number) == {"alice": "a"}


def test_M12_what_others_asked_is_not_for_an_agent_to_cancel(daemon: Served, alice: Insider) -> None:
    number = proposed(daemon, "user")
    assert "only user or the user can cancel" in alice.refused("team_proposal_cancel", proposal=number)
    for path in (f"/proposals/{number}/votes", f"/proposals/{number}/veto", f"/proposals/{number}/approval"):
        assert daemon.ask("POST", path, body={"at": "@review", "choice": "a"}, token=alice.token).status == 403
    ended(daemon, number)


def test_M12_a_thousand_proposals_are_ten(daemon: Served, alice: Insider) -> None:
    tries = 1000 if LONG else 100
    outcomes = [alice.call("team_proposal_create", question=f"{n}?", voters=["user"])[0] for n in range(tries)]
    assert sum(outcomes) == 10
    shown = daemon.client.request("GET", daemon.query("/proposals?at=@review&open=true"))[1]
    assert len(shown) == 10
    for each in shown:
        ended(daemon, each["number"])


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("team_doc_append", {"text": "mine"}),
        ("team_doc_append", {"text": "mine", "name": "NOTES.md"}),
        ("team_doc_create", {"text": "mine", "name": "new.md"}),
        ("team_doc_create", {"text": "mine", "name": "decisions.md/../notes.md"}),
        ("team_doc_write", {"text": "mine", "name": "notes.md", "revision": "REVISION"}),
        ("team_doc_rename", {"name": "notes.md", "to": "old.md"}),
        ("resource_create", {"text": "mine", "document": "notes.md"}),
    ],
)
def test_M13_there_is_no_way_around_the_owner(
    daemon: Served, alice: Insider, tool: str, arguments: dict[str, str]
) -> None:
    note = daemon.do("POST", "/documents/notes.md", at="@review", text="of the owner\n")
    if "revision" in arguments:
        arguments = arguments | {"revision": note["revision"]}
    alice.refused(tool, **arguments)
    names = daemon.client.request("GET", daemon.query("/documents?at=@review"))[1]
    assert set(names) <= {"notes.md", "decisions.md"}
    read = daemon.client.request("GET", daemon.query("/documents/notes.md?at=@review"))[1]
    assert "mine" not in read["text"]
    for method in ("PUT", "POST"):
        answer = daemon.ask(method, "/documents/notes.md", body={"at": "@review", "text": "mine"}, token=alice.token)
        assert answer.status == 403


def test_M13_a_suggestion_writes_nothing(daemon: Served, alice: Insider) -> None:
    assert alice.call("team_doc_suggest", document="other.md", suggestion="mine")[0]
    names = daemon.client.request("GET", daemon.query("/documents?at=@review"))[1]
    assert "other.md" not in names
