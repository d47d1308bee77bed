"""One agent: who it is, what it keeps, what it was told, what it has to do and what it did."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from agent_worker.core.errors import NotFound
from agent_worker.core.states import told
from agent_worker.daemon.web.conversation import Talk, compose, log
from agent_worker.daemon.web.definitions import edit_link
from agent_worker.daemon.web.exports import export_buttons
from agent_worker.daemon.web.failures import mends
from agent_worker.daemon.web.frame import (
    View,
    answer,
    button,
    changes,
    count,
    dot,
    empty,
    face,
    form,
    link,
    money,
    of_project,
    panel,
    seconds,
    section,
    shown_name,
    source,
    state_word,
    waits,
    when,
)
from agent_worker.daemon.web.limits import limits_section
from agent_worker.daemon.web.markup import Html, h
from agent_worker.daemon.web.memory import memory_section
from agent_worker.daemon.web.prose import prepared, prose
from agent_worker.daemon.web.souls import soul_lines, soul_section
from agent_worker.memory.todos import Todo
from agent_worker.service import agents, memory, runs, schedules
from agent_worker.service.agents import LANES, AgentDetail, AgentView, Work
from agent_worker.service.messages import agent_id
from agent_worker.service.operation import operation
from agent_worker.service.runs import Run
from agent_worker.service.schedules import Scheduled
from agent_worker.service.service import Service

RUNS = 20
_EVENTS = "agent,waiting,queued,started,ended,retry,tool_result"


@operation("GET", "/page/agent")
async def agent(service: Service, name: str, project: str | None = None) -> View:
    try:
        found = await agents.agent_info(service, name, project)
    except NotFound:
        return await _inline(service, name, project)
    if found.agent.state == "broken":
        return _broken(found.agent, project)
    name = found.agent.name
    done = await runs.runs_list(service, project, name, limit=RUNS)
    everything = await schedules.schedules_list(service, project)
    timers = [each for each in everything if each.of in ("agent", "member") and each.target.partition("@")[0] == name]
    talk = Talk(name, project, agent=agent_id(await service.project(project), name))
    return View(
        name,
        h(
            "div",
            panel(
                _bar(found, project),
                src=source("agent", name=name, project=project),
                part="bar",
                on=_EVENTS,
                label=f"State of {name}",
            ),
            h(
                "div",
                await log(service, talk, empty=f"You have not talked to {name} yet."),
                compose("POST /send", talk, h("p", f"Wakes {name}.", class_="wakes calls"), to=name),
                class_="middle",
            ),
            h(
                "aside",
                panel(
                    section("Queue", _queue(found.queue), answer("queue-told")),
                    section("Schedule", _timers(timers, name, project)),
                    await limits_section(service, name, project, editable=bool(found.agent.file)),
                    section("Runs", _runs(done, project)),
                    src=source("agent", name=name, project=project),
                    part="work",
                    on=_EVENTS,
                ),
                await _own(service, found, project),
                aria_label=f"About {name}",
            ),
            class_="workspace agent",
        ),
    )


async def _inline(service: Service, name: str, project: str | None) -> View:
    """A member that only its workflow defines: where it works, and its runs. Raises NotFound for nobody's name."""
    done = await runs.runs_list(service, project, name, limit=RUNS)
    teams = dict.fromkeys(run.workspace for run in done if run.workspace)
    links = [h("li", h("a", f"@{team}", href=link("workspace", team, project=project))) for team in teams]
    return View(
        name,
        panel(
            h(
                "header",
                h("h1", face(name), name),
                h("span", "lives in its workflow: it has no file, no memory and no direct messages", class_="less"),
                class_="bar",
            ),
            section("Works in", h("ul", links)) if links else None,
            section("Runs", _runs(done, project)),
            src=source("agent", name=name, project=project),
            on="started,ended",
            class_="plain",
        ),
    )


