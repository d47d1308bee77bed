"""A conversation: what was said in a channel or with one agent, who is at work on it, and the box to write in.

Both are the same thing on the page (static/conversation.js): they open at the newest message, follow it, and show what
was sent before the daemon has stored it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from urllib.parse import urlencode

from agent_worker.core.later import dataclass
from agent_worker.core.states import told
from agent_worker.core.text import plural
from agent_worker.daemon.web.frame import View, button, face, form, link, panel, shown_name, source, waits, when
from agent_worker.daemon.web.inbox import cards, items_of
from agent_worker.daemon.web.markup import Attribute, Html, h, join
from agent_worker.daemon.web.proposals import ProposalViews, announced, card, proposal_views
from agent_worker.daemon.web.prose import prepared, prose
from agent_worker.service import agents, messages, workflows
from agent_worker.service.agents import AgentView
from agent_worker.service.messages import MessageView
from agent_worker.service.operation import operation
from agent_worker.service.proposals import ProposalView
from agent_worker.service.service import Service
from agent_worker.service.workflows import Member

PAGE = 80  #: messages that are fetched at once
FIRST = 40  #: of which a conversation opens with so many: more than fit on a screen
LONG = 1200  #: characters after which a message is folded
LONG_LINES = 18
_NOW = "started,ended,waiting,agent,workspace,inbox,settled"


@dataclass(frozen=True, slots=True)
class Messages:
    """A stretch of a conversation."""

    html: str
    first: int  #: seqs; 0 when there are none
    last: int
    newest: int  #: of the whole conversation
    pending: str = ""  #: what was sent to an agent and is not answered yet
    stored: tuple[str, ...] = ()  #: of the keys that were asked about: what was sent with them is here, or in pending


@dataclass(frozen=True, slots=True)
class Talk:
    """Where a conversation takes place."""

    at: str  #: the address: @review, alice
    project: str | None
    workspace: str = ""  #: whose events belong to it: the id of a workspace,
    agent: str = ""  #: or that of an agent, in personal context

    @property
    def name(self) -> str:
        return self.at.removeprefix("@")


@operation("GET", "/page/messages")
async def messages_of(
    service: Service,
    at: str,
    project: str | None = None,
    since: int = 0,
    before: int | None = None,
    limit: int = PAGE,
    last: bool = False,
    sent: str = "",
) -> Messages:
    """A stretch of a conversation: after a seq, before one, or the last ones. `sent`: keys of what a page has sent."""
    stored = await messages.stored(service, sent.split(","), project) if sent else ()  # first: so it is in what follows
    lines = await messages.read(service, at, project, since, limit, last, before, held=True)
    voted = any(line.kind == "proposal" for line in lines)
    known = await proposal_views(service, at.removeprefix("@"), project) if voted else {}
    await prepared(*((_text_of(line), line.mentions) for line in lines))
    html = await asyncio.to_thread(_rows, lines, known, at, project)
    newest = lines
    if not (lines and (last or (before is None and len(lines) < limit))):  # these do not reach to the end
        newest = await messages.read(service, at, project, limit=1, last=True, held=True)
    pending = "" if at.startswith("@") else await _pending(service, at, project)
    first, end, whole = (part[0].seq if part else 0 for part in (lines, lines[-1:], newest[-1:]))
    return Messages(html, first, end, whole, pending, stored)


async def log(service: Service, talk: Talk, *, empty: str = "", at: int = 0) -> Html:
    """The messages, and below them what is going on just now. Followed while its end is in sight.

    With `at` it opens there: at the message of this seq.
    """
    around = {"since": max(0, at - FIRST // 2)} if at else {"last": True}
    page = await messages_of(service, talk.at, talk.project, limit=FIRST, **around)
    label = f"Channel of {talk.at}" if talk.workspace else f"Conversation with {talk.at}"
    return join(
        h(
            "div",
            h("p", empty, class_="empty begin") if empty and not page.last and not page.pending else None,
            h("ol", Html(page.html), class_="rows", aria_label="Messages"),
            h("ol", Html(page.pending), class_="pending", aria_label="Sent, not answered yet"),
            await _now(service, talk.at, talk.project),
            class_="log",
            role="log",
            tabindex=0,
            aria_label=label,
            data_src=source("messages", at=talk.at, project=talk.project),
            data_workspace=talk.workspace or None,
            data_agent=talk.agent or None,
            data_first=page.first,
            data_last=page.last,
            data_newest=page.newest,
            data_open=at or None,
        ),
        h("button", "New messages ↓", class_="jump", type="button", hidden=True),
    )


# --- just now -----------------------------------------------------------------------------------------


@operation("GET", "/page/now")
async def now(service: Service, at: str, project: str | None = None) -> View:
    """Who is at work in a conversation, and what waits for the person there."""
    return View("", await _now(service, at, project))


async def _now(service: Service, at: str, project: str | None) -> Html:
    team = at.startswith("@")
    name = at.removeprefix("@")
    items = await items_of(service, project, workspace=name if team else "", agent="" if team else name)
    asked_here = {item.agent for item in items if item.kind in ("question", "approval")}
    busy = [each for each in await _at_work(service, at, project) if each.name not in asked_here or not each.waiting]
    return panel(
        await cards(items),
        h("ul", [_worker(each) for each in busy], class_="working", aria_label="At work", data_key="working"),
        src=source("now", at=at, project=project),
        on=_NOW,
        label="Just now",
        class_="now",
    )


async def _at_work(service: Service, at: str, project: str | None) -> Sequence[Member | AgentView]:
    if at.startswith("@"):
        found: Sequence[Member | AgentView] = (await workflows.workflow_status(service, at, project)).members
    else:
        found = [(await agents.agent_info(service, at, project)).agent]
    return [each for each in found if each.state in ("running", "waiting")]


def _worker(who: Member | AgentView) -> Html:
    """An agent at work. What it does and writes is filled in by the page, from what it hears."""
    name, state, waiting = who.name, who.state, who.waiting
    word = "is at work" if state == "running" else told(state, waiting.what if waiting else "")
    return h(
        "li",
        face(name),
        h(
            "div",
            h(
                "p",
                h("span", name, class_="who"),
                h("span", word, class_="note"),
                h("span", class_="doing", data_lasting=True),
                class_="head",
            ),
            h("p", waiting.reason, " ", waits(waiting), class_="why") if waiting else None,
            h("div", class_="writing", data_lasting=True),
            class_="said",
        ),
        class_=state,
        data_key=f"at-work-{name}",
    )


# --- the messages -------------------------------------------------------------------------------------


async def _pending(service: Service, name: str, project: str | None) -> Html:
    """What the person told an agent: it enters the conversation together with its answer."""
    loaded = await service.project(project)
    queue = await service.read(loaded, agents.queue_of, messages.agent_id(loaded, name))
    waiting = [work for work in queue if work.sender == "user" and work.workspace is None]
    await prepared(*(work.text for work in waiting))
    return join([_sent(work) for work in waiting])


def _sent(work: agents.Work) -> Html:
    word = {"queued": "waits for its turn", "waiting": "waits for you"}.get(work.state, "")
    return h(
        "li",
        face("user"),
        h(
            "div",
            h(
                "p",
                h("span", "you", class_="who"),
                when(work.queued_at),
                h("span", word, class_="note") if word else None,
                class_="head",
            ),
            h("div", prose(work.text), class_="prose"),
            class_="said",
        ),
        class_="msg message",
        data_id=work.id,
    )


def _rows(lines: Sequence[MessageView], known: ProposalViews, at: str, project: str | None) -> Html:
    return join([_row(line, announced(line, known) if known else None, at, project) for line in lines])


def _row(line: MessageView, view: ProposalView | None, at: str, project: str | None) -> Html:
    attributes: dict[str, Attribute] = {
        "data_seq": line.seq,
        "data_id": line.id or None,
        "data_who": line.sender,
        "data_at": line.at,
        "data_run": line.run,
    }
    if line.kind == "system":
        said = h("div", h("p", line.text), _resource(line, at, project))
        return h("li", said, when(line.at), class_="msg system", **attributes)
    return h(
        "li",
        face(line.sender),
        h(
            "div",
            h(
                "p",
                h("span", shown_name(line.sender), class_="who"),
                h("a", when(line.at), href=link("run", line.run, project=project), title="the run that said this")
                if line.run
                else when(line.at),
                h("span", line.kind, class_="tag") if line.kind != "message" and view is None else None,
                h("span", "taken back", class_="tag") if line.held else None,
                h("span", f"↳ #{line.reply_to}", class_="reply") if line.reply_to else None,
                h("span", f"#{line.seq}", class_="seq"),
                class_="head",
            ),
            card(view, at.removeprefix("@"), project) if view else _body(line, at, project),
            class_="said",
        ),
        class_=f"msg {line.kind}{' held' if line.held else ''}",
        tabindex=-1,
        **attributes,
    )


def _body(line: MessageView, at: str, project: str | None) -> Html:
    text = _text_of(line)
    long = len(text) > LONG or text.count("\n") > LONG_LINES
    return join(
        h("div", prose(text, line.mentions), class_="prose long" if long else "prose"),
        h("button", "Show all", type="button", class_="more", aria_expanded="false") if long else None,
        _resource(line, at, project),
    )


def _text_of(line: MessageView) -> str:
    """The text of a message without the words for models that stand where it was cut."""
    return line.text.rpartition("\n[… ")[0] if line.resource and "\n[… " in line.text else line.text


def _resource(line: MessageView, at: str, project: str | None) -> Html | None:
    if not line.resource:
        return None
    size = f", {plural(line.full_size, 'byte')}" if line.full_size else ""
    what = "What was changed" if line.kind == "system" else "The whole text"
    return h(
        "details",
        h("summary", f"{what}{size}"),
        class_="resource",
        data_load=source("resource", at=at.removeprefix("@"), id=line.resource, project=project),
    )


# --- the box to write in ------------------------------------------------------------------------------


def compose(do: str, talk: Talk, wakes: Html, *, names: Sequence[str] = (), to: str | None = None) -> Html:
    """Enter sends. In a channel it completes the `names` of members and says who would wake."""
    team = bool(talk.workspace)
    return form(
        do,
        h("ul", class_="complete", id="complete", role="listbox", aria_label="Members", hidden=True) if team else None,
        h(
            "textarea",
            name="message",
            rows=1,
            required=True,
            placeholder=f"Write to {talk.at}",
            aria_label=f"Message to {talk.at}",
            aria_controls="complete" if team else None,
            aria_autocomplete="list" if team else None,
            data_members=json.dumps([*names, "all"]) if team else None,
            data_preview=json.dumps({"at": talk.at, "project": talk.project}) if team else None,
        ),
        wakes,
        button("Send"),
        label="Write a message" if team else f"Write to {talk.at}",
        class_="compose",
        trust=urlencode({"agent": to, **({"project": talk.project} if talk.project else {})}) if to else "",
        project=talk.project,
        to=to,
    )
