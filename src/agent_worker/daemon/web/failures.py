"""What failed lately: equal failures as one, with what mends it beside it."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from agent_worker.backends.programs.known import KNOWN
from agent_worker.core.address import WorkspaceName
from agent_worker.core.later import dataclass, pattern
from agent_worker.daemon.web.frame import button, dot, empty, form, link, when
from agent_worker.daemon.web.markup import Html, h
from agent_worker.service.runs import Run

FAILURES = 8  #: that are shown, after folding

_FILE = pattern(r"(\.(?:agents|workflows)/[\w.-]+\.ya?ml):(\d+)")  # how a mistake in a file begins


@dataclass(frozen=True, slots=True)
class FoldedFailure:
    """Runs of one agent that failed with the same words."""

    newest: Run
    times: int
    is_over: bool  #: a later run of this agent went well


def folded(runs: Sequence[Run]) -> list[FoldedFailure]:
    """The failures among the newest runs, equal ones as one, the newest first."""
    well = {run.agent: run.started_at for run in reversed(runs) if run.state == "done"}
    found: dict[tuple[str, str, str], FoldedFailure] = {}
    for run in runs:
        if run.state != "failed":
            continue
        known = found.get(key := (run.agent, run.workspace, run.reason))
        over = well.get(run.agent, 0) > run.started_at
        found[key] = (
            FoldedFailure(known.newest, known.times + 1, known.is_over) if known else FoldedFailure(run, 1, over)
        )
    return list(found.values())


def failures(runs: Sequence[Run], root: str) -> Html:
    found = folded(runs)[:FAILURES]
    if not found:
        return empty("None lately.")
    return h("ul", [_failure(each, root) for each in found], class_="list failures")


def _failure(each: FoldedFailure, root: str) -> Html:
    run = each.newest
    place = f" in @{run.workspace}" if run.workspace else ""
    return h(
        "li",
        dot("done" if each.is_over else run.state),
        h("a", run.agent, href=link("run", run.id, project=root), class_="name"),
        h("span", place.strip(), " ", when(run.started_at, day=True), class_="less"),
        h("span", f"{each.times} times", class_="tag") if each.times > 1 else None,
        h("span", "it has succeeded since", class_="less") if each.is_over else None,
        h("p", run.reason[:400], class_="why"),
        None if each.is_over else mends(run.remedy, run.agent, root, run.workspace),
        data_entry=True,
        data_key=f"failure-{run.id}",
    )


def mends(remedy: str, agent: str, root: str, workspace: str = "") -> Html | None:
    """What the person can do about it, in place: approve, give the key, edit the line, lift the limit, start."""
    kind, _, subject = remedy.partition(" ")
    match kind:
        case "edit":
            file = _FILE.match(subject)
            made = file_link(subject, f"Edit {file[1]} at line {file[2]}", root, class_="button") if file else None
        case "approve":
            href = link("approval", "", project=root, agent=agent)
            made = h("a", "Look at it and approve it", href=href, class_="button")
        case "key":
            made = key_form(subject)
        case "install" if known := KNOWN.get(subject):
            made = h("span", "Install it: ", h("code", known.install), class_="less")
        case "resume":
            made = _resume(agent, root)
        case "start" if workspace:
            href = link("start", WorkspaceName.parse(workspace).workflow, project=root)
            made = h("a", f"Start {workspace}", href=href, class_="button")
        case _:
            made = None
    return h("div", made, class_="mend") if made is not None else None


def file_link(problem: str, text: str, root: str, *, class_: str = "") -> Html | None:
    """To the line of the file that a mistake begins with."""
    file = _FILE.match(problem)
    return h("a", text, href=link("file", file[1], project=root, line=file[2]), class_=class_ or None) if file else None


def key_form(name: str) -> Html:
    """A key of a model provider. It is kept by the daemon, and never shown again."""
    return form(
        "POST /keys",
        h(
            "input",
            name="value",
            type="password",
            required=True,
            autocomplete="off",
            aria_label=f"{name}",
            placeholder=name,
        ),
        button("Set the key"),
        label=f"Set {name}",
        class_="inline key",
        name=name,
    )


def _resume(agent: str, root: str) -> Html:
    return form(
        f"POST /agents/{quote(agent)}/resume",
        button("Continue with a new allowance"),
        label=f"Resume {agent}",
        class_="inline",
        project=root,
    )
