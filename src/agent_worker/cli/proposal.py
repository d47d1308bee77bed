"""`proposal`: questions a team votes on."""

from __future__ import annotations

from typing import Any

import click

from agent_worker.cli.call import call, here
from agent_worker.cli.output import ago, as_json_option, echo, paint, tell_json, tell_table
from agent_worker.cli.typed import WorkspaceCommand, workspace_argument
from agent_worker.core.text import clean


@click.group()
def proposal() -> None:
    """Put questions to a team's vote, and vote yourself.

    Without @WORKFLOW: in the only workflow that runs.
    """


@proposal.command("list", cls=WorkspaceCommand)
@workspace_argument
@click.option("--open", "only_open", is_flag=True, help="Only those that can be voted on.")
@as_json_option
def list_(workflow: str, only_open: bool, as_json: bool) -> None:
    """List the proposals of @WORKFLOW, the oldest first."""
    found = call("GET", "/proposals", at=workflow, open=only_open, project=here())
    if as_json:
        return tell_json(found)
    rows = [(str(p["number"]), p["state"], _counts(p), p["outcome"] or "-", p["question"]) for p in found]
    tell_table(("no", "state", "votes", "outcome", "question"), rows, empty="no proposals yet")


@proposal.command(cls=WorkspaceCommand)
@workspace_argument
@click.argument("number", type=int)
@as_json_option
def show(workflow: str, number: int, as_json: bool) -> None:
    """Show one proposal of @WORKFLOW, with its votes."""
    _tell(call("GET", f"/proposals/{number}", at=workflow, project=here()), workflow, as_json)


@proposal.command(cls=WorkspaceCommand)
@workspace_argument
@click.argument("question")
@click.option("--option", "options", multiple=True, help="An option to vote for; give it twice or more.")
@click.option(
    "--kind",
    type=click.Choice(["decision", "election", "approval", "assignment"]),
    default="decision",
    show_default=True,
)
@click.option("--voter", "voters", multiple=True, help="Who votes; `user` is you. Default: all members.")
@click.option("--resolution", type=click.Choice(["plurality", "majority", "unanimous"]))
@click.option("--quorum", type=int, help="How many must vote. Default: all voters.")
@click.option("--tie-break", type=click.Choice(["first", "random", "creator"]), default="first", show_default=True)
@click.option("--minutes", type=float, default=10, show_default=True, help="How long it stays open.")
@click.option("--fallback", help="The option that takes effect if none is chosen in time.")
@click.option("--advisory", is_flag=True, help="The outcome is only advice: it changes nothing.")
@click.option("--veto", is_flag=True, help="The outcome waits for you.")
@click.option("--role", type=click.Choice(["document_owner", "coordinator"]), help="The role that the winner gets.")
@click.option("--turns", type=int, help="If approved, how many runs one request may take.")
@click.option("--usd", type=float, help="If approved, how much one request may cost.")
@click.option("--vote", help="Your own vote.")
@as_json_option
def create(workflow: str, as_json: bool, **asked: Any) -> None:
    """Have the members of @WORKFLOW vote on QUESTION."""
    asked["binding"] = not asked.pop("advisory")
    asked["options"], asked["voters"] = list(asked["options"]) or None, list(asked["voters"]) or None
    _tell(call("POST", "/proposals", at=workflow, project=here(), **asked), workflow, as_json)


@proposal.command(cls=WorkspaceCommand)
@workspace_argument
@click.argument("number", type=int)
@click.argument("choice")
@click.option("--reason", default="", help="Why; the team can read it.")
@as_json_option
def vote(workflow: str, number: int, choice: str, reason: str, as_json: bool) -> None:
    """Vote on a proposal of @WORKFLOW.

    A later vote replaces an earlier one.
    """
    found = call("POST", f"/proposals/{number}/votes", at=workflow, choice=choice, reason=reason, project=here())
    _tell(found, workflow, as_json)


@proposal.command(cls=WorkspaceCommand)
@workspace_argument
@click.argument("number", type=int)
@as_json_option
def approve(workflow: str, number: int, as_json: bool) -> None:
    """Let an outcome that you may veto stand."""
    _tell(call("POST", f"/proposals/{number}/approval", at=workflow, project=here()), workflow, as_json)


@proposal.command(cls=WorkspaceCommand)
@workspace_argument
@click.argument("number", type=int)
@click.argument("reason", default="")
@as_json_option
def veto(workflow: str, number: int, reason: str, as_json: bool) -> None:
    """Veto a proposal that gives you a veto."""
    _tell(call("POST", f"/proposals/{number}/veto", at=workflow, reason=reason, project=here()), workflow, as_json)


@proposal.command(cls=WorkspaceCommand)
@workspace_argument
@click.argument("number", type=int)
@click.argument("reason", default="")
@as_json_option
def cancel(workflow: str, number: int, reason: str, as_json: bool) -> None:
    """Cancel a proposal."""
    _tell(call("DELETE", f"/proposals/{number}", at=workflow, reason=reason, project=here()), workflow, as_json)


def _tell(found: dict[str, Any], workflow: str, as_json: bool) -> None:
    if as_json:
        return tell_json(found)
    number, kind = found["number"], f"{found['kind']} by {found['resolution']}"
    echo(f"{paint(f'proposal {number}', 'cyan')}  {clean(found['question'])}")
    echo(clean(f"  {kind}, {found['meaning']}; asked by {found['creator']}"))
    voted = {vote["voter"]: vote for vote in found["votes"]}
    for option, count in found["tally"].items():
        names = [name for name, vote in voted.items() if vote["choice"] == option]
        echo(f"  {count}  {clean(option)}{'  ' + clean(', '.join(names)) if names else ''}")
    if found["state"] == "open":
        waits = ", ".join(found["missing"]) or "nobody"
        echo(clean(f"  not voted: {waits}; time is up {ago(found['expires_at'])}"))
        if "user" in (*found["missing"], *voted):
            echo(paint(clean(f"  agent-worker proposal vote {workflow} {number} …"), "bright_black"))
    else:
        said = found["result"].removeprefix(f"{found['state']}: ")
        echo(f"  {found['state']}: {clean(said)}")


def _counts(found: dict[str, Any]) -> str:
    return ", ".join(f"{option} {count}" for option, count in found["tally"].items() if count) or "-"
