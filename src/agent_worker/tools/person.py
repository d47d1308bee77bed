"""Tools to reach the person. The answer may take days: the work is laid aside meanwhile, and survives restarts."""

from __future__ import annotations

import hashlib

from agent_worker.core.errors import BadInput, Refused
from agent_worker.database.database import Transaction
from agent_worker.tools.tool import Question, ToolContext, tool
from agent_worker.work import inbox

LONGEST = 4000  # characters of feedback
ENOUGH = 20  # open items of feedback in a project


@tool(personal=True)
def ask_user(tx: Transaction, context: ToolContext, question: str, options: list[str] | None = None) -> Question:
    """Ask the person and wait for the answer. Give options if there are only a few possible ones.

    Your work rests until then, so ask only what you cannot find out or decide yourself.
    """
    return Question(question, tuple(options or ()))


@tool(personal=True)
def feedback_submit(tx: Transaction, context: ToolContext, text: str) -> str:
    """Tell those who maintain this workflow what got in your way: a tool that misled you, a right you lack, an
    instruction that can be read in two ways. Say what you expected. Nobody answers; go on with your work.
    """
    text = text.strip()
    if not text or len(text) > LONGEST:
        raise BadInput(f"feedback is between 1 and {LONGEST} characters long")
    if sum(item["kind"] == "feedback" for item in inbox.open_items(tx)) >= ENOUGH:
        raise Refused("there is more feedback than anybody has read yet", hint="go on without it")
    identity, same = context.identity, hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    inbox.ask(
        tx,
        "feedback",
        workspace=identity.workspace,
        agent=identity.agent,
        ref=f"feedback/{identity.agent}/{same}",
        text=f"{identity.name}: {text}",
        now=context.clock.micros(),
    )
    return "They will read it."
