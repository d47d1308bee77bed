"""A notification carries a link, and whoever has it answers one item, once, from a phone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests import stored
from tests.doors.public import FORM, HOST, URL, answer, port_of, public, reach
from tests.doors.test_outbox import receiver, wants
from tests.patience import PATIENCE, eventually
from tests.shells.served import ROUTES, Served, served
from tests.teams import Team, open_team
from tests.web.browser import CHROMIUM, SWITCHES, needs_chromium

from agent_worker.backends.mock import calls, fails, says
from agent_worker.core.clock import TestClock
from agent_worker.core.errors import BadInput
from agent_worker.service.answer_links import answer_by_link, linked_item, make_links
from agent_worker.service.service import Service
from agent_worker.work import outbox
from agent_worker.work.answer_links import DeadLink

COLOUR = {"question": "<b>which</b> colour?", "options": ["red", "dark blue"]}


@dataclass
class Asked:
    """A team that waits for the person, and how the person is told of it."""

    team: Team
    service: Service
    clock: TestClock

    async def secret(self) -> str:
        """Of the link in a notification of the one thing that waits."""
        rows = await self.team.runtime.database.read(outbox.due, now=self.service.now())
        (link,) = (await make_links(self.service, rows[-1:])).values()
        assert link.startswith(f"{URL}/answer#")
        return link.partition("#")[2]


@asynccontextmanager
async def asked(root: Path, *script: Any, **settings: Any) -> AsyncIterator[Asked]:
    clock = TestClock()
    async with open_team(root, "alice", clock=clock, **{"public_url": URL} | settings) as team:
        service = Service(team.runtime)
        team.backends["alice"].then(*script)
        await team.post("user", "@alice paint it")
        await team.until(lambda rows: rows, stored.inbox)
        yield Asked(team, service, clock)
        await service.close()


def ASKS() -> tuple[Any, ...]:
    return calls("ask_user", **COLOUR), says("thank you")


async def test_an_answer_by_link_reaches_who_asked_and_the_link_is_used_up(tmp_path: Path) -> None:
    async with asked(tmp_path, *ASKS()) as one:
        secret = await one.secret()
        item = await linked_item(one.service, secret)
        assert (item.kind, item.options) == ("question", ["red", "dark blue"])
        assert await answer_by_link(one.service, secret, "answer", "dark blue") == "done"
        await one.team.meanwhile(one.team.quiet())
        (call,) = await one.team.calls(tool="ask_user")
        assert "dark blue" in call["result"]
        for _ in range(2):
            with pytest.raises(DeadLink, match="this link was already used"):
                await answer_by_link(one.service, secret, "answer", "red")


async def test_what_is_none_of_the_options_is_an_answer_to_a_question_too(tmp_path: Path) -> None:
    async with asked(tmp_path, *ASKS()) as one:
        secret = await one.secret()
        with pytest.raises(BadInput, match="needs a text"):
            await answer_by_link(one.service, secret, "answer", " ")
        assert await answer_by_link(one.service, secret, "answer", "green") == "done", "a mistake does not use it up"


async def test_a_link_ends_after_three_days_and_is_of_no_use_when_the_item_was_settled(tmp_path: Path) -> None:
    async with asked(tmp_path, *ASKS()) as one:
        old = await one.secret()
        await one.clock.advance(timedelta(days=3).total_seconds())
        with pytest.raises(DeadLink, match="older than three days"):
            await linked_item(one.service, old)
        unused = await one.secret()
        await answer_by_link(one.service, await one.secret(), "dismiss")
        for secret in (old, unused):
            with pytest.raises(DeadLink, match="has been settled"):
                await answer_by_link(one.service, secret, "answer", "red")
        with pytest.raises(DeadLink, match="unknown here"):
            await linked_item(one.service, "x" * 43)


async def test_a_link_is_for_what_was_told_and_for_nothing_else(tmp_path: Path) -> None:
    async with asked(tmp_path, *ASKS()) as one:
        secret = await one.secret()
        await one.team.change("inbox_item", text="may I delete everything?")
        with pytest.raises(DeadLink, match="the question has changed"):
            await answer_by_link(one.service, secret, "answer", "red")
        with pytest.raises(BadInput, match="approve does not settle it"):
            await answer_by_link(one.service, await one.secret(), "approve")
        assert [row["state"] for row in await one.team.asked()] == ["open"]


async def test_a_failure_is_tried_again_by_its_link(tmp_path: Path) -> None:
    async with asked(tmp_path, fails("permanent"), says("the second time")) as one:
        assert await answer_by_link(one.service, await one.secret(), "retry") == "it is being retried"
        await one.team.meanwhile(one.team.quiet())
        assert (await one.team.texts())[-1] == "the second time"


async def test_only_a_digest_of_a_link_is_kept(tmp_path: Path) -> None:
    async with asked(tmp_path, *ASKS()) as one:
        secret = await one.secret()
        rows = await one.team.read(stored.answer_links)
        assert [row["digest"] for row in rows] == [hashlib.sha256(secret.encode()).hexdigest()]
        assert secret not in repr(rows)


async def test_without_a_public_address_there_are_no_links(tmp_path: Path) -> None:
    async with asked(tmp_path, *ASKS(), public_url=None) as one:
        rows = await one.team.runtime.database.read(outbox.due, now=one.service.now())
        assert await make_links(one.service, rows) == {}


# --- from elsewhere, by HTTP


@dataclass
class Elsewhere:
    daemon: Served
    port: int
    told: list[tuple[dict[str, str], bytes]]

    def link(self) -> str:
        """Have the person asked, of nothing else; the link in what they are told."""
        for item in self.waiting():
            self.daemon.client.request("POST", f"/inbox/{item['id']}", {"action": "dismiss"})
        assert eventually(lambda: not self.daemon.read(stored.instructions, state="waiting"))
        before = len(self.told)
        self.daemon.do("POST", "/serve", agent="alice", message="paint it")
        assert eventually(lambda: len(self.told) > before)
        (item,) = json.loads(self.told[-1][1])["items"]
        return str(item["link"])

    def secret(self) -> str:
        return self.link().partition("#")[2]

    def waiting(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.daemon.client.request("GET", self.daemon.query("/inbox"))[1]
        return found


ALICE = f"""backend: mock
script: {json.dumps([{"call": [{"tool": "ask_user", "with": COLOUR}]}, {"say": "done"}] * 20)}
"""


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Elsewhere]:
    tmp = tmp_path_factory.mktemp("links")
    public(tmp / "home")
    with receiver() as (url, got):
        quiet = {"to": "webhook", "url": url, "links": False, "kinds": ["failure"]}
        wants(tmp / "home", chat={"to": "webhook", "url": url}, quiet=quiet)
        with served(tmp, alice=ALICE) as daemon:
            yield Elsewhere(daemon, port_of(daemon), got)


def test_a_form_shows_what_is_asked_as_text_and_takes_the_answer_once(elsewhere: Elsewhere) -> None:
    secret = elsewhere.secret()
    shown = answer(elsewhere.port, secret)
    assert shown.status == 200
    assert b"&lt;b&gt;which&lt;/b&gt; colour?" in shown.body
    assert b"<button>dark blue</button>" in shown.body
    assert elsewhere.waiting(), "to look is not to answer"
    taken = answer(elsewhere.port, secret, action="answer", text="dark blue")
    assert (taken.status, b"Your answer was accepted." in taken.body) == (200, True)
    assert not elsewhere.waiting()
    again = answer(elsewhere.port, secret, action="answer", text="red")
    assert (again.status, b"this link was already used" in again.body) == (409, True)


def test_the_page_is_shut_off_from_everything_else(elsewhere: Elsewhere) -> None:
    shown = reach(elsewhere.port, "GET", "/answer", Sec_Fetch_Site="cross-site")
    headers = dict(shown.headers)
    assert shown.status == 200, "a link may be followed from anywhere: nothing is in the page"
    assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
    assert (headers["referrer-policy"], headers["cache-control"]) == ("same-origin", "no-store")
    assert b"secret" in reach(elsewhere.port, "GET", "/answer/answer.js").body


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
        ({"Upgrade": "h2c"}, 400),
        ({"Origin": URL, "Sec_Fetch_Site": "same-origin"}, 200),
    ],
)
def test_another_web_page_cannot_answer_even_with_the_secret(
    elsewhere: Elsewhere, headers: dict[str, str], status: int
) -> None:
    assert answer(elsewhere.port, elsewhere.secret(), headers=headers).status == status


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", f"{HOST}:80", f"{HOST}.", "localhost", ""])
def test_the_listener_goes_by_one_name(elsewhere: Elsewhere, host: str) -> None:
    assert reach(elsewhere.port, "GET", "/answer", host=host).status == 421


def test_no_token_opens_anything_there_and_nothing_else_is_served(elsewhere: Elsewhere) -> None:
    token = elsewhere.daemon.client.found.token
    for method, path in [*ROUTES, ("GET", "/health"), ("GET", "/"), ("POST", "/v1/responses"), ("GET", "/hooks/x/y")]:
        found = reach(elsewhere.port, method, path, Authorization=f"Bearer {token}")
        assert (found.status, b"there is nothing here" in found.body) == (404, True), (method, path)
    here = f"127.0.0.1:{elsewhere.daemon.client.found.port}"
    assert elsewhere.daemon.ask("GET", "/answer", host=here).status == 404, "nor is this served by the daemon's own"


def test_a_wrong_form_is_refused_with_a_sentence(elsewhere: Elsewhere) -> None:
    secret = elsewhere.secret()
    assert answer(elsewhere.port, secret, action="obey").status == 400
    assert answer(elsewhere.port, "nonsense").status == 409
    assert answer(elsewhere.port, secret, action="answer", text="x" * 70_000).status == 413
    for body in (b"secret=a&secret=b", b"%ff=%ff", b"\xff", b"&".join(b"%d=1" % n for n in range(20))):
        assert reach(elsewhere.port, "POST", "/answer/item", body, kind=FORM).status == 400, body
    assert reach(elsewhere.port, "POST", "/answer/item", b"{}", kind="application/json").status == 415


@needs_chromium
def test_on_a_phone_the_link_shows_buttons_and_one_of_them_answers(elsewhere: Elsewhere) -> None:
    from playwright.sync_api import sync_playwright

    link = elsewhere.link()
    rule = f"--host-resolver-rules=MAP {HOST}:80 127.0.0.1:{elsewhere.port}"
    with sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=CHROMIUM, args=[*SWITCHES, rule])
        page = browser.new_page(viewport={"width": 390, "height": 800})
        page.set_default_timeout(PATIENCE * 1000)
        complaints: list[str] = []
        page.on("console", lambda told: complaints.append(told.text) if told.type == "error" else None)
        page.goto(link)
        page.get_by_role("button", name="dark blue").click()
        page.get_by_text("Your answer was accepted.").wait_for()
        assert "#" not in page.url
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.goto(link)
        page.get_by_text("this link was already used").wait_for()
        browser.close()
    assert not [each for each in complaints if "status of 4" not in each]
    assert not elsewhere.waiting()
