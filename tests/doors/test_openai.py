"""Agents and teams as models: OpenAI's own library asks the real daemon."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import openai
import pytest
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from tests import stored
from tests.fakes.model_protocols import Answer
from tests.fakes.model_server import ModelServer
from tests.patience import PATIENCE, eventually
from tests.shells.served import Served, daemon_command, kill_daemon, served

from agent_worker.client.connection import connect
from agent_worker.doors.openai.app import AT_ONCE

ASKS = """backend: mock
script:
  - call: [{ tool: ask_user, with: { question: which colour? } }]
  - say: red it is
"""
LOOKS = """backend: mock
script:
  - call: [{ tool: todo_add, with: { text: look again } }]
  - say: all is well
"""
FAILS = "backend: mock\nscript: [{ fail: permanent }, { say: the second time }]\n"
TEAM = """agents:
  alice: { ref: alice }
  bob: { ref: bob }
desk: alice
params: [{ name: target }]
workspace: { provider: sqlite }
"""


def token(daemon: Served, name: str = "laptop", **how: Any) -> str:
    return str(daemon.do("POST", "/tokens", name=name, **how)["token"])


@contextmanager
def library(daemon: Served, key: str) -> Iterator[openai.OpenAI]:
    """OpenAI's library, as anybody would make it: it tries again by itself what may be tried again."""
    with openai.OpenAI(base_url=f"http://{daemon.here}/v1", api_key=key, timeout=PATIENCE) as made:
        yield made


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("openai")) as made:
        (made.project / ".workflows" / "review.yaml").write_text(TEAM)
        for name, definition in {"asks": ASKS, "looks": LOOKS, "fails": FAILS}.items():
            (made.project / ".agents" / f"{name}.yaml").write_text(definition)
        yield made


@pytest.fixture(scope="module")
def client(daemon: Served) -> Iterator[openai.OpenAI]:
    with library(daemon, token(daemon)) as made:
        yield made


