"""A program as somebody would write it, for the type checkers: nothing in it is unknown to them."""

from __future__ import annotations

from pydantic import BaseModel

from agent_worker import (
    Agent,
    AgentWorkerError,
    Answer,
    Asked,
    InboxItem,
    RunningTeam,
    Team,
    TeamAnswer,
    TextChunk,
    connect,
    local,
    tool,
)
from agent_worker.testing import assert_said, calls, says, scripted


class City(BaseModel):
    name: str


@tool(approve=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


ALICE = Agent("alice", "openai/gpt-5", "You add.", tools=[add])
TEAM = Team("team", agents=[ALICE, "bob"], kickoff="@alice go")


async def program() -> str:
    async with local(home="state") as workers:
        city: City = (await workers.ask(ALICE, "Which?", output=City)).output
        answer: Answer[str] = await workers.ask(ALICE, "2 + 3?")
        questions: tuple[InboxItem, ...] = answer.questions
        for question in questions:
            await question.approve()
        text: str = (await answer.go_on()).text
        async for event in workers.stream(TEAM):
            match event:
                case TextChunk(text=written):
                    text += written
                case Asked(item=item):
                    await item.answer("yes")
                case TeamAnswer(state=state):
                    text += state
                case _:
                    pass
        return text + city.name


def script() -> int:
    try:
        with connect(start=False) as workers:
            city: City = workers.ask_sync(ALICE, "Which?", output=City).output
            done: TeamAnswer = workers.run_sync(TEAM, "go", tag="x", params={"a": "b"})
            team: RunningTeam = workers.start_sync(TEAM)
            woke: tuple[str, ...] = team.send_sync("hello", to="alice").woke
            assert_said(team.messages_sync(since=1), ("alice", "hi"))
            _ = scripted(ALICE, calls("add", a=1, b=2), says("3"))
            return len(city.name) + len(done.text) + len(woke) + len(workers.memory_sync(ALICE))
    except AgentWorkerError as error:
        return len(error.hint)
