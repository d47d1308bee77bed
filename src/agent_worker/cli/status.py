"""`ls`, `status`, `trace`, `stats`, `audit`, `providers`, `backends`: commands that show something
and change nothing.
"""

from __future__ import annotations

import sys
from typing import Any

import click

from agent_worker.cli.call import addresses, agents, call, here, instances, message_ids, part
from agent_worker.cli.output import ago, as_json_option, echo, paint, paint_state, tell_json, tell_table, usd, waits
from agent_worker.core.address import WorkspaceName
from agent_worker.core.disk_space import FreeSpace
from agent_worker.core.errors import BadInput, NotFound
from agent_worker.core.provider_variables import KEYS
from agent_worker.core.states import WAITS_FOR_YOU, told
from agent_worker.core.text import clean, plural


@click.command()
@click.argument("target", required=False, shell_complete=instances)
@as_json_option
def ls(target: str | None, as_json: bool) -> None:
    """List agents and workflows; with @workflow, its members; with alice@workflow, that one.

    The label of an agent says what it can do: U reads what others wrote, S reaches what is sensitive, X changes things
    or reaches out. An agent that can do all three does nothing until you approve it.
    """
    if target:
        return _members(target, as_json)
    found = call("GET", "/status", project=here())
    if as_json:
        shown = ("agents", "instances", "workflows", "broken", "hosts")
        return tell_json({kind: found[kind] for kind in shown})
    _agents_and_teams(found)
    _hosts(found["hosts"])


def _agents_and_teams(found: dict[str, Any]) -> None:
    """Print the agents, then the workflows. Where workflows define their own agents there may be no others: then only
    the workflows.
    """
    if found["agents"] or not (found["instances"] or found["workflows"] or found["broken"]):
        _agents(found["agents"])
    _teams(found, first=not found["agents"])


def _members(target: str, as_json: bool) -> None:
    """Show the members of a running workflow, or one of them: @review, or alice@review."""
    name, _, place = target.rpartition("@")
    running = call("GET", f"/workflows/{part(place)}", project=here())
    found = [member for member in running["members"] if name.lower() in ("", member["name"].lower())]
    if not found:
        names = ", ".join(member["name"] for member in running["members"])
        hint = f"agent-worker ls @{running['name']} (its members are: {names})"
        raise NotFound(f"{name} is not a member of @{running['name']}", hint=hint)
    if as_json:
        return tell_json(found[0] if name else running)
    if not name:
        why = f": {clean(_why(running))}" if running["state"] == "paused" else ""
        echo(f"@{clean(running['name'])} is {paint_state(state_of_team(running))}{why}\n")
    rows = [(m["name"], _state(m), m["status"], _waits_for(m["waiting"])) for m in found]
    tell_table(("member", "state", "doing", ""), rows)


@click.command()
@click.argument("target", required=False, shell_complete=addresses)
@click.pass_context
@as_json_option
def status(context: click.Context, target: str | None, as_json: bool) -> None:
    """Show everything at a glance: agents, workflows, what they spent, what waits for you; or one target."""
    if target:
        from agent_worker.cli.agent import info

        context.invoke(ls if "@" in target else info, as_json=as_json, **_named(target))
        return
    found = call("GET", "/status", project=here())
    found["limits"] = call("GET", "/limits", project=here())
    if as_json:
        return tell_json(found)
    project = found["project"]
    echo(f"{paint(clean(project['name']), 'cyan', bold=True)}  {clean(project['root'])}")
    for problem in project["problems"]:
        echo(f"  {paint('!', 'red')} {clean(problem)}")
    if told := FreeSpace(**found["disk"]).told():
        echo(f"  {paint('!', 'red')} {told}")
    echo()
    _agents_and_teams(found)
    _hosts(found["hosts"])
    _limits(found["limits"])
    if found["waiting"]:
        what = "item waits" if found["waiting"] == 1 else "items wait"
        echo(f"\n{paint(str(found['waiting']), 'yellow', bold=True)} {what} for you: agent-worker inbox")


def _named(target: str) -> dict[str, str]:
    return {"target": target} if "@" in target else {"name": target}


def _limits(found: list[dict[str, Any]]) -> None:
    """Show the limits of which something is used, and those that a file would raise."""
    rows = [
        (each["of"], each["what"], _amount(each, "used"), _amount(each, "limit"))
        for each in found
        if each["used"] or each["waits"]
    ]
    if rows:
        echo()
        tell_table(("limits", "", "used", "of"), rows)
    for each in found:
        if each["waits"]:
            said = f"{clean(each['of'])}: a file says {clean(each['waits'])} (agent-worker trust)"
            echo(f"  {paint('!', 'yellow')} {said}")


def _amount(allowance: dict[str, Any], which: str) -> str:
    value = allowance[which]
    if value is None:
        return "no limit"
    if allowance["unit"] == "USD":
        return usd(value, which == "used" and allowance["estimated"])
    return plural(int(value), allowance["unit"].removesuffix("s"))


