"""The team at a glance: who works, who waits for whom, and who has called on whom how often. Renewed as it happens."""

from __future__ import annotations

import math
from collections.abc import Sequence

from agent_worker.core.states import told
from agent_worker.core.text import plural
from agent_worker.daemon.web.frame import count, link, panel, shown_name, source, state_word
from agent_worker.daemon.web.markup import Child, Html, h
from agent_worker.service import messages
from agent_worker.service.messages import Calls
from agent_worker.service.service import Service
from agent_worker.service.workflows import Member, Running

_EVENTS = "message,queued,started,ended,agent,waiting,workspace,inbox,settled"


async def team_map(service: Service, found: Running, project: str | None) -> Html:
    calls = await messages.mentions_map(service, f"@{found.name}", project)
    total = sum(each.count for each in calls)
    return panel(
        h("p", _lead(found), class_="lead"),
        _graph(calls, found.members),
        h("ul", [_member(each, calls, project) for each in found.members], class_="list glance"),
        h("ul", [h("li", told) for told in found.overlaps], class_="why overlaps", aria_label="Same files")
        if found.overlaps
        else None,
        h("p", f"Who wakes whom in @{found.name}: {plural(total, 'call')} so far.", class_="lead"),
        _table(calls) if calls else None,
        src=source("workspace", at=found.name, project=project, tab="map"),
        on=_EVENTS,
        label="The team at a glance",
        class_="plain",
    )


def _lead(found: Running) -> str:
    busy = [each.name for each in found.members if each.state == "running"]
    if not busy:
        return "Nobody is at work now."
    return f"{', '.join(busy)} {'is' if len(busy) == 1 else 'are'} at work now."


def _member(member: Member, calls: Sequence[Calls], project: str | None) -> Html:
    """One member: what it does, who called on it, and whose answer it waits for."""
    asked_by = [shown_name(each.who) for each in calls if each.whom == member.name and each.open]
    waits_for = [each.whom for each in calls if each.who == member.name and each.open]
    said: list[Child] = [
        h("span", f"{', '.join(asked_by)} {_wait(asked_by)} for it", class_="less") if asked_by else None,
        h("span", f"has called on {', '.join(waits_for)}, no answer yet", class_="less") if waits_for else None,
        h("span", member.waiting.reason, class_="why") if member.waiting else None,
    ]
    name = h("a", member.name, href=link("agent", member.name, project=project), class_="name")
    return h("li", name, state_word(member.state, waiting=member.waiting), said, data_key=f"glance-{member.name}")


def _wait(names: Sequence[str]) -> str:
    return "waits" if len(names) == 1 and names[0] != shown_name("user") else "wait"


def _table(calls: Sequence[Calls]) -> Html:
    rows = [
        h(
            "tr",
            h("td", shown_name(c.who)),
            h("td", shown_name(c.whom)),
            h("td", count(c.count), class_="number"),
            h("td", count(c.open) if c.open else None, class_="number"),
        )
        for c in sorted(calls, key=lambda c: (-c.open, -c.count))
    ]
    titles = (("who", ""), ("wakes", ""), ("times", "number"), ("not answered", "number"))
    head = h("tr", [h("th", title, class_=class_ or None, scope="col") for title, class_ in titles])
    return h("table", h("thead", head), h("tbody", rows))


def _graph(calls: Sequence[Calls], members: Sequence[Member]) -> Html:
    """Members on a circle, an arc for each pair, thicker the more often; what is not answered yet is drawn full."""
    states = {member.name: member for member in members}
    names = list(dict.fromkeys([*states, *(c.who for c in calls), *(c.whom for c in calls)]))
    most = max((c.count for c in calls), default=1)
    place = {name: _on_circle(n, len(names)) for n, name in enumerate(names)}
    arcs = [_arc(place[c.who], place[c.whom], c, most) for c in calls]
    nodes = [
        h(
            "g",
            h("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=21),
            h("text", shown_name(name)[:10], x=f"{x:.1f}", y=f"{y + 4:.1f}", text_anchor="middle"),
            h("title", f"{shown_name(name)}: {_state(states.get(name))}"),
            class_=f"node {_kind(states.get(name)) if name != 'user' else 'you'}",
        )
        for name, (x, y) in place.items()
    ]
    said = (
        "; ".join(f"{c.who} wakes {c.whom} {plural(c.count, 'time')}" for c in calls) or "nobody has called on anybody"
    )
    return h("svg", arcs, nodes, class_="graph", viewBox="0 0 460 320", role="img", aria_label=said)


def _kind(member: Member | None) -> str:
    """The class of a member's mark: one that waits for somebody is not at work, though its run goes on."""
    return {"running": "busy", "waiting": "slow", "error": "bad"}.get(member.state if member else "", "")


def _state(member: Member | None) -> str:
    return told(member.state, member.waiting.what if member.waiting else "") if member else "a person"


def _on_circle(n: int, of: int) -> tuple[float, float]:
    angle = 2 * math.pi * n / of - math.pi / 2
    return 230 + 165 * math.cos(angle), 160 + 118 * math.sin(angle)


def _arc(one: tuple[float, float], other: tuple[float, float], calls: Calls, most: int) -> Html:
    """The arc between two members, bent to its left so that there and back do not lie on each other."""
    (x1, y1), (x2, y2) = one, other
    length = math.hypot(x2 - x1, y2 - y1) or 1.0
    dx, dy = (x2 - x1) / length, (y2 - y1) / length
    x1, y1, x2, y2 = x1 + 23 * dx, y1 + 23 * dy, x2 - 29 * dx, y2 - 29 * dy
    bend = 22.0
    mx, my = (x1 + x2) / 2 - bend * dy, (y1 + y2) / 2 + bend * dx
    turn = math.degrees(math.atan2(y2 - my, x2 - mx))
    return h(
        "g",
        h("title", f"{calls.who} → {calls.whom}: {calls.count}"),
        h(
            "path",
            d=f"M{x1:.1f} {y1:.1f} Q{mx:.1f} {my:.1f} {x2:.1f} {y2:.1f}",
            stroke_width=f"{1 + 3 * calls.count / most:.1f}",
            class_="arc",
        ),
        h("path", d="M6 0L-3 -4.5L-3 4.5Z", transform=f"translate({x2:.1f} {y2:.1f}) rotate({turn:.1f})", class_="tip"),
        h("text", count(calls.count), x=f"{(mx + (x1 + x2) / 2) / 2:.1f}", y=f"{(my + (y1 + y2) / 2) / 2 + 4:.1f}"),
        class_="call waits" if calls.open else "call",
    )
