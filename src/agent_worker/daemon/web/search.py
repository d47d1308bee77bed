"""Search over everything: names, what was said and written in workspaces, by the index that agents use."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from agent_worker.core.errors import AgentWorkerError
from agent_worker.daemon.web.every_project import of_each
from agent_worker.daemon.web.frame import View, empty, link, section, shown_name, when
from agent_worker.daemon.web.markup import Html, h
from agent_worker.service import projects, search
from agent_worker.service.operation import operation
from agent_worker.service.projects import Status
from agent_worker.service.search import SearchResult
from agent_worker.service.service import Service

LONGEST = 400  #: characters of a query, and of what is shown of a result
MOST = 12  #: results of one project


@operation("GET", "/page/search")
async def search_view(service: Service, query: str) -> View:
    """What of all projects answers a query: agents and workspaces by name, messages and documents by their words."""
    query = query.strip()[:LONGEST]
    found = [part for _, part in await of_each(service, partial(_of_project, query=query)) if part] if query else []
    nothing = empty(f"Nothing is found for “{query}”." if query else "Write what you look for.")
    title = f"Search: {query}" if query else "Search"
    return View(title, h("div", h("header", h("h1", title), class_="bar"), found or nothing, class_="plain search"))


async def _of_project(service: Service, root: str, *, query: str) -> Html | None:
    status = await projects.status(service, root)
    names = _names(status, root, query)
    try:
        said = await search.search(service, query, limit=MOST, project=root)
    except AgentWorkerError:  # a query of signs only finds nothing
        said = []
    results = [_result(each, root) for each in said]
    return section(status.project.name, h("ul", names, results, class_="list results")) if names or results else None


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
    workspace = each.at.removeprefix("@")
    if each.document:
        href, shown = link("doc", workspace, project=root, name=each.document), f"{each.at} / {each.document}"
    else:
        href, shown = link("workspace", workspace, project=root), f"{each.at} #{each.seq}"
    return h(
        "li",
        h("span", "document" if each.document else "message", class_="tag"),
        h("a", shown, href=href, class_="name"),
        h("span", shown_name(each.sender), " ", when(each.time, day=True), class_="less") if each.sender else None,
        h("p", each.text[:LONGEST], class_="found"),
        h("p", each.why, class_="less"),
        data_entry=True,
    )
