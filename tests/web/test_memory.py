"""What an agent remembers, on its page: provenance, disputes that are decided in place, a run that is taken back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml
from tests.shells.served import Served, served
from tests.web.browser import Visit, needs_chromium, script

pytestmark = needs_chromium

MONDAYS = {"key": "deploys", "value": "We deploy on Mondays"}
BOB = script({"call": {"tool": "memory_write", "with": MONDAYS}}, {"say": "noted"})


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("memory"), alice=script({"say": "fine"}), bob=BOB) as made:
        yield made


def remember(guest: Visit, agent: str, **entries: object) -> None:
    path = guest.daemon.project / ".agents" / agent / "memory" / "working.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(entries))


def test_each_memory_says_who_says_so_and_shows_what_would_be_taken_back_with_its_run(guest: Visit) -> None:
    guest.daemon.do("POST", "/serve", agent="alice", message="We deploy on Mondays")
    run = guest.daemon.ask("GET", guest.daemon.query("/runs")).json[0]["id"]
    told = {"value": "Mondays", "by": "user", "since": "2026-11-16", "seen": 3, "source": run}
    remember(guest, "alice", deploys=told, tea={"value": "green <b>tea</b>", "by": "agent:bob", "source": "r_0"})
    page = guest.open(guest.place("agent/alice"))
    page.locator(".memory summary", has_text="deploys").click()
    page.get_by_text("by you · since 2026-11-16 · seen 3 times").wait_for()
    page.locator(".memory summary", has_text="<b>tea</b>").click()
    page.get_by_text("says bob").wait_for()
    page.locator("details[open] summary", has_text="Take back").first.click()
    page.get_by_role("form", name=f"Take back {run}").get_by_role("button").click()
    page.locator(".memory", has_text="held back").wait_for()


def test_a_dispute_is_decided_on_the_page(guest: Visit) -> None:
    remember(guest, "bob", deploys={"value": "We deploy on Fridays"})
    guest.daemon.do("POST", "/serve", agent="bob", message="look around")
    page = guest.open(guest.place("agent/bob"))
    page.get_by_text("is disputed:").wait_for()
    page.get_by_role("form", name="Decide about deploys").get_by_role("button", name="Approve").click()
    page.get_by_text("is disputed:").wait_for(state="detached")
    entries = guest.daemon.ask("GET", guest.daemon.query("/agents/bob/memory")).json["entries"]
    assert {each["file"]: each["value"] for each in entries} == {
        "working": "We deploy on Mondays",
        "archive": "We deploy on Fridays",
    }


def test_the_audit_says_who_did_what_to_it_and_that_it_is_whole(guest: Visit) -> None:
    guest.daemon.do("PUT", "/agents/alice/memory", key="audited", value="once")
    page = guest.open(guest.place("agent/alice"))
    page.get_by_role("link", name="Audit").click()
    page.get_by_role("row", name="audited").first.wait_for()
    assert page.get_by_text("The record is whole.").is_visible()


def test_the_versions_of_a_soul_show_what_changed_and_one_goes_back(guest: Visit) -> None:
    before = guest.daemon.ask("GET", guest.daemon.query("/agents/alice/soul")).json["text"]
    guest.daemon.do("PUT", "/agents/alice/soul", text="role: gardener\n", was=before)
    now = guest.daemon.ask("GET", guest.daemon.query("/agents/alice/soul")).json["text"]
    guest.daemon.do("PUT", "/agents/alice/soul", text="role: cook\n", was=now)
    page = guest.open(guest.place("agent/alice"))
    page.get_by_text("Versions", exact=True).click()
    page.locator(".diff .added", has_text="role: cook").wait_for()
    assert page.locator(".diff .removed", has_text="role: gardener").count() == 1
    page.get_by_role("form", name="Go back to version 2").get_by_role("button").click()
    page.locator("dl.soul", has_text="gardener").wait_for()
