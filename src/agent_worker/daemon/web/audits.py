"""The audit of one agent: what was done to its memory, by whom, in which run, and whether the record is whole."""

from __future__ import annotations

from agent_worker.daemon.web.frame import View, empty, link, shown_name, when
from agent_worker.daemon.web.markup import Html, h
from agent_worker.service import audit
from agent_worker.service.audit import Noted
from agent_worker.service.operation import operation
from agent_worker.service.service import Service

_TITLES = ("when", "who", "what", "about", "run")


@operation("GET", "/page/audit")
async def audit_view(service: Service, name: str, project: str | None = None) -> View:
    """What was done to the memory of an agent, the newest first."""
    found = await audit.audit_show(service, name, project=project)
    head = h("tr", [h("th", title, scope="col") for title in _TITLES])
    rows = [_row(each, project) for each in reversed(found.entries)]
    return View(
        f"Audit of {name}",
        h(
            "div",
            h(
                "header",
                h("h1", h("a", name, href=link("agent", name, project=project)), " / Audit"),
                h("span", "The record is whole.", class_="less") if not found.flaw else None,
                class_="bar",
            ),
            h("p", found.flaw, class_="why") if found.flaw else None,
            h("table", h("thead", head), h("tbody", rows))
            if rows
            else empty("Nothing has been done to its memory yet."),
            class_="plain",
        ),
    )


def _row(each: Noted, project: str | None) -> Html:
    run = h("a", "the run", href=link("run", each.run, project=project)) if each.run else None
    return h(
        "tr",
        h("td", when(each.at, day=True)),
        h("td", shown_name(each.who)),
        h("td", each.deed),
        h("td", each.about, class_="path"),
        h("td", run),
        data_entry=True,
    )
