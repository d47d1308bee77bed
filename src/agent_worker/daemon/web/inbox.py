"""What waits for the person, each with its answers in place."""

from __future__ import annotations

from pathlib import PurePath
from urllib.parse import quote

from agent_worker.daemon.web.frame import View, button, empty, form, link, panel, source, when
from agent_worker.daemon.web.markup import Html, h
from agent_worker.daemon.web.prose import prepared, prose
from agent_worker.service import inbox, projects
from agent_worker.service.inbox import Item
from agent_worker.service.operation import operation
from agent_worker.service.service import Service

_TITLES = {
    "approval": "asks for your approval",
    "question": "asks you",
    "failure": "failed",
    "dead": "gave up",
    "limit": "reached a limit",
    "key": "needs a key",
    "mention": "calls on you",
    "dispute": "heard otherwise than it knows",
    "check": "does it still hold?",
    "sharing": "does not tell what it shares",
    "feedback": "tells what got in its way",
    "soul": "may change who it is",
    "drift": "is not who it was",
    "conflict": "conflict between two versions",
    "space": "the disk is getting full",
    "control": "wrote a file that makes other programs run something",
}
_WORDS = {"dismiss": "Dismiss", "retry": "Retry", "answer": "Answer", "approve": "Approve", "deny": "Deny"}
_SCOPES = {"once": "Once", "run": "For this run", "always": "Always exactly this"}
_TAKES_TEXT = frozenset({"answer", "deny"})


@operation("GET", "/page/inbox")
async def inbox_view(service: Service) -> View:
    found = [
        (project.root, item)
        for project in await projects.projects_list(service)
        for item in await inbox.inbox_list(service, project.root)
    ]
    found.sort(key=lambda pair: -pair[1].at)
    await prepared(*(item.text for _, item in found))
    content = h("ul", [_item(root, item) for root, item in found], class_="items") if found else _nothing()
    return View(
        "Inbox",
        panel(
            h("header", h("h1", "Inbox"), class_="bar"),
            content,
            src=source("inbox"),
            on="inbox,settled,ended,queued",
            class_="plain",
        ),
    )


def _nothing() -> Html:
    return empty("Nothing waits for you. Questions, approvals, failures and limits come here.")


def _item(root: str, item: Item) -> Html:
    who = h("a", item.agent, href=link("agent", item.agent, project=root)) if item.agent else None
    workspace = (
        h("a", f"@{item.workspace}", href=link("workspace", item.workspace, project=root)) if item.workspace else None
    )
    return h(
        "li",
        h(
            "p",
            h("span", item.kind, class_="tag"),
            who or workspace,
            h("span", _TITLES.get(item.kind, item.kind), class_="less"),
            workspace if who else None,
            h("span", f"{item.count} times", class_="less") if item.count > 1 else None,
            h("span", f"{item.number} in {PurePath(root).name}", title=root, class_="less"),
            when(item.at, day=True),
            class_="head",
        ),
        _call(item) if item.tool else h("div", prose(item.text), class_="prose"),
        _answers(item),
        class_="item",
        data_key=item.id,
        data_entry=True,
    )


def _call(item: Item) -> Html:
    """The call that waits for a yes, as one reads it."""
    shown = "\n".join(f"{name}: {value}" for name, value in item.arguments.items())
    return h("div", h("p", f"{item.agent} wants to use ", h("code", item.tool)), h("pre", shown), class_="prose")


def _fields(item: Item) -> list[Html]:
    """What is said with the answer: one of the options, words, or how far a yes reaches."""
    if item.options and "answer" in item.answers:
        chosen = [h("option", option, value=option) for option in item.options]
        return [h("select", chosen, name="text", aria_label="Your answer")]
    if not _TAKES_TEXT & set(item.answers):
        return []
    label = "Your answer" if "answer" in item.answers else "A reason, if you say no"
    words = h("input", name="text", aria_label=label, placeholder=label, required="answer" in item.answers)
    scopes = [h("option", said, value=scope) for scope, said in _SCOPES.items()]
    return [h("select", scopes, name="scope", aria_label="How far a yes reaches"), words] if item.tool else [words]


def _answers(item: Item) -> Html:
    buttons = [
        button(
            _WORDS[answer],
            name="action",
            value=answer,
            class_="" if n == 0 and answer != "dismiss" else "quiet",
            formnovalidate=answer == "dismiss",
        )
        for n, answer in enumerate(item.answers)
    ]
    return form(
        f"POST /inbox/{quote(item.id, safe='')}",
        *_fields(item),
        h("span", buttons, class_="buttons"),
        label=f"Answer {item.kind}",
        class_="answers",
    )
