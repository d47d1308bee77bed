"""A proposal as a card: the question, how the votes stand, and the person's own vote. In the channel and by itself."""

from __future__ import annotations

import re
from collections.abc import Mapping

from agent_worker.daemon.web.frame import View, button, form, panel, plural, shown_name, source, when
from agent_worker.daemon.web.markup import Html, h
from agent_worker.service import proposals
from agent_worker.service.messages import Line
from agent_worker.service.office import Office
from agent_worker.service.operation import operation
from agent_worker.service.proposals import Motion

Motions = Mapping[int, Motion]
_NUMBER = re.compile(r"\[PROPOSAL\] (\d+):")  # as its announcement in the channel begins


@operation("GET", "/page/proposal")
async def proposal(office: Office, at: str, number: int, project: str | None = None) -> View:
    found = await proposals.proposal_show(office, at, number, project)
    return View(found.question, card(found, at, project))


async def motions(office: Office, at: str, project: str | None) -> Motions:
    return {each.number: each for each in await proposals.proposals_list(office, at, project=project)}


def announced(line: Line, known: Motions) -> Motion | None:
    """The proposal that a message of the channel announces."""
    found = _NUMBER.match(line.text) if line.sort == "proposal" else None
    return known.get(int(found[1])) if found else None


def card(motion: Motion, at: str, project: str | None) -> Html:
    mine = next((vote.choice for vote in motion.votes if vote.voter == "user"), None)
    may_vote = motion.state == "open" and (mine is not None or "user" in motion.missing)
    return panel(
        h(
            "p",
            h("span", f"proposal {motion.number}", class_="tag"),
            h("span", f"{motion.resolution}, {motion.meaning}", class_="less"),
            class_="head",
        ),
        h("p", motion.question, class_="question"),
        h("ul", [_option(motion, option, mine, may_vote, at, project) for option in motion.tally], class_="options"),
        h("p", _stands(motion), class_="less"),
        _veto(motion, at, project) if motion.veto and motion.state == "open" else None,
        src=source("proposal", at=at, number=motion.number, project=project),
        on="vote,decision",
        label=f"Proposal {motion.number}",
        class_=f"card {motion.state}",
    )


def _option(motion: Motion, option: str, mine: str | None, may_vote: bool, at: str, project: str | None) -> Html:
    count, votes = motion.tally[option], [vote for vote in motion.votes if vote.choice == option]
    share = 100 * count / max(len(motion.votes) + len(motion.missing), 1)
    bar = h("svg", h("rect", width=f"{share:.1f}%", height="100%"), class_="share", aria_hidden="true")
    who = ", ".join(shown_name(vote.voter) for vote in votes)
    vote = form(
        f"POST /proposals/{motion.number}/votes",
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
        class_="won" if motion.outcome == option else None,
        data_key=option,
    )


def _stands(motion: Motion) -> Html | str:
    if motion.state != "open":
        return motion.result
    late = f"Not voted: {', '.join(map(shown_name, motion.missing))}." if motion.missing else "All have voted."
    return h("span", f"{late} Open until ", when(motion.expires_at, day=True), ".")


def _veto(motion: Motion, at: str, project: str | None) -> Html:
    def act(name: str, word: str) -> Html:
        return form(
            f"POST /proposals/{motion.number}/{name}",
            button(word, class_="quiet"),
            label=f"{word} proposal {motion.number}",
            class_="inline",
            at=at,
            project=project,
        )

    return h("div", act("approval", "Let it stand"), act("veto", "Veto"), class_="buttons")
