"""Why a run happened and what came of it, as links: the messages that led to it, the runs they came from and woke."""

from __future__ import annotations

from agent_worker.core.states import told
from agent_worker.daemon.web.frame import dot, link, shown_name, source, when
from agent_worker.daemon.web.markup import Child, Html, h
from agent_worker.service.causes import Causes, CausingMessage, RunCopy, WokenRun
from agent_worker.service.runs import Explained


def causes_list(found: Explained, project: str | None) -> Html | None:
    """What led to a run and what came of it; None where it stands alone: a direct message that woke nobody else."""
    causes = found.causes
    if not (causes.chain or causes.beside or causes.woke):
        return None
    this = h("span", "this one", class_="less")
    here = h("li", dot(found.run.state), h("b", f"{found.run.agent}’s run"), this, class_="here")
    return h(
        "ol",
        _led_to_it(causes, project),
        here,
        [_woken(each, project) for each in causes.woke],
        class_="list causes",
    )


def _led_to_it(causes: Causes, project: str | None) -> list[Child]:
    return [
        *(_message(each, project) for each in causes.chain),
        *(_message(each, project, "at the same time") for each in causes.beside),
    ]


def _message(each: CausingMessage, project: str | None, note: str = "") -> Html:
    place = link("workspace", each.workspace, project=project, seq=str(each.seq))
    votes = link("workspace", each.workspace, project=project, tab="decisions")
    return h(
        "li",
        h("a", f"@{each.workspace} #{each.seq}", href=place),
        h("span", f"by {shown_name(each.sender)}", class_="who"),
        when(each.at, day=True),
        h("a", "its run", href=link("run", each.run, project=project)) if each.run else None,
        h("a", f"vote {each.proposal}", href=votes) if each.proposal else None,
        h("span", note, class_="less") if note else None,
        h("p", each.text, class_="quoted"),
    )


def _woken(each: WokenRun, project: str | None) -> Html:
    return h(
        "li",
        dot(each.state),
        h("a", f"{each.agent}’s run", href=link("run", each.id, project=project)),
        h("span", f"woken by its #{each.seq}", class_="less"),
        h("span", told(each.state), class_="less"),
        class_="after",
    )


def copy_of(copy: RunCopy, project: str | None) -> list[Child]:
    """What it had changed in its working copy, with the difference to unfold."""
    return [
        h("p", copy.text),
        h(
            "details",
            h("summary", "The difference"),
            data_load=source("resource", at=copy.workspace, id=copy.resource, project=project),
            data_key="copy",
        )
        if copy.resource
        else None,
    ]
