"""Webhooks start workflows and are said in them: signed, approved, once, and of a group only the newest."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp
from tests import stored
from tests.teams import Team, open_team

from agent_worker.core.clock import TestClock
from agent_worker.core.errors import BadInput
from agent_worker.definitions.project_files import load_project
from agent_worker.doors.public import make
from agent_worker.files.root import Root
from agent_worker.service.hook_starter import HookStarter
from agent_worker.service.hooks import triggers_list, triggers_test
from agent_worker.service.inbox import inbox_answer, inbox_list
from agent_worker.service.service import Service
from agent_worker.service.trust import trust_give
from agent_worker.service.workflows import WorkflowRequest, begin

SECRET = "a-secret-that-is-long-enough"
CHECK = """
agents: { tess: { backend: mock, script: [{ say: looked }] } }
workspace: { provider: sqlite }
params: [{ name: number, type: integer, required: true }, { name: title, default: nothing }]
kickoff: "@tess look at ${{ params.number }}: ${{ params.title }}"
triggers:
  github:
    secret: $HOOK_SECRET
    events: [pull_request]
    when: { action: [opened, synchronize] }
    params: { number: pull_request.number, title: pull_request.title }
"""
GROUP = "    group: pr-${{ params.number }}\n"
WAITS = CHECK.replace(
    "[{ say: looked }]", "[{ call: [{ tool: ask_user, with: { question: go on? } }] }, { say: done }]"
)


@dataclass
class Hooked:
    team: Team
    service: Service
    app: ASGIApp
    root: str

    async def post(self, content: Any, name: str = "github", project: str = "p", **how: str) -> tuple[int, Any]:
        """As GitHub sends it, unless told otherwise: status and answer."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        headers = github(body) | {key.replace("_", "-"): value for key, value in how.items()}
        return await self.team.meanwhile(sent(self.app, f"/hooks/{project}/{name}", body, headers))

    async def started(self) -> list[str]:
        """The instances of the workflow, by tag, in the order in which they began."""
        return [row["tag"] for row in await self.team.read(stored.workspaces, workflow="check")]

    async def until_states(self, *states: str) -> None:
        def settled(rows: list[Any]) -> bool:
            return [row["state"] for row in rows] == list(states)

        await self.team.until(settled, stored.hook_deliveries)

    async def said(self) -> list[str]:
        return [row["text"] for row in await self.team.read(stored.messages, sender="user")]