def _agents(agents: list[dict[str, Any]]) -> None:
    rows = [
        (
            a["name"],
            _state(a),
            a["backend"] + (f" {a['model']}" if a["model"] else ""),
            str(a["queued"]),
            usd(a["usd_today"], a["estimated"]),
            a["label"],
            ", ".join(filter(None, (a["unsafe"], waits(a["reason"], a["waiting"])))),
        )
        for a in agents
    ]
    titles = ("agent", "state", "backend", "queued", "today", "label", "")
    tell_table(titles, rows, empty="no agents yet: agent-worker init")


def _hosts(hosts: list[dict[str, Any]]) -> None:
    """The daemons that share the work, and whom each runs."""
    rows = [
        (
            f"{each['node']} {each['pid']}" + (" (this one)" if each["here"] else ""),
            f"{each['lease']:.0f} s" if each["lease"] > 0 else "overdue",
            str(each["working"]),
            ", ".join([*each["agents"], *each["instances"]]),
            each["checkout"] or "none",
            ", ".join(label for label in each["labels"] if not label.startswith("node:")),
        )
        for each in hosts
    ]
    if rows:
        echo()
        tell_table(("host", "lease", "working", "has", "checkout", "labels"), rows)


def _state(agent: dict[str, Any]) -> str:
    return told(agent["state"], agent["waiting"]["what"] if agent["waiting"] else "")


def _waits_for(waiting: dict[str, Any] | None) -> str:
    return waits(waiting["reason"], waiting) if waiting else ""


def _teams(found: dict[str, Any], *, first: bool) -> None:
    """The instances of workflows, and behind them the workflows of which there is none."""
    rows = [
        (f"@{i['name']}", state_of_team(i), str(i["messages"]), ", ".join(m["name"] for m in i["members"]), _why(i))
        for i in found["instances"]
    ]
    begun = {WorkspaceName.parse(i["name"]).workflow for i in found["instances"]}
    rows += [
        (f"@{name}", "not started", "0", "", command)
        for name, command in found["workflows"].items()
        if name not in begun
    ]
    rows += [(f"@{name}", told("broken"), "0", "", why) for name, why in found["broken"].items()]
    if not rows:
        return
    if not first:
        echo()
    tell_table(("workflow", "state", "messages", "members", ""), rows)


def state_of_team(instance: dict[str, Any]) -> str:
    return WAITS_FOR_YOU if instance["state"] == "running" and instance["waiting"] else told(instance["state"])


def _why(instance: dict[str, Any]) -> str:
    """What a team waits for, and what to type."""
    if instance["state"] == "paused":
        return f"{instance['reason']} → agent-worker resume @{instance['name']}"
    return "; ".join([instance["reason"] or "", *(waits(each["reason"], each) for each in instance["waiting"])]).lstrip(
        "; "
    )


@click.command()
@click.argument("message", shell_complete=message_ids)
@as_json_option
def trace(message: str, as_json: bool) -> None:
    """Show where MESSAGE (its id) went: to whom, what happened to it, in which run."""
    found = call("GET", f"/trace/{part(message)}")
    if as_json:
        return tell_json(found)
    rows = [(hop["name"], told(hop["state"], "person"), hop["run"] or "") for hop in found]
    tell_table(("to", "state", "run"), rows, empty="it went to nobody: it calls on no member")


@click.command()
@as_json_option
def stats(as_json: bool) -> None:
    """Show what this project has done and spent."""
    found = call("GET", "/stats", project=here())
    if as_json:
        return tell_json(found)
    echo(
        f"{plural(found['runs'], 'run')}, {plural(found['messages'], 'message')}, "
        f"{plural(found['tokens'], 'token')}, {usd(found['usd'], found['estimated'])}"
    )
    guesses = set(found["estimated_of"])
    for title, by in (("agent", found["by_agent"]), ("day", found["by_day"])):
        if by:
            echo()
            tell_table((title, "cost"), [(name, usd(amount, name in guesses)) for name, amount in by.items()])


@click.command()
@click.argument("agent", required=False, shell_complete=agents)
@click.option("-n", "--count", type=click.IntRange(1), default=50, show_default=True)
@as_json_option
def audit(agent: str | None, count: int, as_json: bool) -> None:
    """Show what was done to the memory of agents, and by whom.

    Exits with 1 if somebody has tampered with the record.
    """
    found = call("GET", "/audit", agent=agent, limit=count, project=here())
    if as_json:
        tell_json(found)
    else:
        rows = [(ago(e["at"]), e["agent"], e["who"], e["deed"], e["about"], e["run"]) for e in found["entries"]]
        tell_table(("when", "memory of", "who", "did", "what", "run"), rows, empty="nothing has been recorded yet")
    if found["flaw"]:
        echo(f"{clean(found['flaw'])}: the record cannot be trusted. Compare it with a backup.", err=True)
        sys.exit(1)


