"""Trust on the page: what was approved is taken back, calls that are always allowed, tokens; and the list of runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.shells.served import Served, served
from tests.web.browser import Visit, needs_chromium, script

pytestmark = needs_chromium

SETUP = "agents: { alice: { ref: alice } }\nsetup: [{ shell: 'echo prepared' }]\nworkspace: { provider: sqlite }\n"
CALLS = "tools: [{ name: bash, approve: true }]\n" + script(
    {"call": {"tool": "bash", "with": {"command": "echo looked"}}}, {"say": "done"}, {"say": "again"}
)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("trust"), bob=CALLS) as made:
        (made.project / ".workflows" / "prepared.yaml").write_text(SETUP)
        yield made


def test_what_a_project_may_do_is_approved_seen_and_taken_back(guest: Visit) -> None:
    page = guest.open("#/home")
    page.get_by_role("link", name="Trust").click()
    page.locator(".consent", has_text="echo prepared").get_by_role("button", name="Approve").click()
    approved = page.locator(".part", has=page.get_by_role("heading", name="Approved"))
    approved.locator("summary", has_text="prepared").click()
    approved.locator("pre", has_text="echo prepared").wait_for()
    approved.get_by_role("button", name="Take all of it back").click()
    page.locator(".consent", has_text="echo prepared").wait_for()
    approved.get_by_text("You have approved nothing here").wait_for()
    assert guest.daemon.ask("GET", guest.daemon.query("/trust/approved")).json == []


def test_what_is_approved_and_too_long_to_be_shown_says_so(guest: Visit) -> None:
    guest.daemon.do("POST", "/trust")
    long = "\\n".join(f"echo {n}" for n in range(500))
    (guest.daemon.project / ".workflows" / "long.yaml").write_text(SETUP.replace("'echo prepared'", f'"{long}"'))
    guest.daemon.do("POST", "/trust", workflow="long")
    page = guest.open(f"{guest.place('approval')}&workflow=long")
    page.locator(".approved summary").first.click()
    page.locator(".approved .why", has_text="Not shown here").first.wait_for()


def test_a_call_that_is_always_allowed_is_asked_about_again(guest: Visit) -> None:
    guest.daemon.do("POST", "/trust", agent="bob")
    guest.daemon.do("POST", "/send", to="bob", message="look")
    page = guest.open("#/inbox")
    page.locator(".item[data-kind=approval]").get_by_role("button", name="Always exactly this").click()
    page.get_by_text("Nothing waits for you.").wait_for()
    guest.go(guest.place("approval"))
    entry = page.locator("li", has_text="echo looked")
    entry.get_by_role("button", name="Ask again").click()
    entry.wait_for(state="detached")
    assert guest.daemon.ask("GET", guest.daemon.query("/allowed")).json == []


@pytest.mark.parametrize("days", ["-1", "0", "1e300"])
def test_a_token_of_no_time_or_of_all_times_is_not_made(daemon: Served, days: str) -> None:
    body = {"name": "odd", "project": str(daemon.project), "days": float(days)}
    assert daemon.ask("POST", "/page/token", body=body).status == 422
    assert daemon.ask("GET", daemon.query("/tokens")).json == []


def test_a_token_is_shown_once_and_revoked(guest: Visit) -> None:
    page, daemon = guest.open(guest.place("approval")), guest.daemon
    page.get_by_text("New token", exact=True).click()
    form = page.get_by_role("form", name="New token")
    form.get_by_label("Name", exact=True).fill("editor")
    form.get_by_label("Only for").fill("nobody-here")
    form.get_by_role("button", name="Make it").click()
    form.locator(".told", has_text="nobody-here").wait_for()
    form.get_by_label("Only for").fill("alice\n")
    form.get_by_role("button", name="Make it").click()
    token = page.locator("#token-told code").inner_text()
    assert daemon.ask("GET", "/v1/models", token=token).status == 200
    row = page.locator("li", has_text="editor").filter(has_text="until it is revoked")
    assert "alice" in row.inner_text()
    guest.go("#/home")
    guest.go(guest.place("approval"))
    assert token not in page.content()
    row.get_by_role("button", name="Revoke editor").click()
    row.wait_for(state="detached")
    assert daemon.ask("GET", "/v1/models", token=token).status == 401


def test_the_runs_of_a_project_are_listed_filtered_and_opened(guest: Visit) -> None:
    (guest.daemon.project / ".agents" / "fay.yaml").write_text("backend: mock\n" + script({"fail": "permanent"}))
    guest.daemon.do("POST", "/serve", agent="alice", message="hello")
    guest.daemon.ask("POST", "/serve", body={"agent": "fay", "message": "try", "project": str(guest.daemon.project)})
    page = guest.open("#/home")
    page.get_by_role("link", name="Runs").click()
    rows = page.locator(".runs > li")
    page.locator(".runs .name", has_text="fay").wait_for()
    page.get_by_label("Which of them").select_option("failed")
    page.get_by_text("1 found").wait_for()
    assert [row.locator(".name").inner_text() for row in rows.all() if row.is_visible()] == ["fay"]
    page.locator(".runs .name", has_text="fay").click()
    page.get_by_role("heading", name="fay’s run").wait_for()
