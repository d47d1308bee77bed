"""The model API against a server that fails in every way a provider can, for each protocol."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from tests.backends.test_model_client import serving
from tests.effort import effort
from tests.fakes.model_protocols import Answer, Ask, Refusal
from tests.fakes.model_server import PROTOCOLS, Fault, ModelServer, events_of
from tests.patience import PATIENCE
from tests.teams import kept_prices

from agent_worker.backends.backend import Finished, Outcome, PastStep, Reply, Turn, Unfinished, Usage
from agent_worker.backends.models.model_api import Catalogue, ModelApi
from agent_worker.backends.models.prices import PriceList
from agent_worker.backends.models.providers import Approval, Endpoint
from agent_worker.backends.tool_loop import ToolLoop
from agent_worker.core.errors import BackendFailure, Exhausted, Fenced, Overloaded, Permanent, Transient
from agent_worker.core.outbound import Patience
from agent_worker.tools.tool import Call, Result, ToolSpec
from agent_worker.work.limits import price_of

KEY = "sk-test-very-secret"
ENV = {"TEST_KEY": KEY, "ANTHROPIC_API_KEY": "sk-ant-real", "OPENAI_API_KEY": "sk-oai-real"}
FAMILIES = ["anthropic", "chat", "responses"]
MODELS = {"anthropic": "anthropic/claude-sonnet-5", "chat": "openai-chat/gpt-5", "responses": "openai/gpt-5"}
ADD = ToolSpec(
    "add",
    "Add two numbers.",
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]},
)
TURN = Turn(run="r1", system="Be brief.", prompt="How are things?", tools=(ADD,))


@dataclass
class Recorder:
    """A sink that keeps everything and answers every call."""

    said: list[str] = field(default_factory=list)
    kept: list[tuple[int, Reply]] = field(default_factory=list)
    calls: list[tuple[int, Call]] = field(default_factory=list)
    lost: list[Usage] = field(default_factory=list)

    def say(self, text: str) -> None:
        self.said.append(text)

    def asking(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def spent(self, usage: Usage) -> None:
        self.lost.append(usage)

    async def keep(self, step: int, reply: Reply) -> None:
        self.kept.append((step, reply))

    async def call(self, step: int, call: Call) -> Result:
        self.calls.append((step, call))
        return Result(f"result of {call.id}")


@dataclass
class Bench:
    """A server and what is needed to ask it."""

    server: ModelServer
    catalogue: Catalogue
    sink: Recorder = field(default_factory=Recorder)

    def model(self, family: str, mode: str) -> ModelApi:
        suffix = "" if family == "anthropic" else "/v1"
        return ModelApi(self.catalogue, Endpoint(base_url=self.server.url(mode, suffix), api_key="$TEST_KEY"))

    def turn(self, family: str, **changes: Any) -> Turn:
        return replace(TURN, **{"model": MODELS[family]} | changes)

    async def ask(self, family: str, mode: str, steps: Sequence[PastStep] = (), **changes: Any) -> Reply:
        return await self.model(family, mode).reply(self.turn(family, **changes), steps, self.sink)

    async def play(self, family: str, *script: Answer | Fault | Refusal | str, **changes: Any) -> Reply:
        self.server.script(script)
        return await self.ask(family, "script", **changes)

    async def fail(self, family: str, mode: str) -> BackendFailure:
        with pytest.raises(BackendFailure) as caught:
            await self.ask(family, mode)
        return caught.value

    def sent(self) -> dict[str, Any]:
        return self.server.requests[-1].body


class OpenAIAnywhere(Catalogue):
    """Speaks the Responses API also to a server that is not OpenAI's."""

    def route(self, spec: str, endpoint: Endpoint, env: Mapping[str, str]) -> Any:
        where = super().route(spec, endpoint, env)
        return replace(where, speaks="responses") if spec == MODELS["responses"] else where


PATIENT = Patience(connect=PATIENCE, silence=PATIENCE, total=PATIENCE, body=300_000, calls=20)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with ModelServer() as server:
        catalogue = OpenAIAnywhere(
            ENV, approval=Approval(local=True), patience=PATIENT, prices=PriceList(kept_prices())
        )
        yield Bench(server, catalogue)
        await catalogue.close()


