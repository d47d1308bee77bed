"""One run: its time as a picture, what it saw, what it did step by step, what it cost, and how it ended."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import Any

from agent_worker.core.states import told
from agent_worker.core.text import plural
from agent_worker.daemon.web.charts import Span, stacked_bar, timeline
from agent_worker.daemon.web.frame import (
    View,
    count,
    dot,
    empty,
    link,
    money,
    panel,
    seconds,
    section,
    shown_name,
    source,
    state_word,
    when,
)
from agent_worker.daemon.web.markup import Child, Html, h
from agent_worker.daemon.web.prose import prepared, prose
from agent_worker.daemon.web.run_causes import causes_list, copy_of
from agent_worker.daemon.web.run_steps import steps_of
from agent_worker.service import runs
from agent_worker.service.operation import operation
from agent_worker.service.runs import Explained, Run
from agent_worker.service.sent import Sent, SentRequest
from agent_worker.service.service import Service


@operation("GET", "/page/run")
async def run(service: Service, run: str, project: str | None = None) -> View:
    found = await runs.explain(service, run)
    await prepared(found.instruction, found.text, *(step.text for step in found.steps))
    content = await asyncio.to_thread(_view, found, project, service.now())
    return View(
        f"{found.run.agent}’s run",
        panel(
            *content,
            src=source("run", run=run, project=project),
            on="step,tool_call,tool_result,ended,retry",
            class_="plain run",
        ),
    )


def _view(found: Explained, project: str | None, now: int) -> list[Child]:
    spans = list(spans_of(found, now))
    return [
        _bar(found, project),
        section("Asked", h("p", _asked(found), class_="less"), _folded(found.instruction)),
        section("Why", because) if (because := causes_list(found, project)) else None,
        section("Time", timeline(spans)),
        section("What did it see?", _manifest(found.sections), _word_by_word(found, project)),
        section("Steps", steps_of(found, project)),
        section("Said at the end", h("div", prose(found.text), class_="prose")) if _is_new(found) else None,
        section("Changed in its own copy", copy_of(found.causes.copy, project)) if found.causes.copy else None,
        section("Attempts", _attempts(found, project)) if len(found.attempts) > 1 else None,
    ]


def _bar(found: Explained, project: str | None) -> Html:
    about = found.run
    took = (about.ended_at - about.started_at) if about.ended_at else None
    workspace = link("workspace", about.workspace, project=project)
    place = h("a", f"@{about.workspace}", href=workspace) if about.workspace else None
    facts = (
        when(about.started_at, day=True),
        seconds(took) if took is not None else "waits for its model" if about.state == "waiting" else "at work now",
        f"{about.tries:,} tries" if about.tries > 1 else None,
        plural(about.steps, "step"),
        f"{count(about.tokens)} tokens",
        money(about.usd, about.estimated),
        about.model or about.backend,
    )
    return h(
        "header",
        h("h1", h("a", f"{about.agent}’s run", href=link("agent", about.agent, project=project))),
        state_word(about.state),
        h("span", "taken back", class_="tag") if about.held else None,
        place,
        h("p", [h("span", fact) for fact in facts if fact], class_="figures"),
        h("p", about.reason, class_="why") if about.reason else None,
        h(
            "button",
            "Export",
            type="button",
            class_="quiet",
            title="Everything known about this run, as JSON",
            data_download=f"/runs/{about.id}?full=true",
            data_name=f"{about.agent}-{about.id}.json",
        ),
        class_="bar",
    )


def _is_new(found: Explained) -> bool:
    """Whether the final text says more than the last step already did."""
    return bool(found.text) and not (found.steps and found.steps[-1].text.strip() == found.text.strip())


def _folded(text: str) -> Html:
    long = len(text) > 600 or text.count("\n") > 10
    more = h("button", "Show all", type="button", class_="more", aria_expanded="false") if long else None
    return h("div", h("div", prose(text), class_="prose long" if long else "prose"), more)


def _asked(found: Explained) -> str:
    how = {"dm": "directly", "channel": "by a mention", "workspace": "in the workspace", "schedule": "by a schedule"}
    return f"by {shown_name(found.sender)}, {how.get(found.source, found.source)}" if found.sender else ""


# --- time ---------------------------------------------------------------------------------------------


def spans_of(found: Explained, now: int) -> Iterator[Span]:
    """The times of a run for its picture: waiting in the queue, then the model and the tools in turn."""
    begun, ended = found.run.started_at, found.run.ended_at or now
    first = found.attempts[0].id == found.run.id if found.attempts else True
    if first and found.queued_at and found.queued_at < begun:
        yield Span("wait", found.queued_at, begun, f"waited {seconds(begun - found.queued_at)}")
    at = begun
    for step in found.steps:
        answered = max(step.at, at)
        yield Span("model", at, answered, f"step {step.n + 1}: model, {seconds(answered - at)}")
        at = answered
        for call in step.calls:
            done = call["done_at"] or ended
            kind = "tool" if call["ok"] else "bad"
            yield Span(kind, call["at"], done, f"{call['tool']}, {seconds(done - call['at'])}")
            at = max(at, done)
    if ended > at or not found.steps:
        failed = found.run.state in ("failed", "lost", "dead")
        yield Span(
            "model failed" if failed else "model", at, max(ended, at), f"{told(found.run.state)}, {seconds(ended - at)}"
        )


# --- what it saw --------------------------------------------------------------------------------------


def _manifest(sections: Sequence[dict[str, Any]]) -> Html:
    if not sections:
        return empty("Nothing is recorded: the run ended before the model was asked.")
    sizes = [(str(each["name"]), int(each["tokens"])) for each in sections]
    whole = sum(size for _, size in sizes)
    rows = [
        h(
            "tr",
            h("td", h("span", class_=f"key tone{n % 6}"), each["name"]),
            h("td", count(each["tokens"]), class_="number"),
            h("td", f"{100 * each['tokens'] / (whole or 1):.0f} %", class_="number wide"),
            h("td", each["source"], class_="less wide"),
            h("td", each["left_out"], class_="why"),
        )
        for n, each in enumerate(sections)
    ]
    titles = (("section", ""), ("tokens", "number"), ("share", "number wide"), ("from", "wide"), ("left out", ""))
    head = h("tr", [h("th", title, class_=class_ or None, scope="col") for title, class_ in titles])
    return h(
        "div",
        stacked_bar(sizes),
        h("p", f"{count(whole)} tokens in {plural(len(sections), 'section')}", class_="less"),
        h("table", h("thead", head), h("tbody", rows)),
        class_="manifest",
    )


def _word_by_word(found: Explained, project: str | None) -> Html | None:
    """What the model was sent, fetched when somebody opens it: it is long."""
    if not found.sections:
        return None
    return h(
        "details",
        h("summary", "What its model was sent, word by word"),
        class_="sent",
        data_key="sent",
        data_load=source("sent", run=found.run.id, project=project),
    )


@operation("GET", "/page/sent")
async def sent(service: Service, run: str, project: str | None = None) -> View:
    found = await runs.explain(service, run, full=True)
    assert found.sent is not None
    return View("", h("div", _sent(found.sent)))


def _sent(sent: Sent) -> list[Child]:
    system = [each for each in sent.sections if each.part == "system"]
    asked = [each for each in sent.sections if each.part != "system"]
    return [
        *(h("p", note, class_="why") for note in _notes(sent)),
        *(_fold(f"system: {each.name}", each.text) for each in system),
        *(_fold(f"prompt: {each.name}", each.text) for each in asked),
        _fold("tools", None) if sent.tools is None else None,
        *(_fold(f"tool: {tool['name']}", _definition(tool)) for tool in sent.tools or ()),
        *(_request(n, each) for n, each in enumerate(sent.requests, start=1)),
    ]


def _notes(sent: Sent) -> Iterator[str]:
    if sent.program:
        yield f"This is what {sent.program} was given; we do not know what it adds for its model."
    if sent.redacted:
        yield "Secrets are removed from what is kept: where it says [redacted:…], the model may have seen one."
    if sent.missing:
        yield f"{sent.missing[0].upper()}{sent.missing[1:]}."


def _fold(title: str, text: str | None) -> Html:
    if text is None:
        return h("p", h("code", title), " is not kept", class_="less")
    size = h("span", plural(len(text), "character"), class_="less")
    return h("details", h("summary", h("code", title), size), h("pre", text, tabindex=0), class_="tool")


def _definition(tool: dict[str, Any]) -> str:
    return f"{tool['description']}\n\n{json.dumps(tool['schema'], indent=2, ensure_ascii=False)}"


def _request(number: int, request: SentRequest) -> Html:
    same = "all of the above" if number == 1 else "the same"
    more = f", and {plural(len(request.added), 'message')} more" if request.added else ""
    title = f"request {number}: {same}{more}{'' if request.answered else ' (no answer to it is kept)'}"
    if not request.added:
        return h("p", h("code", title))
    return _fold(title, "\n\n".join(json.dumps(each, indent=2, ensure_ascii=False) for each in request.added))


# --- other attempts -------------------------------------------------------------------------------------


def _attempts(found: Explained, project: str | None) -> Html:
    def entry(n: int, each: Run) -> Html:
        here = "page" if each.id == found.run.id else None
        return h(
            "li",
            dot(each.state),
            h("a", f"attempt {n}", href=link("run", each.id, project=project), aria_current=here),
            h("span", told(each.state), class_="less"),
            h("span", each.reason, class_="why") if each.reason else None,
        )

    return h("ol", [entry(n, each) for n, each in enumerate(found.attempts, start=1)], class_="list")