def chat(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


def test_agents_and_teams_are_models(client: openai.OpenAI, daemon: Served) -> None:
    names = [model.id for model in client.models.list()]
    assert {"alice", "bob", "@review"} <= set(names)
    daemon.do("POST", "/workflows", workflow="review", tag="listed")
    names = [model.id for model in client.models.list()]
    assert names.index("@review:listed") < names.index("alice"), "what runs comes first"
    assert names.index("@review:listed") < names.index("@review")
    assert client.models.retrieve("@review:listed").owned_by == "project"
    with pytest.raises(openai.NotFoundError, match="no model nobody"):
        client.models.retrieve("nobody")


def test_an_agent_answers_whole_and_streamed(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="alice", messages=chat("hello"))
    assert answer.choices[0].message.content == "I have looked at this: hello"
    assert answer.choices[0].finish_reason == "stop"
    wanted = {"include_usage": True}
    chunks = [*client.chat.completions.create(model="alice", messages=chat("bye"), stream=True, stream_options=wanted)]  # type: ignore[call-overload]
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "I have looked at this: bye"
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    assert chunks[-1].usage is not None


def test_only_the_last_message_is_new(client: openai.OpenAI, daemon: Served) -> None:
    (daemon.project / ".agents" / "fresh.yaml").write_text("backend: mock\n")  # nobody has told it anything
    before = [{"role": "system", "content": "Be brief."}, *chat("said long ago"), {"role": "assistant", "content": "?"}]
    client.chat.completions.create(model="fresh", messages=[*before, *chat("what is new")])  # type: ignore[arg-type]
    lines = daemon.client.request("GET", daemon.query("/messages?at=fresh"))[1]
    assert [line["text"] for line in lines if line["sender"] == "user"] == ["what is new"]


def test_what_an_agent_used_comes_as_items_that_are_done(client: openai.OpenAI) -> None:
    events = [*client.responses.create(model="looks", input="look", stream=True)]
    assert [event.type for event in events][:2] == ["response.created", "response.in_progress"]
    last = events[-1]
    assert last.type == "response.completed"
    used, said = last.response.output
    assert (used.type, getattr(used, "name", ""), getattr(used, "status", "")) == ("mcp_call", "todo_add", "completed")
    assert (said.type, last.response.output_text) == ("message", "all is well")
    assert [event.sequence_number for event in events] == list(range(len(events)))


def test_whoever_hangs_up_holds_no_place_and_the_agent_goes_on(client: openai.OpenAI, daemon: Served) -> None:
    """As many as may ask at once: none of them waits for the answer, and the next is answered."""
    (daemon.project / ".agents" / "slow.yaml").write_text("backend: mock\nscript: [{ say: at last, slow: 3s }]\n")
    body = json.dumps({"model": "slow", "messages": chat("hello")}).encode()
    for number in range(AT_ONCE):
        wire = http.client.HTTPConnection("127.0.0.1", daemon.client.found.port, timeout=PATIENCE)
        headers = {"Authorization": f"Bearer {client.api_key}", "Content-Type": "application/json"}
        wire.request("POST", "/v1/chat/completions", body, headers)
        assert eventually(lambda asked=number: len(daemon.read(stored.instructions, name="slow")) > asked)
        wire.close()
    answer = client.with_options(max_retries=0).chat.completions.create(model="alice", messages=chat("still there?"))
    assert answer.choices[0].message.content == "I have looked at this: still there?"
    assert eventually(lambda: daemon.read(stored.runs, name="slow", state="done"))


def test_a_team_is_started_for_one_question_and_ends(client: openai.OpenAI, daemon: Served) -> None:
    for text in ("look at this", "and at that"):
        answer = client.responses.create(model="@review", input=text, metadata={"target": "x", "unknown": "y"})
        assert (answer.status, answer.output_text) == ("completed", f"I have looked at this: {text}")
        assert answer.agent_worker["woke"] == ["alice"], "the desk, as nobody was called on"  # type: ignore[attr-defined]
    found = daemon.client.request("GET", daemon.query("/instances"))[1]
    assert {each["name"]: each["state"] for each in found if ":v" in each["name"]} == {"review:v1": "stopped"}


def test_a_streamed_team_says_who_is_speaking(client: openai.OpenAI) -> None:
    with client.responses.stream(model="@review", input="@bob hi") as stream:
        told = stream.get_final_response()
    assert told.output_text == "bob: I have looked at this: bob hi"
    chunks = client.chat.completions.create(model="@review", messages=chat("@bob hi"), stream=True)
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == "bob: I have looked at this: bob hi"


@pytest.mark.parametrize("model", ["@review", "alice"])
def test_a_session_is_a_workspace_of_its_own(client: openai.OpenAI, daemon: Served, model: str) -> None:
    name = model.removeprefix("@")
    first = client.responses.create(model=model, input="one", conversation="talk")
    client.responses.create(model=model, input="two", previous_response_id=first.id)
    client.chat.completions.create(model=model, messages=chat("three"), extra_headers={"X-Session-Id": "talk"})
    client.chat.completions.create(model=model, messages=chat("elsewhere"), user="someone@example.org")
    lines = daemon.client.request("GET", daemon.query(f"/messages?at=@{name}:talk"))[1]
    assert [line["text"] for line in lines if line["sender"] == "user"] == ["one", "two", "three"]
    assert client.responses.retrieve(first.id).output_text == "I have looked at this: one"


def test_a_session_outlives_the_daemon(tmp_path: Path) -> None:
    with served(tmp_path) as daemon:
        key = token(daemon)
        with library(daemon, key) as client:
            first = client.responses.create(model="alice", input="one", conversation="lasting")
        kill_daemon(daemon.home, daemon.client.found)
        again = connect(home=daemon.home, command=daemon_command(), patience=PATIENCE)
        with library(replace(daemon, client=again), key) as client:
            second = client.responses.create(model="alice", input="two", previous_response_id=first.id)
            assert second.output_text == "I have looked at this: two"
        lines = again.request("GET", daemon.query("/messages?at=@alice:lasting"))[1]
        assert [line["text"] for line in lines if line["sender"] == "user"] == ["one", "two"]


def test_what_waits_for_the_person_says_so_and_is_found_later(client: openai.OpenAI, daemon: Served) -> None:
    asked = client.responses.create(model="asks", input="paint it")
    assert asked.status == "incomplete"
    assert asked.incomplete_details is not None
    assert asked.incomplete_details.reason == "waiting_for_person"
    assert "which colour?" in asked.output_text
    assert "agent-worker inbox" in asked.output_text
    (item,) = asked.model_extra["agent_worker"]["waits_for"]
    daemon.client.request("POST", f"/inbox/{item}", {"action": "answer", "text": "red"})
    found = eventually(lambda: (r := client.responses.retrieve(asked.id)).status == "completed" and r)
    assert found.output_text == "red it is"


def test_what_failed_is_not_asked_again_by_the_library(client: openai.OpenAI, daemon: Served) -> None:
    with pytest.raises(openai.APIStatusError):
        client.chat.completions.create(model="fails", messages=chat("try"))
    assert [row["state"] for row in daemon.read(stored.instructions) if row["name"] == "fails"] == ["failed"]


def test_the_same_key_is_asked_once(client: openai.OpenAI, daemon: Served) -> None:
    once = {"Idempotency-Key": "k1"}
    answers = [client.chat.completions.create(model="bob", messages=chat("once"), extra_headers=once) for _ in "12"]
    assert {each.choices[0].message.content for each in answers} == {"I have looked at this: once"}
    assert len([row for row in daemon.read(stored.instructions) if row["text"] == "once"]) == 1


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"n": 2}, "n: an agent gives one answer"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools: the tools of an agent"),
        ({"response_format": {"type": "json_object"}}, "response_format: answers are plain text"),
        ({"stop": ["x"]}, "stop: stop words are not supported"),
        ({"logprobs": True}, "logprobs"),
        ({"messages": []}, "the last one must be a user message"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "the last one must be a user message"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, "image_url"),
        ({"messages": "hello"}, "messages: a list"),
        ({"messages": [{"role": "user", "content": 5}]}, "content of a message"),
        ({"messages": [{"role": "user", "content": " "}]}, "empty"),
        ({"model": 5}, "model: name an agent"),
        ({"metadata": {"a": 1}}, "metadata"),
        ({"user": "x" * 600}, "at most 512"),
    ],
)
def test_what_cannot_be_honoured_is_refused_with_a_sentence(
    client: openai.OpenAI, asked: dict[str, Any], said: str
) -> None:
    given: dict[str, Any] = {"model": "alice", "messages": chat("hello")} | asked
    with pytest.raises(openai.BadRequestError, match=said):
        client.chat.completions.create(**given)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"background": True}, "runs in the background anyway"),
        ({"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]}, "a user message"),
        ({"text": {"format": {"type": "json_schema"}}}, "text.format"),
        ({"previous_response_id": "resp_nothing"}, "is unknown"),
        ({"previous_response_id": "resp_x", "conversation": "y"}, "one of them"),
        ({"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]}, "input_file"),
    ],
)
def test_what_a_response_cannot_be_is_refused_too(client: openai.OpenAI, asked: dict[str, Any], said: str) -> None:
    with pytest.raises(openai.BadRequestError, match=said):
        client.responses.create(**({"model": "alice", "input": "hello"} | asked))


def test_an_answer_of_another_is_not_gone_on_from(client: openai.OpenAI) -> None:
    first = client.responses.create(model="alice", input="hello")
    with pytest.raises(openai.BadRequestError, match="is an answer of alice, not of bob"):
        client.responses.create(model="bob", input="and you?", previous_response_id=first.id)


def test_a_team_in_which_nobody_is_called_on_says_so(client: openai.OpenAI, daemon: Served) -> None:
    (daemon.project / ".workflows" / "nodesk.yaml").write_text(TEAM.replace("desk: alice\n", ""))
    with pytest.raises(openai.BadRequestError, match="@alice"):
        client.chat.completions.create(model="@nodesk", messages=chat("hello"))
    with pytest.raises(openai.BadRequestError, match="call on a member"):
        client.chat.completions.create(model="@nodesk", messages=chat("hello"), user="s1")
    assert [row["text"] for row in daemon.read(stored.messages) if row["text"] == "hello"] == []


async def test_usage_comes_from_the_ledger(tmp_path: Path, server: ModelServer) -> None:
    server.script([Answer("Done.", usage=(1234, 56)), Answer("Done.", usage=(1000, 7))])
    environ = {"ANTHROPIC_API_KEY": "sk-x", "ANTHROPIC_BASE_URL": server.url("script")}
    sdk = "backend: sdk\nmodel: anthropic/claude-haiku-5-5\nprompt: { system: You work. }\n"
    with served(tmp_path, environ, alice=sdk) as daemon:
        base = f"http://{daemon.here}/v1"
        async with openai.AsyncOpenAI(base_url=base, api_key=token(daemon), timeout=PATIENCE) as client:
            direct = await client.chat.completions.create(model="alice", messages=chat("work"))  # type: ignore[arg-type]
            assert direct.usage is not None
            assert (direct.usage.prompt_tokens, direct.usage.completion_tokens) == (1234, 56)
            apart = await client.responses.create(model="alice", input="work", conversation="s")
            assert apart.usage is not None
            assert (apart.usage.input_tokens, apart.usage.output_tokens) == (1000, 7)
            assert apart.model_extra["agent_worker"]["usd"] > 0


def test_a_question_to_a_team_says_whom_it_called_on_or_that_it_was_nobody(
    client: openai.OpenAI, daemon: Served
) -> None:
    (daemon.project / ".workflows" / "open.yaml").write_text("agents: { alice: { ref: alice }, bob: { ref: bob } }\n")
    for text, woke in (("@bob look", ["bob"]), ("@alice @bob look", ["alice", "bob"])):
        answer = client.chat.completions.create(model="@open:talk", messages=chat(text))
        assert answer.model_extra
        assert answer.model_extra["agent_worker"]["woke"] == woke
        ticket = daemon.do("POST", "/tickets/ask", agent="@open:talk", message=text)
        assert ticket["woke"] == woke
        assert daemon.client.request("GET", f"/tickets/{ticket['id']}")[1]["woke"] == woke, "and when it is asked again"
    with pytest.raises(openai.BadRequestError, match="nobody was called on; @alice and @bob are here"):
        client.chat.completions.create(model="@open:talk", messages=chat("look"))


async def test_pydantic_ai_takes_an_agent_for_a_model(daemon: Served) -> None:
    says = "I have looked at this: and so?"
    address, key = f"http://{daemon.here}/v1", token(daemon, "pydantic-agent")
    async with openai.AsyncOpenAI(base_url=address, api_key=key, timeout=PATIENCE) as client:
        provider = OpenAIProvider(openai_client=client)
        for model in (OpenAIChatModel("alice", provider=provider), OpenAIResponsesModel("alice", provider=provider)):
            assert (await Agent(model).run("and so?")).output == says
            async with Agent(model).run_stream("and so?") as streamed:
                assert await streamed.get_output() == says


async def test_pydantic_ai_takes_a_team_for_a_model(daemon: Served) -> None:
    """Its members tell what they do with tools, whose arguments a client puts together as of a model that writes."""
    address, key = f"http://{daemon.here}/v1", token(daemon, "pydantic-team")
    async with openai.AsyncOpenAI(base_url=address, api_key=key, timeout=PATIENCE) as client:
        model = OpenAIResponsesModel("@review", provider=OpenAIProvider(openai_client=client))
        async with Agent(model).run_stream("is it good?") as streamed:
            assert "I have looked at this: is it good?" in await streamed.get_output()
            used = [
                part for each in streamed.all_messages() for part in each.parts if part.part_kind == "builtin-tool-call"
            ]
        assert [json.loads(part.args)["tool_args"] for part in used] == [{"status": "on it: is it good?"}]
