"""Documents and long texts of a workspace: to read, to edit, and what each revision changed."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from agent_worker.core.address import WorkspaceName
from agent_worker.daemon.web.diffs import diff_lines
from agent_worker.daemon.web.frame import View, button, form, link, panel, section, shown_name, source, when
from agent_worker.daemon.web.markup import Html, h
from agent_worker.daemon.web.prose import code, prepared, prose
from agent_worker.service import documents
from agent_worker.service.operation import operation
from agent_worker.service.service import Service
from agent_worker.workspaces.document_rows import Document


@operation("GET", "/page/document")
async def document(service: Service, at: str, name: str, project: str | None = None) -> View:
    """One document with its history."""
    found = await documents.doc_read(service, at, name, project)
    history = await documents.doc_history(service, at, name, project)
    await prepared(*([found.text] if _is_prose(name) else []), files=[] if _is_prose(name) else [(found.text, name)])
    text = prose(found.text) if _is_prose(name) else code(found.text, name)
    workspace_name = str(WorkspaceName.parse(at))
    back = h("a", f"@{workspace_name}", href=link("workspace", workspace_name, project=project, tab="documents"))
    return View(
        name,
        h(
            "div",
            h(
                "header",
                h("h1", back, f" / {name}"),
                class_="bar",
            ),
            panel(
                h("article", text, class_="prose doc"),
                _editor(found, workspace_name, project),
                section("History", _history(history, at, name, project)),
                src=source("document", at=at, name=name, project=project),
                on="document",
                label=name,
            ),
            class_="plain",
        ),
    )


@operation("GET", "/page/change")
async def change(service: Service, at: str, name: str, n: int, project: str | None = None) -> View:
    """What one revision changed."""
    lines = await documents.doc_change(service, at, name, n, project)
    return View(f"{name}, revision {n}", h("pre", diff_lines(lines), class_="diff"))


@operation("GET", "/page/resource")
async def resource(service: Service, at: str, id: str, project: str | None = None) -> View:
    """A long text, whole."""
    found = await documents.resource_get(service, at, id, project)
    looks = "diff" if found.text.startswith(("diff --git", "--- ", "Index: ")) or "\ndiff --git" in found.text else ""
    file = f"x.{looks}" if looks else ""
    await prepared(files=[(found.text, file)])
    text = code(found.text, file)
    return View(id[:12], h("div", text, class_="resource-text"))


def _is_prose(name: str) -> bool:
    return name.endswith(".md")


def _editor(found: Document, at: str, project: str | None) -> Html:
    return h(
        "details",
        h("summary", "Edit"),
        form(
            f"PUT /documents/{quote(found.name)}",
            h("textarea", found.text, name="text", rows=16, aria_label=f"Text of {found.name}", class_="code"),
            button("Save"),
            label=f"Edit {found.name}",
            at=at,
            revision=found.revision,
            project=project,
        ),
        data_key="edit",
        class_="edit",
    )


def _history(history: Sequence[documents.Revision], at: str, name: str, project: str | None) -> Html:
    def entry(revision: documents.Revision) -> Html:
        return h(
            "details",
            h("summary", f"{revision.n}. {shown_name(revision.author)} ", when(revision.at, day=True)),
            data_load=source("change", at=at, name=name, n=revision.n, project=project),
            data_key=f"revision-{revision.n}",
        )

    return h("div", [entry(each) for each in reversed(history)], class_="history")
