"""Starting a workflow: its params as fields, and what it would do that was not approved, before it does it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from agent_worker.core.address import MAIN, WorkspaceName
from agent_worker.core.errors import NotFound
from agent_worker.daemon.web.approvals import listed
from agent_worker.daemon.web.definitions import edit_link
from agent_worker.daemon.web.frame import View, button, empty, form, link, panel, section, source, when
from agent_worker.daemon.web.markup import Html, h
from agent_worker.service import schedules, trust, workflows
from agent_worker.service.operation import operation
from agent_worker.service.schedules import Scheduled
from agent_worker.service.service import Service
from agent_worker.service.workflows import Workflow

THEN = "#/workspace/{name}?in="


@operation("GET", "/page/start")
async def start(service: Service, workflow: str, project: str | None = None, tag: str = "") -> View:
    """A workflow, to be started."""
    known = await workflows.workflows_list(service, project)
    found = next((each for each in known if each.name == workflow), None)
    if found is None:
        raise NotFound(f"there is no workflow {workflow} in this project", hint="agent-worker ls")
    root = str((await service.project(project)).project.root)
    pending = await trust.trust_list(service, root, workflow)
    asks = any(each.kind not in ("limits", "keys") for each in pending)
    approves = h("label", h("input", type="checkbox", name="trust", required=asks), "I approve this", class_="check")
    return View(
        f"Start {workflow}",
        h(
            "div",
            h(
                "header",
                h("h1", f"Start {workflow}"),
                h("span", ", ".join(found.members), class_="less"),
                edit_link("Edit its file", found.file, root),
                class_="bar",
            ),
            form(
                "POST /workflows",
                [field(param) for param in found.params],
                h(
                    "label",
                    "Tag",
                    h("span", "a second instance of the same team needs another tag", class_="less"),
                    h("input", name="tag", value=tag, placeholder="main", pattern="[A-Za-z0-9][A-Za-z0-9._\\-]*"),
                ),
                h(
                    "label",
                    "Message",
                    h("span", "posted after the kickoff", class_="less"),
                    h("textarea", name="message", rows=2),
                ),
                h("div", listed(pending), approves, class_="consent") if pending else None,
                h(
                    "span",
                    button(f"Start {workflow}"),
                    h("a", "Not now", href=link("home", project=None), class_="less"),
                    class_="buttons",
                ),
                label=f"Start {workflow}",
                class_="start",
                then=f"{THEN}{root}",
                workflow=workflow,
                project=root,
            ),
            await _schedule(service, found, root),
            class_="plain",
        ),
    )


async def _schedule(service: Service, workflow: Workflow, root: str) -> Html:
    """When it runs without being asked, and the form that sets that."""
    timers = [
        each
        for each in await schedules.schedules_list(service, root)
        if each.of == "workflow" and WorkspaceName.parse(each.target).workflow == workflow.name
    ]
    put = form(
        f"PUT /schedules/{quote(workflow.name)}",
        h("label", "When", h("input", name="wakeup", required=True, placeholder="2h, weekdays at 9 or a cron line")),
        [field(param) for param in workflow.params],
        h(
            "label",
            "Message",
            h("span", "posted after the kickoff", class_="less"),
            h("textarea", name="prompt", rows=2),
        ),
        button("Set it"),
        label=f"Schedule {workflow.name}",
        class_="make",
        project=root,
    )
    return panel(
        section(
            "By itself, at set times",
            h("ul", [_timer(each, root) for each in timers], class_="list")
            if timers
            else empty("It runs only when it is started."),
            h("details", h("summary", "Set"), put, data_key="timer-set"),
        ),
        src=source("start", workflow=workflow.name, project=root),
        on="workspace",
        label="Schedule",
    )


def _timer(each: Scheduled, root: str) -> Html:
    clear = form(
        f"DELETE /schedules/{quote(each.target, safe='')}",
        button("Clear", class_="quiet"),
        label=f"Clear the schedule of {each.target}",
        class_="inline",
        project=root,
    )
    return h(
        "li",
        h("span", each.told, title=each.wakeup),
        h("span", f": {each.prompt}") if each.prompt else None,
        h("span", "next ", when(each.due_at, day=True), class_="less") if each.due_at else None,
        clear if each.set_by == "person" else None,
        data_key=f"timer-{each.target}",
        data_entry=True,
    )


def start_button(workflow: Workflow, root: str, *, asks: bool, tag: str = "", word: str = "Start") -> Html:
    """Starts at once what needs nothing more; leads to the form of what has params, or wants an approval."""
    if workflow.params or asks:
        href = link("start", workflow.name, project=root, tag=tag)
        return h("a", f"{word} …", href=href, class_="button", aria_label=f"{word} {workflow.name}")
    return form(
        "POST /workflows",
        button(word, aria_label=f"{word} {workflow.name}"),
        label=f"{word} {workflow.name}",
        class_="inline",
        then=f"{THEN}{root}",
        workflow=workflow.name,
        tag=tag or None,
        project=root,
    )


def again(name: str, known: Mapping[str, Workflow], root: str, *, asks: bool) -> Html | None:
    """Start an instance that has ended; nothing for one whose file is gone."""
    place = WorkspaceName.parse(name)
    found = known.get(place.workflow)
    tag = "" if place.tag == MAIN else place.tag
    return start_button(found, root, asks=asks, tag=tag, word="Start again") if found else None


def field(param: dict[str, Any]) -> Html:
    """One param, as its type is typed in."""
    name, kind = f"params.{param['name']}", param["type"]
    about = h("span", param["description"], class_="less") if param["description"] else None
    if kind == "boolean":
        box = h("input", type="checkbox", name=name, checked=param["default"] is True, data_off="false")
        return h("label", box, param["name"], about, class_="check")
    given = "" if param["default"] is None else str(param["default"])
    needed = h("span", "needed", class_="less") if param["required"] else None
    typed = h(
        "input",
        name=name,
        type="text" if kind == "string" else "number",
        step={"number": "any", "integer": "1"}.get(kind),
        required=bool(param["required"]),
        placeholder=given or None,
    )
    return h("label", param["name"], about or needed, typed)
