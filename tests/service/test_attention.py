"""The person's inbox: everything that waits for one is listed, kept, and answered so that it reaches whoever waits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.models import Attentive
from tests.teams import Team, open_team
from tests.test_limits import Chatter

from agent_worker.backends.mock import calls, fails, says
from agent_worker.clock import TestClock
from agent_worker.errors import BadInput, NotRunning
from agent_worker.service.attention import Item, attention_answer, attention_list
from agent_worker.service.office import Office
from agent_worker.workflows import instance as workflows

BOUND = "workspace: { provider: sqlite, bind: ./data }\n"


@dataclass
class Desk:
    team: Team
    office: Office
    root: str

    async def items(self) -> list[Item]:
        return await attention_list(self.office, self.root)

    async def only(self, sort: str) -> Item:
        (item,) = await self.items()
        assert item.sort == sort
        return item


Open = Callable[..., AbstractAsyncContextManager[Desk]]


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    @asynccontextmanager
    async def make(*agents: str, **how: object) -> AsyncIterator[Desk]:
        root = tmp_path / "p"
        async with open_team(root, *agents, clock=TestClock(), database=tmp_path / "state.db", **how) as team:  # type: ignore[arg-type]
            office = Office(team.engine.stage)
            await office.project(str(root))
            yield Desk(team, office, str(root))
            await office.close()

    return make


async def test_an_answer_to_a_mention_is_an_instruction_for_whoever_mentioned_the_person(opened: Open) -> None:
    async with opened("alice", "bob") as desk:
        desk.team.backends["alice"].then(says("@user which colour?"), says("red it is"))
        await desk.team.post("user", "@alice paint it")
        await desk.team.meanwhile(desk.team.quiet())
        item = await desk.only("mention")
        assert (item.agent, item.workspace, item.answers) == ("alice", "review", ["answer", "drop"])
        with pytest.raises(BadInput, match="needs a text"):
            await attention_answer(desk.office, item.id, "answer", "  ")
        await attention_answer(desk.office, item.id, "answer", "red, please")
        await desk.team.meanwhile(desk.team.quiet())
        assert await desk.items() == []
        assert (await desk.team.texts())[-2:] == ["@alice red, please", "red it is"]


async def test_a_mention_from_a_workflow_that_has_ended_says_what_to_type(opened: Open) -> None:
    async with opened("alice") as desk:
        desk.team.backends["alice"].then(says("@user it is done"))
        await desk.team.post("user", "@alice go")
        await desk.team.meanwhile(desk.team.room.run())
        item = await desk.only("mention")
        with pytest.raises(NotRunning, match="agent-worker start review"):
            await attention_answer(desk.office, item.id, "answer", "thanks")
        await attention_answer(desk.office, item.id, "drop")
        assert await desk.items() == []


async def test_a_question_that_is_dropped_lets_the_work_go_on_without_an_answer(opened: Open) -> None:
    async with opened("alice") as desk:
        desk.team.backends["alice"].then(calls("ask_user", question="tea?"), says("I decided myself"))
        await desk.team.dm("alice", "choose")
        await desk.team.still()
        item = await desk.only("question")
        await attention_answer(desk.office, item.id, "drop")
        await desk.team.idle()
        assert (await desk.team.thread("alice"))[-1].text == "I decided myself"


async def test_a_limit_is_lifted_and_the_team_goes_on(opened: Open) -> None:
    async with opened("alice", "bob", workflow=BOUND + "limits: { turns: 4 }\n") as desk:
        desk.team.employ("alice", Chatter("bob"))
        desk.team.employ("bob", Chatter("alice"))
        await desk.team.post("user", "@alice begin")
        await desk.team.meanwhile(desk.team.quiet())
        item = await desk.only("limit")
        before = len(await desk.team.texts())
        assert "new allowance" in await attention_answer(desk.office, item.id, "retry")
        await desk.team.meanwhile(desk.team.quiet())
        assert len(await desk.team.texts()) >= before + 4
        assert len(await desk.items()) == 1, "the limit was met again, and is one item again"


@pytest.mark.parametrize("workflow", [BOUND, "workspace: { provider: sqlite }\n"])
async def test_a_limit_that_ended_a_run_is_lifted_where_the_work_is_kept_and_explained_where_it_is_not(
    opened: Open, workflow: str
) -> None:
    async with opened("alice", "bob", workflow=f"{workflow}limits: {{ turns: 4 }}\n") as desk:
        desk.team.employ("alice", Chatter("bob"))
        desk.team.employ("bob", Chatter("alice"))
        await desk.team.post("user", "@alice begin")
        summary = await desk.team.meanwhile(desk.team.room.run())
        assert summary.exit_code == 3
        item = await desk.only("limit")
        if workflow != BOUND:
            with pytest.raises(NotRunning, match="has ended"):
                await attention_answer(desk.office, item.id, "retry")
            return
        assert "agent-worker start review" in await attention_answer(desk.office, item.id, "retry")
        model = Attentive()
        definition = desk.team.admitted.project.workflows["review"]
        desk.team.employ("alice", model)
        desk.team.employ("bob", model)
        room = await workflows.start(desk.team.engine.stage, desk.team.admitted, workflows.Start(definition))
        await desk.team.meanwhile(room.run())
        assert model.turns, "what was left was done"


async def test_a_failure_is_tried_again(opened: Open) -> None:
    async with opened("alice") as desk:
        desk.team.backends["alice"].then(fails("permanent"), says("now it worked"))
        await desk.team.post("user", "@alice go")
        await desk.team.meanwhile(desk.team.quiet())
        item = await desk.only("failure")
        assert await attention_answer(desk.office, item.id, "retry") == "is tried again"
        await desk.team.meanwhile(desk.team.quiet())
        assert (await desk.team.texts())[-1] == "now it worked"
        assert await desk.items() == []


async def test_what_killed_its_worker_too_often_is_a_dead_letter_that_can_be_tried_again(opened: Open) -> None:
    how = {"workflow": BOUND, "extra": {"alice": "script: [{ say: never heard, slow: 10m }]\n"}}
    for n in range(3):
        async with opened("alice", **how) as desk:
            if n == 0:
                await desk.team.dm("alice", "go")
            await desk.team.still()
            # The process ends here without a word: the run stays open.
            await desk.team.write(lambda tx: tx.run("update agent set owner = 'a host that died'"))
            await desk.team.halt()
    async with opened("alice", workflow=BOUND) as desk:
        item = await desk.only("dead")
        desk.team.employ("alice", Attentive(lambda turn: "alive"))
        assert await attention_answer(desk.office, item.id, "retry") == "is tried again"
        await desk.team.idle()
        assert (await desk.team.thread("alice"))[-1].text == "alive"


async def test_everything_that_waits_is_there_after_a_restart_and_answered_then(opened: Open) -> None:
    async with opened("alice", workflow=BOUND) as desk:
        desk.team.backends["alice"].then(says("@user which?"), calls("ask_user", question="tea?"))
        await desk.team.post("user", "@alice go")
        await desk.team.meanwhile(desk.team.quiet())
        await desk.team.dm("alice", "choose")
        await desk.team.still()
        before = await desk.items()
        assert sorted(item.sort for item in before) == ["mention", "question"]
    async with opened("alice", workflow=BOUND) as desk:
        assert await desk.items() == before
        model = Attentive()
        desk.team.employ("alice", model)
        for item in before:
            await attention_answer(desk.office, item.id, "answer", f"my answer to the {item.sort}")
        await desk.team.idle()
        assert any("my answer to the mention" in turn.prompt for turn in model.turns)
        assert await desk.items() == []
