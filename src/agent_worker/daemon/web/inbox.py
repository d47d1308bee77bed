"""What waits for the person, each with its answers in place: in the inbox, and where the question arose."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from agent_worker.core.text import plural
from agent_worker.daemon.web.every_project import of_each
from agent_worker.daemon.web.failures import mends
from agent_worker.daemon.web.frame import View, button, empty, form, link, panel, source, when
from agent_worker.daemon.web.limits import raise_form
from agent_worker.daemon.web.markup import Child, Html, h
from agent_worker.daemon.web.prose import prepared, prose
from agent_worker.service import inbox
from agent_worker.service.inbox import Item
from agent_worker.service.operation import operation
from agent_worker.service.service import Service

_TITLES = {
    "approval": "asks for your approval",
    "question": "asks you",
    "vote": "asks for your vote",
    "veto": "decided, and you may veto it",
    "failure": "failed",
    "dead": "gave up",
    "limit": "reached a limit",
    "key": "needs a key",
    "mention": "calls on you",
    "dispute": "has heard otherwise",
    "check": "does it still hold?",
    "held": "its own files changed while its program worked: was it you?",
    "sharing": "keeps back something that it shares",
    "judge": "its model for small questions failed a test",
    "test": "a test of your notifications",
    "feedback": "reports what got in its way",
    "soul": "may change who it is",
    "drift": "no longer acts as it used to",
    "conflict": "conflict between two versions",
    "space": "the disk is getting full",
    "control": "wrote a file that can make other programs run something",
}
_WORDS = {"dismiss": "Dismiss", "retry": "Retry", "answer": "Answer", "approve": "Approve", "deny": "Deny"}
#: How far a yes to a call reaches → what its button says, and the key that presses it.
_SCOPES = {"once": ("Approve once", "a"), "run": ("For this run", "r"), "always": ("Always exactly this", "")}
_KEYS = {"approve": "a", "deny": "x", "retry": "r"}
_OTHER_WORDS = {
    "veto": {"approve": "Let it stand", "deny": "Veto"},
    "limit": {"retry": "Grant the same again"},
    "dispute": {"approve": "Believe it", "deny": "Keep what it knew"},
    "check": {"approve": "It still holds", "deny": "It does not"},
    "held": {"approve": "It was me"},
    "soul": {"deny": "Reject"},
}
#: A no to these may have a reason, which is told to who asked.
_REASONED = frozenset({"approval", "veto", "soul"})
#: Shown where a team talks. Votes have a card of their own there, and who calls on the person does so in words.
HERE = frozenset(inbox.CAN) - {"vote", "veto", "mention", "feedback", "space", "test"}


@operation("GET", "/page/inbox")
async def inbox_view(service: Service) -> View:
    found = await waiting(service)
    await prepare(found)
    content = h("ul", [item_card(item.project, item) for item in found], class_="items") if found else _nothing()
    return View(
        "Inbox",
        panel(
            h("header", h("h1", "Inbox"), h("span", plural(len(found), "item"), class_="less"), class_="bar"),
            content,
            src=source("inbox"),
            on="inbox,settled,ended,queued",
            class_="plain",
        ),
    )


async def waiting(service: Service) -> list[Item]:
    """What waits in all projects, the newest first."""
    found = [item for _, items in await of_each(service, inbox.inbox_list) for item in items]
    return sorted(found, key=lambda item: -item.at)


async def items_of(service: Service, project: str | None, *, agent: str = "", workspace: str = "") -> list[Item]:
    """What waits for the person in one conversation: of a team, or of one agent wherever it works."""
    found = await inbox.inbox_list(service, project)
    return [
        item
        for item in found
        if item.kind in HERE and (item.workspace == workspace if workspace else item.agent == agent)
    ]


async def cards(items: Sequence[Item]) -> Html | None:
    if not items:
        return None
    await prepare(items)
    rows = [item_card(item.project, item, here=True) for item in items]
    return h("ul", rows, class_="items here", aria_label="Waits for you", data_key="cards")


async def prepare(items: Iterable[Item]) -> None:
    await prepared(*(text for item in items for text in (_text(item), item.reason) if text))


def _nothing() -> Html:
    return empty("Nothing waits for you. Questions, approvals, failures and limits come here.")


def _text(item: Item) -> str:
    return item.question or item.text


def item_card(root: str, item: Item, *, here: bool = False) -> Html:
    """One item; `here` in its own conversation, where its place need not be said."""
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
            workspace if who and not here else None,
            h("span", f"{item.count} times", class_="less") if item.count > 1 else None,
            h("a", "its run", href=link("run", item.run, project=root), class_="less") if item.run else None,
            h("span", f"No. {item.number} in {PurePath(root).name}", title=root, class_="less"),
            when(item.at, day=True),
            class_="head",
        ),
        h("div", prose(item.reason), class_="prose reason") if item.reason else None,
        _call(item) if item.tool else h("div", prose(_text(item)), class_="prose"),
        mends(item.remedy, item.agent, root, item.workspace),
        _answers(item),
        _raise(root, item),
        class_="item",
        data_key=item.id,
        data_entry=True,
        data_kind=item.kind,
    )


def _raise(root: str, item: Item) -> Html | None:
    """The form that raises a limit, where the limit has a number and somebody is still there to go on."""
    of = item.agent if item.limit == "usd_per_day" else f"@{item.workspace}"
    known = item.limit and (item.workspace or item.limit == "usd_per_day") and "retry" in item.answers
    return raise_form(item.limit, of, root, now=item.allowed) if known else None


def _call(item: Item) -> Html:
    """The call that waits for a yes, as one reads it: a command as a command, other arguments by name."""
    return h(
        "div",
        h("p", f"{item.agent} wants to use ", h("code", item.tool), ":"),
        h("dl", [_argument(item.tool, name, value) for name, value in item.arguments.items()], class_="call"),
    )


def _argument(tool: str, name: str, value: str) -> Child:
    long = "\n" in value or len(value) > 60 or (tool, name) == ("bash", "command")
    shown = h("pre", value, tabindex=0) if long else h("code", value)
    return [h("dt", name), h("dd", shown)]


def _answers(item: Item) -> Html:
    return form(
        f"POST /inbox/{quote(item.id, safe='')}",
        *(_choices(item) if item.options and "answer" in item.answers else _plain(item)),
        label=f"Answer {item.kind} {item.number}",
        class_="answers",
    )


def _choices(item: Item) -> Sequence[Html]:
    """The options as buttons; a question takes other words too."""
    chosen = [
        _button(option, press=str(n), given={"action": "answer", "text": option})
        for n, option in enumerate(item.options, start=1)
    ]
    made: list[Html] = [h("span", chosen, class_="buttons", role="group", aria_label="Your answer")]
    if item.kind == "question":
        words = h("input", name="text", aria_label="Other words", placeholder="or in your own words", required=True)
        send = _button("Answer", given={"action": "answer", "other": True}, quiet=True, checked=True)
        made.append(h("span", words, send, class_="words"))
    if "dismiss" in item.answers:
        made.append(_plain_button(item, "dismiss"))
    return made


def _plain(item: Item) -> Sequence[Html]:
    buttons = [each for answer in item.answers for each in _buttons(item, answer)]
    if "answer" not in item.answers and item.kind not in _REASONED:
        return [h("span", buttons, class_="buttons")]
    label = "Your answer" if "answer" in item.answers else "A reason, if you refuse"
    words = h("input", name="text", aria_label=label, placeholder=label, required="answer" in item.answers)
    return [words, h("span", buttons, class_="buttons")]


def _buttons(item: Item, answer: str) -> list[Html]:
    """The buttons of an item, one for each answer; a yes to a call has one for how far it reaches."""
    if answer != "approve" or not item.tool:
        return [_plain_button(item, answer)]
    return [
        _button(word, press=key, given={"action": "approve", "scope": scope}, quiet=scope != "once")
        for scope, (word, key) in _SCOPES.items()
    ]


def answer_word(kind: str, answer: str) -> str:
    """What a button says that gives this answer to an item of a kind."""
    return {**_WORDS, **_OTHER_WORDS.get(kind, {})}[answer]


def _plain_button(item: Item, answer: str) -> Html:
    quiet = answer != item.answers[0] or answer == "dismiss"
    press = _KEYS.get(answer, "")
    word = answer_word(item.kind, answer)
    return _button(word, press=press, given={"action": answer}, quiet=quiet, checked=answer == "answer")


def _button(
    text: str, *, given: Mapping[str, Any], press: str = "", quiet: bool = False, checked: bool = False
) -> Html:
    """Answers with what is `given`. `press` is its key while the item is in focus; `checked`: fields must be filled."""
    return button(
        text,
        class_="quiet" if quiet else "",
        formnovalidate=not checked,
        data_with=json.dumps(given),
        data_press=press or None,
        title=f"key: {press}" if press else None,
    )
