"""`doc` and `resource`: the documents of a workspace, and the large texts that were put into its channel."""

from __future__ import annotations

import click

from agent_worker.cli.call import call, here, part, resource_ids
from agent_worker.cli.output import as_json_option, echo, tell_json, tell_table
from agent_worker.cli.prose import tell_text
from agent_worker.cli.typed import WorkspaceCommand, read_input, workspace_argument
from agent_worker.core.text import clean


@click.group()
def doc() -> None:
    """List, read and write the documents of a workspace.

    Without @WORKFLOW: those of the only workflow that runs.
    """


@doc.command("list", cls=WorkspaceCommand)
@workspace_argument
@as_json_option
def list_(workflow: str, as_json: bool) -> None:
    """List the documents of @WORKFLOW."""
    names = call("GET", "/documents", at=workflow, project=here())
    tell_json(names) if as_json else echo("\n".join(map(clean, names)) or "no documents yet")


@doc.command(cls=WorkspaceCommand)
@workspace_argument
@click.argument("name", required=False)
@as_json_option
def read(workflow: str, name: str | None, as_json: bool) -> None:
    """Print a document of @WORKFLOW; without NAME, its notes."""
    if name is None:
        name = str(call("GET", f"/workflows/{part(workflow.removeprefix('@'))}", project=here())["document"])
    found = call("GET", f"/documents/{_path(name)}", at=workflow, project=here())
    tell_json(found) if as_json else tell_text(found["text"])


@doc.command(cls=WorkspaceCommand)
@workspace_argument
@click.argument("name")
@click.argument("text")
@click.option("--revision", help="The revision to replace; without it, a new document is made.")
@as_json_option
def write(workflow: str, name: str, text: str, revision: str | None, as_json: bool) -> None:
    """Write a document of @WORKFLOW. `-` reads the text from standard input."""
    found = call("PUT", f"/documents/{_path(name)}", at=workflow, text=_text(text), revision=revision, project=here())
    tell_json(found) if as_json else echo(f"{clean(found['name'])} is at revision {found['revision'][:12]}")


@doc.command(cls=WorkspaceCommand)
@workspace_argument
@click.argument("name")
@click.argument("text")
@as_json_option
def append(workflow: str, name: str, text: str, as_json: bool) -> None:
    """Add to the end of a document of @WORKFLOW. `-` reads the text from standard input."""
    found = call("POST", f"/documents/{_path(name)}", at=workflow, text=_text(text), project=here())
    tell_json(found) if as_json else echo(f"{clean(found['name'])} is at revision {found['revision'][:12]}")


@doc.command(cls=WorkspaceCommand)
@workspace_argument
@as_json_option
def suggestions(workflow: str, as_json: bool) -> None:
    """List what members suggest to the owner of the documents of @WORKFLOW, by number."""
    found = call("GET", "/suggestions", at=workflow, project=here())
    if as_json:
        return tell_json(found)
    rows = [(str(each["seq"]), each["sender"], each["document"], each["text"].strip()) for each in found]
    tell_table(("number", "who", "document", "suggests"), rows, empty="nothing is suggested")


@doc.command(cls=WorkspaceCommand)
@workspace_argument
@click.argument("number", type=int)
@as_json_option
def apply(workflow: str, number: int, as_json: bool) -> None:
    """Add what a member suggested to the end of its document."""
    _decide(workflow, number, "apply", as_json)


@doc.command(cls=WorkspaceCommand)
@workspace_argument
@click.argument("number", type=int)
@as_json_option
def refuse(workflow: str, number: int, as_json: bool) -> None:
    """Decline what a member suggested."""
    _decide(workflow, number, "refuse", as_json)


def _decide(workflow: str, number: int, verdict: str, as_json: bool) -> None:
    found = call("POST", f"/suggestions/{number}", at=workflow, verdict=verdict, project=here())
    tell_json(found) if as_json else click.echo(clean(found["told"]))


@click.group()
def resource() -> None:
    """List and read the large texts that messages of a workspace refer to.

    Without @WORKFLOW: those of the only workflow that runs.
    """


@resource.command("list", cls=WorkspaceCommand)
@workspace_argument
@as_json_option
def resources(workflow: str, as_json: bool) -> None:
    """List the resources of @WORKFLOW, each with the beginning of its id."""
    found = call("GET", "/resources", at=workflow, project=here())
    if as_json:
        return tell_json(found)
    rows = [(each["id"][:12], str(each["size"]), each["head"]) for each in found]
    tell_table(("id", "bytes", "begins with"), rows, empty="no resources yet")


@resource.command("read", cls=WorkspaceCommand)
@workspace_argument
@click.argument("id", shell_complete=resource_ids)
@as_json_option
def read_resource(workflow: str, id: str, as_json: bool) -> None:
    """Print a resource of @WORKFLOW; the beginning of its ID is enough."""
    found = call("GET", f"/resources/{part(id)}", at=workflow, project=here())
    tell_json(found) if as_json else click.echo(clean(found["text"]))


def _path(name: str) -> str:
    from urllib.parse import quote

    return quote(name)


def _text(text: str) -> str:
    return read_input() if text == "-" else text
