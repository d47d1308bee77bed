"""What the model was sent can be shown: word by word, for as long as the user says, and without secrets."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.fakes.model_protocols import Answer, Ask, Json, Refusal
from tests.fakes.model_server import ModelServer
from tests.house import bytes_of
from tests.teams import Team, kept_prices, open_team

from agent_worker.agents import deletion
from agent_worker.agents.commands import continue_work
from agent_worker.agents.prompt_texts import KEPT, kept_for
from agent_worker.backends.mock import calls, says
from agent_worker.backends.models.model_api import Catalogue, ModelApi
from agent_worker.backends.models.prices import PriceList
from agent_worker.backends.models.providers import Approval, Endpoint, Route
from agent_worker.core.clock import SystemClock, TestClock
from agent_worker.core.errors import BadInput
from agent_worker.files.root import Root
from agent_worker.service.cleanup import leftovers, leftovers_remove
from agent_worker.service.runs import Explained, explain
from agent_worker.service.sent import NOT_KEPT, Sent
from agent_worker.service.service import Service
from agent_worker.work.sent_texts import MARK
from agent_worker.workflows.archive import erase

LOCAL = Approval(local=True)
SECRET = "correct-horse-battery-staple"
#: provider, how its address ends, model
FAMILIES = {
    "anthropic": ("anthropic", "", "anthropic/claude-sonnet-5"),
    "chat": ("openai-chat", "/v1", "openai-chat/gpt-5"),
    "responses": ("openai", "/v1", "openai/gpt-5"),
}

OLD_TEXTS = "texts sent to models more than 30 days ago"


def definition(server: ModelServer, family: str, system: str = "You are a worker.") -> str:
    name, suffix, model = FAMILIES[family]
    return (
        f"backend: sdk\nauto_memory: false\nmodel: {model}\nsoul: {{ role: a tester }}\n"
        f"prompt:\n  system: {json.dumps(system, ensure_ascii=False)}\n"
        f"provider: {{ name: {name}, base_url: '{server.url('script', suffix)}', api_key: $TEST_KEY }}\n"
    )


class OpenAIEverywhere(Catalogue):
    """Speaks the Responses API also to a server that is not OpenAI's."""

    def route(self, spec: str, endpoint: Endpoint, env: Mapping[str, str]) -> Route:
        return replace(super().route(spec, endpoint, env), speaks="responses")


@asynccontextmanager
async def employed(team: Team, server: ModelServer, family: str) -> AsyncIterator[None]:
    """Alice speaks this protocol meanwhile."""
    name, suffix, _ = FAMILIES[family]
    catalogue = OpenAIEverywhere(os.environ, approval=LOCAL, prices=PriceList(kept_prices()))
    if family == "responses":
        team.employ("alice", ModelApi(catalogue, Endpoint(name, server.url("script", suffix), "$TEST_KEY")))
    yield
    await catalogue.close()


async def full(team: Team, number: int = -1) -> Explained:
    """What can be seen of a run, the last one unless said else."""
    return await explain(Service(team.runtime), (await team.runs())[number]["id"], full=True)


async def sent(team: Team, number: int = -1) -> Sent:
    found = (await full(team, number)).sent
    assert found is not None
    return found


def whole(told: Sent, part: str) -> str:
    return "\n\n".join(section.text or "(gone)" for section in told.sections if section.part == part)


# --- what a request says, by protocol -----------------------------------------------------------------


def family_of(path: str) -> str:
    return {"messages": "anthropic", "completions": "chat", "responses": "responses"}[path.rpartition("/")[2]]


def system_in(body: Json) -> str:
    if "instructions" in body:
        return str(body["instructions"])
    return str(body["system"][0]["text"] if "system" in body else body["messages"][0]["content"])


def prompt_in(body: Json) -> str:
    (first, *_) = [m for m in body.get("messages") or body["input"] if m.get("role") == "user"]
    content = first["content"]
    return str(content if isinstance(content, str) else content[0]["text"])


