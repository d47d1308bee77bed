"""Trust: what a project wants to do and the person has not approved, as the question that a terminal asks; what they
have approved, to be taken back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from urllib.parse import quote

from agent_worker.core.text import plural
from agent_worker.daemon.web.diffs import diff_lines
from agent_worker.daemon.web.frame import View, button, empty, form, panel, section, source
from agent_worker.daemon.web.markup import Html, h
from agent_worker.daemon.web.tokens import tokens_section
from agent_worker.service import hooks, inbox, trust
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
    shown = asked or empty("Nothing waits for your approval.")
    title = f"What {whose} may do"
    approved = await trust.trust_approved(service, project, workflow, agent)
    return View(
        title,
        h(
            "div",
            h("header", h("h1", title), class_="bar"),
            panel(
                shown,
                section("Approved", _approved(approved, project=project, workflow=workflow, agent=agent, whose=whose)),
                await _allowed(service, project) if workflow is None and agent is None else None,
                await tokens_section(service, project) if workflow is None and agent is None else None,
                await _webhooks(service, project) if workflow is None and agent is None else None,
                src=source("approval", project=project, workflow=workflow, agent=agent),
                on="inbox,settled",
                label=title,
            ),
            class_="plain",
        ),
    )


def _approved(
    approved: Sequence[PendingApproval],
    *,
    project: str | None,
    workflow: str | None,
    agent: str | None,
    whose: str,
) -> list[Html]:
    """What is approved, with the button that takes it back."""
    if not approved:
        return [empty("You have approved nothing here, or nothing here needs it.")]
    entries = [
        h(
            "details",
            h("summary", each.what),
            _shown(each),
            data_key=f"approved-{each.digest}",
        )
        for each in approved
    ]
    take_back = form(
        "DELETE /trust",
        button("Take all of it back", class_="quiet"),
        h("span", "you are asked again before any of it happens", class_="less"),
        label=f"Take back what {whose} may do",
        class_="inline settle",
        project=project,
        workflow=workflow,
        agent=agent,
    )
    return [h("div", entries, class_="approved"), take_back]


async def _allowed(service: Service, project: str | None) -> Html | None:
    """The calls of tools that are always allowed, each with the button that has it asked about again."""
    found = await inbox.allowed_list(service, project)
    if not found:
        return None
    rows = [
        h(
            "li",
            h("code", each.what),
            form(
                f"DELETE /allowed/{quote(each.digest)}",
                button("Ask again", class_="quiet"),
                label=f"Ask again about {each.what[:60]}",
                class_="inline",
                project=project,
            ),
            data_key=f"allowed-{each.digest}",
            data_entry=True,
        )
        for each in found
    ]
    return section("Calls that are always allowed", h("ul", rows, class_="list"))


async def _webhooks(service: Service, project: str | None) -> Html | None:
    """What starts workflows from outside, and what is missing for it."""
    found = await hooks.triggers_list(service, project)
    if not found:
        return None
    rows = [
        h(
            "li",
            h("b", f"{each.workflow}: {each.name}"),
            h("code", each.address),
            h("span", f"signed as {each.signed}, secret in {each.secret}", class_="less"),
            h("p", each.trouble, class_="why") if each.trouble else None,
            data_entry=True,
        )
        for each in found
    ]
    return section("Webhooks", h("ul", rows, class_="list"))


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
    why = h("p", each.why, class_="why") if each.why else None
    return h("div", h("h3", each.what), why, _shown(each), class_="power")


def _shown(each: PendingApproval) -> list[Html | None]:
    """All of it, as far as a person reads it, and how much more there is."""
    lines = each.shown.splitlines()
    more = len(lines) - SHOWN
    return [
        h("pre", diff_lines(lines[:SHOWN]) if each.changed else "\n".join(lines[:SHOWN]), class_="diff", tabindex=0),
        h("p", f"Not shown here: {plural(more, 'more line')}.", class_="why") if more > 0 else None,
    ]
