"""The list of everything that stands beside every view: projects with their workspaces and agents, and what waits."""

from __future__ import annotations

from agent_worker.core.text import plural
from agent_worker.daemon.web.every_project import statuses
from agent_worker.daemon.web.frame import View, dot, link, money, panel, source, team_state
from agent_worker.daemon.web.markup import Html, h
from agent_worker.service.operation import operation
from agent_worker.service.projects import Status
from agent_worker.service.service import Service

_EVENTS = "agent,waiting,workspace,inbox,settled,started,ended,queued"


@operation("GET", "/page/side")
async def side(service: Service) -> View:
    """The list beside every view: projects, workspaces and agents."""
    found = await statuses(service)
    waiting = sum(each.waiting for each in found)
    badge = h("span", waiting, class_="badge", aria_label=plural(waiting, "item")) if waiting else None
    return View(
        "",
        panel(
            h("p", h("a", "agent-worker", href="#/home"), class_="brand"),
            h("input", type="search", placeholder="Find   /", aria_label="Find anything", maxlength=400),
            h("p", h("a", "Search everything", href="#/search"), class_="everything", hidden=True, data_lasting=True),
            h(
                "ul",
                h("li", h("a", "Home", href="#/home")),
                h("li", h("a", "Inbox", badge, href="#/inbox")),
                h("li", h("a", "Settings", href="#/settings")),
                class_="top",
                data_waiting=waiting,
            ),
            [_project(each) for each in found],
            src=source("side"),
            on=_EVENTS,
        ),
    )


def _project(found: Status) -> Html:
    root = found.project.root
    workspaces = [
        h(
            "li",
            h(
                "a",
                dot(*team_state(workspace), still=True),
                h("span", f"@{workspace.name}", class_="name"),
                h("span", class_="fresh badge", hidden=True, data_lasting=True),
                href=link("workspace", workspace.name, project=root),
            ),
            data_name=workspace.name.lower(),
            data_workspace=workspace.id,
            data_newest=workspace.messages,
        )
        for workspace in found.instances
    ]
    agents = [
        h(
            "li",
            h(
                "a",
                dot(agent.state, waiting=agent.waiting),
                h("span", agent.name, class_="name"),
                h("span", money(agent.usd_today, agent.estimated), class_="usd") if agent.usd_today else None,
                href=link("agent", agent.name, project=root),
            ),
            data_name=agent.name.lower(),
        )
        for agent in found.agents
    ]
    return h(
        "div", h("h2", found.project.name, title=root), h("ul", workspaces, agents), class_="project", data_key=root
    )
