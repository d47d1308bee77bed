"""A workspace or a conversation as one file to keep: what `agent-worker export` prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Literal
from urllib.parse import quote

from agent_worker.core.later import dataclass
from agent_worker.daemon.web.export_page import Record, as_jsonl, as_markdown, as_page_meanwhile
from agent_worker.daemon.web.markup import Html, h
from agent_worker.service import documents, messages, proposals, runs
from agent_worker.service.operation import operation
from agent_worker.service.service import Service

FORMATS = {"md": "Markdown", "jsonl": "JSON lines", "html": "one page"}
RUNS = 500
PAGE = 1000


@dataclass(frozen=True, slots=True)
class Export:
    name: str  #: of the file
    text: str


@operation("GET", "/page/export")
async def export(
    service: Service, at: str, format: Literal["md", "jsonl", "html"] = "md", project: str | None = None
) -> Export:
    """All of a workspace (`@review`) or a conversation (`alice`) as one text."""
    name = _file(at, format)
    lines = await _lines(service, at, project)
    if format == "jsonl":
        return Export(name, as_jsonl(Record(at, lines)))
    if not at.startswith("@"):
        return Export(name, await _written(Record(at, lines), format))
    long = {line["resource"] for line in lines if line.get("resource")}
    texts = {id: (await documents.resource_get(service, at, id, project)).text for id in long}
    record = Record(
        at,
        lines,
        documents=[
            {**asdict(await documents.doc_read(service, at, each, project)), "name": each}
            for each in await documents.doc_list(service, at, project)
        ],
        proposals=[asdict(each) for each in await proposals.proposals_list(service, at, project=project)],
        runs=[asdict(each) for each in await runs.runs_list(service, project, at=at, limit=RUNS)],
        resources=texts,
    )
    return Export(name, await _written(record, format))


def _file(at: str, format: str) -> str:
    return f"{at.removeprefix('@').replace(':', '-')}.{format}"


async def _written(record: Record, format: str) -> str:
    return await as_page_meanwhile(record) if format == "html" else as_markdown(record)


async def _lines(service: Service, at: str, project: str | None) -> Sequence[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    while page := await messages.read(
        service, at, project, since=lines[-1]["seq"] if lines else 0, limit=PAGE, held=True
    ):
        lines += [asdict(line) for line in page]
    return lines


def export_buttons(at: str, project: str | None) -> list[Html]:
    """The buttons of an export, one for each format; the page saves the answer as a file."""
    query = f"&project={quote(project)}" if project else ""
    return [
        h(
            "button",
            f"Export as {word}",
            type="button",
            class_="quiet",
            data_download=f"/page/export?at={quote(at)}&format={format}{query}",
            data_field="text",
            data_name=_file(at, format),
        )
        for format, word in FORMATS.items()
    ]