def tools_in(body: Json) -> list[dict[str, Any]]:
    told = [each.get("function", each) for each in body["tools"]]
    return [
        {
            "name": each["name"],
            "description": each["description"],
            "schema": each.get("input_schema") or each["parameters"],
        }
        for each in told
    ]


def said_in(body: Json) -> Iterator[str]:
    """What was said and returned after the prompt: texts, names of tools and results, in order."""
    messages = body.get("messages") or body["input"]
    at = next(n for n, message in enumerate(messages) if message.get("role") == "user")
    for message in messages[at + 1 :]:
        content = message.get("content") or message.get("output") or ""
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if text := part.get("text") or part.get("content"):
                yield _without_wrapping(str(text))
            if part.get("type") == "tool_use":
                yield str(part["name"])
        for call in message.get("tool_calls", ()):
            yield str(call["function"]["name"])
        if message.get("type") == "function_call":
            yield str(message["name"])


def _without_wrapping(text: str) -> str:
    """Where a protocol cannot say that a call failed, the text does."""
    return str(json.loads(text)["error"]) if text.startswith('{"error":') else text


def said_by(told: Sent, upto: int) -> Iterator[str]:
    for message in [each for request in told.requests[: upto + 1] for each in request.added]:
        if message["text"]:
            yield message["text"]
        yield from (call["tool"] for call in message.get("calls", ()))


def nasty(random: Random) -> str:
    """Words that might be taken for something else on the way."""
    pieces = [
        MARK,
        "«mark»",
        "\n\n",
        "\r\n",
        '{"a": "\\u0041"}',
        "ünï ∞ 🙂",
        "]]",
        "\\",
        "\t",
        "«/",
        "-- ",
        "'",
        "x" * 3000,
    ]
    return "hello " + " ".join(random.choices(pieces, k=12))


@pytest.mark.parametrize("family", FAMILIES)
async def test_what_is_shown_is_what_the_model_received(tmp_path: Path, server: ModelServer, family: str) -> None:
    random, runs = Random(7), 6
    for n in range(runs):
        look, note = Ask("team_members", {}, f"a{n}"), Ask("todo_add", {"text": f"todo {n}"}, f"b{n}")
        server.script([Answer("Let me see.", (look, note)), Answer("", (Ask("todo_list", {}, f"c{n}"),)), f"done {n}"])
    extra = {"alice": definition(server, family, f"You are a worker. {MARK} {nasty(random)}")}
    async with open_team(tmp_path, "alice", clock=SystemClock(), extra=extra, approval=LOCAL) as team:
        async with employed(team, server, family):
            for n in range(runs):
                await (team.post("user", f"@alice {nasty(random)}") if n % 2 else team.dm("alice", nasty(random)))
                await team.idle()
        for n in range(runs):
            told = await sent(team, n)
            received = [recorded.body for recorded in server.requests[3 * n : 3 * n + 3]]
            assert len(told.requests) == len(received)
            assert {family} == {family_of(recorded.path) for recorded in server.requests}
            for number, body in enumerate(received):
                assert whole(told, "system") == system_in(body)
                assert whole(told, "prompt") == prompt_in(body)
                assert told.tools == tools_in(body)
                assert sorted(said_by(told, number)) == sorted(said_in(body))
            assert not told.missing
            assert not told.redacted


async def test_the_same_words_are_kept_once_however_often_they_are_sent(tmp_path: Path, clock: TestClock) -> None:
    async with open_team(tmp_path, "alice", "bob", clock=clock) as team:
        for n in range(20):
            await team.dm("alice", f"question {n}")
            await team.idle()
        before = await team.sent_texts()
        await team.dm("bob", "hello")
        await team.idle()
        added = [text for text in await team.sent_texts() if text not in before]
    assert len(before) == len(set(before))
    assert len([text for text in before if "You are alice" in text]) == 2  # who it is, and where
    assert len([text for text in before if '"schema"' in text]) == 1
    assert not [text for text in added if '"schema"' in text], "bob has the same tools"


