"""`export`: a workspace or a conversation as one file."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import click

from agent_worker.cli.call import addresses, call, here, part
from agent_worker.cli.output import as_json_option, clean, tell_json


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
    """Print all of TARGET (@review, or alice) as one text: what was said, and a workspace's documents.

    \b
    agent-worker export @review --format html > review.html     one page, with votes, runs and costs
    """
    if as_json:
        return tell_json({"target": target, "messages": _all_lines(target), "documents": _documents(target)})
    match form:
        case "jsonl":
            for line in _all_lines(target):
                click.echo(json.dumps(line))
        case "html":
            click.echo(_page(target), nl=False)
        case _:
            _markdown(target)


def _markdown(target: str) -> None:
    lines = _all_lines(target)
    click.echo(f"# {target}\n")
    for line in lines:
        click.echo(clean(f"**{line['who']}** ({_time(line['at'])})\n\n{_struck(line)}\n"))
    for document in _documents(target):
        click.echo(clean(f"---\n\n## {document['name']}\n\n{document['text']}"))


def _struck(line: dict[str, Any]) -> str:
    return f"~~{line['text']}~~ (taken back)" if line["held"] else str(line["text"])


def _page(target: str) -> str:
    from agent_worker.offline.run import record_page

    lines = _all_lines(target)
    if not target.startswith("@"):
        return record_page(target, lines=lines)
    long = {line["resource"] for line in lines if line.get("resource")}
    return record_page(
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


def _time(micros: int) -> str:
    return datetime.fromtimestamp(micros / 1e6, UTC).strftime("%Y-%m-%d %H:%M UTC")