async def sent(app: ASGIApp, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, Any]:
    answer: list[Any] = []
    scope = {
        **{"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b""},
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items() if value],
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        answer.append(message)

    await app(scope, receive, send)
    return answer[0]["status"], json.loads(answer[1]["body"])


def github(body: bytes, secret: str = SECRET, id: str = "") -> dict[str, str]:
    made = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    delivery = id or hashlib.sha256(body).hexdigest()[:32]
    return {"X-Hub-Signature-256": f"sha256={made}", "X-GitHub-Delivery": delivery, "X-GitHub-Event": "pull_request"}


def pull(number: int, title: str = "a change", action: str = "opened", **more: Any) -> dict[str, Any]:
    return {"action": action, "pull_request": {"number": number, "title": title}, **more}


Open = Callable[..., AbstractAsyncContextManager[Hooked]]


@pytest.fixture
def hooked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    """A project with the workflow check, and somebody who starts it; opened again, the same database goes on."""
    monkeypatch.setenv("HOOK_SECRET", SECRET)

    @asynccontextmanager
    async def opened(check: str = CHECK, **settings: Any) -> AsyncIterator[Hooked]:
        root = tmp_path / "p"
        (root / ".workflows").mkdir(parents=True, exist_ok=True)
        (root / ".workflows" / "check.yaml").write_text(check)
        async with open_team(root, "alice", clock=TestClock(), database=tmp_path / "state.db", **settings) as team:
            service = Service(team.runtime)
            await service.project(str(root))
            await service.open_again()
            HookStarter(service)
            yield Hooked(team, service, make(service), str(root))
            await service.close()

    return opened


async def test_a_webhook_starts_the_workflow_with_its_params_and_says_so(hooked: Open) -> None:
    async with hooked() as here:
        status, told = await here.post(pull(7, "fix @tess it"))
        (one,) = told["accepted"]
        assert (status, one["does"]) == (202, "starts")
        await here.until_states("started")
        (tag,) = await here.started()
        assert one["workflow"] == f"check:{tag}"
        assert "@tess look at 7: fix @tess it" in await here.said()


async def test_the_same_delivery_is_accepted_once_and_so_is_a_body_that_somebody_caught(hooked: Open) -> None:
    async with hooked() as here:
        await here.post(pull(7))
        for id in ("", "another-id"):
            status, told = await here.post(
                pull(7), X_GitHub_Delivery=id or github(json.dumps(pull(7)).encode())["X-GitHub-Delivery"]
            )
            assert (status, told["accepted"][0]["does"]) == (202, "repeated")
        await here.until_states("started")
        assert len(await here.started()) == 1


async def test_of_a_group_one_works_and_of_those_that_wait_the_newest(hooked: Open) -> None:
    async with hooked(WAITS + GROUP) as here:
        does = [(await here.post(pull(7, title)))[1]["accepted"][0]["does"] for title in ("first", "second", "third")]
        assert does[0] == "starts"
        await here.team.until(len, stored.inbox)
        await here.post(pull(7, "fourth"))
        await here.until_states("started", "superseded", "superseded", "queued")
        assert await here.started() == ["pr-7"]
        (item,) = await inbox_list(here.service, here.root)
        await inbox_answer(here.service, item.id, "answer", "yes")
        await here.team.meanwhile(here.until_states("started", "superseded", "superseded", "started"))
        assert await here.started() == ["pr-7", "pr-7"]
        assert [text for text in await here.said() if "look at" in text] == [
            "@tess look at 7: first",
            "@tess look at 7: fourth",
        ]


async def test_two_groups_never_share_a_tag(hooked: Open) -> None:
    group = (
        CHECK.replace("number: pull_request.number,", "number: pull_request.number,")
        + "    group: ${{ params.title }}\n"
    )
    async with hooked(group) as here:
        for title in ("feature/a", "feature a", "../..", "x" * 200):
            await here.post(pull(7, title))
        await here.until_states(*["started"] * 4)
        assert len(set(await here.started())) == 4


async def test_what_is_not_wanted_is_ignored_and_told(hooked: Open) -> None:
    async with hooked() as here:
        for wrong, why in (
            (await here.post(pull(7, action="closed")), "action is closed, not opened or synchronize"),
            (await here.post({}), "action is not there, not opened or synchronize"),
            (await here.post(pull(7), X_GitHub_Event="ping"), "the event is ping, not pull_request"),
        ):
            assert wrong == (200, {"accepted": [{"workflow": "check", "does": "ignored", "why": why}]})
        assert await here.team.read(stored.hook_deliveries) == []


@pytest.mark.parametrize("number", ["many", None, "x" * 70_000])
async def test_a_param_that_does_not_fit_is_refused(hooked: Open, number: object) -> None:
    async with hooked() as here:
        status, told = await here.post({"action": "opened", "pull_request": {"number": number}})
        assert (status, "number" in told["error"]["message"]) == (422, True)
        assert await here.team.read(stored.hook_deliveries) == []


SAYS = """
    send: "@tess the build is ${{ params.state }}"
    params: { state: state }
"""


async def test_a_webhook_is_said_in_a_running_team_and_its_words_call_on_nobody(hooked: Open) -> None:
    talk = "agents: { tess: { backend: mock }, rob: { backend: mock } }\nworkspace: { provider: sqlite }\n"
    async with hooked(talk + "triggers:\n  build:\n    secret: $HOOK_SECRET" + SAYS) as here:
        status, told = await here.post({"state": "red"}, "build")
        assert (status, told["accepted"][0]["does"]) == (200, "ignored")
        assert 'workflow "check" is not running' in told["accepted"][0]["why"]
        await begin(here.service, WorkflowRequest("check", here.root))
        for _ in range(2):
            status, told = await here.post({"state": "red, @rob"}, "build")
        assert (status, told["accepted"][0]["does"]) == (202, "repeated")
        messages = await here.team.read(stored.messages, sender="user", text="@tess the build is red, @rob")
        assert [json.loads(row["mentions"]) for row in messages] == [["tess"]]


async def test_a_trigger_does_nothing_until_it_is_approved(hooked: Open, tmp_path: Path) -> None:
    async with hooked(trust=Root.private(tmp_path / "home")) as here:
        (view,) = await triggers_list(here.service, here.root)
        assert "you have not approved it" in view.trouble
        status, told = await here.post(pull(7))
        assert (status, told["error"]["code"]) == (403, "untrusted")
        assert (
            "anyone who signs with $HOOK_SECRET starts check by the webhook github, up to 60 times an hour"
            in (told["error"]["message"])
        )
        assert await here.team.read(stored.hook_deliveries) == []
        await trust_give(here.service, here.root, workflow="check")
        assert (await here.post(pull(7)))[0] == 202
        await here.until_states("started")


async def test_no_more_are_taken_in_an_hour_than_the_trigger_says(hooked: Open) -> None:
    async with hooked(CHECK + "    per_hour: 2\n") as here:
        assert [(await here.post(pull(number)))[0] for number in (1, 2, 3)] == [202, 202, 429]
        await here.until_states("started", "started")
        await here.team.elapse(3601)
        assert (await here.post(pull(3)))[0] == 202


async def test_what_was_accepted_when_the_process_died_is_started_once_by_the_next(hooked: Open) -> None:
    async with hooked(CHECK + GROUP) as here:
        for number in (1, 2):
            await here.post(pull(number))
        await here.until_states("started", "started")
    async with hooked(CHECK + GROUP) as here:  # as if it had died right after, or right before, it was started
        pass
    async with hooked(CHECK + GROUP) as here:
        await here.service.close()
        params = json.dumps({"number": "3"})
        await here.team.change("hook_delivery", {"tag": "pr-1"}, state="starting")
        await here.team.change("hook_delivery", {"tag": "pr-2"}, state="starting", tag="pr-3", params=params)
    async with hooked(CHECK + GROUP) as here:
        await here.until_states("started", "started")
        assert await here.started() == ["pr-1", "pr-2", "pr-3"]


async def test_what_cannot_be_started_is_put_before_the_person_and_can_be_tried_again(
    hooked: Open, tmp_path: Path
) -> None:
    async with hooked(CHECK + "setup: [{ shell: test -e ready }]\n") as here:
        await here.post(pull(7))
        await here.until_states("failed")
        (item,) = await inbox_list(here.service, here.root)
        assert "was not started by the webhook github: set-up failed" in item.text
        (tmp_path / "p" / "ready").touch()
        await inbox_answer(here.service, item.id, "retry")
        await here.until_states("started")
        assert await inbox_list(here.service, here.root) == []


@pytest.mark.parametrize("public", [None, "https://agents.example.org"])
async def test_a_list_of_webhooks_shows_the_address_that_a_sender_is_given(hooked: Open, public: str | None) -> None:
    async with hooked(public_url=public) as here:
        (view,) = await triggers_list(here.service, here.root)
        assert view.address == f"{public or ''}/hooks/p/github"


async def test_a_trial_says_what_would_happen_and_does_nothing(hooked: Open) -> None:
    async with hooked(CHECK + GROUP) as here:
        (trial,) = await triggers_test(here.service, pull(7), project=here.root)
        assert (trial.does, trial.params) == ("starts check:pr-7", {"number": "7", "title": "a change"})
        assert trial.trouble == "nobody can reach it: public_url is not set"
        (trial,) = await triggers_test(here.service, pull(7, action="closed"), "github", project=here.root)
        assert trial.does == "nothing: action is closed, not opened or synchronize"
        with pytest.raises(BadInput, match="there is no trigger gitlab"):
            await triggers_test(here.service, {}, "gitlab", project=here.root)
        assert await here.team.read(stored.hook_deliveries) == []


# --- who signed it


async def test_whoever_cannot_sign_learns_nothing(hooked: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    body = json.dumps(pull(7)).encode()
    other = json.dumps(pull(8)).encode()
    async with hooked() as here:
        answers = [
            await here.post(pull(7), project="nowhere"),
            await here.post(pull(7), "nothing"),
            await here.post(pull(7), X_Hub_Signature_256=github(body, "another-secret-as-long")["X-Hub-Signature-256"]),
            await here.post(pull(7), X_Hub_Signature_256=github(other)["X-Hub-Signature-256"]),
            await here.post(pull(7), X_Hub_Signature_256=""),
            await here.post(pull(7), X_Hub_Signature_256="sha256=é"),
            await here.post(pull(7), X_GitHub_Delivery=""),
            await here.post(pull(7), X_Hub_Signature_256="", X_Gitlab_Token=SECRET),
            await here.post(b"no json", "nothing"),
        ]
        assert len({repr(each) for each in answers}) == 1
        assert answers[0][0] == 401
        monkeypatch.setenv("HOOK_SECRET", "short")
    async with hooked() as here:
        weak = github(body, "short")["X-Hub-Signature-256"]
        assert (await here.post(pull(7), X_Hub_Signature_256=weak))[0] == 401, "a secret that can be guessed is none"
        assert "shorter than 16 characters" in (await triggers_list(here.service, here.root))[0].trouble


@pytest.mark.parametrize("body", [b"no json", b"[]", b'{"a": 1, "a": 2}', b'{"a": NaN}', b'{"a": "\\u0000"}', b"\xff"])
async def test_what_is_signed_and_cannot_be_read_is_refused(hooked: Open, body: bytes) -> None:
    async with hooked() as here:
        assert (await here.post(body))[0] == 400


def standard(body: bytes, *, at: float, id: str = "msg_1", secret: str = SECRET) -> dict[str, str]:
    key = base64.b64decode(secret.removeprefix("whsec_")) if secret.startswith("whsec_") else secret.encode()
    made = hmac.new(key, f"{id}.{int(at)}.".encode() + body, hashlib.sha256).digest()
    signature = f"v1,bm90aGluZw== v1,{base64.b64encode(made).decode()}"
    return {"webhook-id": id, "webhook-timestamp": str(int(at)), "webhook-signature": signature}


@pytest.mark.parametrize("kind", ["gitlab", "generic"])
async def test_a_signature_over_id_and_time_is_fresh_and_for_that_id(hooked: Open, kind: str) -> None:
    check = CHECK.replace("    events: [pull_request]\n", f"    signed: {kind}\n")
    body = json.dumps(pull(7)).encode()
    async with hooked(check) as here:
        now = here.service.now() / 1e6
        sends = [
            ({"webhook-id": "msg_2"}, now, 401),
            ({}, now - 301, 401),
            ({}, now + 301, 401),
            ({"webhook-timestamp": "1e9"}, now, 401),
            ({}, now, 202),
        ]
        for changed, at, status in sends:
            headers = standard(body, at=at) | changed
            assert (await here.team.meanwhile(sent(here.app, "/hooks/p/github", body, headers)))[0] == status
        again = await here.team.meanwhile(sent(here.app, "/hooks/p/github", body, standard(body, at=now)))
        assert again[1]["accepted"][0]["does"] == "repeated"
        another = await sent(here.app, "/hooks/p/github", body, standard(body, at=now, id="msg_2"))
        assert another[1]["accepted"][0]["does"] == "starts", "the same words, signed anew, are new"


@pytest.mark.parametrize(("kind", "days"), [("github", 365), ("generic", 30)])
async def test_a_delivery_is_known_for_as_long_as_somebody_might_send_it_again(
    hooked: Open, kind: str, days: int
) -> None:
    """Then it is forgotten, so that the table does not grow for ever. An old time that was signed is refused anyway."""
    async with hooked(CHECK.replace("    events: [pull_request]\n", f"    signed: {kind}\n")) as here:

        async def known_after(number: int, *, day: int) -> int:
            clock = here.team.clock
            await here.team.elapse(day * 86400 - clock.monotonic())
            body, id = json.dumps(pull(number)).encode(), f"msg_{number}"
            at = here.service.now() / 1e6
            headers = github(body, id=id) if kind == "github" else standard(body, at=at, id=id)
            assert (await here.team.meanwhile(sent(here.app, "/hooks/p/github", body, headers)))[0] == 202
            return len(await here.team.read(stored.hook_deliveries))

        assert await known_after(1, day=1) == 1
        assert await known_after(2, day=days) == 2
        assert await known_after(3, day=days + 2) == 2, "the first is forgotten"
        assert await known_after(1, day=days + 2) == 3, "so it is taken again"


async def test_what_came_by_a_trigger_that_is_gone_is_forgotten_too(hooked: Open) -> None:
    both = f"{CHECK}  other: {{ secret: $HOOK_SECRET, signed: github, params: {{ number: pull_request.number }} }}\n"
    async with hooked(both) as here:
        assert (await here.post(pull(1), "other"))[0] == 202
        await here.team.elapse(366 * 86400)
        body = json.dumps(pull(2)).encode()
        assert (await here.team.meanwhile(sent(here.app, "/hooks/p/github", body, github(body, id="msg_2"))))[0] == 202
        kept = await here.team.read(stored.hook_deliveries)
        assert [row["name"] for row in kept] == ["github"], "nothing will come by the other any more, as far as we know"


async def test_gitlab_may_send_its_token_instead(hooked: Open) -> None:
    check = CHECK.replace("events: [pull_request]", "signed: gitlab\n    events: [Merge Request Hook]")
    body = json.dumps(pull(7)).encode()
    headers = {"X-Gitlab-Token": SECRET, "X-Gitlab-Event": "Merge Request Hook", "X-Gitlab-Event-UUID": "u"}
    async with hooked(check) as here:
        wrong = headers | {"X-Gitlab-Token": SECRET[:-1]}
        assert (await here.team.meanwhile(sent(here.app, "/hooks/p/github", body, wrong)))[0] == 401
        assert (await sent(here.app, "/hooks/p/github", body, headers))[0] == 202


# --- as it is written


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("secret: the-secret-itself", "triggers.github.secret: must name an environment variable, never contain"),
        ("secret: $S\n    params: { nummer: a }", "no such param"),
        ("secret: $S\n    params: { nummer: a }", 'did you mean "number"?'),
        ("secret: $S", "the param number is required"),
        ("secret: $S\n    params: { number: a..b }", "is not a place in a webhook's JSON"),
        (
            "secret: $S\n    params: { number: a }\n    group: ${{ params.titel }}",
            "there is no params.titel to fill in",
        ),
        ("secret: $S\n    params: { number: a }\n    signed: pigeon", "triggers.github.signed"),
        ("secret: $S\n    params: { number: a }\n    per_hour: 5000", "triggers.github.per_hour"),
        ("secret: $S\n    params: { number: a }\n    when: { action: { } }", "must be a value, or a list of values"),
        ("secret: $S\n    params: { number: a }\n    evens: [push]", 'did you mean "events"?'),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, written: str, problem: str) -> None:
    (tmp_path / ".workflows").mkdir()
    text = CHECK.partition("    secret:")[0] + f"    {written}\n"
    (tmp_path / ".workflows" / "check.yaml").write_text(text)
    told = [str(each) + f" {each.hint}" for each in load_project(tmp_path).problems]
    assert any(problem in each and "check.yaml:" in each for each in told), told
