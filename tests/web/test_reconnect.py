"""A page that is left open: a broken line is picked up, a new daemon knows who is signed in, and nothing is missed."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.patience import PATIENCE, eventually
from tests.shells.served import Served, daemon_command, kill_daemon, served
from tests.web.browser import Visit, code_of, needs_chromium, say, start, wait

from agent_worker.client.connection import connect

pytestmark = needs_chromium


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def daemon(tmp_path: Path, port: int) -> Iterator[Served]:
    with served(tmp_path, {"AGENT_WORKER_PORT": str(port)}) as made:
        start(made)
        yield made


def seqs(guest: Visit) -> list[int]:
    found: list[int] = guest.page.evaluate("[...document.querySelectorAll('.rows > li')].map((r) => +r.dataset.seq)")
    return found


BREAKABLE = """() => {
  const real = window.fetch;
  window.fetch = (url, how) => {
    if (!String(url).includes("/events")) return real(url, how);
    if (window.broken) return Promise.reject(new TypeError("the line is down"));
    window.asked = how.headers["Last-Event-ID"];
    const cut = new AbortController();
    window.breakLine = () => { window.broken = true; cut.abort(); };
    return real(url, { ...how, signal: AbortSignal.any([how.signal, cut.signal]) });
  };
}"""


def test_a_line_that_broke_is_picked_up_without_a_gap(guest: Visit) -> None:
    guest.page.add_init_script(f"({BREAKABLE})()")
    page = guest.open(guest.workspace())
    say(guest.daemon, "before the break")
    page.get_by_text("before the break").wait_for()
    page.evaluate("breakLine()")
    page.get_by_text("Not connected").wait_for()
    for n in range(3):
        say(guest.daemon, f"during the break, {n}")
    page.evaluate("() => { window.broken = false }")
    page.get_by_text("during the break, 2").wait_for()
    assert page.evaluate("asked")  # it said where to go on; what that means is the daemon's own affair
    assert seqs(guest) == list(range(1, len(seqs(guest)) + 1))


def test_a_view_that_could_not_be_had_comes_when_the_line_does(guest: Visit) -> None:
    guest.page.add_init_script(f"({BREAKABLE})()")
    page = guest.open(guest.workspace())
    page.route("**/page/home*", lambda route: route.abort())
    page.evaluate("breakLine()")
    page.get_by_text("Not connected").wait_for()
    guest.go("#/home")
    page.get_by_text("The daemon does not answer.").wait_for()
    page.get_by_text("agent-worker status").wait_for()
    page.unroute("**/page/home*")
    page.evaluate("() => { window.broken = false }")
    page.locator("#main .home").wait_for()
    guest.complaints.clear()  # a line that breaks is told to the console too


def test_a_new_daemon_signs_nobody_out_and_the_page_goes_on_where_it_was(guest: Visit, port: int) -> None:
    page = guest.open(guest.workspace())
    box = page.get_by_label("Message to @review")
    box.fill("half a thought")
    guest.daemon.beside(guest.daemon.project.parent / "elsewhere")
    old = guest.daemon.client
    kill_daemon(guest.daemon.home, old.found)
    page.get_by_text("Not connected").wait_for()
    command = daemon_command(AGENT_WORKER_PORT=str(port))
    again = connect(home=guest.daemon.home, command=command, patience=PATIENCE)
    try:
        new = Served(again, guest.daemon.home, guest.daemon.project)
        assert eventually(lambda: say(new, "said while you were away"))
        page.get_by_text("said while you were away").wait_for()
        say(new, "and after")
        page.get_by_text("and after").wait_for()
        wait(page, "() => document.getElementById('line').hidden")
        assert seqs(guest) == list(range(1, len(seqs(guest)) + 1))
        assert box.input_value() == "half a thought"
        guest.go("#/home")
        page.locator("#main").get_by_role("heading", name="elsewhere").wait_for()  # nobody named it to this daemon
        guest.go("#/settings")
        page.get_by_role("button", name="Sign out").click()
        page.get_by_text("You were signed out").wait_for()
        page.get_by_label("Address or code").fill(f"http://{new.here}/#code=guess")
        page.get_by_role("button", name="Open").click()
        page.get_by_text("was used, or is older than a minute").wait_for()
        page.get_by_label("Address or code").fill(f"http://{new.here}/#code={code_of(new)}")
        page.get_by_role("button", name="Open").click()
        page.get_by_role("heading", name="Sign in").wait_for(state="hidden")
    finally:
        kill_daemon(guest.daemon.home, again.found)
        guest.complaints.clear()  # a line that breaks is told to the console too
