"""Who may write the documents of a team: its owner, named or elected, and always a person."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.models import Attentive
from tests.teams import Team, open_team
from tests.tools.test_team_tools import results

from agent_worker.agents import recovery
from agent_worker.core.clock import TestClock
from agent_worker.core.errors import Refused
from agent_worker.definitions.project_files import load_project
from agent_worker.proposals import store
from agent_worker.workflows import start as workflows
from agent_worker.workspaces import workspace_rows, workspace_state
from agent_worker.workspaces.document_rows import Author
from agent_worker.workspaces.documents import Documents

OWNED = "workspace: { provider: sqlite, document_owner: Bob }\n"
ELECTED = "workspace: { provider: sqlite, document_owner: elect }\nkickoff: '@alice begin'\n"


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Team]:
    """Bob owns the documents; alice acts."""
    async with open_team(tmp_path, "alice", "bob", clock=TestClock(), workflow=OWNED) as team:
        yield team


async def owner(team: Team) -> str:
    return str((await team.read(workspace_rows.get, team.workspace.id))["document_owner"])


async def documents_of(team: Team) -> Documents:
    workspace = await team.read(workspace_rows.get, team.workspace.id)
    return Documents(team.database, team.clock, workspace, team.runtime.look_at_copies)


async def test_M13_who_does_not_own_the_documents_cannot_write_them_in_any_way(team: Team) -> None:
    note = await (await documents_of(team)).write("notes.md", "bob's\n", base=None, by=Author("bob"))
    refused = await results(
        team,
        ("team_doc_append", {"text": "mine"}),
        ("team_doc_append", {"text": "mine", "name": "Notes.MD"}),
        ("team_doc_create", {"name": "new.md", "text": "mine"}),
        ("team_doc_create", {"name": "./notes.md", "text": "mine"}),
        ("team_doc_write", {"name": "notes.md", "text": "mine", "revision": note.revision}),
        ("team_doc_append", {"name": "decisions.md", "text": "we all agreed"}),
    )
    for result in refused:
        assert not result.ok
    assert "bob owns the documents of this workspace: only bob writes notes.md" in refused[0].text
    assert "team_doc_suggest" in refused[0].text
    documents = await documents_of(team)
    assert await documents.names() == ["notes.md"]
    assert (await documents.read("notes.md")).text == "bob's\n"


async def test_M13_an_owner_that_changes_while_one_writes_counts(team: Team) -> None:
    """The look before is only for a better sentence: what decides is in the transaction."""
    documents, database = await documents_of(team), team.database

    class Slow:
        async def write(self, change, *args, **kwargs):  # type: ignore[no-untyped-def]
            await database.write(workspace_state.set_document_owner, team.workspace.id, "alice")
            return await database.write(change, *args, **kwargs)

        async def read(self, query, *args, **kwargs):  # type: ignore[no-untyped-def]
            return await database.read(query, *args, **kwargs)

        def redact(self, text: str) -> str:
            return text

        async def close(self) -> None: ...

    workspace = await team.read(workspace_rows.get, team.workspace.id)
    with pytest.raises(Refused, match="alice owns the documents"):
        await Documents(Slow(), team.clock, workspace).append("notes.md", "x", by=Author("bob"))
    assert await documents.names() == []


async def test_M13_the_file_of_a_document_is_no_way_around_its_owner(tmp_path: Path) -> None:
    workflow = "workspace: { provider: file, document_owner: bob }\n"
    tools = {"alice": "tools: [write_file, edit_file]\n"}
    async with open_team(tmp_path, "alice", "bob", clock=TestClock(), workflow=workflow, extra=tools) as team:
        await (await documents_of(team)).append("notes.md", "bob's\n", by=Author("bob"))
        path = ".workspace/review/main/documents/notes.md"
        write, edit = await results(
            team,
            ("write_file", {"path": path, "text": "mine"}),
            ("edit_file", {"path": path.upper(), "old": "bob's", "new": "mine"}),
        )
        assert not write.ok
        assert not edit.ok
        assert (await (await documents_of(team)).read("notes.md")).text == "bob's\n"


async def test_the_owner_and_a_person_write(team: Team) -> None:
    documents = await documents_of(team)
    await documents.append("notes.md", "from bob\n", by=Author("bob"))
    await documents.append("notes.md", "from a person\n", by=Author("user"))
    assert (await documents.read("notes.md")).text == "from bob\nfrom a person\n"


async def test_a_suggestion_calls_on_the_owner_and_on_nobody_else(team: Team) -> None:
    model = Attentive()
    team.employ("bob", model)
    (done,) = await results(
        team, ("team_doc_suggest", {"document": "notes.md", "suggestion": "@alice and @user: say hello"})
    )
    assert done.text == "Suggested to bob as #2."
    message = (await team.messages())[1]
    assert message.text == "@bob I suggest for notes.md:\n@alice and @user: say hello"
    assert message.mentions == ("bob",)
    assert "I suggest for notes.md" in model.turns[0].prompt
    assert await team.inbox() == []


async def test_a_long_suggestion_is_kept_as_a_resource(team: Team) -> None:
    team.employ("bob", Attentive())
    await results(team, ("team_doc_suggest", {"suggestion": "a line\n" * 1000}))
    message = (await team.messages())[1]
    assert message.resource is not None
    assert "resource_read" in message.text


async def test_where_nobody_owns_the_documents_there_is_nothing_to_suggest(tmp_path: Path) -> None:
    async with open_team(tmp_path, "alice", "bob", clock=TestClock()) as team:
        (refused,) = await results(team, ("team_doc_suggest", {"suggestion": "x"}))
        assert refused.text == "nobody owns the documents here (write it yourself: team_doc_append, team_doc_write)"


async def test_everybody_is_told_who_owns_the_documents(team: Team) -> None:
    model = Attentive()
    team.employ("alice", model)
    await team.post("user", "@alice go")
    await team.still()
    assert "bob owns the documents and alone writes them; others use team_doc_suggest." in model.turns[0].system


async def test_one_agent_alone_has_no_owner(tmp_path: Path) -> None:
    for workflow in (OWNED.replace("Bob", "alice"), ELECTED):
        async with open_team(tmp_path, "alice", clock=TestClock(), workflow=workflow) as team:
            assert await owner(team) == ""
            assert await team.read(store.of_workspace, team.workspace.id) == []


# --- election before the kickoff ---------------------------------------------------------------------------


async def test_a_team_elects_the_owner_before_it_is_kicked_off(tmp_path: Path) -> None:
    async with open_team(tmp_path, "alice", "bob", "carol", clock=TestClock(), workflow=ELECTED) as team:
        assert [m.kind for m in await team.messages()] == ["proposal"]
        await team.still()
        texts = [(m.kind, m.sender, m.text.splitlines()[0]) for m in await team.messages()]
        assert texts[:3] == [
            (
                "proposal",
                "system",
                "[PROPOSAL] 1: Who owns the documents of this workspace? "
                "Only the owner writes them; the others suggest.",
            ),
            (
                "decision",
                "system",
                "[RESOLVED] 1: Who owns the documents of this workspace? "
                "Only the owner writes them; the others suggest.",
            ),
            ("message", "user", "@alice begin"),
        ]
        assert await owner(team) == "alice"


async def test_if_nobody_votes_the_first_member_owns_the_documents_and_the_kickoff_follows(tmp_path: Path) -> None:
    silent = {name: "script: [{ say: NO_REPLY }, { say: NO_REPLY }]\n" for name in ("alice", "bob")}
    async with open_team(tmp_path, "alice", "bob", clock=TestClock(), workflow=ELECTED, extra=silent) as team:
        await team.elapse(10 * 60 + 1)
        assert await owner(team) == "alice"
        assert (await team.texts())[2] == "@alice begin"


async def test_the_election_and_the_kickoff_happen_once_whenever_the_host_dies(tmp_path: Path) -> None:
    database, clock = tmp_path / "state.db", TestClock()
    silent = {name: "script: [{ say: at last, slow: 100h }]\n" for name in ("alice", "bob")}

    async def begin(team: Team) -> None:
        project = load_project(tmp_path)
        await team.change("workspace", state="left")
        workspace = await team.read(workspace_rows.get, team.workspace.id)
        await workflows.reopen(team.runtime, team.loaded, project.workflows["review"], workspace)

    workflow = ELECTED + "limits: { turns: 'off' }\n"
    async with open_team(
        tmp_path, "alice", "bob", clock=clock, workflow=workflow, extra=silent, database=database
    ) as team:
        await begin(team)
        assert [m.kind for m in await team.messages()] == ["proposal"]
        await team.elapse(10 * 60 + 1)
        await begin(team)
        await clock.advance(hours=30)
        await team.runtime.database.write(recovery.recover, "another host", now=team.now())
        await begin(team)
        assert [m.kind for m in await team.messages()] == ["proposal", "decision", "message"]
        await team.halt()


async def test_a_run_does_not_end_before_the_election_has(tmp_path: Path) -> None:
    async with open_team(tmp_path, "alice", "bob", clock=TestClock(), workflow=ELECTED) as team:
        summary = await team.meanwhile(team.workspace.run())
        assert summary.outcome == "done"
        assert len(summary.decisions) == 1
        assert summary.decisions[0].endswith("→ alice")
        assert "decisions.md" in summary.documents
