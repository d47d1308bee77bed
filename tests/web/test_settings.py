"""Settings on the page: what holds and where that is written, keys, tests of providers, backups, signing out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import engine
from tests.shells.served import Served, served
from tests.web.browser import Visit, needs_chromium

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("settings")) as made:
        yield made


def test_every_setting_is_there_with_its_value_where_that_comes_from_and_who_may_choose_it(guest: Visit) -> None:
    daemon = guest.daemon
    (daemon.project / "moniro.yaml").write_text("settings: { preemptions: 7, tries: 9 }\n")
    page = guest.open("#/home")
    page.locator("#side").get_by_role("link", name="Settings").click()
    table = page.locator(".part", has=page.get_by_role("heading", name="All settings"))
    table.locator("tbody tr").first.wait_for()
    shown = table.locator("tbody tr td:first-child > code").all_inner_texts()
    assert shown == [each["name"] for each in daemon.ask("GET", daemon.query("/settings")).json]
    row = table.locator("tr", has=page.get_by_text("preemptions", exact=True))
    assert row.get_by_text("7 in project").is_visible()
    assert "default" in row.inner_text()
    table.get_by_text("project asks for 9, which is more than you allow").wait_for()
    assert "a project cannot set it" in table.locator("tr", has_text="runs_at_once").inner_text()
    assert str(daemon.home / "settings.yaml") in table.inner_text()
    (daemon.project / "moniro.yaml").unlink()


def test_a_key_is_stored_never_shown_and_removed(guest: Visit) -> None:
    page = guest.open("#/settings")
    page.get_by_label("Whose key").fill("mistral")
    page.get_by_label("Key", exact=True).fill("a-very-secret-key-0123456789")
    page.get_by_role("button", name="Store the key").click()
    row = page.locator("tr", has_text="MISTRAL_API_KEY").filter(has_text="from the store")
    row.wait_for()
    assert page.locator("tr", has=page.get_by_text("mistral", exact=True)).filter(has_text="yes").count() == 1
    assert "very-secret" not in page.content()
    row.get_by_role("button", name="Remove MISTRAL_API_KEY").click()
    row.wait_for(state="detached")
    assert guest.daemon.ask("GET", "/keys").json == []
    page.get_by_label("Whose key").fill("not a name")
    page.get_by_label("Key", exact=True).fill("sk-other")
    page.get_by_role("button", name="Store the key").click()
    page.locator("form .told", has_text="not a name").wait_for()


@pytest.mark.sqlite("PostgreSQL makes its own backups, and the page says the command: below")
def test_a_backup_says_where_it_is_and_how_it_is_put_back(guest: Visit) -> None:
    page = guest.open("#/settings")
    page.get_by_role("button", name="Back up now").click()
    told = page.locator("#backup-told code")
    told.first.wait_for()
    path, command = told.all_inner_texts()
    assert Path(path).is_file()
    assert command == f"agent-worker restore {path}"
    page.get_by_text("What nobody needs any more").click()
    page.get_by_text("There is nothing to remove.").wait_for()


def test_a_backup_that_is_the_servers_own_is_a_command(guest: Visit) -> None:
    if not engine.is_postgresql():
        pytest.skip("with SQLite the page makes it: above")
    page = guest.open("#/settings")
    page.locator("code", has_text="pg_dump --format=custom").wait_for()
    assert page.get_by_role("button", name="Back up now").count() == 0


def test_without_notifications_it_says_where_they_are_set_up(guest: Visit) -> None:
    page = guest.open("#/settings")
    page.get_by_text("None are set up: everything waits in the inbox.").wait_for()
    file = guest.daemon.home / "notify.yaml"
    file.write_text("sinks: { desk: { to: pigeon } }\n")
    guest.go("#/home")
    guest.go("#/settings")
    page.locator(".why", has_text="notify.yaml").wait_for()
    file.write_text('sinks: { desk: { to: command, command: "true" } }\n')
    guest.go("#/home")
    guest.go("#/settings")
    page.get_by_role("button", name="Send a test").click()
    page.locator(".item", has_text="This is a test of your notifications").get_by_role("button").click()
    page.get_by_text("Nothing waits for you.").wait_for()


def test_where_notifications_go_is_shown_though_no_project_is_there(daemon: Served) -> None:
    (daemon.home / "notify.yaml").write_text('sinks: { desk: { to: command, command: "true" } }\n')
    elsewhere = daemon.project.rename(daemon.project.parent / "elsewhere")
    try:
        html = daemon.ask("GET", "/page/settings").json["html"]
        assert "<b>desk</b>" in html
        assert "Send a test" not in html
    finally:
        elsewhere.rename(daemon.project)
