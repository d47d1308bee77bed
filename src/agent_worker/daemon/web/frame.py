"""What every view is made of: the view itself, panels that renew themselves, and small things seen everywhere.

A panel names the address it came from and the events that make it old; the page asks again when one of them happens.
A form names the operation it does. So the page's own code knows neither domain nor views.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

from agent_worker.agents.waiting import Waiting
from agent_worker.core.later import dataclass
from agent_worker.core.states import told
from agent_worker.daemon.web.markup import Child, Html, h
from agent_worker.service.workflows import Running


@dataclass(frozen=True, slots=True)
class View:
    title: str
    html: str


def source(path: str, **arguments: Any) -> str:
    """Where a piece of the page comes from."""
    given = {name: value for name, value in arguments.items() if value not in (None, "")}
    return f"/page/{path}?{urlencode(given)}"


def of_project(project: str | None) -> str:
    """The end of an address that is asked for in a project."""
    return f"?{urlencode({'project': project})}" if project else ""


def link(kind: str, name: str = "", /, *, project: str | None, **more: str) -> str:
    """Where a view stands in the address of the page."""
    given = {key: value for key, value in {"in": project or "", **more}.items() if value}
    place = f"#/{kind}" + (f"/{quote(name, safe=':')}" if name else "")
    return place + (f"?{urlencode(given, safe='/:')}" if given else "")


def panel(*content: Child, src: str, on: str, of: str = "", part: str = "", label: str = "", class_: str = "") -> Html:
    """A part of a view that renews itself. `on`: kinds of events; `of`: only those of this workspace; `part`: which
    one, if its source holds several.
    """
    return h(
        "section",
        *content,
        class_=f"panel {class_}".strip(),
        data_src=src,
        data_on=on,
        data_of=of or None,
        data_part=part or None,
        aria_label=label or None,
    )


def form(
    do: str,
    *content: Child,
    label: str,
    class_: str = "",
    then: str = "",
    tells: str = "",
    trust: str = "",
    now: str = "",
    **fixed: str | None,
) -> Html:
    """A form that calls an operation with what is in its fields. `then` is where to go afterwards; `tells` is the id of
    the `answer` that shows what the operation says; `trust` says what to ask about if it is refused for want of an
    approval; `now` is where the edited text can be read as it is now, for the case that somebody else edited it too.
    """
    hidden = [h("input", type="hidden", name=name, value=value) for name, value in fixed.items() if value is not None]
    return h(
        "form",
        hidden,
        *content,
        h("p", class_="told", role="status"),
        class_=class_ or None,
        data_do=do,
        data_then=then or None,
        data_tells=tells or None,
        data_trust=trust or None,
        data_now=now or None,
        data_now_text="text" if now else None,
        aria_label=label,
    )


def changes() -> list[Html]:
    """The place in a form that edits a text where it says what others changed meanwhile, and what saving would
    change."""
    return [
        h("p", class_="meanwhile why", role="status"),
        h("pre", class_="diff", hidden=True, tabindex=0, aria_label="What saving would change"),
    ]


def answer(id: str) -> Html:
    """The place where forms that disappear show what they did. Renewing its panel leaves it as it is."""
    return h("div", class_="answer", id=id, role="status", data_key=id, data_lasting=True)


def button(text: str, *, class_: str = "", **attributes: str | bool | None) -> Html:
    return h("button", text, type="submit", class_=class_ or None, **attributes)


def section(title: str, *content: Child, class_: str = "") -> Html:
    return h("section", h("h2", title), *content, class_=f"part {class_}".strip())


def empty(text: str) -> Html:
    return h("p", text, class_="empty")


_STATES = {
    **dict.fromkeys(("running", "active"), "busy"),
    **dict.fromkeys(("idle", "done"), "good"),
    **dict.fromkeys(("paused", "waiting", "incomplete", "yielded", "queued", "left"), "slow"),
    **dict.fromkeys(("error", "broken", "failed", "dead", "lost"), "bad"),
}


def dot(state: str, waiting: Waiting | None = None, *, still: bool = False) -> Html:
    """The mark of a state. With `still` it does not move: a workspace that runs is at rest, an agent that runs is at
    work.
    """
    kind = f"dot {_STATES.get(state, 'off')}{' still' if still else ''}"
    word = told(state, waiting.what if waiting else "")
    return h("span", class_=kind, role="img", aria_label=word, title=word)


def state_word(state: str, waiting: Waiting | None = None, *, still: bool = False) -> Html:
    word = told(state, waiting.what if waiting else "")
    return h("span", dot(state, waiting, still=still), h("span", word, aria_hidden="true"), class_="state")


def team_state(team: Running) -> tuple[str, Waiting | None]:
    """The state of a workflow, and what it waits for: a team that waits for a person is not simply running."""
    return ("waiting", team.waiting[0]) if team.state == "running" and team.waiting else (team.state, None)


def face(name: str) -> Html:
    """The first letter of a name, where others show a picture."""
    mine = " you" if name == "user" else ""
    return h("span", (shown_name(name) or "?")[0].upper(), class_=f"face{mine}", aria_hidden="true")


def shown_name(name: str) -> str:
    return "you" if name == "user" else name


def when(micros: int | None, *, day: bool = False, precise: bool = False) -> Html | None:
    """A moment; the page shows it in the time of the person, with its seconds if it is to be `precise`."""
    if not micros:
        return None
    moment = datetime.fromtimestamp(micros / 1e6, UTC)
    text = moment.strftime(("%d %b " if day else "") + ("%H:%M:%S" if precise else "%H:%M"))
    said = moment.isoformat(timespec="milliseconds")
    return h("time", text, datetime=said, data_day=day, data_precise=precise)


def waits(waiting: Waiting | None) -> Html | None:
    """Since when somebody waits, until when if that is known, and what ends it: here, or in a terminal."""
    if waiting is None:
        return None
    until = [", until ", when(waiting.until, day=True, precise=True)] if waiting.until else []
    ends: Child = [" ", h("code", waiting.command)] if waiting.command else []
    if waiting.what == "person":
        ends = [" ", h("a", "answer it", href="#/inbox")]
    return h("span", "since ", when(waiting.since, day=True, precise=True), until, ends, class_="less")


def with_code(text: str) -> list[Child]:
    """A sentence of ours, in which back-ticks mark what one types."""
    return [h("code", part) if n % 2 else part for n, part in enumerate(text.split("`"))]


def money(usd: float, estimated: bool = False) -> str:
    """Money, which is marked where it rests on a guess."""
    if not usd:
        return "$0"
    said = f"${usd:.2f}" if usd >= 0.01 else f"${usd:.4f}" if usd >= 0.0001 else "under $0.0001"
    return f"{said} (estimated)" if estimated else said


def count(number: int) -> str:
    """A number, short if it is large: 12.4k."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number / size:.1f}".removesuffix(".0") + unit
    return str(number)


def seconds(micros: int) -> str:
    if micros < 1_000_000:
        return f"{max(micros, 0) // 1000} ms"
    if micros < 120_000_000:
        return f"{micros / 1e6:.1f} s"
    return f"{micros / 60e6:.0f} min"


def in_workspace(title: str, workspace: str, project: str | None, content: Child) -> View:
    """A view whose heading leads back to its workspace."""
    back = h("a", f"@{workspace}", href=link("workspace", workspace, project=project))
    header: Html = h("header", h("h1", back, f" / {title}"), class_="bar")
    return View(title, h("div", header, content, class_="plain"))