@click.command()
@click.argument("names", nargs=-1)
@click.option("--test", "try_out", is_flag=True, help="Check each key with one tiny request, which costs very little.")
@click.option("-m", "--model", help="The model to test with, for one provider; a cheap one by default.")
@as_json_option
def providers(names: tuple[str, ...], try_out: bool, model: str | None, as_json: bool) -> None:
    """Show which model providers can be used, by the keys that the daemon has. No key is shown.

    With --test, exits with 1 if a test failed, or if a provider that you named could not be tried.
    """
    found = {each["name"]: each for each in call("GET", "/providers")}
    if unknown := [name for name in names if name not in found]:
        raise NotFound(f"there is no provider {unknown[0]}", hint="agent-worker providers")
    chosen = [found[name] for name in names or found]
    if try_out:
        return _test_providers(chosen, model, named=bool(names), as_json=as_json)
    if as_json:
        return tell_json(chosen)
    tell_table(("provider", "usable", "key in", "host"), [_usable(each) for each in chosen])


def _usable(provider: dict[str, Any]) -> tuple[str, ...]:
    """A row of the table. Whether a server of the user's own runs is known when it is asked."""
    if provider["keyless"]:
        usable, where = "yes" if provider["configured"] else "if it runs", f"no key; at {provider['variable']}"
    else:
        usable, where = "yes" if provider["configured"] else "no", provider["variable"]
    return provider["name"], usable, where, provider["host"]


def _provider_of(model: str) -> str:
    known = [name for name in KEYS if model.startswith((f"{name}/", f"{name}:"))]
    return known[0] if known else "anthropic"


def _test_providers(chosen: list[dict[str, Any]], model: str | None, *, named: bool, as_json: bool) -> None:
    if model and len(chosen) != 1:
        raise BadInput(
            "-m is for one provider at a time", hint=f"agent-worker providers {_provider_of(model)} --test -m {model}"
        )
    found = []
    for provider in chosen:
        if provider["configured"]:
            echo(f"testing {provider['name']} …", err=True)
        found.append(call("POST", f"/providers/{part(provider['name'])}/test", model=model, project=here()))
    if as_json:
        tell_json(found)
    else:
        rows = [(each["name"], each["state"], each["model"], _proof(each)) for each in found]
        tell_table(("provider", "test", "model", ""), rows)
        if any(each["usd"] for each in found):
            echo("this counts towards what this project spends today: agent-worker stats")
    if any(each["state"] == "failed" or (named and each["state"] != "ok") for each in found):
        sys.exit(1)


def _proof(tested: dict[str, Any]) -> str:
    if tested["state"] == "ok":
        cost = usd(tested["usd"], tested["estimated"])
        return f"it answers; {plural(tested['tokens'], 'token')}, {cost}"
    return f"{tested['reason']} ({tested['hint']})" if tested["hint"] else str(tested["reason"])


@click.command()
@click.argument("names", nargs=-1)
@click.option("--test", "try_out", is_flag=True, help="Try each with two tiny runs, which cost a little.")
@click.option("-m", "--model", help="The model to test with.")
@as_json_option
def backends(names: tuple[str, ...], try_out: bool, model: str | None, as_json: bool) -> None:
    """Show which backends there are, and what each can do here."""
    chosen = [each for name in names or (None,) for each in call("GET", "/backends", only=name)]
    if try_out:
        chosen = [_tested(each, model) for each in chosen if each["where"] not in ("", "built in")]
        if not chosen:
            raise NotFound("none of these programs is installed", hint="agent-worker backends")
    if as_json:
        return tell_json(chosen)
    rows = [(b["name"], b["version"], b["where"] or "not installed", b["preempts"], _shown(b)) for b in chosen]
    tell_table(("backend", "version", "where", "interrupted", ""), rows)


def _tested(backend: dict[str, Any], model: str | None) -> dict[str, Any]:
    """What it can do; that it cannot be tried with this model is told in its row, and the others are tried."""
    echo(f"testing {backend['name']} …", err=True)
    try:
        return dict(call("POST", f"/backends/{part(backend['name'])}/test", model=model, project=here(), timeout=1200))
    except BadInput as error:
        why = f"{error.message} ({error.hint})" if error.hint else error.message
        return backend | {"tested": {"version": backend["version"], "seen": {"works": False, "reason": why}}}


def _shown(backend: dict[str, Any]) -> str:
    tested = backend["tested"]
    if tested is None:
        return str(backend["note"] or ("not tested: agent-worker backends --test" if backend["version"] else ""))
    seen = tested["seen"]
    if not seen["works"]:
        return f"does not work: {seen['reason']}"
    can = [word for word in ("tools", "streams", "resumes", "tokens", "cost") if seen[word]]
    stale = "" if tested["version"] == backend["version"] else f" (with {tested['version']}: test it again)"
    return f"{', '.join(can)}; {seen['seconds']} s{stale}"
