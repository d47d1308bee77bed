"""`export`: a workspace or a conversation as one file."""

from __future__ import annotations

from typing import Any

import click

from agent_worker.cli.call import addresses, call, here, part
from agent_worker.cli.output import as_json_option, tell_json
from agent_worker.core.text import clean


@click.command()
@click.argument("target", shell_complete=addresses)
@click.option(
    "--format",
    "form",
    type=click.Choice(["md", "jsonl", "html"]),
    default="md",
    show_default=True,
    help="What kind of text to print.",
)
@as_json_option
def export(target: str, form: str, as_json: bool) -> None:
    """Print all of TARGET (@review, or alice) as one text: the conversation, and a workspace's documents.

    \b
    agent-worker export @review --format html > review.html     one page, with votes, runs and costs
    """
    if as_json:
        return tell_json({"target": target, "messages": _all_lines(target), "documents": _documents(target)})
    text = _text(target, form)
    click.echo(clean(text) if form == "md" else text, nl=False)


def _text(target: str, form: str) -> str:
    from agent_worker.offline.run import record_text

    lines = _all_lines(target)
    if form == "jsonl" or not target.startswith("@"):
        return record_text(form, target, lines=lines)
    if form == "md":
        return record_text(form, target, lines=lines, documents=_documents(target))
    long = {line["resource"] for line in lines if line.get("resource")}
    return record_text(
        form,
        target,
        lines=lines,
        documents=_documents(target),
        proposals=call("GET", "/proposals", at=target, project=here()),
        runs=call("GET", "/runs", at=target, limit=500, project=here()),
        resources={id: call("GET", f"/resources/{id}", at=target, project=here())["text"] for id in long},
    )


def _documents(target: str) -> list[dict[str, Any]]:
    if not target.startswith("@"):
        return []
    names = call("GET", "/documents", at=target, project=here())
    return [{"name": name} | call("GET", f"/documents/{part(name)}", at=target, project=here()) for name in names]


def _all_lines(target: str) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    while page := call(
        "GET", "/messages", at=target, since=lines[-1]["seq"] if lines else 0, limit=1000, held=True, project=here()
    ):
        lines += page
    return lines