@asynccontextmanager
async def in_a_hurry(bench: Bench, **limits: float) -> AsyncIterator[Bench]:
    """The same with less patience, for what must run out of it."""
    hurried = OpenAIAnywhere(ENV, approval=Approval(local=True), patience=replace(PATIENT, **limits))
    yield Bench(bench.server, hurried)
    await hurried.close()


async def play_out(loop: ToolLoop, turn: Turn, sink: Recorder) -> list[Outcome]:
    return [outcome async for outcome in loop.work(turn, sink)]


# --- answers


@pytest.mark.parametrize("family", FAMILIES)
async def test_an_answer_is_shown_as_it_comes_and_handed_back_whole(bench: Bench, family: str) -> None:
    reply = await bench.ask(family, "ok")
    assert reply.text == "All is well." == "".join(bench.sink.said)
    assert reply.calls == ()
    assert (reply.usage.input, reply.usage.output) == (100, 20)


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_key_is_proved_by_any_answer_even_one_that_ended_before_its_first_word(
    bench: Bench, family: str
) -> None:
    bench.server.script([Answer("", cut=True, usage=(9, 16))])
    usage = await bench.model(family, "script").try_out(MODELS[family], bench.sink)
    assert (usage.input, usage.output) == (9, 16)
    assert usage.usd
    limits = [value for name, value in bench.sent().items() if name.startswith("max_")]
    assert limits == [1 if family == "anthropic" else 16], "OpenAI refuses a smaller limit than this"


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_key_is_not_proved_by_an_answer_that_ends_too_early(bench: Bench, family: str) -> None:
    with pytest.raises(Transient, match="ended too early"):
        await bench.model(family, "early_end").try_out(MODELS[family], bench.sink)
    assert [usage.guessed for usage in bench.sink.lost] == [family != "anthropic"], "which tells it at the beginning"


@pytest.mark.parametrize("family", FAMILIES)
async def test_long_text_comes_in_pieces(bench: Bench, family: str) -> None:
    reply = await bench.play(family, "one two three four five six seven")
    assert len(bench.sink.said) > 1
    assert "".join(bench.sink.said) == reply.text


@pytest.mark.parametrize("family", FAMILIES)
async def test_the_model_is_told_the_system_text_the_prompt_and_the_tools(bench: Bench, family: str) -> None:
    await bench.ask(family, "ok", max_tokens=321)
    sent = json.dumps(bench.sent())
    assert "Be brief." in sent
    assert "How are things?" in sent
    assert "Add two numbers." in sent
    assert "321" in sent


@pytest.mark.parametrize("family", FAMILIES)
async def test_several_calls_come_in_one_reply(bench: Bench, family: str) -> None:
    asked = Answer("Both.", (Ask("add", {"a": 1, "b": 2}, "x1"), Ask("add", {"a": 3, "b": 4}, "x2")))
    reply = await bench.play(family, asked)
    assert reply.calls == (Call("x1", "add", {"a": 1, "b": 2}), Call("x2", "add", {"a": 3, "b": 4}))


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_tool_round_trip_ends_with_a_text(bench: Bench, family: str) -> None:
    outcomes = await play_out(ToolLoop(bench.model(family, "tools")), bench.turn(family), bench.sink)
    assert [type(o) for o in outcomes] == [Unfinished, Finished]
    assert [(s, c.tool, c.arguments) for s, c in bench.sink.calls] == [(0, "add", {"a": 1, "b": 1})]
    assert f"result of {bench.sink.calls[0][1].id}" in json.dumps(bench.sent())


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_model_that_only_calls_tools_is_stopped_by_max_steps(bench: Bench, family: str) -> None:
    with pytest.raises(Exhausted, match="max_steps"):
        await play_out(ToolLoop(bench.model(family, "loop")), bench.turn(family, max_steps=5), bench.sink)
    assert len(bench.server.requests) == 5