async def test_only_what_was_sent_last_is_remembered(tmp_path: Path, clock: TestClock) -> None:
    """A day of texts that are never sent again is megabytes."""
    counted = []
    async with open_team(tmp_path, "alice", clock=clock) as team:
        for number in range(40):
            await team.dm("alice", f"question {number}")
            await team.idle()
            counted.append(team.runtime.supervisor._loop_context.recording.prompts.remembered)
    assert 0 < counted[-1] <= 15, "the sections of one prompt, and its tools"
    assert counted[-1] <= counted[5] + 2, counted


async def test_a_run_that_went_on_from_another_is_shown_with_what_it_went_on_from(
    tmp_path: Path, server: ModelServer
) -> None:
    server.script([Answer("First.", (Ask("todo_list", {}, "a"),)), Refusal(400, "invalid", "no"), "done"])
    extra = {"alice": definition(server, "chat")}
    async with open_team(tmp_path, "alice", clock=SystemClock(), extra=extra, approval=LOCAL) as team:
        await team.dm("alice", "begin")
        await team.idle()
        failed = await sent(team)
        assert [request.answered for request in failed.requests] == [True, False]
        assert [message["role"] for message in failed.requests[1].added] == ["assistant", "tool"]
        await team.write(continue_work, (await team.queue())[0]["id"], now=team.now())
        await team.idle()
        again = await sent(team)
    assert [request.answered for request in again.requests] == [True]
    assert sorted(said_by(again, 0)) == sorted(said_in(server.requests[-1].body))


# --- secrets ------------------------------------------------------------------------------------------


