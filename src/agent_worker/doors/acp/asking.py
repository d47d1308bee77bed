"""What waits for the person, put to them by their editor: approvals of any member, questions, votes.

A permission where there is something to choose from, a form where the editor has forms. What can be put in neither way
is said in words, and the next prompt is the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from acp import RequestError
from acp.interfaces import Client
from acp.schema import (
    AcceptElicitationResponse,
    AllowedOutcome,
    ClientCapabilities,
    ContentToolCallContent,
    DeclineElicitationResponse,
    ElicitationFormSessionMode,
    ElicitationSchema,
    ElicitationStringPropertySchema,
    PermissionOption,
    TextContentBlock,
    ToolCallUpdate,
)

from agent_worker.core.later import dataclass
from agent_worker.core.text import clean

ASKED = ("approval", "question", "vote", "veto")  #: kinds of the inbox that are put to the person
Reply = dict[str, Any]  #: arguments of the operation inbox_answer
Offered = list[tuple[PermissionOption, Reply]]


@dataclass(frozen=True, slots=True)
class Editor:
    """The program on the other side, and what it can do."""

    client: Client
    can: ClientCapabilities | None

    @property
    def has_forms(self) -> bool:
        elicitation = self.can.elicitation if self.can else None
        return elicitation is not None and elicitation.form is not None


async def ask(editor: Editor, session: str, item: Mapping[str, Any], call: str) -> Reply | None:
    """What the person says to an item; None when they were not asked, or left it."""
    if item["kind"] in ("question", "vote") and editor.has_forms:
        with suppress(RequestError):
            return await _by_form(editor, session, item)
    offered = _offered(item)
    if not offered:
        return None
    wanted = ToolCallUpdate(
        tool_call_id=call,
        title=_title(item),
        kind="execute" if item["kind"] == "approval" else "other",
        status="pending",
        raw_input={name: clean(value) for name, value in item["arguments"].items()} or None,
        content=[ContentToolCallContent(type="content", content=TextContentBlock(type="text", text=_about(item)))],
    )
    try:
        answer = await editor.client.request_permission(session, wanted, [option for option, _ in offered])
    except RequestError:  # it does not know how
        return None
    if not isinstance(answer.outcome, AllowedOutcome):
        return None
    return {option.option_id: reply for option, reply in offered}.get(answer.outcome.option_id)


def in_words(item: Mapping[str, Any]) -> str:
    """What waits and how it is answered, in words, for an editor that cannot ask."""
    if item["kind"] == "question":
        return f"**{item['agent']} asks:** {item['question']}\n\nYour next message is the answer."
    return f"{item['text']}\n\nAnswer with: `agent-worker inbox`"


async def _by_form(editor: Editor, session: str, item: Mapping[str, Any]) -> Reply | None:
    choice = [clean(each) for each in item["options"]]
    answer = ElicitationStringPropertySchema(type="string", title="Answer", enum=choice or None)
    form = ElicitationFormSessionMode(
        session_id=session,
        requested_schema=ElicitationSchema(type="object", properties={"answer": answer}, required=["answer"]),
    )
    given = await editor.client.create_elicitation(clean(_question(item)), form)
    match given:
        case AcceptElicitationResponse(content={"answer": str(text)}):
            return {"action": "answer", "text": _original(item, text)}
        case DeclineElicitationResponse() if item["kind"] == "question":
            return {"action": "dismiss"}
    return None


def _offered(item: Mapping[str, Any]) -> Offered:
    """What can be chosen, each with what it means."""
    match item["kind"]:
        case "approval":
            return [
                (_yes("once", "Allow once"), {"action": "approve", "scope": "once"}),
                (_yes("run", f"Allow {item['tool']} in this work", "allow_always"), _approve("run")),
                (_yes("always", "Always allow exactly this", "allow_always"), _approve("always")),
                (_no("deny", "Deny"), {"action": "deny"}),
            ]
        case "veto":
            return [(_yes("consent", "Agree"), {"action": "approve"}), (_no("veto", "Veto"), {"action": "deny"})]
        case "question" | "vote" if item["options"]:
            chosen = [
                (_yes(f"option-{n}", clean(text)), {"action": "answer", "text": text})
                for n, text in enumerate(item["options"], 1)
            ]
            decide = [(_no("dismiss", "Let it decide"), {"action": "dismiss"})] if item["kind"] == "question" else []
            return chosen + decide
    return []


def _approve(scope: str) -> Reply:
    return {"action": "approve", "scope": scope}


def _yes(id: str, name: str, kind: Any = "allow_once") -> PermissionOption:
    return PermissionOption(option_id=id, name=name, kind=kind)


def _no(id: str, name: str) -> PermissionOption:
    return PermissionOption(option_id=id, name=name, kind="reject_once")


def _original(item: Mapping[str, Any], text: str) -> str:
    return next((each for each in item["options"] if clean(each) == text), text)


def _title(item: Mapping[str, Any]) -> str:
    """The title of a question. It begins with the sign of a name, so that no program takes it for a call of its own."""
    if item["kind"] == "approval":
        return clean(f"@{item['agent']} wants to use {item['tool']}")
    return clean(f"@{item['agent']}: {item['question']}"[:300])


def _about(item: Mapping[str, Any]) -> str:
    return clean("\n\n".join(filter(None, (item["reason"], item["text"]))))


def _question(item: Mapping[str, Any]) -> str:
    return f"{item['agent']} asks: {item['question']}" if item["kind"] == "question" else str(item["question"])