@pytest.mark.parametrize("family", FAMILIES)
async def test_after_a_restart_an_answer_is_sent_back_as_it_came(bench: Bench, family: str) -> None:
    reply = await bench.play(family, Answer("Hm.", (Ask("add", {"a": 1, "b": 2}, "x1"),)))
    step = PastStep(reply, {"x1": Result("3")})
    await bench.ask(family, "ok", [step])
    before = bench.sent()

    stored = Reply(reply.text, reply.calls, reply.usage, reply.raw)
    async with ModelServer(port=0) as server:
        again = Bench(server, OpenAIAnywhere(ENV, approval=Approval(local=True)))
        await again.ask(family, "ok", [PastStep(stored, {"x1": Result("3")})])
        assert again.sent() == before
        await again.catalogue.close()


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_past_step_is_sent_again_without_much_ado(bench: Bench, family: str) -> None:
    """Counted in calls of functions, which are the same on every machine."""
    replies = [Reply("", (Call(f"x{n}", "add", {"a": n, "b": 1}),)) for n in range(60)]
    steps = [PastStep(reply, {reply.calls[0].id: Result("3")}) for reply in replies]
    await bench.ask(family, "ok", steps)  # what is made once for each step is made
    few, many = [await calls_made(bench.ask(family, "ok", some)) for some in (steps[:10], steps)]
    assert (many - few) / 50 < 250


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_tool_is_offered_again_without_much_ado(bench: Bench, family: str) -> None:
    tools = tuple(replace(ADD, name=f"add{n}", written=dict(ADD.schema)) for n in range(50))
    for some in (tools[:10], tools):
        await bench.ask(family, "ok", tools=some)
    few, many = [await calls_made(bench.ask(family, "ok", tools=some)) for some in (tools[:10], tools)]
    assert (many - few) / 40 < 45


async def test_tools_that_share_a_schema_keep_their_names(bench: Bench) -> None:
    for name in ("plus", "add"):
        await bench.ask("chat", "ok", tools=(replace(ADD, name=name),))
        assert bench.sent()["tools"][0]["function"]["name"] == name


async def calls_made(work: Awaitable[object]) -> int:
    with effort() as spent:
        await work
    return spent.calls


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_step_of_another_backend_is_retold_in_plain_words(bench: Bench, family: str) -> None:
    reply = Reply("Hm.", (Call("x1", "add", {"a": 1, "b": 2}),), raw="claude: whatever")
    await bench.ask(family, "ok", [PastStep(reply, {"x1": Result("3")})])
    sent = json.dumps(bench.sent())
    assert "Hm." in sent
    assert "x1" in sent


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_call_that_was_cut_off_is_answered_for(bench: Bench, family: str) -> None:
    reply = Reply("", (Call("x1", "add", {"a": 1, "b": 2}),))
    await bench.ask(family, "ok", [PastStep(reply)])
    assert "The call was cut off." in json.dumps(bench.sent())


async def test_a_failed_call_is_marked_as_failed(bench: Bench) -> None:
    reply = Reply("", (Call("x1", "add", {"a": 1, "b": 2}),))
    await bench.ask("anthropic", "ok", [PastStep(reply, {"x1": Result("no such number", ok=False)})])
    assert bench.sent()["messages"][-1]["content"][0]["is_error"] is True


async def test_a_past_answer_without_calls_is_followed_by_a_word_of_ours(bench: Bench) -> None:
    await bench.ask("anthropic", "ok", [PastStep(Reply("Thinking about it."))])
    assert [m["role"] for m in bench.sent()["messages"]] == ["user", "assistant", "user"]


async def test_anthropic_is_asked_to_cache_the_prompt(bench: Bench) -> None:
    await bench.ask("anthropic", "ok")
    sent = json.dumps(bench.sent())
    assert "cache_control" in sent
    assert sent.count("ephemeral") >= 2


async def test_calls_with_the_same_id_are_told_apart(bench: Bench) -> None:
    reply = await bench.play("chat", Answer("", (Ask("add", {"a": 1}, "same"), Ask("add", {"a": 2}, "same"))))
    assert len({call.id for call in reply.calls}) == 2
    step = PastStep(reply, {call.id: Result("ok") for call in reply.calls})
    await bench.ask("chat", "ok", [step])
    assert {m["tool_call_id"] for m in bench.sent()["messages"] if m["role"] == "tool"} == set(step.results)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("arguments", ["{broken", "[1, 2]", '"text"', '{"a":' * 500 + "1" + "}" * 500])
