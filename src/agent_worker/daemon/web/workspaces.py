"""A workspace: its channel, and beside it the team, documents, decisions, and the map of who wakes whom."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote, urlencode

from agent_worker.core.address import WorkspaceName
from agent_worker.core.states import told
from agent_worker.core.text import plural
from agent_worker.daemon.web.conversation import Talk, compose, log
from agent_worker.daemon.web.documents import documents_table
from agent_worker.daemon.web.exports import export_buttons
from agent_worker.daemon.web.frame import (
    View,
    button,
    empty,
    face,
    form,
    link,
    panel,
    section,
    source,
    state_word,
    team_state,
    waits,
)
from agent_worker.daemon.web.limits import limits_section
from agent_worker.daemon.web.markup import Html, h, join
from agent_worker.daemon.web.proposals import card, proposal_views
from agent_worker.daemon.web.team_map import team_map
from agent_worker.service import documents, workflows
from agent_worker.service.operation import operation
from agent_worker.service.proposals import ProposalView
from agent_worker.service.service import Service
from agent_worker.service.workflows import Running

TABS = ("channel", "team", "documents", "decisions", "map")
_TEAM_EVENTS = "agent,waiting,workspace,started,ended,tool_result,proposal,decision,document"


@operation("GET", "/page/workspace")
async def workspace(service: Service, at: str, project: str | None = None, tab: str = "channel", seq: int = 0) -> View:
    """A workspace, at one of its tabs. The channel opens at its newest message, or at the one of this `seq`."""
    found = await workflows.workflow_status(service, at, project)
    tab = tab if tab in TABS else "channel"
    body = await (_TABS[tab](service, found, project) if tab in _TABS else _channel(service, found, project, seq))
    beside = await _team(service, found, project) if tab == "channel" else None
    return View(
        f"@{found.name}",
        h(
            "div",
            _bar(found, project, tab),
            h("div", body, class_="middle"),
            h("aside", beside, aria_label="Team") if beside else None,
            class_=f"workspace {tab}",
            data_workspace=found.id,
            data_at=found.name,
            data_project=project,
        ),
    )


@operation("GET", "/page/bar")
async def bar(service: Service, at: str, project: str | None = None, tab: str = "channel") -> View:
    """What stands above a workspace: its state, its tabs, and what can be done with it."""
    return View("", _bar(await workflows.workflow_status(service, at, project), project, tab))


# --- the channel --------------------------------------------------------------------------------------


def _bar(found: Running, project: str | None, tab: str) -> Html:
    def tab_link(name: str) -> Html:
        href = link("workspace", found.name, project=project, tab="" if name == "channel" else name)
        return h("a", name.capitalize(), href=href, class_=f"tab {name}", aria_current="page" if name == tab else None)

    line = h(
        "header",
        h("h1", f"@{found.name}"),
        state_word(*team_state(found), still=True),
        h("a", plural(len(found.waiting), "item"), " in your inbox", href="#/inbox", class_="why")
        if found.waiting
        else None,
        h("span", found.reason, class_="why") if found.reason else None,
        h("nav", map(tab_link, TABS), class_="tabs", aria_label="Workspace"),
        _manage(found, project),
        class_="bar",
    )
    return panel(
        line,
        src=source("bar", at=found.name, project=project, tab=tab),
        on="workspace,waiting,inbox,settled",
        label=f"State of @{found.name}",
        class_="top",
    )


def _manage(found: Running, project: str | None) -> Html:
    """What is done with a whole workspace: the usual thing as a button, the others behind it."""
    here = f"/workflows/{quote(found.name, safe='')}"
    about = {"workflow": WorkspaceName.parse(found.name).workflow} | ({"project": project} if project else {})
    about_it = urlencode(about)

    def act(do: str, word: str, about: str = "", *, quiet: bool = True, then: str = "", at: str | None = None) -> Html:
        press = button(word, class_="quiet" if quiet else "", title=about or None)
        return form(
            do, press, label=f"{word} the workflow", class_="inline", trust=about_it, then=then, project=project, at=at
        )

    whole = link("workspace", found.name, project=project)  # what can be written there changes too
    is_open = found.state in ("running", "paused")
    usual = (
        act(f"POST {here}/resume", "Resume", quiet=False)
        if found.state == "paused"
        else act(f"POST {here}/pause", "Pause")
        if is_open
        else act(f"POST {here}/restart", "Start again", "with the params it was started with", quiet=False, then=whole)
    )
    more = [
        act(f"POST {here}/restart", "Restart", "stops it and starts it again, with the same params", then=whole),
        act(f"DELETE {here}", "Stop", "cancels what is queued or running in it", then=whole),
        h("a", "New document", href=link("new-document", found.name, project=project), class_="button quiet"),
        h("a", "New proposal", href=link("new-proposal", found.name, project=project), class_="button quiet"),
    ]
    workflow = WorkspaceName.parse(found.name).workflow
    more += [
        h("a", "Schedule …", href=link("start", workflow, project=project), class_="button quiet"),
        act(
            "POST /clear",
            "Begin conversations afresh",
            "Nothing is deleted: the channel and the files keep it",
            at=f"@{found.name}",
        ),
    ]
    rest = [*(more if is_open else []), *export_buttons(f"@{found.name}", project)]
    menu = h("details", h("summary", "More"), h("div", rest, class_="choices"), class_="menu", data_key="manage")
    return h("div", usual, menu, class_="manage")


async def _channel(service: Service, found: Running, project: str | None, seq: int) -> Html:
    talk = Talk(f"@{found.name}", project, workspace=found.id)
    open_ = found.state in ("running", "paused")
    names = [member.name for member in found.members]
    do = f"POST /channels/{quote(found.name, safe='')}"
    return join(
        await log(service, talk, at=seq),
        compose(do, talk, _unaddressed(found), names=names) if open_ else _over(found),
    )


def _over(found: Running) -> Html:
    return h(
        "p",
        f"This workflow is {told(found.state)}. Use Start again, above, to put it to work as before.",
        class_="over",
    )


def _unaddressed(found: Running) -> Html:
    """Who is woken by a message that names nobody."""
    if found.desk:
        return h("p", f"Wakes {found.desk}.", class_="wakes calls", aria_live="polite")
    return h("p", "Wakes nobody: write @name to call on someone.", class_="wakes", aria_live="polite")


# --- beside it ----------------------------------------------------------------------------------------


async def _team(service: Service, found: Running, project: str | None) -> Html:
    names = await documents.doc_list(service, found.name, project)
    known = await proposal_views(service, found.name, project)
    return panel(
        section("Members", h("ul", [_member(m, project) for m in found.members], class_="members")),
        _votes([each for each in known.values() if each.state == "open"], found.name, project),
        section("Documents", _names(names, found.name, project)),
        await limits_section(service, f"@{found.name}", project) if found.state in ("running", "paused") else None,
        src=source("workspace", at=found.name, project=project, tab="team"),
        on=_TEAM_EVENTS,
        of=found.id,
        label="Team",
    )


def _votes(proposals: Sequence[ProposalView], at: str, project: str | None) -> Html | None:
    if not proposals:
        return None
    place = link("workspace", at, project=project, tab="decisions")
    return section("Open votes", h("ul", [h("li", h("a", each.question, href=place)) for each in proposals]))


def _member(member: workflows.Member, project: str | None) -> Html:
    return h(
        "li",
        h("a", face(member.name), member.name, href=link("agent", member.name, project=project), class_="name"),
        state_word(member.state, waiting=member.waiting),
        h("p", member.status, class_="status") if member.status else None,
        h("p", h("span", member.waiting.reason, class_="clamped"), " ", waits(member.waiting), class_="why")
        if member.waiting
        else None,
    )


def _names(names: Sequence[str], at: str, project: str | None) -> Html:
    if not names:
        return empty("None yet.")
    return h(
        "ul",
        [h("li", h("a", name, href=link("doc", at, project=project, name=name))) for name in names],
        class_="names",
    )


async def _team_tab(service: Service, found: Running, project: str | None) -> Html:
    return h("div", await _team(service, found, project), class_="plain")


async def _documents_tab(service: Service, found: Running, project: str | None) -> Html:
    return panel(
        await documents_table(service, found.name, project),
        _new("document", found, project),
        src=source("workspace", at=found.name, project=project, tab="documents"),
        on="document,message",
        of=found.id,
        label="Documents",
        class_="plain",
    )


def _new(what: str, found: Running, project: str | None) -> Html | None:
    """The button for a new document or proposal, where those that exist are listed."""
    if found.state not in ("running", "paused"):
        return None
    return h("p", h("a", f"New {what}", href=link(f"new-{what}", found.name, project=project), class_="button quiet"))


async def _decisions_tab(service: Service, found: Running, project: str | None) -> Html:
    known = await proposal_views(service, found.name, project)
    newest = sorted(known.values(), key=lambda each: (each.state != "open", -each.number))
    return panel(
        [h("div", card(each, found.name, project), data_key=f"proposal-{each.number}") for each in newest]
        or empty("No votes yet. Members ask for them, and so can you."),
        _new("proposal", found, project),
        src=source("workspace", at=found.name, project=project, tab="decisions"),
        on="proposal",
        of=found.id,
        label="Decisions",
        class_="plain",
    )


_TABS = {
    "team": _team_tab,
    "documents": _documents_tab,
    "decisions": _decisions_tab,
    "map": team_map,
}
