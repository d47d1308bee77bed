"""Webhooks in: which triggers there are, what one would do with a webhook, and its acceptance.

Who sent it is judged at the door, by its signature (doors/hooks/). Accepted, it is in one transaction with what it
causes: a start that waits in the table, or something said in a running team. Nothing in it chooses a workflow, a
project or a power; it only fills in the params that the workflow's file names.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from agent_worker.agents.loader import LoadedProject
from agent_worker.core.address import TAG, WorkspaceName
from agent_worker.core.errors import BadInput, NotFound, NotRunning, Untrusted
from agent_worker.core.later import dataclass, pattern
from agent_worker.database.database import Row, Transaction
from agent_worker.definitions.triggers import Trigger, text_of
from agent_worker.definitions.workflow import WorkflowDefinition
from agent_worker.service.operation import operation
from agent_worker.service.service import Service
from agent_worker.trust.powers import trigger_power
from agent_worker.work import hook_deliveries, project_rows
from agent_worker.work.hook_deliveries import NewDelivery
from agent_worker.workflows.interpolation import interpolate, interpolate_marked
from agent_worker.workflows.placeholder_values import PARAMS, values_of
from agent_worker.workspaces import routing, workspace_rows

LONGEST_PARAM = 64 * 1024  #: characters
SHORTEST_SECRET = 16  #: characters
_KNOWN_DAYS = {True: 30, False: 365}  # a delivery: whether its time was signed
_NO_TAG = pattern(r"[^A-Za-z0-9._-]+")

Does = Literal["starts", "waits", "said", "repeated", "ignored"]


@dataclass(frozen=True, slots=True)
class ArmedTrigger:
    """A trigger of a workflow, with its secret."""

    loaded: LoadedProject
    workflow: WorkflowDefinition
    name: str
    trigger: Trigger
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Webhook:
    """What came, once its signature was found right."""

    event: str
    body: Mapping[str, Any]
    id: str  #: as its sender calls it
    same: str  #: what makes it the same again, whatever it is called
    is_timed: bool = False  #: its time was signed, and is fresh


@dataclass(frozen=True, slots=True)
class HookOutcome:
    workflow: str  #: the instance
    does: Does
    why: str = ""


@dataclass(frozen=True, slots=True)
class TriggerView:
    workflow: str
    name: str
    address: str  #: whole if public_url is set, else what comes after it
    signed: str
    secret: str  #: the variable
    trouble: str = ""  #: why nothing can come of it yet


@dataclass(frozen=True, slots=True)
class HookTrial:
    """What a webhook would do."""

    workflow: str
    name: str
    does: str  #: a sentence
    params: dict[str, str] = field(default_factory=dict)
    trouble: str = ""


@operation("GET", "/triggers")
async def triggers_list(service: Service, project: str | None = None) -> list[TriggerView]:
    """The webhooks that start workflows of a project or post to them: the address of each, and what is missing."""
    loaded = await service.project(project)
    name = loaded.project.definition.name
    known = await service.runtime.database.read(project_rows.called, name)
    place = name if len(known) == 1 else loaded.id
    public = (service.runtime.registry.settings.public_url or "").rstrip("/")
    views = []
    for armed in _armed(service, loaded):
        address, trigger = f"{public}/hooks/{place}/{armed.name}", armed.trigger
        trouble = await _trouble(service, armed)
        views.append(TriggerView(armed.workflow.name, armed.name, address, trigger.signed, trigger.variable, trouble))
    return views


@operation("POST", "/triggers/test")
async def triggers_test(
    service: Service, body: dict[str, Any], trigger: str | None = None, event: str = "", project: str | None = None
) -> list[HookTrial]:
    """What a webhook with this JSON would do, by each trigger of a project or by one. Does nothing."""
    loaded = await service.project(project)
    found = [armed for armed in _armed(service, loaded) if trigger in (None, armed.name)]
    if not found:
        told = f"there is no trigger {trigger}" if trigger else "no workflow here has triggers"
        raise NotFound(told, hint="agent-worker hook list")
    return [await _tried(service, armed, Webhook(event, body, "", "")) for armed in found]


async def triggers_at(service: Service, project: str, name: str) -> list[ArmedTrigger]:
    """The triggers of this name in a project, by its name or id, that have a secret; none when anything is unknown."""
    roots = await service.runtime.database.read(project_rows.called, project)
    if len(roots) != 1:
        return []  # two of the same name are told apart by their ids
    loaded = await service.project(roots[0])
    return [armed for armed in _armed(service, loaded) if armed.name == name and armed.secret]


async def accept(service: Service, armed: ArmedTrigger, came: Webhook) -> HookOutcome:
    """Take a webhook in, once. Raises Untrusted, BadInput, TooManyDeliveries."""
    if why := _unwanted(armed.trigger, came, strict=True):
        return HookOutcome(armed.workflow.name, "ignored", why)
    await _require(service, armed)
    params = _params(armed, came.body)
    new = NewDelivery(
        armed.workflow.name,
        armed.name,
        _digest(armed.trigger.signed, came.id),
        _digest(armed.trigger.signed, came.same),
        params,
        _tag(armed.trigger, params),
        armed.trigger.per_hour,
        _KNOWN_DAYS[came.is_timed],
    )
    take = _say if armed.trigger.send else _queue
    return await service.write(armed.loaded, take, armed.trigger, new, now=service.now())


# --- acceptance, in one transaction


def _queue(tx: Transaction, trigger: Trigger, new: NewDelivery, *, now: int) -> HookOutcome:
    if (before := hook_deliveries.known(tx, new)) is not None:
        return _repeated(before)
    name = WorkspaceName(new.workflow, hook_deliveries.add(tx, new, "queued", now=now))
    waits = running(tx, name) is not None
    return HookOutcome(str(name), "waits" if waits else "starts", "until the running one has ended" if waits else "")


def _say(tx: Transaction, trigger: Trigger, new: NewDelivery, *, now: int) -> HookOutcome:
    if (before := hook_deliveries.known(tx, new)) is not None:
        return _repeated(before)
    name = WorkspaceName(new.workflow, new.tag)
    try:
        workspace = workspace_rows.find_running(tx, name)
    except NotRunning as error:  # not kept: sent again when it runs, it is said
        return HookOutcome(str(name), "ignored", error.message)
    hook_deliveries.add(tx, new, "said", now=now)
    filled = interpolate_marked(trigger.send or "", _values(new.params))
    routing.check_size(filled.text)
    routing.say(tx, routing.OutgoingMessage(workspace["id"], "user", filled.text, quoted=filled.inserted), now=now)
    return HookOutcome(str(name), "said")


def _repeated(before: Row) -> HookOutcome:
    return HookOutcome(str(WorkspaceName(before["workflow"], before["tag"])), "repeated", "it was accepted before")


def running(tx: Transaction, name: WorkspaceName) -> Row | None:
    return tx.one(
        """select id, started_at from workspace
            where project = :project and workflow = :workflow and tag = :tag and state in ('running', 'left')""",
        workflow=name.workflow,
        tag=name.tag,
    )


# --- what a webhook says


def _unwanted(trigger: Trigger, came: Webhook, *, strict: bool) -> str:
    """Why a trigger ignores this webhook; '' when it does not."""
    if trigger.events and came.event not in trigger.events and (strict or came.event):
        return f"the event is {came.event[:100] or 'not named'}, not {' or '.join(trigger.events)}"
    for path, wanted in trigger.when.items():
        found = text_of(_at(came.body, path))
        if found not in wanted:
            return f"{path} is {'not there' if found is None else found[:100]}, not {' or '.join(wanted)}"
    return ""


def _params(armed: ArmedTrigger, body: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    required = {param.name for param in armed.workflow.params if param.required}
    for name, path in armed.trigger.params.items():
        value = _at(body, path)
        text = text_of(value) if not isinstance(value, dict | list) else json.dumps(value, ensure_ascii=False)
        if text is None and (name in required or armed.trigger.send):
            raise BadInput(f"{path} is not in the webhook: it is the param {name}", hint="look at the trigger's params")
        if text is not None and len(text) > LONGEST_PARAM:
            raise BadInput(f"{path} is longer than {LONGEST_PARAM:,} characters: it is the param {name}")
        if text is not None:
            found[name] = text
    if not armed.trigger.send:
        values_of(armed.workflow, "main", found, source=armed.loaded.project.root)  # of the types they are declared
    return found


def _at(body: Any, path: str) -> Any:
    for part in path.split("."):
        match body:
            case dict():
                body = body.get(part)
            case list() if part.isdecimal() and int(part) < len(body):
                body = body[int(part)]
            case _:
                return None
    return body


def _tag(trigger: Trigger, params: Mapping[str, str]) -> str:
    """The tag of a group. Two groups never share one: what had to be left out of it is in its hash."""
    if trigger.group is None:
        return "main" if trigger.send else ""
    group = interpolate(trigger.group, _values(params, missing=trigger.params))
    if TAG.fullmatch(group):
        return group
    plain = _NO_TAG.sub("-", group).strip("-._")[:50]
    return f"{plain or 'group'}-{hashlib.sha256(group.encode()).hexdigest()[:8]}"


def _values(params: Mapping[str, str], missing: Mapping[str, str] | None = None) -> dict[str, str]:
    return {f"{PARAMS}{name}": params.get(name, "") for name in {**(missing or {}), **params}}


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


# --- triggers


def _armed(service: Service, loaded: LoadedProject) -> list[ArmedTrigger]:
    environ = service.runtime.backends.keys.of(loaded.project.root)
    return [
        ArmedTrigger(loaded, workflow, name, trigger, _strong(environ.get(trigger.variable, "")))
        for workflow in loaded.project.workflows.values()
        for name, trigger in workflow.triggers.items()
    ]


def _strong(secret: str) -> str:
    return secret if len(secret) >= SHORTEST_SECRET else ""


async def _require(service: Service, armed: ArmedTrigger) -> None:
    power = trigger_power(armed.workflow.name, armed.name, armed.trigger)
    await asyncio.to_thread(service.runtime.gate.require, armed.loaded.project.root, [power])


async def _trouble(service: Service, armed: ArmedTrigger) -> str:
    """Why nothing can come of a trigger yet; '' when all is there."""
    variable = armed.trigger.variable
    if not service.runtime.backends.keys.of(armed.loaded.project.root).get(variable):
        return f"it has no secret yet: agent-worker key set {variable}"
    if not armed.secret:
        return f"its secret is shorter than {SHORTEST_SECRET} characters: agent-worker key set {variable}"
    try:
        await _require(service, armed)
    except Untrusted:
        return f"you have not approved it: agent-worker trust {armed.workflow.name}"
    return "" if service.runtime.registry.settings.public_url else "nobody can reach it: public_url is not set"


async def _tried(service: Service, armed: ArmedTrigger, came: Webhook) -> HookTrial:
    workflow, name, trouble = armed.workflow.name, armed.name, await _trouble(service, armed)
    if why := _unwanted(armed.trigger, came, strict=False):
        return HookTrial(workflow, name, f"nothing: {why}", trouble=trouble)
    try:
        params = _params(armed, came.body)
    except BadInput as error:
        return HookTrial(workflow, name, f"nothing: it is refused, because {error.message}", trouble=trouble)
    instance = WorkspaceName(workflow, _tag(armed.trigger, params) or "…")
    if not armed.trigger.send:
        return HookTrial(workflow, name, f"starts {instance}", params, trouble)
    text = interpolate(armed.trigger.send, _values(params))
    return HookTrial(workflow, name, f"says in @{instance}: {text}", params, trouble)
