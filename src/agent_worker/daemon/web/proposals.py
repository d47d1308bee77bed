"""A proposal as a card: the question, how the votes stand, and the person's own vote; and the form for a new one.

The card stands in the channel where the proposal was announced, and by itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from agent_worker.core.text import plural
from agent_worker.daemon.web.frame import View, button, form, in_workspace, link, panel, shown_name, source, when
from agent_worker.daemon.web.markup import Html, h
from agent_worker.service import proposals, workflows
from agent_worker.service.messages import MessageView
from agent_worker.service.operation import operation
from agent_worker.service.proposals import ProposalView
from agent_worker.service.service import Service

ProposalViews = Mapping[int, ProposalView]


@operation("GET", "/page/proposal")
async def proposal(service: Service, at: str, number: int, project: str | None = None) -> View:
    found = await proposals.proposal_show(service, at, number, project)
    return View(found.question, card(found, at, project))


@operation("GET", "/page/new-proposal")
async def new_proposal(service: Service, at: str, project: str | None = None) -> View:
    """The form for a new proposal."""
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
    return in_workspace(
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


async def proposal_views(service: Service, at: str, project: str | None) -> ProposalViews:
    return {each.number: each for each in await proposals.proposals_list(service, at, project=project)}


def announced(line: MessageView, known: ProposalViews) -> ProposalView | None:
    """The proposal that a message of the channel announces."""
    return known.get(line.proposal) if line.kind == "proposal" and line.proposal is not None else None


def card(view: ProposalView, at: str, project: str | None) -> Html:
    mine = next((vote.choice for vote in view.votes if vote.voter == "user"), None)
    may_vote = view.state == "open" and (mine is not None or "user" in view.missing)
    return panel(
        h(
            "p",
            h("span", f"proposal {view.number}", class_="tag"),
            h("span", f"{view.resolution}, {view.meaning}", class_="less"),
            class_="head",
        ),
        h("p", view.question, class_="question"),
        h("ul", [_option(view, option, mine, may_vote, at, project) for option in view.tally], class_="options"),
        h("p", _stands(view), class_="less"),
        _cancel(view, at, project) if view.state == "open" else None,
        _veto(view, at, project) if view.veto and view.state == "open" else None,
        src=source("proposal", at=at, number=view.number, project=project),
        on="vote,decision",
        label=f"Proposal {view.number}",
        class_=f"card {view.state}",
    )


def _option(view: ProposalView, option: str, mine: str | None, may_vote: bool, at: str, project: str | None) -> Html:
    count, votes = view.tally[option], [vote for vote in view.votes if vote.choice == option]
    share = 100 * count / max(len(view.votes) + len(view.missing), 1)
    bar = h("svg", h("rect", width=f"{share:.1f}%", height="100%"), class_="share", aria_hidden="true")
    who = ", ".join(shown_name(vote.voter) for vote in votes)
    vote = form(
        f"POST /proposals/{view.number}/votes",
        button("Your vote" if mine == option else "Vote", class_="" if mine == option else "quiet"),
        label=f"Vote for {option}",
        class_="inline",
        at=at,
        choice=option,
        project=project,
    )
    return h(
        "li",
        bar,
        h("span", option, class_="choice"),
        h("span", who, class_="less"),
        h("span", count, class_="number", aria_label=plural(count, "vote")),
        vote if may_vote else None,
        class_="won" if view.outcome == option else None,
        data_key=option,
    )


def _stands(view: ProposalView) -> Html | str:
    if view.state != "open":
        return view.result
    late = f"Not voted: {', '.join(map(shown_name, view.missing))}." if view.missing else "Everybody has voted."
    return h("span", f"{late} Open until ", when(view.expires_at, day=True), ".")


def _cancel(view: ProposalView, at: str, project: str | None) -> Html:
    return h(
        "details",
        h("summary", "Cancel the vote"),
        form(
            f"DELETE /proposals/{view.number}",
            h("input", name="reason", maxlength=500, placeholder="why, if you like", aria_label="Why"),
            button("Cancel it", class_="quiet"),
            label=f"Cancel proposal {view.number}",
            class_="inline",
            at=at,
            project=project,
        ),
        data_key="cancel",
    )


def _veto(view: ProposalView, at: str, project: str | None) -> Html:
    def act(name: str, word: str) -> Html:
        return form(
            f"POST /proposals/{view.number}/{name}",
            button(word, class_="quiet"),
            label=f"{word} proposal {view.number}",
            class_="inline",
            at=at,
            project=project,
        )

    return h("div", act("approval", "Let it stand"), act("veto", "Veto"), class_="buttons")
