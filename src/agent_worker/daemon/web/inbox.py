"""What waits for the person, each with its answers in place."""

from __future__ import annotations

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
    "feedback": "tells what got in its way",
    "conflict": "conflict between two versions",
    "space": "the disk is getting full",
    "control": "wrote a file that makes other programs run something",
}
_WORDS = {"dismiss": "Dismiss", "retry": "Retry", "answer": "Answer", "approve": "Approve", "deny": "Deny"}
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
            when(item.at, day=True),
            class_="head",
        ),
        h("div", prose(item.text), class_="prose"),
        _answers(item),
        class_="item",
        data_key=item.id,
        data_entry=True,
    )


def _answers(item: Item) -> Html:
    takes_text = _TAKES_TEXT & set(item.answers)
    label = "Your answer" if "answer" in item.answers else "A reason, if you say no"
    field = h("input", name="text", aria_label=label, placeholder=label, required="answer" in item.answers)
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
        field if takes_text else None,
        h("span", buttons, class_="buttons"),
        label=f"Answer {item.kind}",
        class_="answers",
    )
