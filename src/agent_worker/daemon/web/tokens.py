"""Tokens on the page: which other programs may talk to the agents of a project, a new one shown once, and their end."""

from __future__ import annotations

from urllib.parse import quote

from agent_worker.daemon.web.frame import View, answer, button, empty, form, section, when
from agent_worker.daemon.web.markup import Child, Html, h
from agent_worker.service import tokens
from agent_worker.service.operation import operation
from agent_worker.service.service import Service
from agent_worker.service.tokens import Days, TokenView
from agent_worker.work.door_tokens import Door


async def tokens_section(service: Service, project: str | None) -> Html:
    found = await tokens.tokens_list(service, project)
    rows = [_token(each, project) for each in found]
    return section(
        "Tokens for other programs",
        h("ul", rows, class_="list") if rows else empty("There are none: no other program talks to these agents."),
        answer("token-told"),
        h("details", h("summary", "New token"), _new(project), data_key="token-new"),
    )


def _token(each: TokenView, project: str | None) -> Html:
    ends: list[Child] = ["until ", when(each.ends_at, day=True)] if each.ends_at else ["until it is revoked"]
    return h(
        "li",
        h("b", each.name),
        h("span", _reach(each), class_="less"),
        h("span", ends, class_="less"),
        form(
            f"DELETE /tokens/{quote(each.id)}",
            button("Revoke", class_="quiet", aria_label=f"Revoke {each.name}"),
            label=f"Revoke {each.name}",
            class_="inline",
            project=project,
        ),
        data_key=f"token-{each.id}",
        data_entry=True,
    )


def _reach(each: TokenView) -> str:
    if each.door == "metrics":
        return "the metrics of this project"
    return ", ".join(each.opens) if each.opens else "all agents and teams of this project"


def _new(project: str | None) -> Html:
    doors = (("openai", "OpenAI’s API: to talk to agents and teams"), ("metrics", "the metrics at /metrics"))
    return form(
        "POST /page/token",
        h("label", "Name", h("input", name="name", required=True, maxlength=100, placeholder="editor")),
        h("label", "It opens", h("select", [h("option", text, value=door) for door, text in doors], name="door")),
        h(
            "label",
            "Only for",
            h("span", "an agent, or a team as @name, on each line; empty is all of them", class_="less"),
            h("textarea", name="opens", rows=2, placeholder="alice\n@review", data_list=True),
        ),
        h(
            "label",
            "Good for",
            h("span", "days; empty is until you revoke it", class_="less"),
            h("input", name="days", type="number", min="1", max="3660", step="any"),
        ),
        button("Make it"),
        label="New token",
        class_="make",
        tells="token-told",
        project=project,
    )


@operation("POST", "/page/token")
async def token_made(
    service: Service,
    name: str,
    project: str | None = None,
    door: Door = "openai",
    opens: list[str] | None = None,
    days: Days | None = None,
) -> View:
    """A new token, which is shown this once."""
    made = await tokens.token_create(service, name, project, door, opens or None, days)
    copy = h("button", "Copy", type="button", class_="quiet", data_copy=made.token)
    good = [", good until ", when(made.ends_at, day=True)] if made.ends_at else []
    told = h("p", f"The token {made.name}", good, ". It is not shown again:")
    return View("", h("div", told, h("p", h("code", made.token), " ", copy, class_="token")))
