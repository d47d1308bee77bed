"""A project that is not there yet: a folder that the person names, with a team from a template, as `init` writes it."""

from __future__ import annotations

from agent_worker.core.preferred import PROGRAMS, installed, model_of
from agent_worker.daemon.web.frame import View, button, form
from agent_worker.daemon.web.markup import Html, h
from agent_worker.service import providers
from agent_worker.service.operation import operation
from agent_worker.service.service import Service

_TEAMS = {
    "review": "review: two agents look at a change",
    "triage": "triage: one agent sorts what comes in",
    "research": "research: two agents answer a question",
    "debate": "debate: two agents argue for and against",
}


@operation("GET", "/page/new-project")
async def new_project(service: Service) -> View:
    """A folder and a template, to be set up."""
    keys = {each.variable for each in await providers.keys_list(service) if each.source != "unapproved"}
    first = model_of(keys) or next(iter(installed()), "mock")
    backends = ["mock", *(name for name in PROGRAMS if name in installed())]
    teams = [_option(name, text) for name, text in _TEAMS.items()]
    where = h("input", name="directory", required=True, placeholder="~/project", class_="code", autocomplete="off")
    about = "a full path; it is created if it is missing, and existing files are left alone"
    return View(
        "New project",
        h(
            "div",
            h("header", h("h1", "New project"), class_="bar"),
            form(
                "POST /projects",
                h("label", "Folder", h("span", about, class_="less"), where),
                h("label", "Team", h("select", teams, name="template")),
                h(
                    "label",
                    "Its agents use",
                    h(
                        "select",
                        _option("", f"what is installed here: {first}"),
                        [_option(name, "mock: costs nothing" if name == "mock" else name) for name in backends],
                        name="backend",
                    ),
                ),
                h(
                    "label",
                    "or this model",
                    h("input", name="model", placeholder="provider/model", class_="code", autocomplete="off"),
                ),
                h("span", button("Create"), h("a", "Not now", href="#/home", class_="less"), class_="buttons"),
                label="New project",
                class_="make",
                then="#/start/{template}?in={project}",
            ),
            class_="plain",
        ),
    )


def _option(value: str, text: str) -> Html:
    return h("option", text, value=value)


def welcome() -> Html:
    """Home, while there is no project."""
    steps = (
        ("agent-worker init", "in one of your directories: writes two agents and a workflow"),
        ("agent-worker start review", "puts them to work; this page shows them at once"),
        ("agent-worker new -m anthropic/claude-sonnet-5-5", "or just one agent to talk to"),
    )
    return h(
        "div",
        h("h1", "No project yet"),
        h("p", "A project is a directory with agents and workflows in it.", class_="lead"),
        h("p", h("a", "New project", href="#/new-project", class_="button")),
        h("p", "Or in a terminal:", class_="lead"),
        h("dl", [[h("dt", h("code", command)), h("dd", about)] for command, about in steps], class_="steps"),
        h("p", "Or watch three mock agents review a change. It needs no key and costs nothing.", class_="lead"),
        form(
            "POST /demo",
            button("Watch the demo"),
            label="Watch the demo",
            then="#/workspace/{name}?in={project}",
        ),
        class_="plain welcome",
    )
