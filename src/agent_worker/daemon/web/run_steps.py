"""What a run did, step by step: what it said, each call with what went in and what came out; to be filtered.

Its last part is what the page asks for when somebody wants the whole of a long result.
"""

from __future__ import annotations

import json
from typing import Any

from agent_worker.core.errors import NotFound
from agent_worker.core.text import plural
from agent_worker.daemon.web.frame import View, count, dot, empty, money, seconds, source, when
from agent_worker.daemon.web.markup import Child, Html, h
from agent_worker.daemon.web.prose import code, prose
from agent_worker.service import runs
from agent_worker.service.operation import operation
from agent_worker.service.runs import Explained, Step
from agent_worker.service.service import Service

FEW = 4  #: steps and calls that need no filter
_OWN = "A tool of the coding program: it told us what it did, and we had no part in it"


def steps_of(found: Explained, project: str | None) -> Html:
    if not found.steps:
        return empty("No step was completed.")
    many = sum(1 + len(step.calls) for step in found.steps) > FEW
    return h(
        "div",
        _filter(found) if many else None,
        h("ol", [_step(found, step, project) for step in found.steps], class_="steps-list"),
    )


def _filter(found: Explained) -> Html:
    """The fields that filter the steps; they work in the page, on what is there (static/filter.js)."""
    tools = sorted({call["tool"] for step in found.steps for call in step.calls})
    own = any(call["own"] for step in found.steps for call in step.calls)
    failed = any(call["done_at"] and not call["ok"] for step in found.steps for call in step.calls)
    kinds = [("", "everything"), ("said", "what it said")]
    kinds += [("failed", "calls that failed")] if failed else []
    kinds += [("own", "its own tools")] if own else []
    kinds += [(f"tool-{tool}", tool) for tool in tools]
    return h(
        "p",
        h("input", type="search", placeholder="Filter the steps", aria_label="Filter the steps", data_filter=True),
        h(
            "select",
            [h("option", text, value=value) for value, text in kinds],
            aria_label="Which of them",
            data_filter_kind=True,
        ),
        h("span", class_="less", role="status", data_filter_told=True, data_lasting=True, data_key="filter-told"),
        class_="filter",
    )


def _step(found: Explained, step: Step, project: str | None) -> Html:
    cost = f"{count(step.tokens)} tokens · {money(step.usd, step.estimated)}"
    return h(
        "li",
        h(
            "p",
            h("span", f"step {step.n + 1}", class_="who"),
            when(step.at, precise=True),
            h("span", cost if step.at else "not completed", class_="less"),
            class_="head",
        ),
        h("div", prose(step.text), class_="prose", data_kinds="said") if step.text else None,
        [_call(found.run.id, step, n, call, project) for n, call in enumerate(step.calls)],
        data_entry=True,
    )


def _call(run: str, step: Step, n: int, call: dict[str, Any], project: str | None) -> Html:
    took = seconds(call["done_at"] - call["at"]) if call["done_at"] else "not finished"
    failed = bool(call["done_at"]) and not call["ok"]
    kinds = (f"tool-{call['tool']}", "own" if call["own"] else "", "failed" if failed else "")
    return h(
        "details",
        h(
            "summary",
            dot(("done" if call["ok"] else "failed") if call["done_at"] else "incomplete"),
            h("code", call["tool"]),
            h("span", "its own", class_="tag", title=_OWN) if call["own"] else None,
            h("span", _short(call["arguments"]), class_="arguments"),
            h("span", took, class_="less"),
        ),
        h("h3", "in"),
        code(_pretty(call["arguments"]), "arguments.json"),
        _result(run, step, n, call, project),
        data_key=f"call-{step.n}-{n}",
        data_kinds=" ".join(filter(None, kinds)),
        class_="tool",
    )


def _result(run: str, step: Step, n: int, call: dict[str, Any], project: str | None) -> Child:
    if not call["result"]:
        return None
    more = len(call["result"]) < call["size"]
    whole = h(
        "details",
        h("summary", f"All of it, {plural(call['size'], 'character')}"),
        data_load=source("result", run=run, step=step.n, call=n, project=project),
        data_key=f"result-{step.n}-{n}",
    )
    return [
        h("h3", "out" if call["ok"] else "out, it failed"),
        h("pre", call["result"] + (" …" if more else ""), class_="result", tabindex=0),
        whole if more else None,
    ]


def _short(arguments: str) -> str:
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments[:80]
    if not isinstance(given, dict):
        return arguments[:80]
    return ", ".join(f"{key}: {' '.join(str(value).split())[:40]}" for key, value in given.items())[:120]


def _pretty(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return arguments


@operation("GET", "/page/result")
async def result(service: Service, run: str, step: int, call: int, project: str | None = None) -> View:
    """All that came out of one call."""
    found = await runs.explain(service, run, full=True)
    calls = next((each.calls for each in found.steps if each.n == step), [])
    if not 0 <= call < len(calls):
        raise NotFound(f"step {step + 1} of this run made no call {call + 1}", hint=f"agent-worker explain {run}")
    return View("", h("pre", calls[call]["result"], class_="result", tabindex=0))
