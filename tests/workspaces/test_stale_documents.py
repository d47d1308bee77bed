"""Row D11: nobody's text is reverted by who read an earlier one, also where no lock of one process helps."""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests import stored
from tests.teams import Team, files_are_the_truth, open_team

from agent_worker.core.clock import TestClock
from agent_worker.core.errors import Stale
from agent_worker.files.root import Root
from agent_worker.workspaces import workspace_rows
from agent_worker.workspaces.document_rows import Author, revisions
from agent_worker.workspaces.documents import Documents

STORES = {"file": "workspace: { provider: file }\n", "sqlite": "workspace: { provider: sqlite }\n"}
NAME = "plan.md"


class OtherEngine:
    """The same stored state through another door: what one engine's writers do for each other, it knows nothing of."""

    def __init__(self, team: Team, chance: random.Random) -> None:
        self._database = team.database
        self._chance = chance
        self.redact = self._database.redact

    async def read(self, *args: Any, **kwargs: Any) -> Any:
        await self._dawdle()
        return await self._database.read(*args, **kwargs)

    async def write(self, *args: Any, **kwargs: Any) -> Any:
        await self._dawdle()
        return await self._database.write(*args, **kwargs)

    async def _dawdle(self) -> None:
        """Others come in between."""
        for _ in range(self._chance.randrange(30)):
            await asyncio.sleep(0)


@pytest.fixture(params=STORES)
async def team(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Team]:
    async with open_team(tmp_path, "alice", "bob", clock=TestClock(), workflow=STORES[request.param]) as team:
        yield team


async def documents_of(team: Team, chance: random.Random | None = None) -> Documents:
    workspace = await team.read(workspace_rows.get, team.workspace.id)
    other, copies = OtherEngine(team, chance or random.Random(1)), team.runtime.look_at_copies
    return Documents(other, team.clock, workspace, copies)  # type: ignore[arg-type]


async def test_D11_a_write_on_a_stale_base_is_refused_though_another_engine_made_it_stale(team: Team) -> None:
    """Both have read the same; the second commits after the first, between the first one's look and its commit."""
    slow, quick = await documents_of(team), await documents_of(team)
    before = await quick.write(NAME, "start\n", base=None, by=Author("bob"))
    outcomes = await asyncio.gather(
        *(
            each.write(NAME, f"start\n{who}\n", base=before.revision, by=Author(who))
            for who, each in {"alice": slow, "bob": quick}.items()
        ),
        return_exceptions=True,
    )
    (refused,) = [outcome for outcome in outcomes if isinstance(outcome, Stale)]
    (won,) = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
    assert (await quick.read(NAME)).text == won.text
    assert "has changed since you read it" in refused.message


@pytest.mark.parametrize("seed", range(12))
async def test_D11_what_was_told_as_written_stays_and_what_was_refused_is_not_there(team: Team, seed: int) -> None:
    if team.workspace.directory:
        files_are_the_truth()
    chance = random.Random(seed)
    engines = [await documents_of(team, random.Random(seed * 10 + n)) for n in range(3)]
    root = Root(team.workspace.directory).beneath("documents") if team.workspace.directory else None
    done: list[str] = []
    kept_aside: list[str] = []

    async def append(documents: Documents, mark: str) -> None:
        await told(mark, documents.append(NAME, f"<{mark}>\n", by=Author("alice", mark)))

    async def rewrite(documents: Documents, mark: str) -> None:
        now = await documents.read(NAME)
        await told(mark, documents.write(NAME, f"<{mark}>\n{now.text}", base=now.revision[:12], by=Author("bob", mark)))

    async def edit(_: Documents, mark: str) -> None:
        """A person, who saves only what nobody has changed meanwhile."""
        if root is not None:
            text = await asyncio.to_thread(root.read_text, NAME)
            saved = await asyncio.to_thread(_saved, root, text, f"<{mark}>\n{text}")
            done.extend([mark] if saved else [])

    async def told(mark: str, writing: Any) -> None:
        try:
            await writing
        except Stale as error:
            kept_aside.extend([mark] if "is kept as" in error.message else [])
        else:
            done.append(mark)

    await engines[0].write(NAME, "", base=None, by=Author("alice"))
    doings: list[Callable[[Documents, str], Any]] = [append, append, rewrite, edit]
    await asyncio.gather(*(chance.choice(doings)(chance.choice(engines), f"m{n}") for n in range(24)))
    text = (await engines[0].read(NAME)).text
    assert Counter(re.findall(r"<(.*?)>", text)) == Counter(done)
    if root is not None:
        beside = [e.name for e in await asyncio.to_thread(root.list) if ".conflict-" in e.name]
        assert len(beside) == len(kept_aside)
        assert await team.read(stored.documents, filed=0) == []
    numbers = [row["n"] for row in await team.read(revisions, team.workspace.id, NAME)]
    assert numbers == list(range(1, len(numbers) + 1))


def _saved(root: Root, before: str, after: str) -> bool:
    """As an editor that looks whether the file is still what it read, and then renames its own over it."""
    from agent_worker.files.swap import Conflict, content_hash

    outcome = root.swap(NAME, after, expected=content_hash(before))
    if isinstance(outcome, Conflict):
        root.remove(outcome.kept)
    return isinstance(outcome, str)


async def test_D11_two_spellings_at_one_moment_are_one_document(team: Team) -> None:
    engines = [await documents_of(team, random.Random(n)) for n in range(4)]
    names = ("Plan.md", "plan.md", "PLAN.md", "plan.MD")
    await asyncio.gather(
        *(each.append(name, f"<{name}>\n", by=Author("alice")) for name, each in zip(names, engines, strict=True))
    )
    assert len(await engines[0].names()) == 1
    assert sorted(re.findall(r"<(.*?)>", (await engines[0].read("plan.md")).text)) == sorted(names)


async def test_D11_who_comes_after_a_conflict_is_not_told_that_it_was_theirs(tmp_path: Path) -> None:
    """A revision that a crash kept from its file, an edit by a person, and then somebody else who adds a line."""
    files_are_the_truth()
    async with open_team(tmp_path, "alice", clock=TestClock(), workflow=STORES["file"]) as team:
        documents = await documents_of(team)
        await documents.write(NAME, "first\n", base=None, by=Author("alice"))
        await documents.append(NAME, "second\n", by=Author("alice"))
        assert team.workspace.directory
        file = team.workspace.directory / "documents" / NAME
        await team.change("document", {"n": 2}, filed=0)
        file.write_text("a person's\n")
        await documents.append(NAME, "third\n", by=Author("alice"))
        assert file.read_text() == "a person's\nthird\n"
        (asked,) = await team.asked(kind="conflict")
        assert f"{NAME} was edited while alice wrote it" in asked["text"]


async def test_D11_a_shortened_revision_names_its_document_and_too_short_a_one_does_not(team: Team) -> None:
    documents = await documents_of(team)
    made = await documents.write(NAME, "one", base=None, by=Author("alice"))
    with pytest.raises(Stale):
        await documents.write(NAME, "two", base=made.revision[:5], by=Author("alice"))
    assert (await documents.write(NAME, "two", base=made.revision[:12], by=Author("alice"))).text == "two"
