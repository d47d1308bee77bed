"""A document and a proposal that are not there yet, to be made in a workspace."""

from __future__ import annotations

from agent_worker.daemon.web.frame import View, button, form, link
from agent_worker.daemon.web.markup import Child, Html, h
from agent_worker.service import workflows
from agent_worker.service.operation import operation
from agent_worker.service.service import Service


@operation("GET", "/page/new-document")
async def new_document(service: Service, at: str, project: str | None = None) -> View:
    """A document that is not there yet."""
    found = await workflows.workflow_status(service, at, project)
    name = h("input", name="name", required=True, placeholder="plan.md", maxlength=200, class_="code")
    return _view(
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


@operation("GET", "/page/new-proposal")
async def new_proposal(service: Service, at: str, project: str | None = None) -> View:
    """A question that is to be put to the vote."""
    found = await workflows.workflow_status(service, at, project)
    everybody = [*(member.name for member in found.members), "user"]
    voters = [
        h(
            "label",
            h("input", type="checkbox", name="voters", value=name, checked=True, data_many=True),
            "you" if name == "user" else name,
            class_="check",
        )
        for name in everybody
    ]
    options = h("textarea", name="options", rows=3, required=True, data_list=True, placeholder="tabs\nspaces")
    return _view(
        "New proposal",
        found.name,
        project,
        form(
            "POST /proposals",
            h("label", "Question", h("input", name="question", required=True, maxlength=500)),
            h("label", "Options", h("span", "one on each line", class_="less"), options),
            h("fieldset", h("legend", "Who votes"), voters, class_="voters"),
            h(
                "label",
                "Open for",
                h("span", "minutes", class_="less"),
                h("input", name="minutes", type="number", min="1", step="any", placeholder="10"),
            ),
            button("Ask for votes"),
            label="New proposal",
            class_="make",
            then=link("workspace", found.name, project=project, tab="decisions"),
            at=found.name,
            project=project,
        ),
    )


def _view(title: str, workspace: str, project: str | None, content: Child) -> View:
    back = h("a", f"@{workspace}", href=link("workspace", workspace, project=project))
    header: Html = h("header", h("h1", back, f" / {title}"), class_="bar")
    return View(title, h("div", header, content, class_="plain"))
