"""`runs` and `explain`: what agents did, and what one run saw, did and led to."""

from __future__ import annotations

from typing import Any

import click

from agent_worker.cli.call import agents, call, here, part, run_ids
from agent_worker.cli.output import ago, as_json_option, echo, tell_json, tell_table, usd
from agent_worker.core.errors import NotFound
from agent_worker.core.states import told
from agent_worker.core.text import clean


@click.command()
@click.option("--agent", shell_complete=agents, help="Only the runs of this agent.")
@click.option("-n", "--count", type=click.IntRange(1), default=20, show_default=True)
@as_json_option
def runs(agent: str | None, count: int, as_json: bool) -> None:
    """List the newest runs."""
    found = call("GET", "/runs", project=here(), agent=agent, limit=count)
    if as_json:
        return tell_json(found)
    rows = [
        (
            r["id"],
            r["agent"],
            "taken back" if r["held"] else told(r["state"]),
            ago(r["started_at"]),
            str(r["steps"]),
            f"{r['tokens']:,}",
            usd(r["usd"], r["estimated"]),
            "; ".join(filter(None, (_tries(r), r["reason"]))),
        )
        for r in found
    ]
    tell_table(("run", "agent", "state", "started", "steps", "tokens", "cost", ""), rows, empty="no runs yet")


def _tries(run: dict[str, Any]) -> str:
    """How many times a run has begun, if its model has sent it away."""
    return f"{run['tries']:,} tries" if run["tries"] > 1 else ""


@click.command()
@click.argument("run", required=False, shell_complete=run_ids)
@click.option("--full", is_flag=True, help="Show what its model was sent, word by word: prompt, tools, every request.")
@as_json_option
def explain(run: str | None, full: bool, as_json: bool) -> None:
    """Show what RUN saw (the sections of its prompt) and did (its steps). Without RUN, the newest one.

    What a coding program did with its own tools is marked (its own): it told us, and we had no part in it.
    """
    found = call("GET", f"/runs/{part(run or _newest_run())}", full=full)
    if as_json:
        return tell_json(found)
    about = found["run"]
    if about["held"]:
        echo("a person took back what this run was told, said and learned; only people see it")
    cost = usd(about["usd"], about["estimated"])
    with_what = " ".join(dict.fromkeys((about["backend"], about["model"])))  # the model of a mock is called mock
    facts = (f"{about['agent']} {told(about['state'])}", with_what, _tries(about), cost)
    echo("  ".join(filter(None, facts)))
    if about["reason"] and about["state"] != "done":
        echo(f"  {clean(about['reason'])}")
    echo(f"\nasked: {clean(found['instruction'])[:500]}\n")
    _tell_causes(found["causes"])
    rows = [(s["name"], _size(s), s["source"], s["left_out"]) for s in found["sections"]]
    tell_table(("section", "tokens", "from", "left out"), rows, empty="no prompt is recorded for this run")
    if full:
        from agent_worker.cli.sent import tell_sent

        tell_sent(found["sent"])
    # A program that was only begun has said, done and used nothing yet.
    steps = [step for step in found["steps"] if step["text"] or step["calls"] or step["tokens"]]
    for number, step in enumerate(steps, 1):
        echo(f"\nstep {number}  {step['tokens']:,} tokens  {usd(step['usd'], step['estimated'])}")
        if step["text"]:
            echo(f"  {clean(step['text'])[:1000]}")
        for used in step["calls"]:
            _tell_call(used)
    if not full and rows:
        echo(f"\nwhat its model was sent, word by word: agent-worker explain {clean(about['id'])} --full")


def _size(section: dict[str, Any]) -> str:
    limit = f" / {section['limit']:,}" if section["limit"] else ""
    return f"{section['tokens']:,}{limit}"


def _tell_causes(causes: dict[str, Any]) -> None:
    """What led to a run, and what came of it; nothing where it stands alone."""
    for each in causes["chain"]:
        by = f" in {each['run']}" if each["run"] else ""
        about = f" (vote {each['proposal']})" if each["proposal"] else ""
        echo(f"because: @{each['workspace']} #{each['seq']} by {clean(each['sender'])}{by}{about}")
    for each in causes["beside"]:
        echo(f"with it: @{each['workspace']} #{each['seq']} by {clean(each['sender'])}")
    for each in causes["woke"]:
        echo(f"woke: {clean(each['agent'])} by #{each['seq']}, {told(each['state'])}: {each['id']}")
    if causes["copy"]:
        echo(f"changed: {clean(causes['copy']['text'])}")
    if any(causes.values()):
        echo()


def _newest_run() -> str:
    found = call("GET", "/runs", project=here(), limit=1)
    if not found:
        raise NotFound("no agent has run here yet", hint="agent-worker ls")
    return str(found[0]["id"])


def _tell_call(used: dict[str, Any]) -> None:
    mark = "…" if used["done_at"] is None else "→" if used["ok"] else "✗"
    whose = " (its own)" if used["own"] else ""
    echo(f"  {mark} {clean(used['tool'])}{whose} {clean(used['arguments'])[:200]}")
    echo(f"    {clean(used['result'])[:300] if used['done_at'] else 'not finished'}")
