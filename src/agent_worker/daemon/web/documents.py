"""Documents and long texts of a workspace: to read, edit and make, what each revision changed, what members suggest."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote, urlencode

from agent_worker.core.address import WorkspaceName
from agent_worker.daemon.web.diffs import diff_lines
from agent_worker.daemon.web.frame import (
    View,
    button,
    changes,
    empty,
    form,
    in_workspace,
    link,
    panel,
    section,
    shown_name,
    source,
    when,
)
from agent_worker.daemon.web.markup import Child, Html, h
from agent_worker.daemon.web.prose import LONGEST, code, prepared, prose
from agent_worker.service import documents, suggestions, workflows
from agent_worker.service.documents import Revision
from agent_worker.service.operation import operation
from agent_worker.service.service import Service
from agent_worker.workspaces.document_rows import Document
from agent_worker.workspaces.documents import LIMIT
from agent_worker.workspaces.suggestions import Suggestion


@operation("GET", "/page/document")
async def document(service: Service, at: str, name: str, project: str | None = None) -> View:
    """One document with its history, and what members suggest for it."""
    found = await documents.doc_read(service, at, name, project)
    history = await documents.doc_history(service, at, name, project)
    suggested = await suggestions.suggestions_list(service, at, found.name, project)
    text = await _drawn(name, found.text)
    await prepared(*(each.text for each in suggested))
    place = str(WorkspaceName.parse(at))
    back = h("a", f"@{place}", href=link("workspace", place, project=project, tab="documents"))
    return View(
        name,
        h(
            "div",
            h("header", h("h1", back, f" / {name}"), class_="bar"),
            panel(
                _written(history),
                [_suggestion(each, place, project) for each in suggested],
                h("article", text, class_="prose doc"),
                _editor(found, place, project),
                section("History", _history(history, at, name, project)),
                src=source("document", at=at, name=name, project=project),
                on="document,message",
                label=name,
            ),
            class_="plain",
        ),
    )


@operation("GET", "/page/new-document")
async def new_document(service: Service, at: str, project: str | None = None) -> View:
    """The form for a new document."""
    found = await workflows.workflow_status(service, at, project)
    name = h("input", name="name", required=True, placeholder="plan.md", maxlength=200, class_="code")
    return in_workspace(
        "New document",
        found.name,
        project,
        form(
            "PUT /documents/{name}",
            h("label", "Name", h("span", "ends in .md for prose", class_="less"), name),
            h("label", "Text", h("textarea", name="text", rows=16, required=True, class_="code")),
            button("Create"),
            label="New document",
            class_="make",
            then=link("doc", found.name, project=project, name="{name}").replace("%7B", "{").replace("%7D", "}"),
            at=found.name,
            project=project,
        ),
    )


@operation("GET", "/page/change")
async def change(service: Service, at: str, name: str, n: int, project: str | None = None) -> View:
    """What one revision changed."""
    lines = await documents.doc_change(service, at, name, n, project)
    return View(f"{name}, revision {n}", difference(lines))


@operation("POST", "/page/preview")
async def preview(service: Service, name: str, text: str) -> View:
    """A document as it would look, while it is being written."""
    return View(name, await _drawn(name, text))


@operation("GET", "/page/resource")
async def resource(service: Service, at: str, id: str, project: str | None = None) -> View:
    """A long text, whole."""
    found = await documents.resource_get(service, at, id, project)
    is_diff = found.text.startswith(("diff --git", "--- ", "Index: ")) or "\ndiff --git" in found.text
    if is_diff and len(found.text) <= LONGEST:
        return View(id[:12], h("div", difference(found.text.splitlines()), class_="resource-text"))
    return View(id[:12], h("div", code(found.text, ""), class_="resource-text"))


def difference(lines: Sequence[str]) -> Html:
    """The lines of a unified diff."""
    return h("pre", diff_lines(lines), class_="diff", tabindex=0)


async def documents_table(service: Service, at: str, project: str | None) -> list[Child]:
    """Every document of a workspace: who wrote it last, and when; and a place to drop files on."""
    names = await documents.doc_list(service, at, project)
    newest = await documents.doc_newest(service, at, project)
    waiting = await suggestions.suggestions_list(service, at, None, project)
    counted = {name: sum(each.document == name for each in waiting) for name in names}
    rows = [_row(name, newest.get(name), counted[name], at, project) for name in names]
    head = h("tr", [h("th", title, scope="col") for title in ("document", "by", "changed", "suggested")])
    return [_drop(at, project), h("table", h("thead", head), h("tbody", rows)) if rows else empty("No documents yet.")]


def _row(name: str, newest: Revision | None, suggested: int, at: str, project: str | None) -> Html:
    return h(
        "tr",
        h("td", h("a", name, href=link("doc", at, project=project, name=name)), class_="path"),
        h("td", shown_name(newest.author) if newest else "a file"),
        h("td", when(newest.at, day=True) if newest else None),
        h("td", h("span", suggested, class_="tag") if suggested else None),
        data_key=f"document-{name}",
        data_entry=True,
    )


def _drop(at: str, project: str | None) -> Html:
    """Files that are dropped on the view, or chosen, become documents (static/drop.js)."""
    return h(
        "div",
        h(
            "label",
            "Drop text files here, or ",
            h("span", "choose some", class_="pick"),
            h("input", type="file", multiple=True, aria_label="Add files as documents"),
        ),
        h("ul", class_="taken", role="status", data_lasting=True, data_key="taken"),
        class_="drop",
        data_drop=at,
        data_project=project,
        data_most=LIMIT,
        data_key="drop",
    )


async def _drawn(name: str, text: str) -> Html:
    is_prose = name.endswith(".md")
    await prepared(*([text] if is_prose else []), files=[] if is_prose else [(text, name)])
    return prose(text) if is_prose else code(text, name)


def _written(history: Sequence[Revision]) -> Html | None:
    if not history:
        return h("p", "A file that nobody has changed here yet.", class_="less")
    last = history[-1]
    return h(
        "p",
        f"Written by {shown_name(last.author)} ",
        when(last.at, day=True),
        f", revision {last.n}",
        class_="less",
        title=last.revision,
    )


def _suggestion(each: Suggestion, at: str, project: str | None) -> Html:
    buttons = [
        button("Apply", name="verdict", value="apply", title="Add it to the end of the document"),
        button("Refuse", name="verdict", value="refuse", class_="quiet"),
    ]
    return h(
        "div",
        h(
            "p",
            h("span", shown_name(each.sender), class_="who"),
            " suggests ",
            when(each.at, day=True),
            h("a", f" #{each.seq}", href=link("workspace", at, project=project)),
            class_="head",
        ),
        h("div", prose(each.text), class_="prose"),
        form(
            f"POST /suggestions/{each.seq}",
            h("span", buttons, class_="buttons"),
            label=f"Decide on suggestion {each.seq}",
            class_="answers",
            at=at,
            project=project,
        ),
        class_="card open suggestion",
        data_key=f"suggestion-{each.seq}",
    )


def _editor(found: Document, at: str, project: str | None) -> Html:
    """The form in which a document is edited, with what it would look like and what saving changes
    (static/editor.js)."""
    now = urlencode({"at": at} | ({"project": project} if project else {}))
    return h(
        "details",
        h("summary", "Edit"),
        form(
            f"PUT /documents/{quote(found.name)}",
            h("textarea", found.text, name="text", rows=16, aria_label=f"Text of {found.name}", class_="code"),
            changes(),
            button("Save"),
            h("p", "Preview", class_="less"),
            h("article", class_="prose doc preview", data_lasting=True, data_name=found.name),
            label=f"Edit {found.name}",
            class_="document",
            now=f"/documents/{quote(found.name)}?{now}",
            at=at,
            revision=found.revision,
            project=project,
        ),
        data_key="edit",
        class_="edit",
    )


def _history(history: Sequence[Revision], at: str, name: str, project: str | None) -> Html:
    def entry(revision: Revision) -> Html:
        return h(
            "details",
            h("summary", f"{revision.n}. {shown_name(revision.author)} ", when(revision.at, day=True)),
            data_load=source("change", at=at, name=name, n=revision.n, project=project),
            data_key=f"revision-{revision.n}",
        )

    return h("div", [entry(each) for each in reversed(history)], class_="history")
