"""The file of an agent or a workflow, to edit: what is wrong in it is told as one types, and what saving changes."""

from __future__ import annotations

import json
from pathlib import PurePath
from urllib.parse import urlencode

from agent_worker.core.preferred import installed, model_of
from agent_worker.daemon.web.frame import View, button, changes, form, link
from agent_worker.daemon.web.markup import Html, h
from agent_worker.definitions.project_files import AGENTS, WORKFLOWS
from agent_worker.service import agents, definition_files, providers
from agent_worker.service.definition_files import DefinitionText
from agent_worker.service.operation import operation
from agent_worker.service.service import Service

_AGENT = """{uses}
prompt:
  system: |
    You review changes. Say what could break, in few words.
"""
_WORKFLOW = """agents:
{agents}
kickoff: "@{first} please begin"
"""
_INLINE = """  helper:
    backend: mock
    prompt: { system: You help with small things. }"""


@operation("GET", "/page/file")
async def file(service: Service, file: str, project: str | None = None, line: int = 0) -> View:
    """The file of an agent or a workflow; `line` is the one to look at."""
    found = await definition_files.definition_show(service, file, project)
    known = await agents.agents_list(service, project)
    whose = next((each.name for each in known if PurePath(each.file).parts[-2:] == PurePath(file).parts), "")
    return View(file, h("div", _bar(file), _editor(found, project, whose=whose, line=line), class_="plain"))


@operation("GET", "/page/new")
async def new(service: Service, kind: str = "agent", project: str | None = None) -> View:
    """An agent or a workflow that is not there yet."""
    if kind == "workflow":
        names = [each.name for each in await agents.agents_list(service, project) if each.state != "broken"][:2]
        members = "\n".join(f"  {name}: {{ ref: {name} }}" for name in names) or _INLINE
        text = _WORKFLOW.format(agents=members, first=names[0] if names else "helper")
        written = _editor(DefinitionText(f"{WORKFLOWS}/new-workflow.yaml", text, [], []), project, is_new=True)
        return View("New workflow", h("div", _bar("New workflow"), written, class_="plain"))
    keys = {each.variable for each in await providers.keys_list(service, project) if each.source != "unapproved"}
    model = model_of(keys)
    uses = f"model: {model}" if model else f"backend: {next(iter(installed()), 'mock')}"
    empty = DefinitionText(f"{AGENTS}/new-agent.yaml", _AGENT.format(uses=uses), [], [])
    return View(
        "New agent",
        h(
            "div",
            _bar("New agent"),
            _new_agent(project, model or ""),
            h(
                "details",
                h("summary", "Or write its file yourself: tools, limits, schedule and all else"),
                _editor(empty, project, is_new=True),
                class_="edit",
            ),
            class_="plain",
        ),
    )


def _new_agent(project: str | None, model: str) -> Html:
    """What is asked of whoever wants an agent; all else can be written into its file later."""
    backends = [("", "a model API"), *((name, name) for name in installed()), ("mock", "mock: costs nothing")]
    first = "" if model else backends[1][0]
    uses = [h("option", text, value=name, selected=name == first) for name, text in backends]
    who = h("textarea", name="system", rows=4, placeholder="You review changes. Say what could break, in few words.")
    return form(
        "POST /agents",
        h(
            "label",
            "Name",
            h("input", name="name", required=True, placeholder="alice", maxlength=63, autocomplete="off"),
        ),
        h("label", "It uses", h("select", uses, name="backend")),
        h(
            "label",
            "Model",
            h("span", "provider/model; a coding program has one of its own", class_="less"),
            h(
                "input",
                name="model",
                value=model or None,
                placeholder="provider/model",
                class_="code",
                autocomplete="off",
            ),
        ),
        h("label", "Instructions", h("span", "its system prompt", class_="less"), who),
        h("span", button("Create"), _quick(), h("a", "Not now", href="#/home", class_="less"), class_="buttons"),
        label="New agent",
        class_="make",
        then=_with_name("agent", project),
        project=project,
    )


def _quick() -> Html:
    told = "It has no file: it and everything it said end with the daemon"
    return button("Only a quick one", class_="quiet", title=told, data_with=json.dumps({"lasting": False}))


def _with_name(kind: str, project: str | None) -> str:
    """The address of what an operation names in its answer."""
    return link(kind, project=project).replace(f"#/{kind}", f"#/{kind}/{{name}}", 1)


def edit_link(text: str, file: str, project: str | None) -> Html | None:
    """Where a file is edited; nothing for one that does not define just one agent or workflow."""
    folder = PurePath(file).parent.name
    if folder not in (AGENTS, WORKFLOWS):
        return None
    return h("a", text, href=link("file", f"{folder}/{PurePath(file).name}", project=project), class_="less")


def _bar(title: str) -> Html:
    return h("header", h("h1", title), class_="bar")


def _editor(
    found: DefinitionText, project: str | None, *, whose: str = "", is_new: bool = False, line: int = 0
) -> Html:
    """The text of a file. Saved, it leads back to `whose` it is: to that agent, or else Home."""
    where = h("input", name="file", value=found.file, required=True, aria_label="File", class_="code")
    fixed = {} if is_new else {"file": found.file, "was": found.text}
    back = link("agent", whose, project=project) if whose else link("home", project=None)
    asked = urlencode({"file": found.file} | ({"project": project} if project else {}))
    return form(
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
        h(
            "p",
            h("span", button("Save"), class_="buttons"),
            h("a", f"Back to {whose or 'Home'}", href=back, class_="less"),
        ),
        label=f"Edit {found.file}",
        class_="definition",
        then=back,
        now="" if is_new else f"/definition?{asked}",
        project=project,
        **fixed,
    )
