"""Documents: nobody's text is overwritten, whoever wrote it and wherever it is kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests import stored
from tests.teams import Team, files_are_the_truth, open_team

from agent_worker.core.clock import TestClock
from agent_worker.core.errors import AgentWorkerError, BadInput, NotFound, Stale
from agent_worker.files.root import Root
from agent_worker.workspaces import workspace_rows
from agent_worker.workspaces.document_rows import Author, revised, revisions
from agent_worker.workspaces.documents import LIMIT, Documents

ALICE, BOB = Author("alice"), Author("bob")
STORES = {"file": "workspace: { provider: file }\n", "sqlite": "workspace: { provider: sqlite }\n"}


@pytest.fixture(params=STORES)
async def team(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Team]:
    async with open_team(tmp_path, "alice", "bob", clock=TestClock(), workflow=STORES[request.param]) as team:
        yield team


@pytest.fixture
async def filed(tmp_path: Path) -> AsyncIterator[Team]:
    async with open_team(tmp_path, "alice", clock=TestClock(), workflow=STORES["file"]) as team:
        yield team


async def documents_of(team: Team) -> Documents:
    workspace = await team.read(workspace_rows.get, team.workspace.id)
    return Documents(team.database, team.clock, workspace, team.runtime.look_at_copies)


async def history(team: Team, name: str) -> list[str]:
    return [row["author"] for row in await team.read(revisions, team.workspace.id, name)]


# --- whatever the store ------------------------------------------------------------------------------------


async def test_what_was_written_is_read(team: Team) -> None:
    documents = await documents_of(team)
    written = await documents.write("plans/release.md", "one", base=None, by=ALICE)
    assert await documents.read("plans/release.md") == written
    assert await documents.names() == ["plans/release.md"]


async def test_a_document_that_only_grows_is_stored_once_and_has_all_its_revisions(team: Team) -> None:
    documents = await documents_of(team)
    for number in range(50):
        await documents.append("log.md", f"line {number}\n", by=Author("alice", key=f"call {number}"))
    now = await documents.read("log.md")
    kept = await team.read(stored.documents, name="log.md")
    assert sum(len(row["text"]) for row in kept) <= 2 * len(now.text)
    for n in (1, 2, 25, 50):
        before, after = await team.read(revised, team.workspace.id, "log.md", n)
        assert (before.count("\n"), after.count("\n")) == (n - 1, n)
        assert now.text.startswith(after)
    again = await documents.append("log.md", "line 7\n", by=Author("alice", key="call 7"))
    assert again.text.endswith("line 7\n")
    assert again.text.count("\n") == 8
    await documents.write("log.md", "anew", base=now.revision, by=ALICE)
    assert await team.read(revised, team.workspace.id, "log.md", 51) == (now.text, "anew")


async def test_a_write_on_the_revision_that_was_read_replaces_it(team: Team) -> None:
    documents = await documents_of(team)
    first = await documents.write("a.md", "one", base=None, by=ALICE)
    second = await documents.write("a.md", "two", base=first.revision, by=BOB)
    assert (await documents.read("a.md")).text == "two"
    assert second.revision != first.revision
    assert await history(team, "a.md") == ["alice", "bob"]


async def test_a_stale_write_is_refused_with_the_revision_that_stands(team: Team) -> None:
    documents = await documents_of(team)
    first = await documents.write("a.md", "one", base=None, by=ALICE)
    second = await documents.write("a.md", "two", base=first.revision, by=BOB)
    with pytest.raises(Stale, match=f"it is at revision {second.revision[:12]} now"):
        await documents.write("a.md", "three", base=first.revision, by=ALICE)
    assert (await documents.read("a.md")).text == "two"


async def test_creating_what_exists_is_refused(team: Team) -> None:
    documents = await documents_of(team)
    await documents.write("a.md", "one", base=None, by=ALICE)
    with pytest.raises(Stale):
        await documents.write("a.md", "mine", base=None, by=BOB)


async def test_writing_what_is_not_there_is_refused(team: Team) -> None:
    with pytest.raises(Stale, match=r"the document a\.md no longer exists"):
        await (await documents_of(team)).write("a.md", "one", base="0" * 64, by=ALICE)


async def test_reading_what_is_not_there_lists_what_is(team: Team) -> None:
    documents = await documents_of(team)
    await documents.write("a.md", "one", base=None, by=ALICE)
    with pytest.raises(NotFound, match=r"there is no document b\.md") as missing:
        await documents.read("b.md")
    assert missing.value.hint == "documents: a.md"


async def test_all_of_many_appends_at_once_are_kept(team: Team) -> None:
    first, second = await documents_of(team), await documents_of(team)
    await asyncio.gather(
        *(d.append("notes.md", f"line {n}\n", by=a) for n in range(20) for d, a in ((first, ALICE), (second, BOB)))
    )
    lines = (await first.read("notes.md")).text.splitlines()
    assert sorted(lines) == sorted(f"line {n}" for n in range(20) for _ in range(2))
    assert len(await history(team, "notes.md")) == 40


async def test_of_many_writes_on_one_revision_one_wins_and_the_others_are_told(team: Team) -> None:
    documents = await documents_of(team)
    base = await documents.write("a.md", "one", base=None, by=ALICE)
    outcomes = await asyncio.gather(
        *(documents.write("a.md", f"text {n}", base=base.revision, by=BOB) for n in range(10)), return_exceptions=True
    )
    assert sum(isinstance(outcome, Stale) for outcome in outcomes) == 9
    assert len(await history(team, "a.md")) == 2


async def test_a_call_that_is_made_again_changes_nothing(team: Team) -> None:
    documents, once = await documents_of(team), Author("alice", key="work/3/c1")
    first = await documents.append("notes.md", "once\n", by=once)
    await documents.append("notes.md", "meanwhile\n", by=BOB)
    assert await documents.append("notes.md", "once\n", by=once) == first
    assert (await documents.read("notes.md")).text == "once\nmeanwhile\n"


async def test_an_append_begins_a_line_of_its_own(team: Team) -> None:
    documents = await documents_of(team)
    await documents.append("notes.md", "one", by=ALICE)
    await documents.append("notes.md", "two", by=ALICE)
    assert (await documents.read("notes.md")).text == "one\ntwo"


@pytest.mark.parametrize(
    "name", ["../out.md", "/etc/passwd", "a/../../b", "", ".", "a\x00b", "a\nb", "x" * 300, "con\u202ecealed"]
)
async def test_F1_F2_a_name_that_leads_elsewhere_is_refused(team: Team, name: str) -> None:
    documents = await documents_of(team)
    with pytest.raises(AgentWorkerError):
        await documents.write(name, "text", base=None, by=ALICE)
    with pytest.raises(AgentWorkerError):
        await documents.read(name)


async def test_a_document_holds_four_mebibytes_of_text_and_no_more(team: Team) -> None:
    documents = await documents_of(team)
    with pytest.raises(BadInput, match="at most 4 MiB"):
        await documents.write("a.md", "x" * (LIMIT + 1), base=None, by=ALICE)
    with pytest.raises(BadInput, match="NUL"):
        await documents.write("a.md", "x\x00", base=None, by=ALICE)
    with pytest.raises(BadInput, match="Unicode"):
        await documents.write("a.md", "half a \ud800 character", base=None, by=ALICE)
    assert await documents.names() == []


# --- a person edits the file -------------------------------------------------------------------------------


def folder(team: Team) -> Path:
    assert team.workspace.directory is not None
    return team.workspace.directory / "documents"


async def test_a_persons_edit_is_what_is_read_and_becomes_a_revision(filed: Team) -> None:
    documents = await documents_of(filed)
    first = await documents.write("a.md", "one", base=None, by=ALICE)
    (folder(filed) / "a.md").write_text("one, by a person")
    read = await documents.read("a.md")
    assert read.text == "one, by a person"
    with pytest.raises(Stale, match=read.revision[:12]):
        await documents.write("a.md", "two", base=first.revision, by=ALICE)
    await documents.write("a.md", "two", base=read.revision, by=ALICE)
    assert await history(filed, "a.md") == ["alice", "user", "alice"]


async def test_D8_an_edit_in_the_very_moment_is_kept_and_so_is_ours_and_the_person_is_told(filed: Team) -> None:
    """The file changes after we have looked at it and before ours is put in its place."""
    files_are_the_truth()
    documents = await documents_of(filed)
    first = await documents.write("a.md", "one", base=None, by=ALICE)
    database = filed.database

    class Editor:
        """Lets a person save the file while the revision is being committed."""

        async def write(self, change, *args, **kwargs):  # type: ignore[no-untyped-def]
            if change.__name__ == "revise":
                (folder(filed) / "a.md").write_text("one, by a person")
            return await database.write(change, *args, **kwargs)

        async def read(self, query, *args, **kwargs):  # type: ignore[no-untyped-def]
            return await database.read(query, *args, **kwargs)

        def redact(self, text: str) -> str:
            return text

        async def close(self) -> None: ...

    workspace = await filed.read(workspace_rows.get, filed.workspace.id)
    with pytest.raises(Stale, match="changed by someone else at the same moment; your text is kept as") as conflict:
        await Documents(Editor(), filed.clock, workspace).write("a.md", "two", base=first.revision, by=ALICE)
    assert (folder(filed) / "a.md").read_text() == "one, by a person"
    kept = str(conflict.value).rpartition(" ")[2]
    assert (folder(filed) / kept).read_text() == "two"
    ((kind, text),) = await filed.inbox()
    assert kind == "conflict"
    assert kept in text


async def test_a_file_a_person_put_there_is_a_document(filed: Team) -> None:
    documents = await documents_of(filed)
    folder(filed).mkdir(parents=True, exist_ok=True)
    (folder(filed) / "theirs.md").write_text("by a person")
    assert await documents.names() == ["theirs.md"]
    await documents.append("theirs.md", "and by us", by=ALICE)
    assert (folder(filed) / "theirs.md").read_text() == "by a person\nand by us"


async def test_a_revision_that_a_crash_kept_from_its_file_is_put_there_at_the_next_start(filed: Team) -> None:
    files_are_the_truth()
    documents = await documents_of(filed)
    first = await documents.write("a.md", "one", base=None, by=ALICE)
    second = await documents.write("a.md", "two", base=first.revision, by=ALICE)
    await asyncio.to_thread(Root(folder(filed)).replace, "a.md", "one")
    await filed.change("document", {"revision": second.revision}, filed=0)
    await documents.file_pending()
    assert (folder(filed) / "a.md").read_text() == "two"
    await documents.file_pending()
    assert await filed.inbox() == []


async def test_a_document_deleted_by_a_person_is_gone_and_can_be_made_again(filed: Team) -> None:
    documents = await documents_of(filed)
    await documents.write("a.md", "one", base=None, by=ALICE)
    (folder(filed) / "a.md").unlink()
    with pytest.raises(NotFound):
        await documents.read("a.md")
    await documents.write("a.md", "again", base=None, by=BOB)
    assert (folder(filed) / "a.md").read_text() == "again"
