"""What the model was sent in a run, request by request: put together again from what is kept.

The sections of the prompt and the definitions of tools are kept by their hash for some days (work/sent_texts.py), what
was said and called in between with the steps of the work. Pure look-ups; `explain` in service/runs.py hands it out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from datetime import timedelta
from typing import Any

from agent_worker.agents.prompt import tokens_in
from agent_worker.agents.prompt_texts import KEPT_VARIABLE
from agent_worker.backends.backend import Reply
from agent_worker.backends.models.protocol import CALL_CUT_OFF, GO_ON
from agent_worker.core.errors import BadInput
from agent_worker.core.later import dataclass
from agent_worker.core.text import plural
from agent_worker.database.database import Row, Transaction
from agent_worker.tools import images
from agent_worker.work import sent_texts, steps
from agent_worker.work.sent_texts import MARK, SentIds

NEVER_ASKED = "nothing was sent, or nothing is left of it: the run ended before that, or its agent was deleted"
NOT_KEPT = f"the texts were not kept: {KEPT_VARIABLE} was 0 when it ran"
#: How a run ends whose last request has no answer that is kept. All others stop between two requests.
_UNANSWERED = frozenset({"running", "failed", "cancelled", "lost", "dead"})


@dataclass(frozen=True, slots=True)
class SentSection:
    name: str
    part: str  #: system | prompt; the sections of a part are sent as one text, with an empty line in between
    text: str | None  #: None: it is not kept any more


@dataclass(frozen=True, slots=True)
class SentRequest:
    """One request: the sections, the tools, and the messages that were added up to and including this one."""

    step: int  #: that it asked for; counted from 0 over all runs of the work
    answered: bool  #: False: no answer to it is kept, or it has none yet
    added: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SentLesson:
    """The request of auto-memory, after the run. What is not kept any more is empty."""

    model: str
    system: str
    prompt: str
    answer: str


@dataclass(frozen=True, slots=True)
class Sent:
    sections: list[SentSection]
    tools: list[dict[str, Any]] | None  #: name, description and schema; None: they are not kept any more
    requests: list[SentRequest]
    missing: str = ""  #: why something is not kept; '' when everything is
    redacted: bool = False  #: secrets were taken out of what is kept; the model may have seen them
    lesson: SentLesson | None = None  #: what was sent to learn from the run; None: nothing
    program: str = ""  #: the coding program that was sent this: what it adds for its model is not seen by us


def sent_in(tx: Transaction, run: Row, work: str, *, kept: timedelta, now: int) -> Sent:
    """What was sent in a run, which is a whole row of its table."""
    manifest = json.loads(run["manifest"] or "[]")
    ids = SentIds.load(run["sent"])
    texts = sent_texts.read(tx, filter(None, (*ids.sections, ids.tools, *ids.lesson[1:])))
    sections = [SentSection(entry["name"], entry["part"], _text_of(n, ids, texts)) for n, entry in enumerate(manifest)]
    tools = _tools_of(ids.tools, texts)
    program = "" if run["backend"] in ("sdk", "mock") else run["backend"]
    return Sent(
        sections,
        tools,
        requests=[] if program or not manifest else list(_requests(tx, run, work)),
        missing=_missing(run, sections, tools, kept=kept, now=now),
        redacted=any("[redacted:" in text for text in texts.values()),
        lesson=SentLesson(ids.lesson[0], *(texts.get(id, "") for id in ids.lesson[1:])) if ids.lesson else None,
        program=program,
    )


def saw(tx: Transaction, run: Row) -> list[dict[str, Any]]:
    """What a run was sent, by sections with their sizes; the definitions of its tools are the last one."""
    sections: list[dict[str, Any]] = json.loads(run["manifest"] or "[]")
    id = SentIds.load(run["sent"]).tools
    if not (text := sent_texts.read(tx, [id]).get(id, "") if id else ""):
        return sections
    told = {"name": "tools", "part": "tools", "tokens": tokens_in(text), "limit": None, "left_out": ""}
    return [*sections, told | {"source": plural(len(json.loads(text)), "definition")}]


def _text_of(number: int, ids: SentIds, texts: Mapping[str, str]) -> str | None:
    text = texts.get(ids.sections[number]) if ids.sections else None
    return text.replace(MARK, ids.mark) if text is not None and ids.marked[number] else text


def _tools_of(id: str, texts: Mapping[str, str]) -> list[dict[str, Any]] | None:
    if not id:
        return []
    return list(json.loads(texts[id])) if id in texts else None


def _missing(
    run: Row,
    sections: Sequence[SentSection],
    tools: object,
    *,
    kept: timedelta,
    now: int,
) -> str:
    if not sections:
        return NEVER_ASKED
    if not run["sent"]:
        return NOT_KEPT
    if tools is not None and all(section.text is not None for section in sections):
        return ""
    if kept and run["started_at"] >= now - kept // timedelta(microseconds=1):
        return f"texts are gone: {KEPT_VARIABLE} was shorter for a while"
    long = f"for {plural(kept.days, 'day')} after they were last sent" if kept else "no longer"
    return f"texts are gone: they are kept {long} ({KEPT_VARIABLE})"


# --- what was said in between -------------------------------------------------------------------------


def _requests(tx: Transaction, run: Row, work: str) -> Iterator[SentRequest]:
    results: dict[int, dict[str, Row]] = {}
    for call in steps.calls_of_work(tx, work):
        results.setdefault(call["step"], {})[call["id"]] = call
    before: list[Row] = []  # steps that the next request tells for the first time
    following = 0
    for step in steps.of_work(tx, work):
        if step["run"] == run["id"]:
            yield SentRequest(step["n"], answered=True, added=list(_messages(before, results)))
            before = []
        elif step["at"] > run["started_at"]:
            break  # a later run went on from here
        before.append(step)
        following = step["n"] + 1
    if run["state"] in _UNANSWERED:
        yield SentRequest(following, answered=False, added=list(_messages(before, results)))


def _messages(done: Sequence[Row], results: Mapping[int, Mapping[str, Row]]) -> Iterator[dict[str, Any]]:
    """Steps as the model is told of them."""
    for step in done:
        try:
            reply = Reply.load(step["reply"])
        except BadInput as error:
            yield {"role": "assistant", "text": f"({error.message})", "calls": []}
            continue
        calls = [{"id": call.id, "tool": call.tool, "arguments": call.arguments} for call in reply.calls]
        yield {"role": "assistant", "text": reply.text, "calls": calls, "raw": reply.raw}
        for call in reply.calls:
            yield _result(call.id, call.tool, results.get(step["n"], {}).get(call.id))
        if not reply.calls:
            yield {"role": "user", "text": GO_ON}


def _result(id: str, tool: str, row: Row | None) -> dict[str, Any]:
    if row is None or row["state"] != "done":
        return {"role": "tool", "call": id, "tool": tool, "text": CALL_CUT_OFF, "ok": False, "images": 0}
    shown = len(images.load(row["images"]))
    return {"role": "tool", "call": id, "tool": tool, "text": row["result"], "ok": bool(row["ok"]), "images": shown}
