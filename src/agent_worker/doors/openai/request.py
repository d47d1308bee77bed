"""What a client of OpenAI's API asks, read: whom, what, in which session. What we cannot do is said, never skipped.

Only the last message of the user is new: what was said before is in our own thread or channel. How a model samples is
the matter of the agent's definition, so `temperature` and its like are not looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from agent_worker.client.discovery import RUN_HEADER
from agent_worker.core.errors import BadInput
from agent_worker.core.later import dataclass

SESSION_HEADER = "x-session-id"
_TOOLS = "the tools of an agent are named in its file; a client cannot bring its own"
_ONE = "an agent gives one answer"
_TEXT = "answers are plain text here"
_LONGEST_SESSION = 512

#: Field → the values that change nothing, and what is said to any other. An empty list or object is none.
_CHAT: Mapping[str, tuple[tuple[Any, ...], str]] = {
    "n": ((1,), _ONE),
    "tools": ((), _TOOLS),
    "functions": ((), _TOOLS),
    "tool_choice": (("none", "auto"), _TOOLS),
    "function_call": (("none", "auto"), _TOOLS),
    "response_format": (({"type": "text"},), _TEXT),
    "modalities": ((["text"],), _TEXT),
    "audio": ((), _TEXT),
    "logprobs": ((False,), "word probabilities are not available here"),
    "top_logprobs": ((0,), "word probabilities are not available here"),
    "logit_bias": ((), "token biases are not supported here"),
    "stop": ((), "stop words are not supported here"),
    "prediction": ((), "an answer cannot be predicted here"),
    "web_search_options": ((), _TOOLS),
}
_RESPONSES: Mapping[str, tuple[tuple[Any, ...], str]] = {
    "tools": ((), _TOOLS),
    "tool_choice": (("none", "auto"), _TOOLS),
    "max_tool_calls": ((), "an agent's limits decide how many tools it may use"),
    "background": ((False,), "work runs in the background anyway: ask for it again with GET /v1/responses/{id}"),
    "prompt": ((), "stored prompts are not supported here: an agent has its own"),
    "top_logprobs": ((0,), "word probabilities are not available here"),
}


@dataclass(frozen=True, slots=True)
class DoorQuestion:
    model: str
    text: str
    session: str = ""  #: as the client calls it; '' for none
    previous: str = ""  #: the id of the response that this goes on from
    stream: bool = False
    with_usage: bool = False  #: a stream of chat completions tells it only when asked
    metadata: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None  #: the same key is accepted once
    cause: str | None = None  #: the run of an agent whose command asks, where that says so


def chat_question(body: Mapping[str, Any], headers: Mapping[str, str]) -> DoorQuestion:
    _refuse(body, _CHAT)
    messages = _list(body, "messages")
    last = messages[-1] if messages else None
    options = body.get("stream_options") or {}
    return _question(
        body,
        headers,
        text=_text_of(last, "messages", kinds=("text",)),
        session=_session(body, headers),
        with_usage=isinstance(options, dict) and bool(options.get("include_usage")),
    )


def response_question(body: Mapping[str, Any], headers: Mapping[str, str]) -> DoorQuestion:
    _refuse(body, _RESPONSES)
    wanted = body.get("text")
    if isinstance(wanted, dict) and wanted.get("format", {"type": "text"}) != {"type": "text"}:
        raise BadInput(f"text.format: {_TEXT}")
    given = body.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else _list(body, "input")
    previous = _optional(body, "previous_response_id")
    if previous and body.get("conversation"):
        raise BadInput("previous_response_id and conversation: give only one of them")
    return _question(
        body,
        headers,
        text=_text_of(items[-1] if items else None, "input", kinds=("input_text", "text")),
        session="" if previous else _session(body, headers),
        previous=previous,
    )


def _question(body: Mapping[str, Any], headers: Mapping[str, str], *, text: str, **more: Any) -> DoorQuestion:
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise BadInput("model: name an agent or a team", hint="GET /v1/models lists them")
    if not isinstance(body.get("stream") or False, bool):
        raise BadInput("stream: true or false")
    metadata = body.get("metadata") or {}
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise BadInput("metadata: an object of texts")
    key = headers.get("idempotency-key") or None
    cause = headers.get(RUN_HEADER.lower()) or None
    stream = bool(body.get("stream"))
    return DoorQuestion(model, text, stream=stream, metadata=metadata, key=key, cause=cause, **more)


def _refuse(body: Mapping[str, Any], table: Mapping[str, tuple[tuple[Any, ...], str]]) -> None:
    for name, (harmless, told) in table.items():
        value = body.get(name)
        if value not in (None, [], {}, "") and not any(value == each for each in harmless):
            raise BadInput(f"{name}: {told}")


def _list(body: Mapping[str, Any], name: str) -> list[Any]:
    value = body.get(name)
    if not isinstance(value, list):
        raise BadInput(f"{name}: a list of messages")
    return value


def _text_of(message: Any, where: str, *, kinds: tuple[str, ...]) -> str:
    """What the user says in the last message."""
    if not isinstance(message, dict) or message.get("type", "message") != "message" or message.get("role") != "user":
        raise BadInput(f"{where}: the last one must be a user message, because only that is new")
    content = message.get("content")
    parts = [{"type": kinds[0], "text": content}] if isinstance(content, str) else content
    if not isinstance(parts, list):
        raise BadInput(f"{where}: the content of a message is a text, or a list of texts")
    texts = [_part(part, where, kinds) for part in parts]
    return "\n".join(texts)


def _part(part: Any, where: str, kinds: tuple[str, ...]) -> str:
    if not isinstance(part, dict) or part.get("type") not in kinds:
        kind = part.get("type") if isinstance(part, dict) else None
        raise BadInput(
            f"{where}: {str(kind)[:40]} cannot be sent here, only text",
            hint="put it into a file that the agent can read",
        )
    text = part.get("text")
    if not isinstance(text, str):
        raise BadInput(f"{where}: text must be a text")
    return text


def _session(body: Mapping[str, Any], headers: Mapping[str, str]) -> str:
    """What the client calls its session: the first that is given."""
    conversation = body.get("conversation")
    if isinstance(conversation, dict):
        conversation = conversation.get("id")
    if conversation is not None and not isinstance(conversation, str):
        raise BadInput("conversation: its id")
    session = conversation or headers.get(SESSION_HEADER) or _optional(body, "user")
    if len(session) > _LONGEST_SESSION:
        raise BadInput(f"a session's name has at most {_LONGEST_SESSION} characters")
    return session


def _optional(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadInput(f"{name}: a text")
    return value