async def test_arguments_that_are_no_object_reach_the_tools_own_check(
    bench: Bench, family: str, arguments: str
) -> None:
    reply = await bench.play(family, Answer("", (Ask("add", arguments, "x1"),)))
    assert list(reply.calls[0].arguments) == ["INVALID_JSON"]
    await bench.ask(family, "ok", [PastStep(reply, {"x1": Result("that was no object", ok=False)})])


# --- the limit of tokens


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_text_that_was_cut_by_max_tokens_says_so(bench: Bench, family: str) -> None:
    reply = await bench.play(family, Answer("And so the story", cut=True))
    assert reply.text.startswith("And so the story")
    assert "cut off" in reply.text
    assert "cut off" not in reply.raw


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_call_that_was_cut_by_max_tokens_is_not_made(bench: Bench, family: str) -> None:
    with pytest.raises(Exhausted) as caught:
        await bench.play(family, Answer("", (Ask("add", '{"a": 1, "b"', "x1"),), cut=True))
    assert caught.value.hint == "raise max_tokens"


@pytest.mark.parametrize("family", FAMILIES)
async def test_whole_calls_before_a_cut_one_are_made(bench: Bench, family: str) -> None:
    calls = (Ask("add", {"a": 1, "b": 2}, "x1"), Ask("add", '{"a": 1, "b"', "x2"))
    reply = await bench.play(family, Answer("", calls, cut=True))
    assert [call.id for call in reply.calls] == ["x1"]
    assert "x2" not in reply.raw


async def test_a_limit_that_left_no_word_is_a_failure(bench: Bench) -> None:
    with pytest.raises(Exhausted):
        await bench.play("anthropic", Answer("", cut=True))


# --- usage


@pytest.mark.parametrize("family", FAMILIES)
async def test_missing_usage_is_estimated_from_the_length_of_the_text(bench: Bench, family: str) -> None:
    reply = await bench.play(family, Answer("word " * 400, usage=None), prompt="x" * 4000)
    assert reply.usage.output >= 500
    assert reply.usage.input >= 1000


@pytest.mark.parametrize("family", FAMILIES)
async def test_absurdly_large_usage_is_brought_back_to_earth(bench: Bench, family: str) -> None:
    reply = await bench.play(family, Answer("hi", usage=(10**15, 10**12)))
    assert (reply.usage.input, reply.usage.output) == (10_000_000, 10_000_000)


@pytest.mark.filterwarnings("ignore:Failed to extract usage")
@pytest.mark.parametrize("family", FAMILIES)
async def test_negative_usage_is_estimated_instead(bench: Bench, family: str) -> None:
    reply = await bench.play(family, Answer("hi", usage=(-7, -5)))
    assert 0 < reply.usage.input < 500
    assert 0 < reply.usage.output < 500


async def test_the_price_of_a_known_model_is_known_and_of_another_is_not(bench: Bench) -> None:
    known = await bench.play("anthropic", "hi")
    unknown = await ModelApi(bench.catalogue, Endpoint(base_url=bench.server.url("ok"), api_key="$TEST_KEY")).reply(
        replace(TURN, model="anthropic/claude-nobody-knows"), (), bench.sink
    )
    assert known.usage.usd is not None
    assert 0 < known.usage.usd < 0.01
    assert unknown.usage == Usage(input=100, output=20, usd=None)


@pytest.mark.parametrize("mode", ["stream_error", "cut", "early_end", "stall"])
async def test_what_was_told_of_an_answer_that_came_to_nothing_is_paid_for(bench: Bench, mode: str) -> None:
    async with in_a_hurry(bench, silence=0.3) as hurried:
        await hurried.fail("anthropic", mode)
        assert [usage.input for usage in hurried.sink.lost] == [100]


@pytest.mark.parametrize("family", FAMILIES)
async def test_what_was_heard_of_an_answer_that_was_cut_is_guessed_where_it_was_not_told(
    bench: Bench, family: str
) -> None:
    """The count comes with the last event, and a first one with a number that is none: the words were made all the
    same."""
    words = "word " * 400

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        said = list(events_of(Answer(words, usage=(100, 1)), PROTOCOLS[PATHS[family]], "m"))
        until_the_text = max(at for at, event in enumerate(said) if "delta" in event and "word" in event)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + "".join(said[: until_the_text + 1]).encode())
        writer.close()

    async with serving(talk) as port:
        api = ModelApi(bench.catalogue, Endpoint(base_url=f"http://127.0.0.1:{port}/v1", api_key="$TEST_KEY"))
        with pytest.raises(Transient):
            await api.reply(bench.turn(family), (), bench.sink)
    [lost] = bench.sink.lost
    assert lost.guessed
    assert lost.output >= 450
    assert lost.input == 100 if family == "anthropic" else 0 < lost.input < 100


