"""Home: projects with their agents and workflows, what was spent, what failed; and the list that stands beside it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

from agent_worker.core.text import plural
from agent_worker.daemon.web.charts import spend_chart
from agent_worker.daemon.web.definitions import edit_link
from agent_worker.daemon.web.frame import (
    View,
    button,
    count,
    dot,
    empty,
    form,
    link,
    money,
    panel,
    section,
    source,
    state_word,
    team_state,
    waits,
    when,
)
from agent_worker.daemon.web.markup import Html, h, join
from agent_worker.service import projects, runs, trust, workflows
from agent_worker.service.operation import operation
from agent_worker.service.projects import Status
from agent_worker.service.runs import Run
from agent_worker.service.service import Service
from agent_worker.service.trust import PendingApproval
from agent_worker.service.workflows import Running, Workflow

FAILURES = 8  #: that are shown
_EVENTS = "agent,waiting,workspace,inbox,settled,started,ended,queued"


@operation("GET", "/page/side")
async def side(service: Service) -> View:
    """The list of everything."""
    found = await _statuses(service)
    waiting = sum(each.waiting for each in found)
    return View(
        "",
        panel(
            h("p", h("a", "agent-worker", href="#/home"), class_="brand"),
            h("input", type="search", placeholder="Find   /   Ctrl-K", aria_label="Find anything", maxlength=400),
            h("p", h("a", "Search everything", href="#/search"), class_="everything", hidden=True, data_lasting=True),
            h(
                "ul",
                h("li", h("a", "Home", href="#/home")),
                h(
                    "li",
                    h(
                        "a",
                        "Inbox",
                        h("span", waiting, class_="badge", aria_label=plural(waiting, "item")) if waiting else None,
                        href="#/inbox",
                    ),
                ),
                class_="top",
                data_waiting=waiting,
            ),
            [_project_in_side(each) for each in found],
            src=source("side"),
            on=_EVENTS,
        ),
    )


@operation("GET", "/page/home")
async def home(service: Service) -> View:
    found = await _statuses(service)
    if not found:
        return View("Home", _welcome())
    parts = [await _project(service, each) for each in found]
    view = panel(*parts, _sign_out(), src=source("home"), on="agent,workspace,ended,inbox", class_="plain home")
    return View("Home", view)


def _sign_out() -> Html:
    return form(
        "POST /page/logout",
        button("Sign out", class_="quiet"),
        h("span", "A page stays signed in for thirty days. This signs out all of them.", class_="less"),
        label="Sign out",
        class_="inline",
    )


async def _statuses(service: Service) -> list[Status]:
    """Of the projects that have something in them, also those of former days."""
    await service.open_known()
    known = [p for p in await projects.projects_list(service) if p.agents or p.workflows or p.problems]
    return [await projects.status(service, p.root) for p in known]


def _project_in_side(found: Status) -> Html:
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


# --- a project ----------------------------------------------------------------------------------------


async def _project(service: Service, found: Status) -> Html:
    root = found.project.root
    spent = await runs.stats(service, root)
    failed = await runs.runs_list(service, root, state="failed", limit=FAILURES)
    known = await workflows.workflows_list(service, root)
    pending_approvals = {w.name: await trust.trust_list(service, root, w.name) for w in known}
    today = datetime.now(UTC).date()
    return h(
        "section",
        h(
            "header",
            h("h1", found.project.name),
            h("span", root, class_="path"),
            h("a", "New agent", href=link("new", "agent", project=root), class_="less"),
            h("a", "New workflow", href=link("new", "workflow", project=root), class_="less"),
            class_="bar",
        ),
        _problems(found.project.problems),
        section("Spend", _spend(spent, today), _figures(spent)),
        section(
            "Workflows", _instances(found.instances, root), [_start(w, pending_approvals[w.name], root) for w in known]
        ),
        section("Agents", _agents(found, root)),
        section("Recent failures", _failures(failed, root)),
        class_="project",
        data_key=root,
    )


def _spend(spent: runs.Stats, today: date) -> Html:
    if not spent.usd:
        return empty("Nothing has been spent yet.")
    return spend_chart(spent.by_day, today, guesses=spent.estimated_of)


def _figures(spent: runs.Stats) -> Html:
    told = (plural(spent.runs, "run"), plural(spent.messages, "message"), f"{count(spent.tokens)} tokens")
    return h("p", [h("span", text) for text in told], class_="figures")


def _problems(problems: Sequence[str]) -> Html | None:
    if not problems:
        return None
    return section("Mistakes in files", h("ul", [h("li", text) for text in problems], class_="problems"))


def _instances(instances: Sequence[Running], root: str) -> Html:
    if not instances:
        return empty("None is running.")
    return h(
        "ul",
        [
            h(
                "li",
                h("a", f"@{workspace.name}", href=link("workspace", workspace.name, project=root), class_="name"),
                state_word(*team_state(workspace), still=True),
                h("span", plural(workspace.messages, "message"), class_="less"),
                h("span", ", ".join(member.name for member in workspace.members), class_="less"),
                data_entry=True,
            )
            for workspace in instances
        ],
        class_="list",
    )


def _agents(found: Status, root: str) -> Html:
    rows = [
        h(
            "tr",
            h("td", h("a", agent.name, href=link("agent", agent.name, project=root))),
            h(
                "td",
                state_word(agent.state, waiting=agent.waiting),
                " ",
                h("span", agent.reason, class_="why") if agent.reason else None,
                " ",
                waits(agent.waiting),
            ),
            h("td", agent.model or agent.backend, f" · {agent.unsafe}" if agent.unsafe else "", class_="less wide"),
            h("td", agent.queued or "", class_="number wide"),
            h("td", money(agent.usd_today, agent.estimated), class_="number"),
            data_entry=True,
        )
        for agent in found.agents
    ]
    titles = (("agent", ""), ("state", ""), ("model", "wide"), ("queued", "number wide"), ("today", "number"))
    head = h("tr", [h("th", title, class_=class_ or None, scope="col") for title, class_ in titles])
    return h("table", h("thead", head), h("tbody", rows))


def _failures(failed: Sequence[Run], root: str) -> Html:
    if not failed:
        return empty("None.")
    return h(
        "ul",
        [
            h(
                "li",
                dot(run.state),
                h("a", run.agent, " ", when(run.started_at, day=True), href=link("run", run.id, project=root)),
                h("span", run.reason, class_="why"),
                data_entry=True,
            )
            for run in failed
        ],
        class_="list",
    )


# --- starting a workflow ------------------------------------------------------------------------------


def _start(workflow: Workflow, pending_approvals: Sequence[PendingApproval], root: str) -> Html:
    return h(
        "details",
        h("summary", f"Start {workflow.name}", h("span", ", ".join(workflow.members), class_="less")),
        edit_link(f"Edit the file of {workflow.name}", workflow.file, root),
        form(
            "POST /workflows",
            [_field(param) for param in workflow.params],
            h("label", "Tag", h("input", name="tag", placeholder="main", pattern="[A-Za-z0-9][A-Za-z0-9._\\-]*")),
            _consent(pending_approvals),
            button(f"Start {workflow.name}"),
            label=f"Start {workflow.name}",
            class_="start",
            then=f"#/workspace/{{name}}?in={root}",
            workflow=workflow.name,
            project=root,
        ),
        data_key=f"start-{workflow.name}",
    )


def _field(param: dict[str, Any]) -> Html:
    name, kind = f"params.{param['name']}", param["type"]
    about = h("span", param["description"], class_="less") if param["description"] else None
    if kind == "boolean":
        return h(
            "label",
            h("input", type="checkbox", name=name, value="true", checked=param["default"] is True),
            param["name"],
            about,
            class_="check",
        )
    given = "" if param["default"] is None else str(param["default"])
    field = h(
        "input",
        name=name,
        type="text" if kind == "string" else "number",
        step="any" if kind == "number" else None,
        required=bool(param["required"]),
        placeholder=given or None,
    )
    return h("label", param["name"], about, field)


def _consent(pending_approvals: Sequence[PendingApproval]) -> Html | None:
    """What it could execute, shown before the first time."""
    if not pending_approvals:
        return None
    shown = join([h("h3", pending.what), h("pre", pending.shown)] for pending in pending_approvals)
    needed = any(pending.kind not in ("limits", "keys") for pending in pending_approvals)
    return h(
        "fieldset",
        h("legend", "It wants to do this, and you have not approved it yet"),
        shown,
        h("label", h("input", type="checkbox", name="trust", required=needed), "I approve this", class_="check"),
    )


def _welcome() -> Html:
    steps = (
        ("agent-worker init", "in a directory of yours: writes two agents and a workflow"),
        ("agent-worker start review", "puts them to work; this page shows them at once"),
        ("agent-worker new -m anthropic/claude-sonnet-5-5", "or just one agent to talk to"),
    )
    return h(
        "div",
        h("h1", "No project yet"),
        h("p", "A project is a directory with agents and workflows in it. The first command makes one:", class_="lead"),
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
