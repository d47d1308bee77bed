"""Runs: one row per try of one agent at its work. The one writer of table `run`.

Opened and ended in the transactions of agents/run_begin.py and agents/run_end.py; what it works on is in queue.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent_worker.core.ids import new_id
from agent_worker.database.database import Row, Transaction


def take_up(tx: Transaction, taken: Sequence[Row]) -> str | None:
    """Continue the run that only waited for its model, if its work is taken first again; other runs that waited end."""
    known = {row["run"] for row in taken if row["run"]}
    if not known:
        return None
    first = tx.one(
        """update run set state = 'running', reason = '', tries = tries + 1
            where project = :project and id = :run and instruction = :first and state = 'waiting' returning id""",
        run=taken[0]["run"],
        first=taken[0]["id"],
    )
    for run in known - ({first["id"]} if first else set()):
        tx.run("update run set state = 'yielded' where project = :project and id = :run and state = 'waiting'", run=run)
    return str(first["id"]) if first else None


def open_run(tx: Transaction, first: Row, *, backend: str, model: str, now: int) -> str:
    run = new_id("r")
    tx.run(
        """insert into run(project, id, instruction, agent, workspace, root, backend, model, state, started_at)
           values (:project, :id, :instruction, :agent, :workspace, :root, :backend, :model, 'running', :now)""",
        id=run,
        instruction=first["id"],
        agent=first["agent"],
        workspace=first["workspace"],
        root=first["root"],
        backend=backend,
        model=model,
        now=now,
    )
    return run


def rest_run(tx: Transaction, run: str, *, reason: str) -> None:
    """Note that a run waits for its model, and goes on when the model lets it."""
    tx.run(
        """update run set state = 'waiting', reason = :reason
            where project = :project and id = :run and state = 'running'""",
        run=run,
        reason=reason,
    )


def refuse(tx: Transaction, run: str, *, reason: str) -> None:
    """Let a run that was done count as failed: whoever asked cannot use its answer, which is kept."""
    tx.run(
        "update run set state = 'failed', reason = :reason where project = :project and id = :run and state = 'done'",
        run=run,
        reason=reason,
    )


def forgive(tx: Transaction, run: str) -> None:
    """Do not count an attempt against its work: it was lost with its host, as others were."""
    tx.run("update run set blamed = 0 where project = :project and id = :run", run=run)


def close_run(
    tx: Transaction, run: str, state: str, *, reason: str = "", remedy: str = "", text: str = "", now: int
) -> None:
    tx.run(
        """update run set state = :state, reason = :reason, remedy = :remedy, text = :text, ended_at = :now
            where project = :project and id = :run and state = 'running'""",
        run=run,
        state=state,
        reason=reason,
        remedy=remedy,
        text=text,
        now=now,
    )


def note_produced(tx: Transaction, run: str, *, posted: bool = False) -> None:
    """Note that a run had a stored effect: it posted, or changed something the team keeps."""
    tx.run(
        "update run set produced = produced + 1, posted = posted + :posted where project = :project and id = :run",
        run=run,
        posted=int(posted),
    )


def note_outside(tx: Transaction, run: str, by: str) -> None:
    """Note that what a run says and learns from now on may come from outside our workspaces."""
    tx.run("update run set outside = :by where project = :project and id = :run and outside = ''", run=run, by=by)


def held_among(tx: Transaction, runs: Iterable[str]) -> set[str]:
    """Which of these runs a person has taken back."""
    look = "select 1 from run where project = :project and id = :run and held = 1"
    return {run for run in set(runs) if tx.one(look, run=run)}


def produced_by(tx: Transaction, instruction: str) -> Row:
    """What all runs that it led have posted and produced: being pushed aside in between makes no difference."""
    row = tx.one(
        """select coalesce(sum(posted), 0) as posted, coalesce(sum(produced), 0) as produced
             from run where project = :project and instruction = :instruction""",
        instruction=instruction,
    )
    assert row is not None
    return row


def keep_manifest(tx: Transaction, run: str, manifest: str, *, sent: str = "") -> None:
    """Keep what the prompt of a run is made of, and by which ids its texts are found."""
    tx.run(
        "update run set manifest = :manifest, sent = :sent where project = :project and id = :run",
        run=run,
        manifest=manifest,
        sent=sent,
    )


def is_there(tx: Transaction, run: str) -> bool:
    return tx.one("select 1 as found from run where project = :project and id = :run", run=run) is not None


def manifest_of(tx: Transaction, run: str) -> Row:
    row = tx.one("select manifest, sent from run where project = :project and id = :run", run=run)
    assert row is not None
    return row


def lost_runs(tx: Transaction, instruction: str) -> int:
    """How many runs of an instruction never came to an end of their own."""
    row = tx.one(
        "select count(*) as n from run where project = :project and instruction = :id and state = 'lost'",
        id=instruction,
    )
    return int(row["n"]) if row else 0


def deaths(tx: Transaction, instruction: str) -> int:
    """How many lost runs of an instruction may have been its own doing."""
    row = tx.one(
        """select count(*) as n from run
            where project = :project and instruction = :id and state = 'lost' and blamed = 1""",
        id=instruction,
    )
    return int(row["n"]) if row else 0


def end_waiting(tx: Transaction, instruction: str, state: str, *, reason: str, now: int) -> None:
    """End the run that waits for its model in this work."""
    tx.run(
        """update run set state = :state, reason = :reason, ended_at = :now
            where project = :project and instruction = :id and state = 'waiting'""",
        id=instruction,
        state=state,
        reason=reason,
        now=now,
    )


def take_back(tx: Transaction, run: str) -> None:
    """Mark a run as taken back."""
    tx.run("update run set held = 1 where project = :project and id = :run", run=run)


def forget_texts(tx: Transaction, agent: str) -> None:
    """Forget what a deleted agent read and wrote. That it ran, and when, stays for whoever counts costs."""
    tx.run(
        """update run set text = '', reason = '', manifest = '', sent = ''
            where project = :project and agent = :agent""",
        agent=agent,
    )


def forget_workspace(tx: Transaction, workspace: str) -> None:
    tx.run("delete from run where project = :project and workspace = :workspace", workspace=workspace)
