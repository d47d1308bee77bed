"""Home is now: who works on what, what waits, what was said last, one row per workflow; whatever a project is up to."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.patience import eventually
from tests.shells.served import Served, served
from tests.web.browser import Browser, Visit, needs_chromium, say, script, start, visit, wait, workspace_of_one

ASKS = {"call": {"tool": "ask_user", "with": {"question": "Tea or coffee?", "options": ["tea", "coffee"]}}}
PLAIN = "agents: { ida: { backend: mock } }\nworkspace: { provider: sqlite }\n"
SETS_UP = PLAIN + 'setup:\n  - { shell: "echo ready", as: said }\nkickoff: "it is ${{ said }}"\n'


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("home")) as made:
        yield made


def agent(daemon: Served, name: str, *entries: object, more: str = "") -> None:
    (daemon.project / ".agents" / f"{name}.yaml").write_text(f"backend: mock\n{more}" + script(*entries))


def failed(daemon: Served, name: str, times: int) -> bool:
    """Whether so many runs of an agent have failed."""

    def runs() -> int:
        found = daemon.ask("GET", daemon.query(f"/runs?agent={name}&state=failed"))
        return len(found.json) if found.status == 200 else 0

    return eventually(lambda: runs() >= times)


@needs_chromium
def test_it_shows_who_works_on_what_and_cancels_it(guest: Visit) -> None:
    agent(guest.daemon, "sam", {"say": "never", "slow": "10m"})
    guest.daemon.do("POST", "/send", to="sam", message="count the stars")
    page = guest.open("#/home")
    row = page.locator(".now li", has_text="count the stars")
    row.wait_for()
    row.get_by_role("link", name="sam").wait_for()
    row.get_by_role("link", name="the run").wait_for()
    row.get_by_role("button", name="Cancel").click()
    row.wait_for(state="detached")


@needs_chromium
def test_what_waits_is_answered_there_and_the_newest_words_are_shown(guest: Visit) -> None:
    workspace_of_one(guest.daemon, "drinks", "ann", ASKS, {"say": "I will bring the tea"})
    page = guest.open("#/home")
    say(guest.daemon, "@ann something to drink", to="@drinks")
    page.locator(".home .item", has_text="Tea or coffee?").get_by_role("button", name="tea").click()
    page.locator(".now li", has_text="I will bring the tea").wait_for()
    row = page.get_by_role("row", name="@drinks")
    row.get_by_text("I will bring the tea").wait_for()


@needs_chromium
def test_each_workflow_is_one_row_with_the_one_button_that_fits(guest: Visit) -> None:
    (guest.daemon.project / ".workflows" / "quiet.yaml").write_text(PLAIN)
    page = guest.open("#/home")
    page.get_by_role("button", name="Start quiet").click()
    page.get_by_role("heading", name="@quiet").wait_for()
    guest.go("#/home")
    page.get_by_role("button", name="pause quiet").click()
    page.get_by_role("button", name="resume quiet").click()
    page.get_by_role("button", name="pause quiet").wait_for()
    guest.daemon.client.request("DELETE", guest.daemon.query("/workflows/quiet"))
    page.get_by_role("button", name="Start again quiet").click()
    page.get_by_role("heading", name="@quiet").wait_for()


@needs_chromium
def test_equal_failures_are_one_and_go_on_record_as_over_once_it_went_well(guest: Visit) -> None:
    agent(guest.daemon, "fay", {"fail": "permanent"}, {"fail": "permanent"}, {"say": "better"})
    for n in range(2):
        guest.daemon.do("POST", "/send", to="fay", message="go on")
        assert failed(guest.daemon, "fay", n + 1)
    page = guest.open("#/home")
    row = page.locator(".failures li", has_text="fay")
    row.get_by_text("2 times").wait_for()
    assert row.count() == 1
    guest.daemon.do("POST", "/ask", agent="fay", message="once more")
    row.get_by_text("it has succeeded since").wait_for()


@pytest.mark.sqlite("an agent whose program is missing does not fail there: it waits for a host that has it")
def test_what_mends_a_failure_stands_beside_it_whatever_its_words(tmp_path: Path) -> None:
    with served(tmp_path) as daemon:  # Home shows the failures of all projects: here are no others
        check_remedies(daemon)


def check_remedies(daemon: Served) -> None:
    tool = daemon.project / "hum.py"
    tool.write_text('def hum() -> str:\n    """Hum."""\n    return "m"\n')
    agent(daemon, "hal", {"say": "never"}, more='tools: ["hum.py:hum"]\n')
    (daemon.project / ".agents" / "gem.yaml").write_text("backend: gemini\nprompt: { system: help }\n")
    daemon.do("POST", "/trust")
    daemon.do("POST", "/agents/hal/pause")
    daemon.do("POST", "/send", to="hal", message="hum")
    tool.with_name("sing.py").write_text(tool.read_text())
    agent(daemon, "hal", {"say": "never"}, more='tools: ["sing.py:hum"]\n')  # after it was approved
    daemon.do("POST", "/agents/hal/resume")
    assert failed(daemon, "hal", 1)
    agent(daemon, "hugo", {"fail": "permanent"})
    for name in ("hugo", "gem"):
        daemon.do("POST", "/send", to=name, message="limit reached: X_KEY is not set, gemini is not installed")
        assert failed(daemon, name, 1)
    runs = {run["agent"]: run["remedy"] for run in daemon.ask("GET", daemon.query("/runs?state=failed")).json}
    assert (runs["hugo"], runs["gem"], runs["hal"]) == ("", "install gemini", "approve")
    items = {each["agent"]: each["remedy"] for each in daemon.ask("GET", daemon.query("/inbox")).json}
    assert (items["hugo"], items["gem"]) == ("", "install gemini")
    shown = daemon.ask("GET", "/page/home").json["html"]
    assert "Look at it and approve it" in shown
    assert shown.count("Install it: ") == 2, "on its card and among the failures; nothing for words that look like it"
    assert "Set X_KEY" not in shown, "nothing is offered for words that only look like it"


@needs_chromium
def test_a_mistake_in_a_file_leads_to_its_line(guest: Visit) -> None:
    file = guest.daemon.project / ".agents" / "odd.yaml"
    file.write_text("backend: mock\n\nmodle: x\n")
    page = guest.open("#/home")
    page.locator(".problems a", has_text='odd.yaml:3:1: modle: unknown key (did you mean "model"?)').click()
    box = page.get_by_label("Text of .agents/odd.yaml")
    box.wait_for()
    assert box.evaluate("box => box.value.slice(box.selectionStart, box.selectionEnd)") == "modle: x"
    file.unlink()


@needs_chromium
def test_what_needs_an_approval_asks_the_question_of_the_terminal_and_then_does_it(guest: Visit) -> None:
    (guest.daemon.project / ".workflows" / "ready.yaml").write_text(SETS_UP)
    page = guest.open("#/home")
    page.get_by_role("link", name="Start ready").click()
    form = page.get_by_role("form", name="Start ready")
    assert "echo ready" in form.locator("pre").inner_text()
    form.get_by_role("button", name="Start ready").click()
    assert "#/start/" in page.url, "not before it is approved"
    form.get_by_label("I approve this").check()
    form.get_by_role("button", name="Start ready").click()
    page.locator(".rows .msg", has_text="it is ready").first.wait_for()
    guest.daemon.client.request("DELETE", guest.daemon.query("/workflows/ready"))
    (guest.daemon.project / ".workflows" / "ready.yaml").write_text(SETS_UP.replace("echo ready", "echo steady"))
    guest.go(guest.place("start/ready"))
    form.locator(".removed", has_text="echo ready").first.wait_for()
    assert form.locator(".added", has_text="echo steady").count() >= 1, "what changed since it was approved"


@needs_chromium
def test_a_message_that_needs_an_approval_asks_in_place_and_is_sent_after_the_yes(guest: Visit) -> None:
    tool = guest.daemon.project / "shout.py"
    tool.write_text('def shout(text: str) -> str:\n    """Shout."""\n    return text.upper()\n')
    agent(guest.daemon, "tess", {"say": "here"}, more='tools: ["shout.py:shout"]\n')
    page = guest.open(guest.place("agent/tess"))
    page.get_by_label("Message to tess").fill("hello")
    page.get_by_label("Message to tess").press("Enter")
    asked = page.get_by_role("form", name="Approve what tess does")
    asked.get_by_text("return text.upper()").wait_for()
    asked.get_by_role("button", name="Deny").click()
    asked.wait_for(state="detached")
    assert page.get_by_label("Message to tess").input_value() == "hello", "it is not lost"
    page.get_by_label("Message to tess").press("Enter")
    asked.get_by_role("button", name="Approve").click()
    page.locator(".rows .msg", has_text="here").wait_for()


# --- whatever happens


def test_a_project_whose_directory_was_removed_takes_no_other_one_down(daemon: Served, tmp_path: Path) -> None:
    lost = daemon.beside(tmp_path / "lost")
    shutil.rmtree(lost.project)
    for view in ("side", "home", "inbox", "search?query=alice"):
        answer = daemon.ask("GET", f"/page/{view}")
        assert answer.status == 200, view
        assert ("alice" in answer.json["html"]) or view == "inbox"
    assert "The directory of this project is gone" in daemon.ask("GET", "/page/home").json["html"]
    [told] = [each for each in daemon.ask("GET", "/projects").json if each["root"] == str(lost.project)]
    assert told["gone"]
    assert daemon.ask("GET", lost.query("/status")).status == 404
    lost.project.mkdir()
    assert daemon.ask("GET", "/page/home").status == 200


@needs_chromium
@pytest.mark.parametrize("place", ["#/nowhere", "#/workspace/nope", "#/agent/%E0%A4%A", "#/run/r_nope", "#/toString"])
def test_an_address_that_leads_nowhere_says_so_and_leads_home(guest: Visit, place: str) -> None:
    page = guest.open(place)
    assert page.locator("#main h1").inner_text()
    page.locator("#main").get_by_role("link", name="Home").click()
    page.get_by_role("heading", name="Now").wait_for()


@needs_chromium
def test_three_projects_with_an_alice_each_are_told_apart(
    browser: Browser, daemon: Served, tmp_path_factory: pytest.TempPathFactory
) -> None:
    others = [
        daemon.beside(tmp_path_factory.mktemp("more") / name) for name in ("shop", "a-name-that-is-very-long-" * 4)
    ]
    with visit(browser, daemon, viewport={"width": 390, "height": 800}) as guest:
        page = guest.open("#/home")
        for each in others:
            start(each)
            say(each, f"hello from {each.project.name}")
            page.locator(".now li", has_text=each.project.name).first.wait_for()
        page.get_by_role("button", name="Menu").click()
        alices = page.locator("#side").get_by_role("link", name="alice")
        assert eventually(lambda: alices.count() == 3)
        wait(page, "() => document.documentElement.scrollWidth <= 390")
        assert not guest.complaints
