"""What a project wants to do and the person has not approved: the question that a terminal asks, with its answers."""

from __future__ import annotations

import json
from collections.abc import Sequence

from agent_worker.core.text import plural
from agent_worker.daemon.web.diffs import diff_lines
from agent_worker.daemon.web.frame import View, button, empty, form
from agent_worker.daemon.web.markup import Html, h
from agent_worker.service import trust
from agent_worker.service.operation import operation
from agent_worker.service.service import Service
from agent_worker.service.trust import PendingApproval

SHOWN = 400  #: lines of one thing
_OFFERED = ("limits", "keys")  #: kinds that forbid nothing while they wait


@operation("GET", "/page/approval")
async def approval(
    service: Service, project: str | None = None, workflow: str | None = None, agent: str | None = None
) -> View:
    """What a project, or one of its workflows or agents, wants to do that was not approved, to approve or to deny."""
    pending = await trust.trust_list(service, project, workflow, agent)
    whose = workflow or agent or "this project"
    asked = ask(pending, project=project, workflow=workflow, agent=agent, whose=whose)
    shown = asked or empty("Nothing waits for your approval: everything this project does is approved, or needs none.")
    title = f"Approve what {whose} does"
    return View(title, h("div", h("header", h("h1", title), class_="bar"), shown, class_="plain"))


def ask(
    pending: Sequence[PendingApproval],
    *,
    project: str | None,
    whose: str,
    workflow: str | None = None,
    agent: str | None = None,
) -> Html | None:
    """The question with its two answers. What is approved is what is shown, and nothing that was changed since."""
    if not pending:
        return None
    return form(
        "POST /trust",
        listed(pending),
        h(
            "span",
            button("Approve", data_with=json.dumps({"digests": [each.digest for each in pending]})),
            h("button", "Deny", type="button", class_="quiet", data_deny=True),
            class_="buttons",
        ),
        label=f"Approve what {whose} does",
        class_="consent",
        project=project,
        workflow=workflow,
        agent=agent,
    )


def listed(pending: Sequence[PendingApproval]) -> Html:
    forbids = any(each.kind not in _OFFERED for each in pending)
    told = "It does not happen until you approve it." if forbids else "Until you approve it, work goes on without it."
    return h(
        "fieldset",
        h("legend", "It wants to do this, and you have not approved it yet"),
        [_one(each) for each in pending],
        h("p", told, class_="less"),
    )


def _one(each: PendingApproval) -> Html:
    lines = each.shown.splitlines()
    more = len(lines) - SHOWN
    return h(
        "div",
        h("h3", each.what),
        h("p", each.why, class_="why") if each.why else None,
        h("pre", diff_lines(lines[:SHOWN]) if each.changed else "\n".join(lines[:SHOWN]), class_="diff", tabindex=0),
        h("p", f"Not shown here: {plural(more, 'more line')}.", class_="why") if more > 0 else None,
        class_="power",
    )
