"""The person's inbox: everything that waits for one is listed, kept, and answered so that it reaches whoever waits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from tests.models import Attentive
from tests.teams import Team, open_team
from tests.work.test_limits import Chatter

from agent_worker.backends.mock import calls, fails, says
from agent_worker.core.clock import TestClock
from agent_worker.core.errors import BadInput, NotRunning
from agent_worker.service.inbox import Item, inbox_answer, inbox_list
from agent_worker.service.memory import memory_show
from agent_worker.service.service import Service
from agent_worker.workflows import start as workflows

BOUND = "workspace: { provider: sqlite, bind: ./data }\n"


@dataclass
class OpenInbox:
    team: Team
    service: Service
    root: str

    async def items(self) -> list[Item]:
        return await inbox_list(self.service, self.root)

    async def only(self, kind: str) -> Item:
        (item,) = await self.items()
        assert item.kind == kind
        return item


Open = Callable[..., AbstractAsyncContextManager[OpenInbox]]


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    @asynccontextmanager
    async def make(*agents: str, **how: object) -> AsyncIterator[OpenInbox]:
        root = tmp_path / "p"
        async with open_team(root, *agents, clock=TestClock(), database=tmp_path / "state.db", **how) as team:  # type: ignore[arg-type]
            service = Service(team.runtime)
            await service.project(str(root))
            yield OpenInbox(team, service, str(root))
            await service.close()

    return make


async def test_an_answer_to_a_mention_is_an_instruction_for_whoever_mentioned_the_person(opened: Open) -> None:
    async with opened("alice", "bob") as context:
        context.team.backends["alice"].then(says("@user which colour?"), says("red it is"))
        await context.team.post("user", "@alice paint it")
        await context.team.meanwhile(context.team.quiet())
        item = await context.only("mention")
        assert (item.agent, item.workspace, item.answers) == ("alice", "review", ["answer", "dismiss"])
        with pytest.raises(BadInput, match="needs a text"):
            await inbox_answer(context.service, item.id, "answer", "  ")
        await inbox_answer(context.service, item.id, "answer", "red, please")
        await context.team.meanwhile(context.team.quiet())
        assert await context.items() == []
        assert (await context.team.texts())[-2:] == ["@alice red, please", "red it is"]


async def test_a_mention_from_a_workflow_that_has_ended_says_what_to_type(opened: Open) -> None:
    async with opened("alice") as context:
        context.team.backends["alice"].then(says("@user it is done"))
        await context.team.post("user", "@alice go")
        await context.team.meanwhile(context.team.workspace.run())
        item = await context.only("mention")
        with pytest.raises(NotRunning, match="agent-worker start review"):
            await inbox_answer(context.service, item.id, "answer", "thanks")
        await inbox_answer(context.service, item.id, "dismiss")
        assert await context.items() == []


async def test_a_question_that_is_dismissed_lets_the_work_go_on_without_an_answer(opened: Open) -> None:
    async with opened("alice") as context:
        context.team.backends["alice"].then(calls("ask_user", question="tea?"), says("I decided myself"))
        await context.team.dm("alice", "choose")
        await context.team.still()
        item = await context.only("question")
        await inbox_answer(context.service, item.id, "dismiss")
        await context.team.idle()
        assert (await context.team.thread("alice"))[-1].text == "I decided myself"


async def test_a_limit_is_lifted_and_the_team_goes_on(opened: Open) -> None:
    async with opened("alice", "bob", workflow=BOUND + "limits: { turns: 4 }\n") as context:
        context.team.employ("alice", Chatter("bob"))
        context.team.employ("bob", Chatter("alice"))
        await context.team.post("user", "@alice begin")
        await context.team.meanwhile(context.team.quiet())
        item = await context.only("limit")
        before = len(await context.team.texts())
        assert "new allowance" in await inbox_answer(context.service, item.id, "retry")
        await context.team.meanwhile(context.team.quiet())
        assert len(await context.team.texts()) >= before + 4
        assert len(await context.items()) == 1, "the limit was met again, and is one item again"


@pytest.mark.parametrize("workflow", [BOUND, "workspace: { provider: sqlite }\n"])
async def test_a_limit_that_ended_a_run_is_lifted_where_the_work_is_kept_and_explained_where_it_is_not(
    opened: Open, workflow: str
) -> None:
    async with opened("alice", "bob", workflow=f"{workflow}limits: {{ turns: 4 }}\n") as context:
        context.team.employ("alice", Chatter("bob"))
        context.team.employ("bob", Chatter("alice"))
        await context.team.post("user", "@alice begin")
        summary = await context.team.meanwhile(context.team.workspace.run())
        assert summary.exit_code == 3
        item = await context.only("limit")
        if workflow != BOUND:
            with pytest.raises(NotRunning, match="has ended"):
                await inbox_answer(context.service, item.id, "retry")
            return
        assert "agent-worker start review" in await inbox_answer(context.service, item.id, "retry")
        model = Attentive()
        definition = context.team.loaded.project.workflows["review"]
        context.team.employ("alice", model)
        context.team.employ("bob", model)
        workspace = await workflows.start(context.team.runtime, context.team.loaded, workflows.Start(definition))
        await context.team.meanwhile(workspace.run())
        assert model.turns, "what was left was done"


async def test_a_failure_is_tried_again(opened: Open) -> None:
    async with opened("alice") as context:
        context.team.backends["alice"].then(fails("permanent"), says("now it worked"))
        await context.team.post("user", "@alice go")
        await context.team.meanwhile(context.team.quiet())
        item = await context.only("failure")
        assert await inbox_answer(context.service, item.id, "retry") == "it is being retried"
        await context.team.meanwhile(context.team.quiet())
        assert (await context.team.texts())[-1] == "now it worked"
        assert await context.items() == []


async def test_what_killed_its_worker_too_often_is_a_dead_letter_that_can_be_tried_again(opened: Open) -> None:
    how = {"workflow": BOUND, "extra": {"alice": "script: [{ say: never heard, slow: 10m }]\n"}}
    for n in range(3):
        async with opened("alice", **how) as context:
            if n == 0:
                await context.team.dm("alice", "go")
            await context.team.still()
            # The process ends here without a word: the run stays open.
            await context.team.change("agent", owner="a host that died")
            await context.team.halt()
    async with opened("alice", workflow=BOUND) as context:
        item = await context.only("dead")
        context.team.employ("alice", Attentive(lambda turn: "alive"))
        assert await inbox_answer(context.service, item.id, "retry") == "it is being retried"
        await context.team.idle()
        assert (await context.team.thread("alice"))[-1].text == "alive"


async def test_everything_that_waits_is_there_after_a_restart_and_answered_then(opened: Open) -> None:
    async with opened("alice", workflow=BOUND) as context:
        context.team.backends["alice"].then(says("@user which?"), calls("ask_user", question="tea?"))
        await context.team.post("user", "@alice go")
        await context.team.meanwhile(context.team.quiet())
        await context.team.dm("alice", "choose")
        await context.team.still()
        before = await context.items()
        assert sorted(item.kind for item in before) == ["mention", "question"]
    async with opened("alice", workflow=BOUND) as context:
        assert await context.items() == before
        model = Attentive()
        context.team.employ("alice", model)
        for item in before:
            await inbox_answer(context.service, item.id, "answer", f"my answer to the {item.kind}")
        await context.team.idle()
        assert any("my answer to the mention" in turn.prompt for turn in model.turns)
        assert await context.items() == []


async def test_feedback_of_an_agent_is_put_before_the_person_once_and_holds_nobody_up(opened: Open) -> None:
    async with opened("alice", "bob") as context:
        same = calls("feedback_submit", text="nobody says which branch is meant")
        context.team.backends["alice"].then(same, same, says("done anyway"))
        await context.team.post("user", "@alice release it")
        await context.team.idle()
        assert (await context.team.texts())[-1] == "done anyway"
        item = await context.only("feedback")
        assert (item.text, item.workspace) == ("alice: nobody says which branch is meant", "review")
        await inbox_answer(context.service, item.id, "dismiss")
        assert await context.items() == []


async def test_there_is_only_so_much_feedback_as_somebody_reads(opened: Open) -> None:
    async with opened("alice", "bob") as context:
        many = [calls("feedback_submit", text=f"thing {n} is odd") for n in range(21)]
        context.team.backends["alice"].then(*many[:15], says("so far"), *many[15:], says("done"))
        for word in ("begin", "more"):
            await context.team.post("user", f"@alice {word}")
            await context.team.idle()
        assert len(await context.items()) == 20
        assert "more feedback than anybody has read" in (await context.team.calls())[-1]["result"]


@pytest.mark.parametrize(("action", "holds"), [("approve", "fridays"), ("deny", "mondays")])
async def test_a_person_decides_what_holds_of_a_dispute(
    opened: Open, action: Literal["approve", "deny"], holds: str
) -> None:
    async with opened("alice", "bob") as context:
        team = context.team
        for day in ("mondays", "fridays"):
            value = f"we deploy on {day} after review"
            team.backends["alice"].then(calls("memory_write", key="deploy day", value=value), says("noted"))
        await team.dm("alice", "we deploy on mondays after review")
        await team.idle()
        team.backends["bob"].then(says("@alice we deploy on fridays after review"))
        await team.post("user", "@bob tell alice")
        await team.idle()
        item = await context.only("dispute")
        assert item.answers == ["approve", "deny"]
        await inbox_answer(context.service, item.id, action)
        assert await context.items() == []
        found = await memory_show(context.service, "alice", context.root)
        assert [entry.value for entry in found.entries if entry.file != "archive"] == [
            f"we deploy on {holds} after review"
        ]
