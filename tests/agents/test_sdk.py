"""Agents of the backend `sdk` in a team, against a model API on loopback that fails in every way it can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path

import pytest
from tests import stored
from tests.fakes.model_protocols import Answer, Ask, Refusal
from tests.fakes.model_server import Fault, ModelServer
from tests.models import FAMILIES, MODELS, sdk, sent, waits_pass
from tests.needs import needs_sandbox
from tests.patience import PATIENCE
from tests.pictures import PNG, PNG_TEXT, png
from tests.teams import Team, open_team

from agent_worker.backends.backend import Model, PastStep, Reply, StepSink, Turn
from agent_worker.backends.models.model_api import Catalogue, ModelApi
from agent_worker.backends.models.providers import Approval, Endpoint
from agent_worker.core.clock import SystemClock, TestClock
from agent_worker.core.events import Called, Delta, Event, Returned
from agent_worker.core.outbound import NOT_TOO_LONG
from agent_worker.service.runs import explain
from agent_worker.service.service import Service

LOCAL = Approval(local=True)
MEET = """
import threading
both = threading.Barrier(2)
def meet(name: str) -> str:
    '''Wait until somebody else is here too.'''
    both.wait(100)
    return f"{name} met the other"
"""


# --- in a team ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
async def test_text_is_shown_while_it_is_written_and_posted_when_it_is_whole(
    tmp_path: Path, server: ModelServer, family: str
) -> None:
    server.script(["one two three four five six seven"])
    heard: list[Event] = []
    definition = sdk(server, family=family)
    async with open_team(tmp_path, "alice", clock=SystemClock(), extra={"alice": definition}, approval=LOCAL) as team:
        team.runtime.bus.listen(heard.append)
        await team.post("user", "@alice count")
        await team.idle()
        assert await team.texts() == ["@alice count", "one two three four five six seven"]
    pieces = [event.text for event in heard if isinstance(event, Delta)]
    assert len(pieces) > 1
    assert "".join(pieces) == "one two three four five six seven"


@pytest.mark.parametrize("family", FAMILIES)
async def test_several_tools_of_the_team_are_used_in_one_step(tmp_path: Path, server: ModelServer, family: str) -> None:
    talk = Ask("channel_send", {"text": "I look at it"}, "a")
    note = Ask("team_doc_append", {"text": "a line in the notes\n"}, "b")
    ask = Ask("team_doc_read", {"name": "notes.md"}, "c")
    server.script([Answer("Let me see.", (talk, note)), Answer("", (ask,)), "done"])
    heard: list[Event] = []
    definition = sdk(server, family=family)
    async with open_team(tmp_path, "alice", clock=SystemClock(), extra={"alice": definition}, approval=LOCAL) as team:
        team.runtime.bus.listen(heard.append)
        await team.post("user", "@alice go")
        await team.idle()
        assert await team.texts() == ["@alice go", "I look at it"]
        assert await team.states() == ["done"]
    assert [e.tool for e in heard if isinstance(e, Called)] == ["channel_send", "team_doc_append", "team_doc_read"]
    assert all(e.ok for e in heard if isinstance(e, Returned))
    assert "Sent as #2." in sent(server, 1)
    assert "a line in the notes" in sent(server, 2)


async def test_calls_of_one_step_are_made_side_by_side(tmp_path: Path, server: ModelServer) -> None:
    (tmp_path / "meeting.py").write_text(MEET)
    server.script([Answer("", (Ask("meet", {"name": "x"}, "a"), Ask("meet", {"name": "y"}, "b"))), "both came"])
    definition = sdk(server, more="tools: [./meeting.py:meet]\n")
    async with open_team(tmp_path, "alice", clock=SystemClock(), extra={"alice": definition}, approval=LOCAL) as team:
        await team.dm("alice", "go")
        await team.idle()
        assert [t.text for t in await team.thread("alice")] == ["go", "both came"]
    assert "x met the other" in sent(server)
    assert "y met the other" in sent(server)


@pytest.mark.parametrize("family", FAMILIES)
async def test_files_are_read_where_the_agent_works(tmp_path: Path, server: ModelServer, family: str) -> None:
    (tmp_path / "hello.txt").write_text("a word in a file")
    server.script([Answer("", (Ask("read_file", {"path": "hello.txt"}, "a"),)), "read"])
    definition = sdk(server, family=family, more="tools: [read_file]\n")
    async with open_team(tmp_path, "alice", clock=SystemClock(), extra={"alice": definition}, approval=LOCAL) as team:
        await team.dm("alice", "read it")
        await team.idle()
    assert "a word in a file" in sent(server)


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_picture_is_shown_to_the_model_also_when_the_work_goes_on_in_another_run(
    tmp_path: Path, server: ModelServer, family: str
) -> None:
    """People are told how large it is; its bytes are in no event and in no text."""
    (tmp_path / "pic.png").write_bytes(PNG)
    server.script([Answer("", (Ask("read_file", {"path": "pic.png"}, "a"),)), Fault("500"), "a red dot"])
    definition = sdk(server, family=family, more="tools: [read_file]\n")
    heard: list[Event] = []
    async with open_team(tmp_path, "alice", clock=TestClock(), extra={"alice": definition}, approval=LOCAL) as team:
        team.runtime.bus.listen(heard.append)
        with waits_pass(team):
            await team.dm("alice", "what is it?")
            await team.idle()
        first, last = (sent(server, number) for number in (1, 2))
        assert len(await team.runs()) == 2
        (call,) = await team.calls()
        told = await explain(Service(team.runtime), (await team.runs())[0]["id"])
    assert first.count(PNG_TEXT) == last.count(PNG_TEXT) == 1
    assert call["result"] == told.steps[0].calls[0]["result"] == f"[image, {len(PNG)} bytes: pic.png]"
    assert PNG_TEXT not in repr(heard) + repr(told)


async def test_one_piece_of_work_is_shown_as_many_pictures_as_fit_into_a_request(
    tmp_path: Path, server: ModelServer
) -> None:
    (tmp_path / "pic.png").write_bytes(png(3_900_000))
    look = tuple(Ask("read_file", {"path": "pic.png"}, f"c{n}") for n in range(3))
    server.script([Answer("", look), Answer("", look), "enough"])
    definition = sdk(server, more="tools: [read_file]\n")
    async with open_team(tmp_path, "alice", clock=TestClock(), extra={"alice": definition}, approval=LOCAL) as team:
        await team.dm("alice", "look")
        await team.idle()
        said = [call["result"] for call in await team.calls()]
    assert sent(server).count('"media_type": "image/png"') == 4
    assert sum("1 image not shown: one piece of work is shown 21 MB of them at most" in each for each in said) == 2


@needs_sandbox()
async def test_commands_run_where_the_agent_works(tmp_path: Path, server: ModelServer) -> None:
    (tmp_path / "hello.txt").write_text("loud")
    server.script([Answer("", (Ask("bash", {"command": "tr a-z A-Z < hello.txt | tee out.txt"}, "a"),)), "done"])
    definition = sdk(server, more="tools: [bash]\n")
    async with open_team(tmp_path, "alice", clock=SystemClock(), extra={"alice": definition}, approval=LOCAL) as team:
        await team.dm("alice", "shout")
        await team.idle()
    assert (tmp_path / "out.txt").read_text() == "LOUD"
    assert "LOUD" in sent(server)


async def test_a_wrong_call_comes_back_as_a_sentence_and_the_work_goes_on(tmp_path: Path, server: ModelServer) -> None:
    wrong = (Ask("channel_send", {"words": "hi"}, "a"), Ask("fly", {}, "b"), Ask("channel_send", "{broken", "c"))
    server.script([Answer("", wrong), "I see"])
    async with open_team(tmp_path, "alice", clock=SystemClock(), extra={"alice": sdk(server)}, approval=LOCAL) as team:
        await team.post("user", "@alice go")
        await team.idle()
        assert await team.texts() == ["@alice go", "I see"]
    assert "text is missing" in sent(server)
    assert "there is no tool 'fly'" in sent(server)


# --- what it costs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
async def test_usage_and_cost_of_each_step_are_in_the_ledger_and_in_the_tallies(
    tmp_path: Path, server: ModelServer, family: str
) -> None:
    server.script([Answer("", (Ask("todo_list", {}, "a"),), usage=(1000, 50)), Answer("done", usage=(2000, 10))])
    definition = sdk(server, family=family)
    async with open_team(tmp_path, "alice", clock=SystemClock(), extra={"alice": definition}, approval=LOCAL) as team:
        await team.dm("alice", "go")
        await team.idle()
        ledger = await team.read(stored.ledger)
        tallies = await team.read(stored.tallies)
    assert [(row["step"], row["input"], row["output"]) for row in ledger] == [(0, 1000, 50), (1, 2000, 10)]
    assert {row["model"] for row in ledger} == {MODELS[family]}
    assert all(row["micros"] > 0 and not row["estimated"] for row in ledger)
    spent = sum(row["micros"] for row in ledger)
    assert [(t["scope"], t["tokens"], t["micros"]) for t in sorted(tallies, key=itemgetter("scope"))] == [
        ("agent", 3060, spent),
        ("project", 3060, spent),
        ("root", 3060, spent),
    ]


async def test_L4_a_model_of_unknown_price_is_charged_a_stated_estimate(tmp_path: Path, server: ModelServer) -> None:
    server.script(["hello"])
    definition = sdk(server).replace(MODELS["anthropic"], "anthropic/claude-nobody-knows")
    async with open_team(tmp_path, "alice", clock=SystemClock(), extra={"alice": definition}, approval=LOCAL) as team:
        await team.dm("alice", "hi")
        await team.idle()
        (row,) = await team.read(stored.ledger)
    assert (row["micros"], row["estimated"]) == (120 * 15, 1)


async def test_L4_the_money_limit_stops_between_two_steps_before_the_call_that_would_cross(
    tmp_path: Path, server: ModelServer
) -> None:
    server.script([Answer("", (Ask("todo_list", {}, "a"),), usage=(5_000_000, 100_000))])
    definition = sdk(server, more="limits: { usd_per_day: 5 }\n")
    async with open_team(tmp_path, "alice", clock=SystemClock(), extra={"alice": definition}, approval=LOCAL) as team:
        await team.dm("alice", "spend it")
        await team.idle()
        assert await team.states() == ["incomplete"]
        assert "has cost" in (await team.agent("alice"))["paused"]
    assert len(server.requests) == 1


# --- where requests go --------------------------------------------------------------------------------


async def test_an_endpoint_of_ones_own_gets_the_key_that_the_definition_names(
    tmp_path: Path, server: ModelServer
) -> None:
    server.script(["hello"])
    async with open_team(tmp_path, "alice", clock=SystemClock(), extra={"alice": sdk(server)}, approval=LOCAL) as team:
        await team.dm("alice", "hi")
        await team.idle()
    assert server.requests[0].headers["authorization"] == "Bearer sk-test"
    assert server.requests[0].body["model"] == "claude-sonnet-5"


@pytest.mark.parametrize(
    "spec", ["anthropic/claude-sonnet-5", "anthropic:claude-sonnet-5", "openai-chat/gpt-5", "openai-chat:gpt-5"]
)
async def test_provider_and_model_are_named_with_a_slash_or_a_colon(
    tmp_path: Path, server: ModelServer, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url("ok"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url("ok", "/v1"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-oai")
    definition = f"backend: sdk\nmodel: {spec}\nprompt: {{ system: You are a worker. }}\n"
    async with open_team(tmp_path, "alice", clock=SystemClock(), extra={"alice": definition}) as team:
        await team.dm("alice", "hi")
        await team.idle()
        assert [t.text for t in await team.thread("alice")] == ["hi", "All is well."]
    assert server.requests[0].body["model"] in spec


async def test_N2_an_endpoint_in_the_local_network_is_refused_unless_the_user_allowed_it(
    tmp_path: Path, server: ModelServer
) -> None:
    async with open_team(tmp_path, "alice", clock=SystemClock(), extra={"alice": sdk(server)}) as team:
        await team.dm("alice", "hi")
        await team.idle()
        assert await team.states() == ["failed"]
    assert server.requests == []


# --- how it ends when the provider fails --------------------------------------------------------------


async def ask(team: Team, text: str = "@alice go") -> dict[str, object]:
    """Post it and see what became of the work."""
    await team.post("user", text)
    await team.idle()
    return (await team.queue())[-1]


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_rate_limit_is_waited_for_without_using_up_tries(
    tmp_path: Path, server: ModelServer, clock: TestClock, family: str
) -> None:
    server.script([*[Fault("429")] * 5, "now"])
    definition = sdk(server, family=family)
    async with open_team(tmp_path, "alice", clock=clock, extra={"alice": definition}, approval=LOCAL) as team:
        with waits_pass(team) as waits:
            ended = await ask(team)
        assert (ended["state"], ended["failures"], ended["attempts"]) == ("done", 0, 6)
        assert [event.wait for event in waits] == [7.0] * 5
        assert await team.texts() == ["@alice go", "now"]


@pytest.mark.parametrize("mode", ["429", "529", "stream_error"])
async def test_a_provider_that_stays_overloaded_is_given_up_after_a_quarter_of_an_hour_and_not_before(
    tmp_path: Path, server: ModelServer, clock: TestClock, mode: str
) -> None:
    definition = sdk(server, mode)
    async with open_team(tmp_path, "alice", clock=clock, extra={"alice": definition}, approval=LOCAL) as team:
        with waits_pass(team) as waits:
            ended = await ask(team)
        assert (ended["state"], await team.inbox() != []) == ("failed", True)
        assert (await team.agent("alice"))["paused"] == "", "waiting in line is no loop that a limit must stop"
        assert 15 * 60 <= sum(event.wait for event in waits) < 18 * 60


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("mode", ["500", "502html", "503", "early_end", "cut", "bad_json"])
async def test_what_may_pass_by_itself_is_tried_three_times_then_failed_and_told(
    tmp_path: Path, server: ModelServer, clock: TestClock, family: str, mode: str
) -> None:
    definition = sdk(server, mode, family=family)
    async with open_team(tmp_path, "alice", clock=clock, extra={"alice": definition}, approval=LOCAL) as team:
        with waits_pass(team) as waits:
            ended = await ask(team)
        assert (ended["state"], ended["attempts"]) == ("failed", 3)
        assert [event.wait for event in waits] == [1, 2]
        assert (await team.texts())[1].startswith("alice failed: ")
        assert [kind for kind, _ in await team.inbox()] == ["failure"]
    assert len(server.requests) == 3


@pytest.mark.parametrize("fault", ["500", "early_end", "cut", "bad_json", "stream_error"])
async def test_a_failure_that_passes_is_not_noticed(
    tmp_path: Path, server: ModelServer, clock: TestClock, fault: str
) -> None:
    step = Answer("", (Ask("channel_send", {"text": "working"}, "a"),))
    server.script([step, Fault(fault), "done"])
    async with open_team(tmp_path, "alice", clock=clock, extra={"alice": sdk(server)}, approval=LOCAL) as team:
        with waits_pass(team):
            ended = await ask(team)
        assert ended["state"] == "done"
        assert await team.texts() == ["@alice go", "working"], "the step before the failure was not done again"
        assert await team.inbox() == []


async def test_a_provider_that_goes_silent_is_tried_again(
    tmp_path: Path, server: ModelServer, clock: TestClock
) -> None:
    server.script([Fault("stall"), "awake"])
    impatient, patient = (
        Catalogue({"TEST_KEY": "sk-test"}, approval=LOCAL, patience=replace(NOT_TOO_LONG, silence=silence))
        for silence in (0.1, PATIENCE)
    )
    endpoint = Endpoint("anthropic", server.url("script"), "$TEST_KEY")
    async with open_team(tmp_path, "alice", clock=clock, extra={"alice": sdk(server)}, approval=LOCAL) as team:
        team.employ("alice", OneAfterTheOther(ModelApi(impatient, endpoint), ModelApi(patient, endpoint)))
        with waits_pass(team):
            ended = await ask(team)
        assert (ended["state"], ended["failures"]) == ("done", 1)
        await impatient.close()
        await patient.close()


class OneAfterTheOther:
    """A model for each reply: the first may lose its patience, the second must not, however slow this machine is."""

    def __init__(self, *models: Model) -> None:
        self._models = iter(models)

    async def reply(self, turn: Turn, steps: Sequence[PastStep], recorder: StepSink) -> Reply:
        return await next(self._models).reply(turn, steps, recorder)


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_wrong_key_fails_at_once_and_names_the_variable(
    tmp_path: Path, server: ModelServer, clock: TestClock, family: str
) -> None:
    definition = sdk(server, "401", family=family)
    async with open_team(tmp_path, "alice", clock=clock, extra={"alice": definition}, approval=LOCAL) as team:
        ended = await ask(team)
        assert (ended["state"], ended["attempts"]) == ("failed", 1)
        assert "TEST_KEY" in str(ended["reason"])
        assert "check the key in TEST_KEY" in (await team.texts())[1]
        (failure,) = await team.inbox()
        assert "TEST_KEY" in failure[1]


@pytest.mark.parametrize("mode", ["403", "404", "quota", "redirect", "many_calls"])
async def test_what_will_not_pass_is_not_tried_again(
    tmp_path: Path, server: ModelServer, clock: TestClock, mode: str
) -> None:
    definition = sdk(server, mode)
    async with open_team(tmp_path, "alice", clock=clock, extra={"alice": definition}, approval=LOCAL) as team:
        ended = await ask(team)
        assert (ended["state"], ended["attempts"]) == ("failed", 1)
    assert len(server.requests) == 1


async def test_a_missing_key_says_which_variable_to_set(
    tmp_path: Path, server: ModelServer, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TEST_KEY")
    async with open_team(tmp_path, "alice", clock=clock, extra={"alice": sdk(server)}, approval=LOCAL) as team:
        await team.dm("alice", "hi")
        await team.idle()
        assert await team.states() == ["failed"]
        reply = (await team.thread("alice"))[-1]
    assert (reply.who, reply.kind) == ("system", "failure")
    assert "export TEST_KEY=" in reply.text


async def test_a_failure_is_in_the_thread_that_the_agent_sees_next_time(
    tmp_path: Path, server: ModelServer, clock: TestClock
) -> None:
    server.script([Refusal(400, "invalid_request_error", "no such field"), "I see"])
    async with open_team(tmp_path, "alice", clock=clock, extra={"alice": sdk(server)}, approval=LOCAL) as team:
        await team.dm("alice", "the one that fails")
        await team.idle()
        await team.dm("alice", "what happened?")
        await team.idle()
    assert "no such field" in sent(server)
    assert sent(server).count("the one that fails") == 1


async def test_one_agent_whose_provider_fails_leaves_the_others_alone(
    tmp_path: Path, server: ModelServer, clock: TestClock
) -> None:
    definitions = {"alice": sdk(server, "401"), "bob": sdk(server, "ok", family="chat")}
    async with open_team(tmp_path, "alice", "bob", clock=clock, extra=definitions, approval=LOCAL) as team:
        await team.post("user", "@all go")
        await team.idle()
        assert sorted(await team.states()) == ["done", "failed"]
        assert "All is well." in await team.texts()


async def test_answers_that_break_off_are_paid_for(tmp_path: Path, server: ModelServer) -> None:
    """Each try costs what its answer had told when it broke off; they count like everything else."""
    server.script([Fault("early_end")] * 3)
    clock = TestClock()
    async with open_team(tmp_path, "alice", clock=clock, extra={"alice": sdk(server)}, approval=LOCAL) as team:
        with waits_pass(team):
            await team.post("user", "@alice go")
            await team.idle()
        assert [row["input"] for row in await team.read(stored.ledger)] == [100, 100, 100]
        tallies = await team.read(stored.tallies, scope="root")
        assert [row["tokens"] >= 300 and row["micros"] > 0 for row in tallies] == [True]
