"""Tools to reach the person. The answer may take days: the work is laid aside meanwhile, and survives restarts."""

from __future__ import annotations

from agent_worker.database.database import Transaction
from agent_worker.tools.tool import Question, ToolContext, tool


@tool(personal=True)
def ask_user(tx: Transaction, context: ToolContext, question: str, options: list[str] | None = None) -> Question:
    """Ask the person and wait for the answer. Give options if there are only a few possible ones.

    Your work rests until then, so ask only what you cannot find out or decide yourself.
    """
    return Question(question, tuple(options or ()))
