"""Settings: what holds and where that comes from, keys and providers, backends, notifications, and what is kept.

What is chosen in a file is shown with the file it belongs in, as `agent-worker settings` shows it; what is asked of
the daemon at once (a key, a test, a backup) is a button.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from agent_worker.core.disk_space import amount
from agent_worker.core.errors import AgentWorkerError
from agent_worker.core.provider_variables import KEY_SOURCES, KEYLESS, KEYS
from agent_worker.core.text import plural
from agent_worker.daemon.web.every_project import of_each
from agent_worker.daemon.web.frame import View, answer, button, empty, form, money, panel, section, source, with_code
from agent_worker.daemon.web.markup import Child, Html, h
from agent_worker.service import backends, backups, cleanup, notifications, providers, settings
from agent_worker.service.backends import BackendStatus
from agent_worker.service.notifications import SinkView
from agent_worker.service.operation import operation
from agent_worker.service.projects import ProjectSummary
from agent_worker.service.service import Service
from agent_worker.service.settings import Setting

Chosen = Sequence[tuple[ProjectSummary, list[Setting]]]


@operation("GET", "/page/settings")
async def settings_view(service: Service) -> View:
    chosen = await of_each(service, settings.settings_list)
    roots = [project.root for project, _ in chosen]
    some = next(iter(roots), None)
    return View(
        "Settings",
        h(
            "div",
            h("header", h("h1", "Settings"), class_="bar"),
            panel(
                await _keys(service),
                await _providers(service, some),
                await _backends(service, some),
                await _notifications(service, roots),
                src=source("settings"),
                on="settled",
                label="Keys, models and notifications",
            ),
            section("All settings", *_settings(service, chosen)),
            section("Keep and clean up", _backup(service), _leftovers()),
            section("This page", _sign_out()),
            class_="plain settings",
        ),
    )


def _table(titles: Sequence[tuple[str, str]], rows: Sequence[Html]) -> Html:
    head = h("tr", [h("th", title, class_=class_ or None, scope="col") for title, class_ in titles])
    return h("table", h("thead", head), h("tbody", rows))


# --- keys and providers -----------------------------------------------------------------------------------------------


async def _keys(service: Service) -> Html:
    found = await providers.keys_list(service)
    rows = [
        h(
            "tr",
            h("td", h("code", each.variable)),
            h("td", each.provider, class_="less"),
            h("td", f"from {KEY_SOURCES[each.source]}", class_="less"),
            h("td", _forget(each.variable) if each.source == "stored" else None, class_="number"),
            data_key=f"key-{each.variable}",
            data_entry=True,
        )
        for each in found
    ]
    titles = (("key", ""), ("provider", ""), ("from", ""), ("action", "number"))
    names = h("datalist", [h("option", value=name) for name in KEYS if name not in KEYLESS], id="providers")
    whose = h(
        "input",
        name="name",
        required=True,
        list="providers",
        placeholder="a provider, or a variable",
        autocomplete="off",
        aria_label="Whose key",
    )
    value = h(
        "input",
        name="value",
        type="password",
        required=True,
        placeholder="the key",
        autocomplete="off",
        aria_label="Key",
    )
    add = form("POST /keys", whose, value, button("Store the key"), names, label="Store a key", class_="inline settle")
    return section(
        "Keys",
        _table(titles, rows) if rows else empty("No keys yet. Agents that use a model API need one."),
        add,
        h("p", "A stored key is kept in the daemon’s home and never shown.", class_="less"),
    )


def _forget(variable: str) -> Html:
    return form(
        f"DELETE /keys/{quote(variable)}",
        button("Remove", class_="quiet", aria_label=f"Remove {variable}"),
        label=f"Remove {variable}",
        class_="inline",
    )


async def _providers(service: Service, project: str | None) -> Html:
    """Where a model can be had, and whether its key is good."""
    rows = [
        h(
            "tr",
            h("td", h("b", each.name)),
            h("td", "yes" if each.configured else "no", class_="" if each.configured else "less"),
            h("td", "none needed" if each.keyless else h("code", each.variable), class_="wide less"),
            h("td", each.host, class_="wide less"),
            h("td", _try("provider", each.name, project) if each.configured and project else None, class_="number"),
            data_key=f"provider-{each.name}",
            data_entry=True,
        )
        for each in await providers.providers(service)
    ]
    titles = (("provider", ""), ("usable", ""), ("key in", "wide"), ("host", "wide"), ("action", "number"))
    told = "A test is one tiny request. It costs very little, which counts in what a project spends today."
    return section("Model providers", _table(titles, rows), answer("provider-told"), h("p", told, class_="less"))


def _try(what: str, name: str, project: str) -> Html:
    return form(
        f"POST /page/{what}-test",
        button("Test", class_="quiet", aria_label=f"Test {name}"),
        label=f"Test {name}",
        class_="inline",
        tells=f"{what}-told",
        name=name,
        project=project,
    )


@operation("POST", "/page/provider-test")
async def provider_tried(service: Service, name: str, project: str | None = None) -> View:
    """What came of a test of a provider's key, as a sentence."""
    found = await providers.provider_test(service, name, project=project)
    if found.state != "ok":
        why = f"{name}: {found.reason or found.state}."
        return View("", h("p", why, " ", h("span", found.hint, class_="less"), class_="why"))
    cost = money(found.usd, found.estimated)
    return View("", h("p", f"{name} works: {found.model} answered, with {plural(found.tokens, 'token')}, {cost}."))


