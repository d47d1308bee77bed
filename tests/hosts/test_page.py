"""The page shows the daemons that share the work, what each has in hand, and that one is gone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.hosts.test_daemons import SLOW, some_daemons
from tests.postgresql import Cluster
from tests.shells.served import kill_daemon
from tests.web.browser import PICTURES, chromium, needs_chromium, visit

pytestmark = needs_chromium


@pytest.fixture
def agents() -> dict[str, str]:
    return dict.fromkeys(("alice", "bob"), SLOW)


def test_home_shows_who_runs_what_where_and_which_host_is_gone(
    cluster: Cluster, tmp_path: Path, agents: dict[str, str]
) -> None:
    with some_daemons(cluster, tmp_path, agents, "one", "two") as daemons, chromium() as browser:
        survivor, victim = daemons.all
        with visit(browser, survivor, viewport={"width": 1280, "height": 800}) as guest:
            page = guest.open("#/home")
            rows = page.locator("table.hosts tbody tr")
            page.locator("table.hosts").wait_for()
            assert rows.count() == 2
            assert rows.filter(has_text="serves this page").count() == 1
            assert re.search(r"there, its lease has \d+ s left", rows.first.inner_text())
            for agent in agents:
                daemons.send(survivor, agent, "are you there?")
            rows.filter(has_text="alice").first.wait_for()
            PICTURES.mkdir(exist_ok=True)
            page.screenshot(path=PICTURES / "hosts-1280.png")
            kill_daemon(victim.home, victim.client.found)
            page.get_by_text("has been gone since").wait_for()
            assert rows.count() == 1
            assert not guest.complaints
