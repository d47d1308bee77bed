"""Home is now: who is working on what, what waits for the person, the newest words; then each project with one row for
each of its workflows and agents, what was spent, and what failed with what mends it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from urllib.parse import quote

from agent_worker.core.address import WorkspaceName
from agent_worker.core.text import plural
from agent_worker.daemon.web import inbox
from agent_worker.daemon.web.charts import spend_chart
from agent_worker.daemon.web.definitions import edit_link
from agent_worker.daemon.web.every_project import known_projects, of_each
from agent_worker.daemon.web.failures import failures, file_link, mends
from agent_worker.daemon.web.frame import (
    View,
    button,
    count,
    empty,
    face,
    form,
    link,
    money,
    panel,
    section,
    shown_name,
    source,
    state_word,
    team_state,
    waits,
    when,
)
from agent_worker.daemon.web.hosts import hosts_section
from agent_worker.daemon.web.markup import Child, Html, h
from agent_worker.daemon.web.projects import welcome
from agent_worker.daemon.web.prose import in_a_line
from agent_worker.daemon.web.starting import again, start_button
from agent_worker.service import overview, projects, runs, trust, workflows
from agent_worker.service.inbox import Item
from agent_worker.service.operation import operation
from agent_worker.service.overview import LastWord, Overview, WorkNow
from agent_worker.service.projects import ProjectSummary, Status
from agent_worker.service.service import Service
from agent_worker.service.workflows import Running, Workflow

CARDS = 3  #: of the inbox, in full; the others are a link away
NEWEST = 6  #: messages
RUNS = 200  #: that are looked through for failures
_EVENTS = "agent,waiting,workspace,message,started,ended,inbox,settled,queued,host"


@operation("GET", "/page/home")
async def home(service: Service) -> View:
    found = await of_each(service, projects.status)
    gone = (await known_projects(service))[1]
    if not found and not gone:
        return View("Home", welcome())
    now = await of_each(service, overview.overview)
    several = len(found) > 1
    items = await inbox.waiting(service)
    await inbox.prepare(items[:CARDS])
    parts = [await _project(service, status, _of(now, status)) for _, status in found]
    return View(
        "Home",
        panel(
            h(
                "header",
                h("h1", "Now"),
                h("span", _at_a_glance(found, now), class_="less"),
                h("a", "New project", href="#/new-project", class_="less"),
                class_="bar",
            ),
            section("Waits for you", _waiting(items)) if items else None,
            h(
                "div",
                section("At work", _at_work(now, several)),
                section("Newest messages", _newest(now, several)),
                class_="columns",
            ),
            await hosts_section(service),
            parts,
            [_gone(each) for each in gone],
            src=source("home"),
            on=_EVENTS,
            class_="plain home",
        ),
    )


def _of(now: Sequence[tuple[ProjectSummary, Overview]], status: Status) -> Overview:
    return next((each for project, each in now if project.root == status.project.root), Overview([], [], []))


# --- now --------------------------------------------------------------------------------------------------------------


def _at_a_glance(found: Sequence[tuple[ProjectSummary, Status]], now: Sequence[tuple[ProjectSummary, Overview]]) -> str:
    busy = sum(len(each.work) for _, each in now)
    agents = [agent for _, status in found for agent in status.agents]
    spent = money(sum(agent.usd_today for agent in agents), any(agent.estimated for agent in agents))
    return f"{plural(len(agents), 'agent')}, {busy} at work, {spent} today"


def _waiting(items: Sequence[Item]) -> list[Child]:
    cards = h("ul", [inbox.item_card(item.project, item) for item in items[:CARDS]], class_="items")
    more = len(items) - CARDS
    return [cards, h("p", h("a", f"{more} more in the inbox", href="#/inbox"), class_="less") if more > 0 else None]


def _at_work(now: Sequence[tuple[ProjectSummary, Overview]], several: bool) -> Html:
    rows = [_work(each, project, several) for project, found in now for each in found.work]
    return h("ul", rows, class_="now") if rows else empty("Nobody is working right now.")


def _work(each: WorkNow, project: ProjectSummary, several: bool) -> Html:
    place = f"@{each.workspace}" if each.workspace else "direct"
    where = link("workspace", each.workspace, project=project.root) if each.workspace else None
    return h(
        "li",
        face(each.agent),
        h(
            "p",
            h("a", each.agent, href=link("agent", each.agent, project=project.root), class_="name"),
            h("a", place, href=where, class_="less") if where else h("span", place, class_="less"),
            h("span", project.name, class_="less") if several else None,
            h("span", "since ", when(each.since), class_="less") if each.since else None,
            class_="head",
        ),
        h("p", each.doing or each.text, class_="line", title=each.text),
        h("a", "the run", href=link("run", each.run, project=project.root), class_="less") if each.run else None,
        form(
            f"DELETE /instructions/{quote(each.id)}",
            button("Cancel", class_="quiet"),
            label=f"Cancel what {each.agent} is doing",
            class_="inline",
        ),
        data_entry=True,
        data_key=f"work-{each.id}",
    )


def _newest(now: Sequence[tuple[ProjectSummary, Overview]], several: bool) -> Html:
    said = [(project, word) for project, found in now for word in found.newest]
    newest = sorted(said, key=lambda pair: -pair[1].time)[:NEWEST]
    if not newest:
        return empty("Nothing has been said yet.")
    return h("ul", [_word(word, project, several) for project, word in newest], class_="now")


def _word(word: LastWord, project: ProjectSummary, several: bool) -> Html:
    return h(
        "li",
        face(word.sender),
        h(
            "p",
            h("span", shown_name(word.sender), class_="name"),
            h("a", word.at, href=link("workspace", word.at[1:], project=project.root), class_="less"),
            h("span", project.name, class_="less") if several else None,
            when(word.time, day=True),
            class_="head",
        ),
        h("p", in_a_line(word.text), class_="line"),
        data_entry=True,
        data_key=f"word-{project.root}-{word.at}-{word.seq}",
    )


# --- a project --------------------------------------------------------------------------------------------------------


async def _project(service: Service, found: Status, now: Overview) -> Html:
    root = found.project.root
    spent = await runs.stats(service, root)
    newest = await runs.runs_list(service, root, limit=RUNS)
    known = {each.name: each for each in await workflows.workflows_list(service, root)}
    asks = {name: bool(await trust.trust_list(service, root, name)) for name in known}
    return h(
        "section",
        h(
            "header",
            h("h1", found.project.name),
            h("span", root, class_="path"),
            h("a", "New agent", href=link("new", "agent", project=root), class_="less"),
            h("a", "New workflow", href=link("new", "workflow", project=root), class_="less"),
            h("a", "Runs", href=link("runs", "", project=root), class_="less"),
            h("a", "Trust", href=link("approval", "", project=root), class_="less"),
            class_="bar",
        ),
        _problems(found.project.problems, root),
        section("Workflows", _workflows(found.instances, known, asks, now, root)),
        section("Agents", _agents(found, root)),
        section("Recent failures", failures(newest, root)) if any(run.state == "failed" for run in newest) else None,
        _spend(spent),
        class_="project",
        data_key=root,
    )


def _workflows(
    instances: Sequence[Running], known: Mapping[str, Workflow], asks: Mapping[str, bool], now: Overview, root: str
) -> Html:
    """The workflows, one row each: those that were started, then those that never were."""
    begun = {WorkspaceName.parse(each.name).workflow for each in instances}
    rows = [_instance(each, known, asks, now, root) for each in instances]
    rows += [_unstarted(each, asks[name], root) for name, each in known.items() if name not in begun]
    if not rows:
        return empty("None yet. A workflow is a team: agents, and what is said to them first.")
    titles = (("workflow", ""), ("state", ""), ("last word", "wide"), ("today", "number wide"), ("action", "number"))
    head = h("tr", [h("th", title, class_=class_ or None, scope="col") for title, class_ in titles])
    return h("table", h("thead", head), h("tbody", rows), class_="rows-of-workflows")


def _instance(each: Running, known: Mapping[str, Workflow], asks: Mapping[str, bool], now: Overview, root: str) -> Html:
    about = next((one for one in now.instances if one.id == each.id), None)
    last = about.last if about else None
    workflow = WorkspaceName.parse(each.name).workflow
    word: Child = (
        empty("nothing yet") if last is None else [h("b", shown_name(last.sender)), f" {in_a_line(last.text)}"]
    )
    act = {"running": "pause", "paused": "resume"}.get(each.state)
    return h(
        "tr",
        h("td", h("a", f"@{each.name}", href=link("workspace", each.name, project=root), class_="name")),
        h(
            "td",
            state_word(*team_state(each), still=True),
            " ",
            h("span", each.reason, class_="why") if each.reason else None,
        ),
        h("td", h("span", word, class_="line"), class_="wide last"),
        h("td", money(about.usd, about.estimated) if about else "", class_="number wide"),
        h(
            "td",
            _act(each, act, root) if act else again(each.name, known, root, asks=asks.get(workflow, False)),
            class_="number",
        ),
        data_entry=True,
        data_key=f"instance-{each.id}",
    )


def _act(each: Running, act: str, root: str) -> Html:
    return form(
        f"POST /workflows/{quote(each.name, safe='')}/{act}",
        button(act.capitalize(), class_="quiet" if act == "pause" else "", aria_label=f"{act} {each.name}"),
        label=f"{act} {each.name}",
        class_="inline",
        project=root,
    )


def _unstarted(each: Workflow, asks: bool, root: str) -> Html:
    members = ", ".join(each.members)
    return h(
        "tr",
        h("td", h("a", each.name, href=link("start", each.name, project=root), class_="name")),
        h("td", h("span", "not started", class_="less")),
        h("td", h("span", members, class_="line"), class_="wide last less"),
        h("td", class_="number wide"),
        h("td", start_button(each, root, asks=asks), class_="number"),
        data_entry=True,
        data_key=f"workflow-{each.name}",
    )


def _agents(found: Status, root: str) -> Html:
    if not found.agents:
        return empty("None yet.")
    rows = [
        h(
            "tr",
            h("td", h("a", agent.name, href=link("agent", agent.name, project=root), class_="name")),
            h(
                "td",
                state_word(agent.state, waiting=agent.waiting),
                " ",
                h("span", agent.reason, class_="why") if agent.reason else None,
                " ",
                waits(agent.waiting),
                mends(agent.remedy, agent.name, root),
                edit_link("Edit its file", agent.file, root) if agent.state == "broken" and not agent.remedy else None,
            ),
            h("td", agent.model or agent.backend, f" · {agent.unsafe}" if agent.unsafe else "", class_="less wide"),
            h("td", agent.queued or "", class_="number wide"),
            h("td", money(agent.usd_today, agent.estimated), class_="number"),
            data_entry=True,
            data_key=f"agent-{agent.name}",
        )
        for agent in found.agents
    ]
    titles = (("agent", ""), ("state", ""), ("model", "wide"), ("queued", "number wide"), ("today", "number"))
    head = h("tr", [h("th", title, class_=class_ or None, scope="col") for title, class_ in titles])
    return h("table", h("thead", head), h("tbody", rows))


def _spend(spent: runs.Stats) -> Html:
    """What was spent, in one line that opens to show the days."""
    total = money(spent.usd, spent.estimated)
    told = (f"{total} spent", plural(spent.runs, "run"), plural(spent.messages, "message"))
    line = h("span", [h("span", text) for text in (*told, f"{count(spent.tokens)} tokens")], class_="figures")
    if not spent.usd:
        return h("p", line, class_="spent")
    chart = spend_chart(spent.by_day, datetime.now(UTC).date(), guesses=spent.estimated_of)
    return h("details", h("summary", line), chart, class_="spent", data_key="spent")


def _problems(problems: Iterable[str], root: str) -> Html | None:
    found = [h("li", file_link(text, text, root) or text) for text in problems]
    return section("Mistakes in files", h("ul", found, class_="problems")) if found else None


def _gone(project: ProjectSummary) -> Html:
    return h(
        "section",
        h("header", h("h1", project.name), h("span", project.root, class_="path"), class_="bar"),
        h(
            "p",
            "The directory of this project is gone, so nobody works in it. The conversations are kept: ",
            class_="why",
        ),
        h("p", "put the directory back where it was, and the project returns.", class_="less"),
        class_="project gone",
        data_key=project.root,
    )