# --- backends ---------------------------------------------------------------------------------------------------------


async def _backends(service: Service, project: str | None) -> Html:
    rows = [_backend(each, project) for each in await backends.backends(service)]
    titles = (("backend", ""), ("where", ""), ("interrupted", "wide"), ("notes", "wide"), ("action", "number"))
    told = "A test is two tiny runs of the program. They cost what such runs cost."
    return section("Backends", _table(titles, rows), answer("backend-told"), h("p", told, class_="less"))


def _backend(each: BackendStatus, project: str | None) -> Html:
    is_program = each.where not in ("", "built in")
    where = h("span", each.where or "not installed", class_="" if each.where else "less")
    return h(
        "tr",
        h("td", h("b", each.name)),
        h("td", where, h("span", f" {each.version}", class_="less") if each.version else None, class_="words"),
        h("td", each.preempts, class_="wide less"),
        h("td", _tested(each) or each.note, class_="wide less words"),
        h("td", _try("backend", each.name, project) if is_program and project else None, class_="number"),
        data_key=f"backend-{each.name}",
        data_entry=True,
    )


def _tested(each: BackendStatus) -> str:
    if each.tested is None:
        return ""
    seen = each.tested.seen
    can = [
        word
        for word, is_so in (
            ("tools", seen.tools),
            ("streams", seen.streams),
            ("resumes", seen.resumes),
            ("tokens", seen.tokens),
            ("cost", seen.cost),
        )
        if is_so
    ]
    return f"works: {', '.join(can)}" if seen.works else f"did not work: {seen.reason}"


@operation("POST", "/page/backend-test")
async def backend_tried(service: Service, name: str, project: str | None = None) -> View:
    """What came of a test of a program, as a sentence."""
    found = await backends.backend_test(service, name, project=project)
    works = found.tested is not None and found.tested.seen.works
    return View("", h("p", f"{name} {_tested(found)}.", class_=None if works else "why"))


# --- notifications ----------------------------------------------------------------------------------------------------


async def _notifications(service: Service, projects: Sequence[str]) -> Html:
    try:
        found = await notifications.sinks_of(service, projects)
    except AgentWorkerError as error:  # the file that says where is wrong: of all that is here, only this
        return section("Notifications", h("p", error.message, class_="why"))
    if not found:
        told = "None are set up: everything waits in the inbox. They are set up in notify.yaml in the daemon’s home."
        return section("Notifications", empty(told))
    test = form(
        "POST /notifications/test",
        button("Send a test", class_="quiet"),
        h("span", "puts a test item into your inbox, which is sent to all of them", class_="less"),
        label="Send a test",
        class_="inline",
        then="#/inbox",
        project=next(iter(projects), None),
    )
    return section("Notifications", h("ul", [_sink(each) for each in found], class_="list"), test if projects else None)


