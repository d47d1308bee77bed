"""Search over everything: names, commands, runs; what was said and written in workspaces, and what agents keep, by the
index that agents use."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import PurePath

from agent_worker.core.errors import AgentWorkerError
from agent_worker.daemon.web.every_project import of_each
from agent_worker.daemon.web.frame import View, empty, link, section, shown_name, when
from agent_worker.daemon.web.markup import Html, h
from agent_worker.daemon.web.prose import in_a_line
from agent_worker.definitions.project_files import AGENTS
from agent_worker.service import projects, search
from agent_worker.service.agents import AgentView
from agent_worker.service.operation import operation
from agent_worker.service.projects import Status
from agent_worker.service.search import SearchResult
from agent_worker.service.service import Service

LONGEST = 400  #: characters of a query, and of what is shown of a result
MOST = 12  #: results of one project
EVERYWHERE = (("Home", "#/home"), ("Inbox", "#/inbox"), ("Settings", "#/settings"), ("New project", "#/new-project"))


@operation("GET", "/page/search")
async def search_view(service: Service, query: str) -> View:
    """What of all projects answers a query: places, commands and runs by name, what was said and kept by its words."""
    query = query.strip()[:LONGEST]
    found = [part for _, part in await of_each(service, partial(_of_project, query=query)) if part] if query else []
    everywhere = [_command(text, href) for text, href in EVERYWHERE if query and search.has_every_word(query, text)]
    found = [h("ul", everywhere, class_="list results"), *found] if everywhere else found
    nothing = empty(
        f"Nothing found for “{query}”. Try fewer words, or others." if query else "Type what you are looking for."
    )
    title = f"Search: {query}" if query else "Search"
    return View(title, h("div", h("header", h("h1", title), class_="bar"), found or nothing, class_="plain search"))


async def _of_project(service: Service, root: str, *, query: str) -> Html | None:
    status = await projects.status(service, root)
    names = _names(status, root, query)
    try:
        answers = await search.search(service, query, limit=MOST, project=root)
    except AgentWorkerError:  # a query of signs only finds nothing; nor does what cannot be read
        answers = []
    found = [
        *names,
        *[_command(text, href) for text, href in _commands(status, root) if search.has_every_word(query, text)],
        *[_result(each, root) for each in answers],
    ]
    return section(status.project.name, h("ul", found, class_="list results")) if found else None


def _commands(found: Status, root: str) -> list[tuple[str, str]]:
    """What can be done in a project, and where."""
    teams = [each.name for each in found.instances if each.state in ("running", "paused")]
    return [
        ("New agent", link("new", "agent", project=root)),
        ("New workflow", link("new", "workflow", project=root)),
        ("Runs", link("runs", "", project=root)),
        ("Trust: approve what this project does, or take it back", link("approval", "", project=root)),
        *((f"Start {name}", link("start", name, project=root)) for name in found.workflows),
        *((f"New document in @{name}", link("new-document", name, project=root)) for name in teams),
        *((f"New proposal in @{name}", link("new-proposal", name, project=root)) for name in teams),
        *((f"Edit the file of {each.name}", _file_of(each, root)) for each in found.agents if each.file),
    ]


def _file_of(agent: AgentView, root: str) -> str:
    return link("file", f"{AGENTS}/{PurePath(agent.file).name}", project=root)


def _command(text: str, href: str) -> Html:
    return h("li", h("span", "command", class_="tag"), h("a", text, href=href, class_="name"), data_entry=True)


def _names(found: Status, root: str, query: str) -> Sequence[Html]:
    places = [("agent", agent.name, agent.name) for agent in found.agents]
    places += [("workspace", each.name, f"@{each.name}") for each in found.instances]
    wanted = query.removeprefix("@").lower()
    return [
        h(
            "li",
            h("span", kind, class_="tag"),
            h("a", shown, href=link(kind, name, project=root), class_="name"),
            data_entry=True,
        )
        for kind, name, shown in places
        if wanted in name.lower()
    ]


def _result(each: SearchResult, root: str) -> Html:
    href, shown = _place(each, root)
    by = h("span", shown_name(each.sender), " ", when(each.time, day=True), class_="less") if each.sender else None
    ended = h("span", each.why, " ", when(each.time, day=True), class_="less") if each.kind == "run" else None
    return h(
        "li",
        h("span", each.kind, class_="tag"),
        h("a", shown, href=href, class_="name"),
        by or ended,
        h("p", in_a_line(each.text[:LONGEST]), class_="found"),
        h("p", each.why, class_="less") if ended is None else None,
        data_entry=True,
    )


def _place(each: SearchResult, root: str) -> tuple[str, str]:
    """Where a result is opened, and what it is called."""
    workspace = each.at.removeprefix("@")
    match each.kind:
        case "document":
            return link("doc", workspace, project=root, name=each.document), f"{each.at} / {each.document}"
        case "message":
            return link("workspace", workspace, project=root, seq=str(each.seq)), f"{each.at} #{each.seq}"
        case "run":
            return link("run", each.label, project=root), each.at.replace("@", " in @")
        case "conversation":
            return link("agent", each.at, project=root), each.at
    return link("agent", each.at, project=root), f"{each.at} / {each.label}"