def _broken(who: AgentView, project: str | None) -> View:
    """An agent whose file cannot be used: what is wrong, and where that is mended."""
    delete = _delete(who.name, project, has_files=False)
    return View(
        who.name,
        panel(
            h(
                "header",
                h("h1", face(who.name), who.name),
                state_word(who.state),
                h("div", delete, class_="manage"),
                class_="bar",
            ),
            h("p", f"Its file cannot be used. {_sentence(who.reason)}", class_="why"),
            mends(who.remedy, who.name, project or "") or edit_link("Edit its file", who.file, project),
            src=source("agent", name=who.name, project=project),
            on=_EVENTS,
            class_="plain broken",
        ),
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


@operation("GET", "/page/note")
async def note(service: Service, name: str, note: str, project: str | None = None) -> View:
    """One note, to read and to edit."""
    text = await memory.note_show(service, name, note, project)
    await prepared(text)
    return View(
        note,
        h(
            "div",
            h("div", prose(text), class_="prose"),
            h(
                "details",
                h("summary", "Edit"),
                form(
                    f"PUT /agents/{quote(name)}/notes/{quote(note, safe='')}",
                    h("textarea", text, name="text", rows=10, aria_label=f"Text of {note}", class_="code"),
                    changes(),
                    button("Save"),
                    label=f"Edit {note}",
                    now=f"/agents/{quote(name)}/notes/{quote(note, safe='')}{of_project(project)}",
                    was=text,
                    project=project,
                ),
            ),
        ),
    )


# --- at the top, in the middle ------------------------------------------------------------------------


def _bar(found: AgentDetail, project: str | None) -> Html:
    who = found.agent
    act = {"paused": "resume", "stopped": "start", "error": "start"}.get(who.state, "pause")
    return h(
        "header",
        h("h1", face(who.name), who.name),
        state_word(who.state, waiting=who.waiting),
        h("span", who.reason, class_="why") if who.reason else None,
        waits(who.waiting),
        h("span", who.model or who.backend, class_="less"),
        h("span", who.unsafe, class_="why") if who.unsafe else None,
        h("span", f"{money(who.usd_today, who.estimated)} today", class_="less"),
        edit_link("Edit its file", who.file, project),
        h("div", _act(who, act, project), _more(who, project), class_="manage"),
        class_="bar",
    )


def _act(who: AgentView, act: str, project: str | None, about: str = "") -> Html:
    return form(
        f"POST /agents/{quote(who.name)}/{act}",
        button(act.capitalize(), class_="quiet", title=about or None),
        label=f"{act} {who.name}",
        class_="inline",
        project=project,
    )


def _more(who: AgentView, project: str | None) -> Html:
    """What is seldom done with an agent, behind a button."""
    afresh = form(
        "POST /clear",
        button(
            "Begin the conversation afresh", class_="quiet", title="Nothing is deleted: its files keep what was said"
        ),
        label=f"Clear the conversation with {who.name}",
        class_="inline",
        then=link("agent", who.name, project=project),
        at=who.name,
        project=project,
    )
    approvals = link("approval", "", project=project, agent=who.name)
    rest = [
        _act(who, "stop", project, "ends what it is doing; it does nothing until you start it")
        if who.state != "stopped"
        else None,
        h("a", "What it may do", href=approvals, class_="button quiet"),
        afresh,
        *export_buttons(who.name, project),
        None if who.file else _keep(who.name, project),
        _delete(who.name, project, has_files=True) if who.file else None,
    ]
    return h("details", h("summary", "More"), h("div", rest, class_="choices"), class_="menu", data_key="manage")


def _keep(name: str, project: str | None) -> Html:
    """Makes a quick agent a lasting one."""
    return form(
        "POST /agents",
        button(
            "Make it a lasting agent", class_="quiet", title="writes its file; everything that was said to it stays"
        ),
        label=f"Make {name} a lasting agent",
        class_="inline",
        then=link("agent", name, project=project),
        name=name,
        origin=name,
        project=project,
    )


def _delete(name: str, project: str | None, *, has_files: bool) -> Html:
    """Asks once more; what goes with it is chosen there."""
    too = h("input", type="checkbox", name="files")
    files = h("label", too, "and its folder: memory, notes, todos, conversations", class_="check")
    told = "Its messages and documents in a workflow stay: they are the team’s."
    return h(
        "details",
        h("summary", "Delete …"),
        form(
            f"DELETE /agents/{quote(name)}",
            files if has_files else None,
            h("p", told, class_="less") if has_files else None,
            button(f"Delete {name}"),
            label=f"Delete {name}",
            class_="sure",
            then=link("home", project=None),
            project=project,
        ),
        class_="delete",
        data_key="delete",
    )


# --- what it has to do, what it did -------------------------------------------------------------------


def _queue(queue: Sequence[Work]) -> Html:
    if not queue:
        return empty("Nothing to do.")

    def entry(work: Work) -> Html:
        return h(
            "li",
            dot(work.state),
            h("span", work.text[:160], class_="text"),
            h(
                "span",
                told(work.state, "person"),
                " · ",
                shown_name(work.sender),
                " ",
                when(work.queued_at, day=True),
                class_="less",
            ),
            form(
                f"DELETE /instructions/{quote(work.id)}",
                button("Cancel", class_="quiet"),
                label=f"Cancel: {work.text[:60]}",
                class_="inline",
                tells="queue-told",
            ),
            class_="work",
            data_key=f"work-{work.id}",
        )

    lanes = [(lane, [w for w in queue if w.lane == lane]) for lane in LANES]
    return h("div", [[h("h3", lane), h("ul", map(entry, works))] for lane, works in lanes if works], class_="queue")


def _timers(timers: Sequence[Scheduled], name: str, project: str | None) -> Html:
    def entry(timer: Scheduled) -> Html:
        clear = form(
            f"DELETE /schedules/{quote(timer.target, safe='')}",
            button("Clear", class_="quiet"),
            label=f"Clear the schedule of {timer.target}",
            class_="inline",
            project=project,
        )
        return h(
            "li",
            h("span", timer.told, title=timer.wakeup),
            f": {timer.prompt} ",
            h("span", "next ", when(timer.due_at, day=True), class_="less") if timer.due_at else None,
            clear if timer.set_by == "person" else None,
            data_key=f"timer-{timer.target}",
        )

    wakeup = h("input", name="wakeup", required=True, placeholder="1h, 9:00 or a cron line", aria_label="When it wakes")
    prompt = h(
        "input",
        name="prompt",
        placeholder="what it is told when it wakes up",
        aria_label="What it is told when it wakes up",
    )
    put = form(
        f"PUT /schedules/{quote(name, safe='')}",
        wakeup,
        prompt,
        button("Set it"),
        label="Set the schedule",
        project=project,
    )
    return h(
        "div",
        h("ul", map(entry, timers)) if timers else empty("Wakes up only when called."),
        h("details", h("summary", "Set"), put, data_key="timer-set"),
    )


def _runs(done: Sequence[Run], project: str | None) -> Html:
    if not done:
        return empty("None yet.")

    def entry(run: Run) -> Html:
        took = seconds(run.ended_at - run.started_at) if run.ended_at else "now"
        tries = f" · {run.tries:,} tries" if run.tries > 1 else ""
        place = f"@{run.workspace}" if run.workspace else "direct"
        return h(
            "li",
            dot(run.state),
            h("a", when(run.started_at, day=True), " ", place, href=link("run", run.id, project=project)),
            h("span", f"{took}{tries} · {count(run.tokens)} tokens · {money(run.usd, run.estimated)}", class_="less"),
            h("p", run.reason, class_="why") if run.reason else None,
            data_entry=True,
        )

    return h("ul", map(entry, done), class_="list runs")


# --- what it keeps ------------------------------------------------------------------------------------


async def _own(service: Service, found: AgentDetail, project: str | None) -> Html:
    name = found.agent.name
    try:
        remembered = await memory.memory_show(service, name, project)
        todos = await memory.todos_list(service, name, project)
        notes = await memory.notes_list(service, name, project)
    except NotFound:  # a quick agent has no files
        return section("Soul", soul_lines(found.soul))
    return panel(
        await soul_section(service, name, project),
        section("Todos", _todos(todos, name, project)),
        memory_section(remembered, found, name, project),
        section("Notes", _notes(notes, name, project)),
        src=source("agent", name=name, project=project),
        part="own",
        on="ended,inbox,settled",
        label=f"What {name} keeps",
    )


def _todos(todos: Sequence[Todo], name: str, project: str | None) -> Html:
    def entry(todo: Todo) -> Html:
        if todo.done:
            return h("li", h("s", todo.text), class_="done")
        tick = form(
            f"DELETE /agents/{quote(name)}/todos/{todo.number}",
            h("button", "✓", type="submit", class_="tick", aria_label=f"Tick off: {todo.text}"),
            todo.text,
            label=f"Todo {todo.number}",
            class_="inline",
            was=todo.text,
            project=project,
        )
        return h("li", tick)

    add = form(
        f"POST /agents/{quote(name)}/todos",
        h("input", name="text", required=True, maxlength=500, placeholder="Add a todo", aria_label="New todo"),
        button("Add", class_="quiet"),
        label="Add a todo",
        class_="inline",
        project=project,
    )
    return h("div", h("ul", map(entry, todos), class_="todos") if todos else None, add)


def _notes(notes: Sequence[str], name: str, project: str | None) -> Html:
    add = form(
        f"POST /agents/{quote(name)}/notes",
        h(
            "textarea",
            name="text",
            rows=4,
            required=True,
            aria_label="New note",
            placeholder="The first line is the title",
        ),
        button("Keep it"),
        label="Add a note",
        project=project,
    )
    return h(
        "div",
        empty("None yet.") if not notes else None,
        [
            h(
                "details",
                h("summary", each),
                data_load=source("note", name=name, note=each, project=project),
                data_key=f"note-{each}",
            )
            for each in notes
        ],
        h("details", h("summary", "Add"), add, data_key="note-add"),
    )
