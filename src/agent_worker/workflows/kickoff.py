"""What a workflow begins with: its kickoff, a message and material after it; an election first, where one is due."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from agent_worker.core.errors import BadInput
from agent_worker.core.mentions import find_mentions, nobody_called
from agent_worker.database.database import ProjectDatabase, Transaction
from agent_worker.definitions.workflow import WorkflowDefinition
from agent_worker.definitions.workspace import WorkspaceSettings
from agent_worker.proposals import lifecycle
from agent_worker.proposals.lifecycle import SYSTEM
from agent_worker.proposals.request import Cause, ProposalRequest, Said, Voter
from agent_worker.workflows.instance import Instance
from agent_worker.workflows.instance_files import ELECT
from agent_worker.workflows.interpolation import interpolate_marked
from agent_worker.workflows.placeholder_values import CAUSE
from agent_worker.workspaces import member_rows, routing, workspace_rows
from agent_worker.workspaces.carried_root import CarriedRoot, check_waits_for_itself


async def refuse_nobody(
    database: ProjectDatabase, workflow: WorkflowDefinition, tag: str, values: Mapping[str, str], message: str | None
) -> None:
    """Refuse to run a workflow that calls on nobody: it would end at once, and look as if all were well."""
    members = list(workflow.agents)
    said = _first_words(workflow, values, message)
    called = [find_mentions(text, members, sender="user", quoted=inserted) for text, inserted in said]
    if not said or any(each.names for each in called) or workflow.has_desk:
        return
    if await database.read(workspace_rows.coordinator_of, workflow.name, tag):
        return
    unknown = [name for each in called for name in each.unknown]
    which = f" (nobody is called {', '.join(unknown)})" if unknown else ""
    word = f'agent-worker run {workflow.name} "@{members[0]} …"' if message else f"@{members[0]} in its kickoff"
    raise BadInput(
        f"{nobody_called(members)}{which}",
        hint=f"{word}; or, in the file of {workflow.name}, desk: {members[0]} (who answers when nobody is called on)",
    )


async def kick_off(
    instance: Instance, workflow: WorkflowDefinition, values: Mapping[str, str], message: str | None, material: str = ""
) -> None:
    said = _first_words(workflow, values, message)
    if material:  # with what was said before it: alone it calls on nobody
        said.append(_with_material(*said.pop(), material))
    settings = workflow.workspace or WorkspaceSettings()
    elects = settings.document_owner == ELECT and len(instance.members) > 1
    # Once, also when the host dies right now and the instance is gone on with.
    key = f"{routing.KICKOFF}{instance.id}/{instance.started_at}"
    now = instance.runtime.clock.micros()
    cause = CarriedRoot.kept(values.get(CAUSE, ""))
    candidates = list(workflow.agents) if elects else []
    await instance.database.write(_begin, instance.id, said, candidates, key, cause=cause, now=now)


async def kick_again(
    instance: Instance, workflow: WorkflowDefinition, text: str | None, *, material: str = "", key: str
) -> None:
    """Say the kickoff once more in an instance that is kept alive, or this text instead; the same key says it once."""
    runtime = instance.runtime
    quoted: Sequence[tuple[int, int]] = ()
    if text is None:
        given = json.loads((await instance.database.read(workspace_rows.get, instance.id))["given"])
        filled = interpolate_marked(workflow.kickoff or "", given)
        text, quoted = filled.text.strip("\n"), filled.inserted
    said, spans = _with_material(text, quoted, material)
    speech = routing.OutgoingMessage(instance.id, "user", said, quoted=spans)
    await instance.database.write(routing.say, speech, now=runtime.clock.micros(), key=key)


def _first_words(
    workflow: WorkflowDefinition, values: Mapping[str, str], message: str | None
) -> list[tuple[str, Sequence[tuple[int, int]]]]:
    """The kickoff and the message, each with the parts of it that were filled in."""
    filled = [interpolate_marked(workflow.kickoff, values)] if workflow.kickoff else []
    said: list[tuple[str, Sequence[tuple[int, int]]]] = [(each.text.strip("\n"), each.inserted) for each in filled]
    return [*said, (message, ())] if message else said


def _with_material(
    text: str, quoted: Sequence[tuple[int, int]], material: str
) -> tuple[str, Sequence[tuple[int, int]]]:
    """The text with somebody else's words after it, and the spans in which no mention counts."""
    if not material:
        return text, quoted
    whole = f"{text}\n\n{material}"
    return whole, (*quoted, (len(text), len(whole)))


def _begin(
    tx: Transaction,
    workspace: str,
    said: Said,
    candidates: Sequence[str],
    key: str,
    *,
    cause: CarriedRoot | None,
    now: int,
) -> None:
    """Post the first messages; where an owner of the documents is to be elected, that comes first."""
    if routing.accepted(tx, key):
        return
    row = workspace_rows.get(tx, workspace)
    carried = cause or CarriedRoot("", 0)
    called: tuple[str, ...] = ()
    if candidates and not row["document_owner"]:
        question = "Who owns the documents of this workspace? Only the owner writes them; the others suggest."
        request = ProposalRequest(
            question, kind="election", options=candidates, role="document_owner", fallback=candidates[0]
        )
        votes = Cause(carried.root, carried.hop)
        lifecycle.propose(tx, row, request, by=Voter(SYSTEM), cause=votes, then=said, now=now)
        called = tuple(candidates)
    else:
        for text, quoted in said:
            speech = routing.OutgoingMessage(workspace, "user", text, quoted=quoted, root=carried.root, hop=carried.hop)
            called += routing.say(tx, speech, now=now).woke
    if cause and row["ends"] == "quiet":  # whoever started it waits for its end
        members = member_rows.members_in(tx, workspace)
        check_waits_for_itself(tx, cause, [members[name] for name in dict.fromkeys(called)])
    routing.accept(tx, key, workspace, now=now)
