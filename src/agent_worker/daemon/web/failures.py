"""What failed lately: equal failures as one, with what mends it beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import quote

from agent_worker.backends.programs.known import KNOWN
from agent_worker.core.later import dataclass, pattern
from agent_worker.daemon.web.frame import button, dot, empty, form, link, when
from agent_worker.daemon.web.markup import Html, h
from agent_worker.service.runs import Run

FAILURES = 8  #: that are shown, after folding

_FILE = pattern(r"(\.(?:agents|workflows)/[\w.-]+\.ya?ml):(\d+)")
_KEY = pattern(r"\b([A-Z][A-Z0-9_]{2,60}) is not set")
_PROGRAM = pattern(r"\b([a-z]+) is not installed")
_LIMIT = pattern(r"limit reached")
_TRUST = pattern(r"you have not approved|no longer what you approved|waits for your approval")
_STOPPED = pattern(r"is not running|has ended")


@dataclass(frozen=True, slots=True)
class FoldedFailure:
    """Runs of one agent that failed with the same words."""

    newest: Run
    times: int
    is_over: bool  #: a later run of this agent went well


def folded(runs: Sequence[Run]) -> list[FoldedFailure]:
    """Of the newest runs, in whatever state, the newest first."""
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
        h("span", "it went well since", class_="less") if each.is_over else None,
        h("p", run.reason[:400], class_="why"),
        None if each.is_over else h("div", *mends(run.reason, run.agent, root, run.workspace), class_="mend"),
        data_entry=True,
        data_key=f"failure-{run.id}",
    )


def mends(reason: str, agent: str, root: str, workspace: str = "") -> Iterator[Html]:
    """What the person can do about it, in place: approve, give the key, edit the line, lift the limit, start."""
    if file := _FILE.search(reason):
        yield file_link(reason, f"Edit {file[1]} at line {file[2]}", root, class_="button") or Html("")
    if _TRUST.search(reason):
        yield h("a", "Look at it and approve it", href=link("approval", "", project=root, agent=agent), class_="button")
    if key := _KEY.search(reason):
        yield key_form(key[1])
    if (program := _PROGRAM.search(reason)) and (known := KNOWN.get(program[1])):
        yield h("span", "Install it: ", h("code", known.install), class_="less")
    if _LIMIT.search(reason):
        yield _resume(agent, workspace, root)
    if workspace and _STOPPED.search(reason):
        href = link("start", workspace.partition(":")[0], project=root)
        yield h("a", f"Start {workspace}", href=href, class_="button")


def file_link(reason: str, text: str, root: str, *, class_: str = "") -> Html | None:
    """To the line of a file that is named in a mistake."""
    file = _FILE.search(reason)
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


def _resume(agent: str, workspace: str, root: str) -> Html:
    do = f"/workflows/{quote(workspace, safe='')}/resume" if workspace else f"/agents/{quote(agent)}/resume"
    return form(
        f"POST {do}",
        button("Go on with a new allowance"),
        label=f"Resume {workspace or agent}",
        class_="inline",
        project=root,
    )