async def test_an_answer_that_nobody_waits_for_any_more_is_paid_for(bench: Bench) -> None:
    heard = asyncio.Event()

    class Listening(Recorder):
        def say(self, text: str) -> None:
            heard.set()

    sink = Listening()
    asking = asyncio.create_task(bench.model("anthropic", "stall").reply(bench.turn("anthropic"), (), sink))
    await heard.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert [usage.input for usage in sink.lost] == [100]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("mode", ["429", "500", "redirect", "ok"])
async def test_nothing_is_paid_twice_nor_for_a_request_that_was_refused(bench: Bench, family: str, mode: str) -> None:
    with contextlib.suppress(BackendFailure):
        await bench.ask(family, mode)
    assert bench.sink.lost == []


# --- the end of an answer


@asynccontextmanager
async def saying(
    family: str, answer: Answer, *, behind: bytes = b"", then: Callable[[asyncio.StreamWriter], None] | None = None
) -> AsyncIterator[str]:
    """The address of a server that says this in pieces, and something behind it, and then leaves the line open."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        said = "".join(events_of(answer, PROTOCOLS[PATHS[family]], "m")).encode()
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        writer.write(head + b"%x\r\n%s\r\n" % (len(said), said))
        await writer.drain()
        if then:
            then(writer)
        while behind:
            writer.write(behind)
            await writer.drain()
        await reader.read()

    async with serving(talk) as port:
        yield f"http://127.0.0.1:{port}/v1"


PATHS = {"anthropic": "/v1/messages", "chat": "/v1/chat/completions", "responses": "/v1/responses"}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("behind", "then"),
    [
        (b"", None),
        (b"8\r\n: ping\n\n\r\n", None),
        (b"0\r\nx: " + b"y" * 9000, None),
        (b"", lambda writer: writer.close()),
        (b"", lambda writer: writer.write(b"no chunk")),
    ],
    ids=["nothing", "pings without end", "a trailer without end", "the connection closed", "nonsense"],
)
async def test_an_answer_that_was_said_to_its_end_is_whole_whatever_comes_behind(
    bench: Bench, family: str, behind: bytes, then: Callable[[asyncio.StreamWriter], None] | None
) -> None:
    async with (
        in_a_hurry(bench, leave=0.05) as hurried,
        saying(family, Answer("Yes."), behind=behind, then=then) as url,
    ):
        api = ModelApi(hurried.catalogue, Endpoint(base_url=url, api_key="$TEST_KEY"))
        reply = await api.reply(hurried.turn(family), (), hurried.sink)
    assert (reply.text, reply.usage.input, hurried.sink.lost) == ("Yes.", 100, [])


@pytest.mark.parametrize("family", ["anthropic", "chat"])
async def test_an_answer_that_told_why_it_ends_is_whole_though_its_last_event_is_lost(
    bench: Bench, family: str
) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        said = "".join(list(events_of(Answer("Yes."), PROTOCOLS[PATHS[family]], "m"))[:-1]).encode()
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(said), said))
        writer.close()

    async with serving(talk) as port:
        api = ModelApi(bench.catalogue, Endpoint(base_url=f"http://127.0.0.1:{port}/v1", api_key="$TEST_KEY"))
        reply = await api.reply(bench.turn(family), (), bench.sink)
    assert (reply.text, reply.usage.input, bench.sink.lost) == ("Yes.", 100, [])


# --- failures


ANSWERED: list[tuple[bytes, type[BackendFailure], str]] = [
    (b"401 No\r\ncontent-length: 900\r\n\r\n{", Permanent, "401"),
    (b"429 No\r\nretry-after: 7\r\ncontent-length: 900\r\n\r\n{", Overloaded, "429"),
    (b"429 No\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n\x1f\x8b", Overloaded, "429"),
    (b"503 No\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n\x1f\x8b", Transient, "503"),
    (b'200 OK\r\ncontent-length: 37\r\n\r\n{"error":{"message":"no","code":402}} ', Permanent, "402 no"),
    (b'200 OK\r\ncontent-length: 39\r\n\r\n{"error":{"message":"no","code":"429"}} ', Overloaded, "429 no"),
    (b'200 OK\r\ncontent-length: 14\r\n\r\n{"choices":[]}', Permanent, "in one piece, though it was asked to stream"),
    (b"200 OK\r\ncontent-type: Text/HTML\r\ncontent-length: 6\r\n\r\n<html>", Transient, "a web page"),
    (b"200 OK\r\ncontent-length: 6\r\n\r\n<html>", Transient, "a web page"),
    (b"302 Go\r\nlocation: http://[\r\ncontent-length: 0\r\n\r\n", Permanent, "redirects to what is no address"),
]


@pytest.mark.parametrize(
    ("answer", "kind", "said"), ANSWERED, ids=[answer.decode("latin-1")[:40] for answer, _, _ in ANSWERED]
)
async def test_the_status_says_what_went_wrong_even_when_the_rest_does_not_come(
    bench: Bench, answer: bytes, kind: type[BackendFailure], said: str
) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 " + answer)
        await reader.read()

    async with in_a_hurry(bench, connect=1) as hurried, serving(talk) as port:
        api = ModelApi(hurried.catalogue, Endpoint(base_url=f"http://127.0.0.1:{port}", api_key="$TEST_KEY"))
        with pytest.raises(BackendFailure, match=said) as caught:
            await api.reply(hurried.turn("chat"), (), hurried.sink)
    assert type(caught.value) is kind
    assert hurried.sink.lost == []


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        ("401", Permanent),
        ("403", Permanent),
        ("404", Permanent),
        ("quota", Permanent),
        ("redirect", Permanent),
        ("huge", Permanent),
        ("many_calls", Permanent),
        ("429", Overloaded),
        ("529", Overloaded),
        ("500", Transient),
        ("502html", Transient),
        ("page", Transient),
        ("503", Transient),
        ("cut", Transient),
        ("early_end", Transient),
        ("bad_json", Transient),
        ("overflow", Exhausted),
    ],
)
async def test_a_failure_has_its_class(bench: Bench, family: str, mode: str, kind: type[BackendFailure]) -> None:
    error = await bench.fail(family, mode)
    assert type(error) is kind, repr(error)
    assert len(bench.server.requests) == 1, "nothing is tried twice, nothing is followed"
    assert KEY not in f"{error.message} {error.hint}"


async def test_what_is_no_answer_of_a_model_api_is_told_in_words_that_lead_on(bench: Bench) -> None:
    for mode, status in (("502html", 502), ("page", 200)):
        page = await bench.fail("anthropic", mode)
        told = f": {status} with a web page instead of an answer: does base_url point to a model API?"
        assert page.message.endswith(told)
    cut = await bench.fail("anthropic", "cut")
    assert cut.message.startswith(f"the connection with 127.0.0.1:{bench.server.port} broke off: ")


@pytest.mark.parametrize("mode", ["stall", "hang"])
async def test_a_provider_that_falls_silent_is_a_passing_failure(bench: Bench, mode: str) -> None:
    async with in_a_hurry(bench, silence=0.1) as hurried:
        assert type(await hurried.fail("anthropic", mode)) is Transient


@pytest.mark.parametrize("family", FAMILIES)
async def test_an_error_in_the_middle_of_a_stream_may_pass_by_itself(bench: Bench, family: str) -> None:
    assert isinstance(await bench.fail(family, "stream_error"), Transient)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        (Refusal(400, "invalid_request_error", "no such field"), Permanent),
        (Refusal(402, "billing_error", "pay first"), Permanent),
        (Refusal(409, "conflict", "again, please"), Transient),
        (Refusal(413, "request_too_large", "too large"), Exhausted),
        (Refusal(422, "invalid_request_error", "cannot do that"), Permanent),
        (Refusal(503, "api_error", "back soon", (("retry-after", "30"),)), Overloaded),
        (Refusal(504, "timeout_error", "upstream"), Transient),
    ],
)
async def test_a_status_has_its_class(bench: Bench, family: str, refusal: Refusal, kind: type[BackendFailure]) -> None:
    with pytest.raises(BackendFailure) as caught:
        await bench.play(family, refusal)
    assert type(caught.value) is kind
    assert refusal.message in caught.value.message


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_provider_that_quotes_the_key_does_not_get_it_into_our_words(bench: Bench, family: str) -> None:
    with pytest.raises(Permanent) as caught:
        await bench.play(family, Refusal(401, "authentication_error", f"Incorrect key: {KEY}."))
    assert KEY not in caught.value.message
    assert "Incorrect key" in caught.value.message


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_rate_limit_tells_how_long_to_wait(bench: Bench, family: str) -> None:
    error = await bench.fail(family, "429")
    assert isinstance(error, Overloaded)
    assert error.retry_after == 7


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Mon, 16 Nov 2026 12:01:00 GMT", "date": "Mon, 16 Nov 2026 12:00:00 GMT"}, 60),
        ({"retry-after": "Mon, 16 Nov 2026 11:00:00 GMT", "date": "Mon, 16 Nov 2026 12:00:00 GMT"}, 0),
        ({"retry-after": "Mon, 16 Nov 2026 12:01:00 GMT"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
    ],
)
async def test_a_wait_is_told_in_several_ways(bench: Bench, headers: dict[str, str], wait: float | None) -> None:
    with pytest.raises(Overloaded) as caught:
        await bench.play("chat", Refusal(429, "rate_limit_error", "slow down", tuple(headers.items())))
    assert caught.value.retry_after == wait


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_wrong_key_names_the_variable_to_look_at(bench: Bench, family: str) -> None:
    assert (await bench.fail(family, "401")).hint == "check the key in TEST_KEY"


async def test_a_redirect_names_where_it_led(bench: Bench) -> None:
    assert "localhost" in (await bench.fail("anthropic", "redirect")).message


async def test_an_answer_may_not_take_forever(bench: Bench) -> None:
    async with in_a_hurry(bench, total=0.1) as bench:
        with pytest.raises(Transient, match="longer than"):
            await bench.ask("anthropic", "slow")


async def test_a_server_that_is_not_there_is_a_passing_failure(bench: Bench) -> None:
    gone = Endpoint(base_url="http://127.0.0.1:9", api_key="$TEST_KEY")
    with pytest.raises(Transient):
        await ModelApi(bench.catalogue, gone).reply(bench.turn("anthropic"), (), bench.sink)


async def test_what_the_hands_raise_passes_through_as_it_is(bench: Bench) -> None:
    class Tied(Recorder):
        def say(self, text: str) -> None:
            raise Fenced("another one writes now")

    with pytest.raises(Fenced):
        await bench.model("anthropic", "ok").reply(bench.turn("anthropic"), (), Tied())


async def test_a_failure_is_not_taken_for_the_one_it_follows(bench: Bench) -> None:
    try:
        raise Permanent("an earlier try")
    except Permanent:
        error = await bench.fail("anthropic", "500")
    assert type(error) is Transient


async def test_a_word_is_shown_before_the_next_one_comes_and_cancelling_is_not_a_failure(bench: Bench) -> None:
    heard = asyncio.Event()

    class Listening(Recorder):
        def say(self, text: str) -> None:
            heard.set()

    asking = asyncio.create_task(bench.model("anthropic", "stall").reply(bench.turn("anthropic"), (), Listening()))
    await heard.wait()  # and nothing more is to come
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_a_failure_in_one_step_leaves_the_next_try_whole(bench: Bench) -> None:
    bench.server.script([Fault("500"), "Now it works."])
    with pytest.raises(Transient):
        await bench.ask("anthropic", "script")
    assert (await bench.ask("anthropic", "script")).text == "Now it works."


# --- keys


async def test_a_missing_key_names_its_variable_and_the_command_that_sets_it() -> None:
    with pytest.raises(Permanent, match="ANTHROPIC_API_KEY") as caught:
        await ModelApi(Catalogue({})).reply(replace(TURN, model="anthropic/claude-sonnet-5"), (), Recorder())
    assert caught.value.hint == "agent-worker key set anthropic"


async def test_a_missing_model_says_what_to_write() -> None:
    with pytest.raises(Permanent, match="names no model"):
        await ModelApi(Catalogue({})).reply(TURN, (), Recorder())


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_foreign_host_is_sent_only_the_key_that_was_meant_for_it(
    bench: Bench, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The vendors' libraries read these by themselves.
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "x-corporate-secret: leak-1\nauthorization: Bearer leak-2")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "leak-3")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "leak-4")
    monkeypatch.setenv("OPENAI_API_KEY", "leak-5")
    monkeypatch.setenv("OPENAI_ORG_ID", "leak-6")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "leak-7")
    await bench.ask(family, "ok")
    request = bench.server.requests[-1]
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert "leak" not in json.dumps([request.headers, request.body, request.path])
    assert "real" not in json.dumps([request.headers, request.body, request.path])


async def test_an_endpoint_without_a_key_is_sent_none(bench: Bench) -> None:
    api = ModelApi(bench.catalogue, Endpoint(name="vllm", base_url=bench.server.url("ok", "/v1")))
    await api.reply(replace(TURN, model="qwen3"), (), bench.sink)
    assert "authorization" not in bench.server.requests[-1].headers


async def test_tokens_of_a_model_on_a_machine_of_ones_own_cost_nothing(bench: Bench) -> None:
    api = ModelApi(bench.catalogue, Endpoint(name="vllm", base_url=bench.server.url("ok", "/v1")))
    reply = await api.reply(replace(TURN, model="qwen3"), (), bench.sink)
    assert (reply.usage.tokens, reply.usage.usd) == (120, 0.0)
    assert price_of(reply.usage.tokens, reply.usage.usd, guessed=True) == (0.0, False), (
        "not even where they are a guess"
    )


async def test_a_key_that_changes_is_used_at_the_next_call(bench: Bench) -> None:
    env = {"TEST_KEY": "first"}
    changing = Bench(bench.server, Catalogue(env, approval=Approval(local=True)))
    await changing.ask("anthropic", "ok")
    env["TEST_KEY"] = "second"
    await changing.ask("anthropic", "ok")
    assert [r.headers["authorization"] for r in bench.server.requests] == ["Bearer first", "Bearer second"]
    await changing.catalogue.close()


async def test_agents_that_share_a_key_share_a_credential(bench: Bench) -> None:
    one, other = bench.model("anthropic", "ok"), bench.model("anthropic", "tools")
    assert one.credential(MODELS["anthropic"]) == other.credential(MODELS["anthropic"])
    assert KEY not in one.credential(MODELS["anthropic"])


# --- cost


async def test_past_steps_are_forgotten_with_their_run(bench: Bench) -> None:
    steps = [PastStep(Reply("", (Call(f"c{n}", "add", {}),)), {f"c{n}": Result("1")}) for n in range(50)]
    await bench.ask("chat", "ok", steps)
    assert len(bench.catalogue.kept("chat")) == 50
    steps.clear()
    gc.collect()
    assert len(bench.catalogue.kept("chat")) == 0


async def test_a_past_step_that_was_replaced_is_sent_as_it_is_now(bench: Bench) -> None:
    steps = [PastStep(Reply("", (Call(f"c{n}", "add", {}),)), {f"c{n}": Result("long")}) for n in range(3)]
    await bench.ask("chat", "ok", steps)
    steps[1] = replace(steps[1], results={"c1": Result("short")})
    await bench.ask("chat", "ok", steps)
    returned = [m["content"] for m in bench.sent()["messages"] if m["role"] == "tool"]
    assert returned == ["long", "short", "long"]


async def test_runs_side_by_side_keep_to_their_own_past(bench: Bench) -> None:
    mine, other = ([PastStep(Reply("", (Call(i, "add", {}),)), {i: Result(i)})] for i in ("mine", "other"))
    for run, steps in (("r1", mine), ("r2", other), ("r1", mine)):
        await bench.ask("chat", "ok", steps, run=run)
        assert [m["content"] for m in bench.sent()["messages"] if m["role"] == "tool"] == [
            result.text for step in steps for result in step.results.values()
        ]


def test_importing_it_imports_no_library_for_the_network() -> None:
    code = (
        "import sys, agent_worker.backends.models.model_api; print([m for m in sys.modules if m.split('.')[0] in "
        + ("('pydantic_ai', 'anthropic', 'openai', 'httpx2', 'httptools', 'genai_prices')])")
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
