"""What an agent remembers, on its page: who says so and since when, what is disputed, and taking back a run."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from agent_worker.core.text import plural
from agent_worker.daemon.web.frame import View, button, empty, form, link, money, section, source, when
from agent_worker.daemon.web.inbox import answer_word
from agent_worker.daemon.web.markup import Child, Html, h
from agent_worker.memory.claims import COLLEAGUE
from agent_worker.memory.memory import ARCHIVE, QUARANTINE, SELF, USER, MemoryEntry
from agent_worker.service import revert
from agent_worker.service.agents import AgentDetail
from agent_worker.service.learned import Judged, Learned
from agent_worker.service.memory import Dispute, Remembered
from agent_worker.service.operation import operation
from agent_worker.service.revert import RunTakenBack
from agent_worker.service.service import Service

DEEPEST = 8  #: levels of a tree that are drawn as such


@operation("GET", "/page/revert")
async def revert_view(service: Service, name: str, source: str, project: str | None = None) -> View:
    """What would be taken back with a run: it and every run that saw its words."""
    found = await revert.memory_revert(service, name, source=source, show=True, project=project)
    take = form(
        f"POST /agents/{quote(name)}/memory/revert",
        button("Take all of it back"),
        label=f"Take back {source}",
        source=source,
        project=project,
    )
    told = (
        "Below each run are those that saw its words. What they said, wrote and learned goes too; nothing is deleted."
    )
    restored = h("ul", [h("li", each) for each in found.restored]) if found.restored else None
    shown = [_tree(found.runs, project), restored, h("p", told, class_="less") if found.runs else None, take]
    some = found.runs or found.restored
    return View(f"Take back {source}", h("div", shown if some else empty("There is nothing to take back.")))


def _tree(runs: Sequence[RunTakenBack], project: str | None, depth: int = 0) -> Html | None:
    """The lines of a tree in the order they are listed: each is followed by those below it."""
    if not runs:
        return None
    starts = [n for n, each in enumerate(runs) if min(each.depth, DEEPEST) == depth]
    rows = [
        h(
            "li",
            h("a", f"{runs[n].agent}’s run", href=link("run", runs[n].run, project=project), title=runs[n].run),
            " ",
            when(runs[n].at, day=True),
            _tree(runs[n + 1 : end], project, depth + 1),
        )
        for n, end in zip(starts, [*starts[1:], len(runs)], strict=True)
    ]
    return h("ul", rows, class_="tree")


def memory_section(remembered: Remembered, found: AgentDetail, name: str, project: str | None) -> Html:
    disputing = {each.heard.key for each in remembered.disputes}
    entries = [each for each in remembered.entries if each.key not in disputing]
    shown: Child = h("ul", [_entry(each, name, project) for each in entries], class_="memory") if entries else None
    return section(
        "Memory",
        [h("p", text, class_="why") for text in remembered.problems],
        _learned(found.learned) if found.learned and (found.learned.with_model or found.learned.count) else None,
        _judged(found.judged) if found.judged else None,
        [_dispute(each) for each in remembered.disputes],
        shown,
        h("details", h("summary", "Add"), _remember(name, project, None), data_key="memory-add"),
        h("p", h("a", "Audit", href=link("audit", name, project=project)), ": who did what to it", class_="less"),
    )


def _judged(judged: Judged) -> Html:
    asked, days = plural(judged.requests, "small question"), plural(judged.days, "day")
    cost = money(judged.usd, judged.estimated)
    model = judged.with_model or "none now"
    tried = "".join(f" It {each}." for each in judged.examined)
    return h("p", f"Judged by a model in {days}: {asked}, {cost}, with {model}.{tried}", class_="less")


def _learned(learned: Learned) -> Html:
    """What an agent learned from its runs by itself, and what that cost."""
    things, asked = plural(learned.count, "thing"), plural(learned.requests, "request")
    days = plural(learned.days, "day")
    cost = money(learned.usd, learned.estimated)
    return h("p", f"Learned by itself in {days}: {things}, with {asked}, {cost}.", class_="less")


def _dispute(each: Dispute) -> Html:
    """A remembered entry and what was heard against it, with buttons that decide."""
    buttons = [
        button(answer_word("dispute", "approve"), name="action", value="approve"),
        button(answer_word("dispute", "deny"), name="action", value="deny", class_="quiet"),
    ]
    decide = form(
        f"POST /inbox/{quote(each.item, safe='')}",
        h("span", buttons, class_="buttons"),
        label=f"Decide on {each.known.key}",
        class_="answers",
    )
    return h(
        "div",
        h("p", h("b", each.known.key), " is disputed:", class_="why"),
        h(
            "ul",
            h("li", each.known.value, " ", _provenance(each.known)),
            h("li", "heard: ", each.heard.value, " ", _provenance(each.heard)),
        ),
        decide if each.item else None,
        data_key=f"dispute-{each.known.key}",
    )


def _entry(each: MemoryEntry, name: str, project: str | None) -> Html:
    key = f"entry-{each.file}-{each.key}"
    if each.file == ARCHIVE:
        return h("li", h("p", h("b", each.key), " ", each.value, " ", _provenance(each)), class_="archived")
    if each.file == QUARANTINE:
        return h("li", _release(each, name, project), data_key=key)
    return h(
        "li",
        h(
            "details",
            h("summary", h("b", each.key), " ", each.value, h("span", each.file, class_="less")),
            h("p", _provenance(each)),
            _sources(each, name, project) if each.source else None,
            _remember(name, project, each),
            data_key=f"memory-{each.key}",
        ),
        data_key=key,
    )


def _provenance(each: MemoryEntry) -> Html:
    """Who says so, since when, how often, and who else may know."""
    who = {USER: "you", SELF: "its own conclusion"}
    said = [f"says {each.by.removeprefix(COLLEAGUE)}" if each.by not in who else f"by {who[each.by]}"]
    said += [f"since {each.since[:10]}"] if each.since else [f"learned {each.day}"] if each.day else []
    said += [f"until {each.until[:10]}"] if each.until else []
    said += [f"seen {plural(each.seen, 'time')}"] if each.seen > 1 else []
    said += [f"replaces {each.replaces}"] if each.replaces else []
    said += [each.visibility] if each.visibility != "private" else []
    said += [f"shared with {', '.join(each.share_with)}"] if each.share_with else []
    return h("span", " · ".join(said), class_="less")


def _sources(each: MemoryEntry, name: str, project: str | None) -> Html:
    """The runs it was learned in; of each, what would be taken back with it."""
    return h(
        "ul",
        [
            h(
                "li",
                h("a", run, href=link("run", run, project=project)),
                h(
                    "details",
                    h("summary", "Take back …"),
                    data_load=source("revert", name=name, source=run, project=project),
                    data_key=f"revert-{each.key}-{run}",
                ),
            )
            for run in each.source
        ],
        class_="list",
    )


def _release(entry: MemoryEntry, name: str, project: str | None) -> Html:
    """An entry that is held back, with the button that releases it."""
    return form(
        f"POST /agents/{quote(name)}/memory/release",
        h("p", h("b", entry.key), " ", entry.value, h("span", "held back", class_="less")),
        button("Release"),
        label=f"Release {entry.key}",
        key=entry.key,
        project=project,
    )


def _remember(name: str, project: str | None, entry: MemoryEntry | None) -> Html:
    do = f"PUT /agents/{quote(name)}/memory"
    if entry is None:
        return form(
            do,
            h("input", name="key", required=True, aria_label="Key", placeholder="key"),
            h("textarea", name="value", required=True, rows=2, aria_label="Value"),
            button("Remember"),
            label="Remember something",
            project=project,
        )
    return form(
        do,
        h("textarea", entry.value, name="value", rows=3, aria_label=f"Value of {entry.key}", data_empty=True),
        button("Save"),
        h("p", "An empty value archives it.", class_="less"),
        label=f"Edit {entry.key}",
        key=entry.key,
        was=entry.value,
        file=entry.file,
        project=project,
    )
