"""Agents and workflows are made and changed on the page: by their files, with what `validate` says as one types."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from tests.shells.served import Served, served
from tests.web.browser import Visit, needs_chromium


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("files")) as made:
        yield made


@needs_chromium
def test_an_agent_is_changed_by_its_file_which_is_checked_as_one_types(guest: Visit) -> None:
    page, file = guest.open(guest.place("agent/alice")), guest.daemon.project / ".agents" / "alice.yaml"
    before = file.read_text()
    page.get_by_role("link", name="Edit its file").click()
    box = page.get_by_label("Text of .agents/alice.yaml")
    box.wait_for()
    box.fill(before + "modle: anthropic/claude\n")
    page.locator(".problems li", has_text='unknown key (did you mean "model"?)').wait_for()
    page.get_by_role("button", name="Save").click()
    page.locator("form .told", has_text="modle").wait_for()
    assert file.read_text() == before, "what is wrong is not saved"
    box.fill(before + "prompt: { system: Be brief. }\n")
    page.locator(".diff .added", has_text="+prompt: { system: Be brief. }").wait_for()
    page.locator(".problems li").wait_for(state="detached")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("heading", name="alice").wait_for()
    assert file.read_text() == before + "prompt: { system: Be brief. }\n"


@needs_chromium
def test_a_team_is_made_from_nothing_and_put_to_work(guest: Visit) -> None:
    page = guest.open("#/home")
    page.get_by_role("link", name="New agent").click()
    page.get_by_text("Or write its file yourself").click()
    page.get_by_label("File", exact=True).fill(".agents/carol.yaml")
    page.get_by_label("Text of").fill('backend: mock\nscript: [{ say: "here I am" }]\n')
    page.get_by_role("button", name="Save").click()
    page.locator("#main").get_by_role("link", name="carol").wait_for()
    page.get_by_role("link", name="New workflow").click()
    page.get_by_label("File", exact=True).fill(".workflows/solo.yaml")
    text = page.get_by_label("Text of")
    text.fill("agents: { carole: { ref: carole } }\n")
    page.locator(".problems li", has_text="carole").wait_for()
    text.fill('agents: { carol: { ref: carol } }\nkickoff: "@carol please begin"\n')
    page.locator(".problems li").wait_for(state="detached")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("button", name="Start solo").click()
    page.locator(".rows .msg", has_text="here I am").wait_for()


def test_the_way_to_a_new_agent_leads_into_its_project_whatever_that_is_called(daemon: Served) -> None:
    project = daemon.home.parent / "{name}"
    (project / ".agents").mkdir(parents=True)
    html = daemon.ask("GET", f"/page/new?{urlencode({'project': project})}").json["html"]
    assert f'data-then="#/agent/{{name}}?in={project.parent}/%7Bname%7D"' in html


def test_only_files_of_agents_and_workflows_are_written_and_none_over_an_edit(daemon: Served) -> None:
    project = str(daemon.project)
    for file in (
        "../x.yaml",
        ".agents/../x.yaml",
        "moniro.yaml",
        ".agents/a/b.yaml",
        "/etc/passwd",
        ".agents/.yaml",
        "",
    ):
        for method in ("POST", "PUT"):
            wrong = daemon.ask(method, "/definition", body={"file": file, "text": "backend: mock", "project": project})
            assert wrong.status == 422, file
        assert daemon.ask("GET", daemon.query(f"/definition?file={file}")).status == 422, file
    assert daemon.ask("GET", daemon.query("/definition?file=.agents/nobody.yaml")).status == 404
    mine = {"file": ".agents/bob.yaml", "text": "backend: mock\nprompt: { system: mine }\n", "project": project}
    assert daemon.ask("PUT", "/definition", body={**mine, "was": "something else"}).status == 409
    assert daemon.ask("PUT", "/definition", body=mine).status == 409, "it is not new"
    assert "mine" not in (daemon.project / ".agents" / "bob.yaml").read_text()
    for text in ("[", "a: &x [*x]", "model: [" * 500):
        told = daemon.ask("POST", "/definition", body={"file": ".agents/bob.yaml", "text": text, "project": project})
        assert told.status == 200
        assert told.json["problems"], text