def _sink(each: SinkView) -> Html:
    left = f"{each.waiting:,} still to be sent" if each.waiting else ""
    return h(
        "li",
        h("b", each.name),
        h("span", f"{each.to}, {', '.join(each.kinds) or 'everything'}", class_="less"),
        h("span", left, class_="less") if left else None,
        h("p", f"The last try failed: {each.trouble}", class_="why") if each.trouble else None,
        data_entry=True,
    )


# --- settings ---------------------------------------------------------------------------------------------------------


def _settings(service: Service, chosen: Chosen) -> list[Child]:
    rows = [_setting(each, chosen) for each in settings.your_settings(service)]
    where = settings.settings_file(service)
    return [
        h(
            "p",
            "Yours, for all projects, are in ",
            h("code", where),
            ", read when the daemon starts; a project’s are under ",
            h("code", "settings:"),
            " in its ",
            h("code", "moniro.yaml"),
            ", read when the file changes.",
            class_="less",
        ),
        _table((("setting", ""), ("value", ""), ("from", "wide"), ("what it does", "wide")), rows),
    ]


def _setting(each: Setting, chosen: Chosen) -> Html:
    """One setting, and under it the projects that say something else."""
    what = with_code("; ".join(filter(None, (each.what, each.note))))
    here = [(project, one) for project, all_of in chosen for one in all_of if one.name == each.name]
    others = [h("p", f"{one.value} in {project.name}") for project, one in here if one.source == "project"]
    refused = [
        h("p", f"{project.name} asks for {one.refused}, which is more than you allow", class_="why")
        for project, one in here
        if one.refused
    ]
    return h(
        "tr",
        h("td", h("code", each.name), h("p", what, class_="less narrow")),
        h("td", h("code", each.value) if each.value else h("span", "none", class_="less"), others, class_="words"),
        h("td", each.where or each.source, class_="wide less words"),
        h("td", what, refused, class_="wide less"),
        data_entry=True,
    )


# --- what is kept -----------------------------------------------------------------------------------------------------


def _backup(service: Service) -> Html:
    if command := backups.made_elsewhere(service):
        return h("p", "PostgreSQL keeps the state, and makes its own backups: ", h("code", command), class_="words")
    return h(
        "div",
        form(
            "POST /page/backup",
            button("Back up now", class_="quiet"),
            h("span", "copies everything the daemon keeps to one file in its home, while it works", class_="less"),
            label="Back up",
            class_="inline",
            tells="backup-told",
        ),
        answer("backup-told"),
    )


@operation("POST", "/page/backup")
async def backed_up(service: Service) -> View:
    """Where the copy is."""
    made = await backups.backup(service)
    size = f", {amount(made.bytes)}. To put it back: "
    command = h("code", f"agent-worker restore {made.path}")
    return View("", h("p", "Copied to ", h("code", made.path), size, command, class_="words"))


def _leftovers() -> Html:
    return h("details", h("summary", "What nobody needs any more"), data_load=source("leftovers"), data_key="leftovers")


@operation("GET", "/page/leftovers")
async def leftovers_view(service: Service) -> View:
    """What `agent-worker gc` would remove."""
    found = await cleanup.leftovers(service)
    if not found:
        return View("", empty("There is nothing to remove."))
    rows = [
        h(
            "tr",
            h("td", each.what, class_="words"),
            h("td", each.path, class_="path"),
            h("td", amount(each.bytes), class_="number"),
        )
        for each in found
    ]
    remove = form(
        "DELETE /leftovers", button("Remove all of it"), label="Remove leftovers", class_="inline", then="#/settings"
    )
    return View("", h("div", _table((("what", ""), ("where", ""), ("size", "number")), rows), remove))


def _sign_out() -> Html:
    return form(
        "POST /page/logout",
        button("Sign out", class_="quiet"),
        h("span", "A page stays signed in for thirty days. This signs out all of them.", class_="less"),
        label="Sign out",
        class_="inline",
    )
