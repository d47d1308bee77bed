"""The person's own AI: operations as tools, questions to the person in their client, workflows as prompts.

Work that takes long is a ticket (service/tickets.py): whoever asked for progress is told what happens, in slices; where
work waits for the person and the client can ask them (elicitation, in the newer protocol), the client does, and the
same call goes on with their answer. For clients that know tasks a ticket is one (tasks.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import mcp_types as wire
from mcp.server import ServerRequestContext
from mcp.shared.exceptions import MCPError

from agent_worker.agents.loader import LoadedProject
from agent_worker.client.discovery import PROJECT_META
from agent_worker.core.errors import AgentWorkerError
from agent_worker.core.later import dataclass
from agent_worker.daemon.http.routes import with_cause
from agent_worker.daemon.mcp import tasks
from agent_worker.daemon.mcp.questions import can_ask, give, question
from agent_worker.daemon.mcp.results import came, said, schema_of, told
from agent_worker.definitions.workflow import Param
from agent_worker.service.catalogue import OPERATIONS
from agent_worker.service.operation import Operation
from agent_worker.service.service import Service
from agent_worker.service.tickets import PATIENCE, Ticket, work_stop, work_wait

SLICE = 2.0  #: seconds between two words of progress
INSTRUCTIONS = """\
agent-worker runs AI agents that work together. agents_list says who is here. Ask one with agent_ask (alice), a running
team too (@review); run a workflow with workflow_run; call agents together with team_start. An answer whose state is
"working" carries an id: call work_wait with it until it is over. What waits for the person is in inbox_list."""

Context = ServerRequestContext[Any]
_Result = wire.CallToolResult | wire.InputRequiredResult | dict[str, Any]


class PersonsTools:
    def __init__(self, service: Service, patience: float) -> None:
        self._service = service
        self._patience = patience
        self._operations = {each.tool: each for each in OPERATIONS.values() if each.tool}
        self.offered = [_tool(each) for each in self._operations.values()]

    async def call(self, context: Context, asked: wire.CallToolRequestParams) -> _Result:
        operation = self._operations.get(asked.name)
        if operation is None:
            return said(f"there is no tool {asked.name}; there are: {', '.join(self._operations)}", ok=False)
        arguments = dict(asked.arguments or {})
        if "project" not in arguments and operation.signature.takes("project"):
            arguments |= _project_of(asked.meta)
        assert context.request is not None
        arguments = with_cause(operation, context.request, arguments)
        try:
            if operation.returns is Ticket:
                return await self._call_for_ticket(context, operation, asked, arguments)
            return told(await operation.call(self._service, arguments))
        except AgentWorkerError as error:
            return said(self._redacted(error), ok=False)

    def _redacted(self, error: AgentWorkerError) -> str:
        sentence = f"{error.message} ({error.hint})" if error.hint else error.message
        return self._service.runtime.database.redact(sentence)

    # --- work that may take long ----------------------------------------------------------------------

    async def _call_for_ticket(
        self, context: Context, operation: Operation, asked: wire.CallToolRequestParams, arguments: dict[str, Any]
    ) -> _Result:
        seconds = _seconds(operation.signature.check(arguments) if "seconds" in arguments else {}, self._patience)
        # Whoever says for how long to wait wants the ticket, and whoever waits for one has it.
        as_task = operation.method == "POST" and "seconds" not in arguments and tasks.knows(context)
        answered = _Answered.of(asked)
        if answered is not None:  # the same call again, with what the person said
            if isinstance(reply := (asked.input_responses or {}).get(_KEY), wire.ElicitResult):
                await give(self._service, answered.item, reply)
            operation, arguments = _WAIT, {"id": answered.ticket}
        if operation is _STOP:
            return told(await operation.call(self._service, arguments))
        wants_progress = not as_task and (asked.meta or {}).get("progress_token") is not None
        seconds = min(seconds, SLICE) if as_task else seconds
        first = min(seconds, SLICE) if wants_progress else seconds
        ticket: dict[str, Any] = await operation.call(self._service, arguments | {"seconds": first})
        spent, told_so_far = first, 0
        while ticket["state"] == "working" and spent < seconds:
            told_so_far += 1
            words = "; ".join(ticket["doing"]) or "working"
            await context.session.report_progress(told_so_far, message=words)
            piece = min(SLICE, seconds - spent)
            ticket = await _WAIT.call(self._service, {"id": ticket["id"], "seconds": piece})
            spent += piece
        if as_task and ticket["state"] in ("working", "waiting"):
            return tasks.created(ticket)
        if ticket["state"] == "waiting" and ticket["waits_for"] and can_ask(context):
            item = ticket["waits_for"][0]
            return wire.InputRequiredResult(
                input_requests={_KEY: question(item)}, request_state=f"{ticket['id']}/{item['id']}"
            )
        return came(ticket)

    # --- prompts --------------------------------------------------------------------------------------

    async def prompts(self, meta: Mapping[str, Any] | None) -> list[wire.Prompt]:
        """The prompts that are offered, one for each workflow: of the project the client is in, or of all that are
        open."""
        return [each for known in await self._projects(meta) for each in _prompts(known.project.workflows)]

    async def prompt(self, asked: wire.GetPromptRequestParams) -> wire.GetPromptResult:
        found = [each for each in await self._projects(asked.meta) if asked.name in each.project.workflows]
        if not found:
            raise MCPError(wire.INVALID_PARAMS, f"there is no workflow {asked.name[:100]} here")
        if len(found) > 1:
            raise MCPError(wire.INVALID_PARAMS, f"several projects have a workflow {asked.name}: start in one of them")
        project, given = found[0].project, dict(asked.arguments or {})
        call: dict[str, Any] = {"workflow": asked.name, "project": str(project.root)}
        if message := given.pop("message", ""):
            call["message"] = message
        known = {param.name for param in project.workflows[asked.name].params}
        if unknown := [name for name in given if name not in known]:
            raise MCPError(wire.INVALID_PARAMS, f"{asked.name} has no parameter {unknown[0][:100]}")
        if params := {name: value for name, value in given.items() if value != ""}:
            call["params"] = params
        text = (
            f"Run my team: call the tool workflow_run of agent-worker with {json.dumps(call, ensure_ascii=False)}. "
            "While the state is working, call work_wait with the id. Then tell me what the team found."
        )
        message_ = wire.PromptMessage(role="user", content=wire.TextContent(type="text", text=text))
        return wire.GetPromptResult(description=f"Run the workflow {asked.name}", messages=[message_])

    async def _projects(self, meta: Mapping[str, Any] | None) -> list[LoadedProject]:
        if root := _project_of(meta):
            try:
                return [await self._service.project(root["project"])]
            except AgentWorkerError:
                return []  # a directory that is no project has none
        return self._service.projects()


_WAIT = OPERATIONS[work_wait.__name__]
_STOP = OPERATIONS[work_stop.__name__]
_KEY = "answer"


@dataclass(frozen=True, slots=True)
class _Answered:
    """The question, asked in place of a result, that a repeated call comes back with."""

    ticket: str
    item: str

    @classmethod
    def of(cls, asked: wire.CallToolRequestParams) -> _Answered | None:
        # Whoever makes one up gets no further than with work_wait and inbox_answer, which are theirs anyway.
        ticket, slash, item = (asked.request_state or "").partition("/")
        return cls(ticket, item) if slash else None


def _seconds(arguments: dict[str, Any], most: float) -> float:
    """How long this call may take: as long as was asked for, but no longer than clients wait for an answer."""
    given = arguments.get("seconds")
    wanted = float(given) if isinstance(given, int | float) and not isinstance(given, bool) else PATIENCE
    return max(0.0, min(wanted, most))


def _project_of(meta: Mapping[str, Any] | None) -> dict[str, str]:
    said_in = (meta or {}).get(PROJECT_META)
    return {"project": said_in} if isinstance(said_in, str) else {}


def _prompts(workflows: Mapping[str, Any]) -> list[wire.Prompt]:
    message = wire.PromptArgument(name="message", description="what to tell the team", required=False)
    return [
        wire.Prompt(
            name=name,
            description=f"Run the workflow {name}: {', '.join(definition.agents)}",
            arguments=[*(_argument(param) for param in definition.params), message],
        )
        for name, definition in workflows.items()
    ]


def _argument(param: Param) -> wire.PromptArgument:
    return wire.PromptArgument(name=param.name, description=param.description or None, required=param.required)


def _tool(operation: Operation) -> wire.Tool:
    # Coding programs refuse tools that might destroy something or reach the open world, unless told they do not.
    hints = wire.ToolAnnotations(
        read_only_hint=operation.method == "GET", destructive_hint=False, open_world_hint=False
    )
    return wire.Tool(
        name=operation.tool,
        description=operation.description,
        input_schema=_for_models(operation.signature.schema()),
        output_schema=schema_of(operation.result.json_schema(mode="serialization")),
        annotations=hints,
    )


def _for_models(schema: dict[str, Any]) -> dict[str, Any]:
    """A tool's schema without `cause`, which only commands fill in."""
    named = {name: part for name, part in schema.get("properties", {}).items() if name != "cause"}
    return schema | {"properties": named}
