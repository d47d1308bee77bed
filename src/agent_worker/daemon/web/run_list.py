"""The newest runs of a project, to be filtered: who worked where, for how long, and how it ended."""

from __future__ import annotations

from agent_worker.core.states import told
from agent_worker.core.text import plural
from agent_worker.daemon.web.frame import View, count, dot, empty, link, money, panel, seconds, source, when
from agent_worker.daemon.web.markup import Html, h
from agent_worker.daemon.web.prose import in_a_line
from agent_worker.service import runs
from agent_worker.service.operation import operation
from agent_worker.service.runs import Run
from agent_worker.service.service import Service

NEWEST = 200


@operation("GET", "/page/runs")
async def run_list(service: Service, project: str | None = None) -> View:
    """The newest runs of a project."""
    found = await runs.runs_list(service, project, limit=NEWEST)
    name = (await service.project(project)).project.definition.name
    return View(
        f"Runs of {name}",
        panel(
            h(
                "header",
                h("h1", f"Runs of {name}"),
                h("span", _how_many(found), class_="less"),
                class_="bar",
            ),
            h("div", _filter(found), h("ol", [_run(each, project) for each in found], class_="list runs"))
            if found
            else empty("Nobody has worked here yet."),
            src=source("runs", project=project),
            on="started,ended",
            class_="plain",
        ),
    )


def _how_many(found: list[Run]) -> str:
    return f"the newest {NEWEST}" if len(found) == NEWEST else plural(len(found), "run")


def _filter(found: list[Run]) -> Html:
    """Works in the page, on what is there (static/filter.js)."""
    states = [("", "all of them"), *((state, told(state)) for state in sorted({each.state for each in found}))]
    return h(
        "p",
        h("input", type="search", placeholder="Filter the runs", aria_label="Filter the runs", data_filter=True),
        h(
            "select",
            [h("option", text, value=value) for value, text in states],
            aria_label="Which of them",
            data_filter_kind=True,
        ),
        h("span", class_="less", role="status", data_filter_told=True, data_lasting=True, data_key="filter-told"),
        class_="filter",
    )


def _run(run: Run, project: str | None) -> Html:
    took = seconds(run.ended_at - run.started_at) if run.ended_at else "now"
    tries = f" · {run.tries:,} tries" if run.tries > 1 else ""
    kind, at = ("workspace", run.workspace) if run.workspace else ("agent", run.agent)
    return h(
        "li",
        h(
            "div",
            dot(run.state),
            h("a", run.agent, href=link("run", run.id, project=project), class_="name"),
            h(
                "a",
                f"@{run.workspace}" if run.workspace else "direct",
                href=link(kind, at, project=project),
                class_="less",
            ),
            when(run.started_at, day=True),
            h("span", f"{took}{tries} · {count(run.tokens)} tokens · {money(run.usd, run.estimated)}", class_="less"),
            h("span", told(run.state), class_="less") if run.state != "done" else None,
            h("span", "taken back", class_="tag") if run.held else None,
            h("p", run.reason, class_="why") if run.reason else None,
            h("p", in_a_line(run.text), class_="line") if run.text and not run.reason else None,
            data_kinds=run.state,
            class_="run-line",
        ),
        data_entry=True,
        data_key=f"run-{run.id}",
    )
