"""The file of an agent or a workflow, to edit: what is wrong in it is told as one types, and what saving changes."""

from __future__ import annotations

from pathlib import PurePath
from urllib.parse import urlencode

from agent_worker.daemon.web.frame import View, button, changes, form, link
from agent_worker.daemon.web.markup import Html, h
from agent_worker.definitions.project_files import AGENTS, WORKFLOWS
from agent_worker.service import definition_files
from agent_worker.service.definition_files import DefinitionText
from agent_worker.service.operation import operation
from agent_worker.service.service import Service

_AGENT = """model: anthropic/claude-sonnet-5-5
prompt:
  system: |
    You review changes. Say what could break, in few words.
"""
_WORKFLOW = """agents:
  alice: { ref: alice }
kickoff: "@alice please begin"
"""


@operation("GET", "/page/file")
async def file(service: Service, file: str, project: str | None = None, line: int = 0) -> View:
    """The file of an agent or a workflow; `line` is the one to look at."""
    found = await definition_files.definition_show(service, file, project)
    return View(file, _view(found, project, title=file, line=line))


@operation("GET", "/page/new")
async def new(service: Service, kind: str = "agent", project: str | None = None) -> View:
    """A file that is not there yet."""
    name, text = (".workflows/", _WORKFLOW) if kind == "workflow" else (".agents/", _AGENT)
    kind = "workflow" if kind == "workflow" else "agent"
    empty = DefinitionText(f"{name}new-{kind}.yaml", text, [], [])
    return View(f"New {kind}", _view(empty, project, title=f"New {kind}", is_new=True))


def edit_link(text: str, file: str, project: str | None) -> Html | None:
    """Where a file is edited; nothing for one that does not define just one agent or workflow."""
    folder = PurePath(file).parent.name
    if folder not in (AGENTS, WORKFLOWS):
        return None
    return h("a", text, href=link("file", f"{folder}/{PurePath(file).name}", project=project), class_="less")


def _view(found: DefinitionText, project: str | None, *, title: str, is_new: bool = False, line: int = 0) -> Html:
    where = h("input", name="file", value=found.file, required=True, aria_label="File", class_="code")
    fixed = {} if is_new else {"file": found.file, "was": found.text}
    return h(
        "div",
        h("header", h("h1", title), class_="bar"),
        form(
            "PUT /definition",
            h("label", "File, beneath the project", where) if is_new else None,
            h(
                "textarea",
                found.text,
                name="text",
                rows=22,
                required=True,
                aria_label=f"Text of {found.file}",
                class_="code",
                data_line=line or None,
            ),
            h("ul", [h("li", each) for each in found.problems], class_="problems", aria_live="polite"),
            changes(),
            h("p", h("span", button("Save"), class_="buttons"), h("a", "Back to Home", href="#/home", class_="less")),
            label=f"Edit {found.file}",
            class_="definition",
            then=link("home", project=None),
            now=""
            if is_new
            else f"/definition?{urlencode({'file': found.file} | ({'project': project} if project else {}))}",
            project=project,
            **fixed,
        ),
        class_="plain",
    )