async def test_N9_a_secret_in_a_prompt_is_not_in_the_database(
    tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model is sent what the user wrote into the definition; what is kept of it is without the secret."""
    monkeypatch.setenv("MY_TOKEN", SECRET)
    server.script(["done"])
    database = tmp_path / "state.db"
    extra = {"alice": definition(server, "anthropic", f"You are a worker. The word is {SECRET}.")}
    async with open_team(
        tmp_path / "p", "alice", clock=SystemClock(), extra=extra, approval=LOCAL, database=database
    ) as team:
        await team.dm("alice", "hello")
        await team.idle()
        told = await sent(team)
        assert SECRET in system_in(server.requests[0].body)
        assert whole(told, "system") == system_in(server.requests[0].body).replace(SECRET, "[redacted:secret]")
        assert told.redacted
    kept = bytes_of(database)  # closed, it is one file
    assert SECRET.encode() not in kept
    assert b"The word is [redacted:secret]" in kept


# --- how long -----------------------------------------------------------------------------------------


async def test_texts_go_when_they_were_not_sent_for_so_many_days_and_explain_says_so(
    tmp_path: Path, clock: TestClock
) -> None:
    async with open_team(tmp_path, "alice", clock=clock, keep_prompts=3 * 86400.0) as team:
        await team.dm("alice", "the first question")
        await team.idle()
        for _ in range(3):
            clock.jump(timedelta(days=1, minutes=1))
            await team.dm("alice", "another")
            await team.idle()
        old, new = await sent(team, 0), await sent(team, -1)
        kept = await team.sent_texts()
    texts = {section.name: section.text for section in old.sections}
    assert texts["instruction"] is None
    assert texts["identity"] is not None, "others are still sent it"
    assert old.tools
    assert "kept for 3 days" in old.missing
    assert not new.missing
    assert not [text for text in kept if "the first question" in text and "asks you" in text]


async def test_0_days_keep_nothing_and_explain_says_so(tmp_path: Path, clock: TestClock) -> None:
    async with open_team(tmp_path, "alice", clock=clock, keep_prompts=0.0) as team:
        await team.dm("alice", "hello")
        await team.idle()
        told, kept = await full(team), await team.sent_texts()
    assert kept == []
    assert told.sent
    assert told.sent.missing == NOT_KEPT
    assert [section["name"] for section in told.sections] == [section.name for section in told.sent.sections]
    assert "AGENT_WORKER_KEEP_PROMPTS" in told.sent.missing


async def test_who_keeps_nothing_from_now_on_has_old_texts_removed_with_the_next_run(
    tmp_path: Path, clock: TestClock
) -> None:
    database = tmp_path / "state.db"
    async with open_team(tmp_path / "p", "alice", clock=clock, database=database) as team:
        await team.dm("alice", "hello")
        await team.idle()
        assert await team.sent_texts()
    clock.jump(timedelta(seconds=1))
    async with open_team(tmp_path / "p", "alice", clock=clock, database=database, tag="b", keep_prompts=0.0) as team:
        await team.dm("alice", "hello")
        await team.idle()
        assert await team.sent_texts() == []
        assert "no longer" in (await sent(team, 0)).missing


@pytest.mark.parametrize(
    ("said", "days"),
    [({}, KEPT.days), ({"AGENT_WORKER_KEEP_PROMPTS": "7d"}, 7), ({"AGENT_WORKER_KEEP_PROMPTS": "0"}, 0)],
)
def test_the_user_says_how_long(said: dict[str, str], days: int) -> None:
    assert kept_for(said) == timedelta(days=days)


@pytest.mark.parametrize("said", ["1h", "x", "-1", "30", "1e9d"])
def test_what_is_no_time_to_keep_something_is_refused(said: str) -> None:
    with pytest.raises(BadInput, match="AGENT_WORKER_KEEP_PROMPTS"):
        kept_for({"AGENT_WORKER_KEEP_PROMPTS": said})


async def test_what_is_too_old_goes_by_gc_too(tmp_path: Path, clock: TestClock) -> None:
    async with open_team(tmp_path / "p", "alice", clock=clock, trust=Root.private(tmp_path / "home")) as team:
        service = Service(team.runtime)
        await team.dm("alice", "hello")
        await team.idle()
        assert not [each for each in await leftovers(service) if OLD_TEXTS in each.what]
        clock.jump(timedelta(days=31))
        (found,) = [each for each in await leftovers(service) if OLD_TEXTS in each.what]  # others may have left theirs
        assert found.bytes == sum(map(len, await team.sent_texts()))
        assert found in await leftovers_remove(service)
        assert await team.sent_texts() == []
        assert not [each for each in await leftovers(service) if OLD_TEXTS in each.what]


# --- with whom they go --------------------------------------------------------------------------------


async def test_texts_go_with_the_workspace_they_were_sent_in(tmp_path: Path, clock: TestClock) -> None:
    async with open_team(tmp_path, "alice", clock=clock) as team:
        await team.dm("alice", "in private")
        await team.idle()
        private = await team.sent_texts()
        await team.post("user", "@alice in the team")
        await team.idle()
        assert set(private) < set(await team.sent_texts())
        await team.write(erase, team.workspace.id)
        assert sorted(await team.sent_texts()) == sorted(private)
        assert not (await sent(team)).missing


async def test_texts_go_with_their_agent_unless_others_were_sent_the_same(tmp_path: Path, clock: TestClock) -> None:
    async with open_team(tmp_path, "alice", "bob", clock=clock) as team:
        for name in ("alice", "bob"):
            await team.dm(name, "the same question")
            await team.idle()
        await team.halt()
        await team.write(deletion.erase, await team.agent("alice"), now=team.now())
        kept, told = await team.sent_texts(), await sent(team)
    assert not [text for text in kept if "alice" in text]
    assert not told.missing
    assert told.tools
    assert "the same question" in whole(told, "prompt")


async def test_without_asking_for_it_nobody_is_shown_the_texts(tmp_path: Path, clock: TestClock) -> None:
    async with open_team(tmp_path, "alice", clock=clock) as team:
        team.backends["alice"].then(calls("todo_list"), says("done"))
        await team.dm("alice", "hello")
        await team.idle()
        run = (await team.runs())[0]["id"]
        told = await explain(Service(team.runtime), run)
    assert told.sent is None
    assert "You are" not in repr(told)
