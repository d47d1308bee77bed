"""Every verb does the same in this process and in the daemon."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, field_validator
from tests.api.doors import WAYS, way_in
from tests.patience import PATIENCE, until
from tests.teams import write_project

import agent_worker
from agent_worker import Agent, Answer, Asked, HappeningEvent, RunEnded, Team, TeamAnswer, Workers, tool
from agent_worker.core.errors import BackendFailure, BadInput, NotFound, NotRunning, Refused, WrongOutput
from agent_worker.testing import assert_said, calls, fails, says, scripted


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


ALICE = Agent("ann", system="You add.", tools=[add])


@pytest.fixture(params=WAYS)
def again(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Workers]]:
    write_project(tmp_path / "project", ["alice", "bob"])
    with way_in(request.param, tmp_path) as make:
        yield make


@pytest.fixture
async def workers(again: Callable[[], Workers]) -> AsyncIterator[Workers]:
    async with again() as opened:
        yield opened


async def test_an_agent_is_asked_and_calls_a_function_of_this_process(workers: Workers) -> None:
    ann = scripted(ALICE, calls("add", a=2, b=3), says("It is 5."))
    answer = await workers.ask(ann, "What is 2 + 3?")
    assert (answer.text, answer.output, answer.state) == ("It is 5.", "It is 5.", "done")
    report = await workers.explain(answer)
    assert (report.agent, report.asked, report.text) == ("ann", "What is 2 + 3?", "It is 5.")
    (call,) = report.steps[0]["calls"]
    assert (call["tool"], call["result"]) == ("add", "5")


async def test_a_question_that_is_answered_leaves_nothing_that_somebody_else_has_to_close(workers: Workers) -> None:
    left, hooks = list[str](), sys.get_asyncgen_hooks()

    def close(generator: Any) -> None:
        left.append(generator.__qualname__)
        assert hooks.finalizer
        hooks.finalizer(generator)

    sys.set_asyncgen_hooks(finalizer=close)
    try:
        assert (await workers.ask(scripted(ALICE, says("5")), "2 + 3?")).text == "5"
        gc.collect()
    finally:
        sys.set_asyncgen_hooks(finalizer=hooks.finalizer)
    assert left == []


async def test_a_stream_tells_what_happens_in_order(workers: Workers) -> None:
    ann = scripted(ALICE, calls("add", a=2, b=3), says("It is 5."))
    events = [event async for event in workers.stream(ann, "What is 2 + 3?")]
    kinds = [type(event).__name__ for event in events]
    assert kinds[-1] == "Answer"
    told = [kind for kind in kinds if kind in ("ToolStarted", "ToolFinished", "TextChunk")]
    assert list(dict.fromkeys(told)) == ["ToolStarted", "ToolFinished", "TextChunk"]
    assert "".join(event.text for event in events if isinstance(event, agent_worker.TextChunk)) == "It is 5."
    last = events[-1]
    assert isinstance(last, Answer)
    assert last.text == "It is 5."


async def test_the_same_key_asks_once_even_in_a_later_program(again: Callable[[], Workers]) -> None:
    async with again() as workers:
        first = await workers.ask(scripted(ALICE, says("one")), "Count.", key="count-1")
    async with again() as workers:
        second = await workers.ask(scripted(ALICE, says("two")), "Count.", key="count-1")
    assert (first.text, second.text) == ("one", "one")
    assert first.run == second.run


async def test_an_agent_of_a_file_is_asked_by_its_name(workers: Workers) -> None:
    assert (await workers.ask("alice", "hello")).state == "done"


async def test_a_value_and_a_file_of_the_same_name_are_refused_with_a_sentence(workers: Workers) -> None:
    with pytest.raises(Refused, match=r"alice is a file of this project \(.agents/alice.yaml\)"):
        await workers.ask(Agent("alice", script=[says("no")]), "hello")
    with pytest.raises(Refused, match="review is a file of this project"):
        await workers.run(Team("review", agents=["alice"]))


class City(BaseModel):
    name: str
    people: int

    @field_validator("people")
    @classmethod
    def some(cls, value: int) -> int:
        if value <= 0:
            raise ValueError("nobody lives there")
        return value


async def test_a_typed_answer_is_checked_and_asked_for_again(workers: Workers) -> None:
    ann = scripted(
        ALICE,
        says("Lisbon, I think"),
        says('```json\n{"name": "Lisbon", "people": 0}\n```'),
        says('{"name": "Lisbon", "people": 545000}'),
    )
    answer = await workers.ask(ann, "A city?", output=City)
    assert answer.output == City(name="Lisbon", people=545000)
    said = [each.text for each in await workers.messages(ann) if each.sender == "user"]
    assert said[0].startswith("A city?\n\nAnswer with JSON only")
    assert "nobody lives there" in said[2]


async def test_a_typed_answer_that_never_comes_is_told(workers: Workers) -> None:
    ann = scripted(ALICE, says("no"), says("no"), says("[]"))
    happening = await workers.events()
    with pytest.raises(WrongOutput, match="ann did not answer with what was asked for, 3 times"):
        await workers.ask(ann, "A city?", output=City, key="city")
    ended = [event async for event in ends_of(happening, 4)]
    assert [each.state for each in ended] == ["done", "done", "done", "failed"]
    assert ended[-1].run == ended[-2].run, "the last answer is refused after all"
    assert "3 times" in ended[-1].reason
    report = await workers.explain(ended[-1].run)
    assert (report.state, report.text) == ("failed", "[]")
    (item,) = await workers.inbox()
    assert (item.kind, item.agent) == ("failure", "ann")
    assert item.text.startswith("ann failed: ann did not answer with what was asked for, 3 times")
    assert (await workers.messages(ann))[-1].sender == "system"
    with pytest.raises(BackendFailure, match="ann did not answer with what was asked for, 3 times"):
        await workers.ask(ann, "A city?", output=City, key="city")
    assert len(await workers.inbox()) == 1


async def ends_of(happening: AsyncIterator[HappeningEvent], count: int) -> AsyncIterator[RunEnded]:
    """The next ends of runs that are told."""
    async for event in happening:
        if isinstance(event, RunEnded):
            yield event
            count -= 1
        if not count:
            return


async def test_an_answer_may_be_refused_and_its_work_tried_again(workers: Workers) -> None:
    ann = scripted(ALICE, says("no"), says("yes"))
    answer = await workers.ask(ann, "Yes?", key="yes")
    await answer.refuse("that is no yes")
    await answer.refuse("that is no yes")  # once is enough
    (item,) = await workers.inbox()
    assert item.text == "ann failed: that is no yes"
    assert "retry" in item.actions
    happening = await workers.events()
    await workers.operate("inbox_answer", item=item.id, action="retry")
    (ended,) = [event async for event in ends_of(happening, 1)]
    assert (ended.state, ended.text) == ("done", "yes")
    assert not await workers.inbox()


async def test_a_type_that_is_none_is_told_before_anybody_is_asked(workers: Workers) -> None:
    class Plain:
        pass

    with pytest.raises(BadInput, match="is not a type that an answer can have"):
        await workers.ask(scripted(ALICE, says("x")), "A city?", output=Plain)


@tool(approve=True)
def deploy(version: str) -> str:
    """Deploy a version."""
    return f"{version} is out"


async def test_a_call_that_needs_approval_waits_and_goes_on_with_the_answer(workers: Workers) -> None:
    ann = scripted(Agent("ann", tools=[deploy]), calls("deploy", version="1.2"), says("Done."))
    answer = await workers.ask(ann, "Deploy 1.2.")
    assert answer.state == "waiting"
    (question,) = answer.questions
    assert (question.kind, question.tool, dict(question.arguments)) == ("approval", "deploy", {"version": "1.2"})
    assert [each.id for each in await workers.inbox()] == [question.id]
    await question.approve()
    assert (await answer.go_on()).text == "Done."


async def test_what_was_denied_is_not_called(workers: Workers) -> None:
    ann = scripted(Agent("ann", tools=[deploy]), calls("deploy", version="1.2"), says("Then not."))
    async for event in workers.stream(ann, "Deploy 1.2."):
        if isinstance(event, Asked):
            await event.item.deny("not on a Friday")
    assert isinstance(event, Answer)
    report = await workers.explain(event)
    assert report.steps[0]["calls"][0]["result"] == "The person said no. not on a Friday"


async def test_an_agent_asks_a_person_and_goes_on_with_the_answer(workers: Workers) -> None:
    ann = scripted(ALICE, calls("ask_user", question="Which city?"), says("Fine."))
    answer = await workers.ask(ann, "Plan.")
    await answer.questions[0].answer("Lisbon")
    assert (await answer.go_on()).text == "Fine."


async def test_a_team_hands_over_and_says_what_came_of_it(workers: Workers) -> None:
    writer = Agent("writer", script=[says("@editor here is the draft")])
    editor = Agent("editor", script=[says("Printed.")])
    done = await workers.run(Team("paper", agents=[writer, editor], kickoff="@writer begin"))
    assert (done.state, done.text, dict(done.runs)) == ("done", "Printed.", {"editor": 1, "writer": 1})


async def test_a_stream_of_a_team_ends_with_what_came_of_it(workers: Workers) -> None:
    paper = Team("paper", agents=[Agent("writer", script=[says("A poem.")])])
    events = [event async for event in workers.stream(paper, "@writer write")]
    assert isinstance(events[-1], TeamAnswer)
    assert [e.text for e in events if isinstance(e, agent_worker.NewMessage)] == ["@writer write", "A poem."]


async def test_a_team_that_stays_is_spoken_to_and_stopped(workers: Workers) -> None:
    writer = Agent("writer", script=[says("one"), says("two")])
    team = await workers.start(Team("paper", agents=[writer], desk="writer"), tag="monday")
    assert (team.name, team.members) == ("paper:monday", ("writer",))
    for text in ("first", "second"):
        assert (await team.send(text)).woke == ("writer",)
        assert await team.quiet() == ""
    assert_said(await team.messages(), ("user", "first"), ("writer", "one"), ("user", "second"), ("writer", "two"))
    assert (await team.stop()).state == "stopped"
    with pytest.raises(NotRunning):
        await team.send("too late")


async def test_a_team_is_finished(workers: Workers) -> None:
    team = await workers.start(Team("paper", agents=[Agent("writer", script=[says("A poem.")])]), "@writer write")
    assert (await team.finish()).text == "A poem."


async def test_events_tell_what_happens_from_then_on(workers: Workers) -> None:
    team = await workers.start(Team("paper", agents=[Agent("writer", script=[says("A poem.")])]))
    everything, here = await workers.events(), await team.events()
    await team.send("@writer write")
    said = []
    async for event in here:
        if isinstance(event, agent_worker.NewMessage):
            said.append(event.text)
        if said == ["@writer write", "A poem."]:
            break
    assert isinstance(await anext(everything), object)


async def test_a_message_with_the_same_key_is_sent_once(workers: Workers) -> None:
    team = await workers.start(Team("paper", agents=["alice", "bob"]))
    assert len({(await team.send("hello", key="k")).id for _ in range(3)}) == 1
    assert len(await team.messages()) == 1


async def test_an_agent_remembers_what_it_is_given(workers: Workers) -> None:
    ann = scripted(ALICE, says("hi"))
    await workers.remember(ann, "city", "Lisbon")
    (item,) = await workers.memory(ann)
    assert (item.key, item.value, item.file) == ("city", "Lisbon", "core")


async def test_a_value_has_a_folder_like_any_other_agent(again: Callable[[], Workers]) -> None:
    async with again() as workers:
        await workers.ask(scripted(ALICE, says("hi")), "hello")
        folder = Path(workers.project) / ".agents" / "ann"
        await until(lambda: list(folder.glob("conversations/*.jsonl")))
    async with again() as workers:  # and the same identity in a later program
        assert [m.text for m in await workers.messages(scripted(ALICE, says("hi")))] == ["hello", "hi"]


async def test_a_failure_is_raised_with_its_reason(workers: Workers) -> None:
    with pytest.raises(BackendFailure, match="as the script says"):
        await workers.ask(scripted(ALICE, fails("permanent")), "hello")


async def test_a_script_that_is_too_short_says_so(workers: Workers) -> None:
    with pytest.raises(BackendFailure, match="the mock's script has no entry left"):
        await workers.ask(scripted(ALICE), "hello")


@pytest.mark.parametrize(
    ("do", "error", "sentence"),
    [
        (lambda w: w.ask("dave", "hi"), NotFound, "there is no agent dave"),
        (lambda w: w.send("@review", "hi"), NotRunning, 'workflow "review" is not running'),
        (lambda w: w.send("alice", " "), BadInput, "an empty message was not sent"),
        (lambda w: w.run("nothing"), NotFound, "there is no workflow nothing"),
        (lambda w: w.run("review", params={"x": "1"}), BadInput, "review has no parameter x"),
        (lambda w: w.ask(Agent("no name"), "hi"), BadInput, "no name"),
        (lambda w: w.ask(Agent("eve"), "hi"), BadInput, "is required for backend sdk"),
        (lambda w: w.ask(Agent("eve", script=[{"sing": "la"}]), "hi"), BadInput, "sing"),
        (lambda w: w.ask(Agent("eve", script=[], tools=["dance"]), "hi"), BackendFailure, "there is no tool dance"),
        (lambda w: w.ask(Agent("eve", script=[], tools=[3]), "hi"), BadInput, "3 is not a tool"),
        (lambda w: w.ask(Agent("eve", script=[], tools=[add, add]), "hi"), BadInput, "two tools called add"),
        (lambda w: w.ask(Agent("eve", script=[], tools=[lambda x: x]), "hi"), BadInput, "no docstring"),
        (lambda w: w.run(Team("t", agents=["nobody"])), BadInput, "nobody"),
        (lambda w: w.run(Team("t", agents=["alice", "alice"])), BadInput, "alice is in it twice"),
        (lambda w: w.run(Team("t", agents=["alice"], desk="bob")), BadInput, '"bob" is not a member'),
        (lambda w: w.explain("r_none"), NotFound, "r_none"),
    ],
)
async def test_bad_input_is_a_sentence(workers: Workers, do: Any, error: type[Exception], sentence: str) -> None:
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(error, match=sentence):
            await do(workers)


async def test_what_is_not_open_says_how_to_open_it(again: Callable[[], Workers]) -> None:
    with pytest.raises(NotRunning, match="it is not open"):
        await again().ask("alice", "hello")
