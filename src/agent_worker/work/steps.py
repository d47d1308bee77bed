"""Completed steps and tool calls: what a run leaves behind so that the next one goes on from there.

The one writer of tables `step`, `call` and `program_call`. A step is stored when the model has answered, before its
calls are made; a call is `started` before it reaches outside and `done` with its result. A stored effect and its `done`
are one transaction. What a coding program does with its own tools is only written down, for people: no later run goes
on from it.
"""

from __future__ import annotations

from agent_worker.core.later import dataclass
from agent_worker.database.database import Row, Transaction
from agent_worker.work.queue import OF_WORKSPACE


@dataclass(frozen=True, slots=True)
class CallPosition:
    """Where a call stands: the work, the step in it, and the call's own id in that step."""

    work: str
    step: int
    call: str

    @property
    def key(self) -> str:
        return f"{self.work}/{self.step}/{self.call}"


def keep(tx: Transaction, *, work: str, step: int, run: str, reply: str, tokens: int, micros: int, now: int) -> None:
    tx.run(
        """insert into step(project, work, n, run, reply, tokens, micros, at)
           values (:project, :work, :n, :run, :reply, :tokens, :micros, :now)
           on conflict (project, work, n) do nothing""",
        work=work,
        n=step,
        run=run,
        reply=reply,
        tokens=tokens,
        micros=micros,
        now=now,
    )


def of_work(tx: Transaction, work: str) -> list[Row]:
    return tx.all("select * from step where project = :project and work = :work order by n", work=work)


def step_at(tx: Transaction, work: str, n: int) -> Row | None:
    return tx.one("select * from step where project = :project and work = :work and n = :n", work=work, n=n)


def calls_of_work(tx: Transaction, work: str) -> list[Row]:
    return tx.all("select * from call where project = :project and work = :work order by step, at, id", work=work)


def call_at(tx: Transaction, place: CallPosition) -> Row | None:
    return tx.one(
        "select * from call where project = :project and work = :work and step = :step and id = :id",
        work=place.work,
        step=place.step,
        id=place.call,
    )


def put_call(
    tx: Transaction,
    place: CallPosition,
    *,
    run: str,
    tool: str,
    arguments: str,
    now: int,
    result: str | None = None,
    images: str = "",
    ok: bool = True,
) -> None:
    """Without a result it is `started`; with one it is `done`, whether it was noted before or not. Done is final."""
    tx.run(
        """insert into call(project, work, step, id, run, tool, arguments, state, result, images, ok, at, done_at)
           values (:project, :work, :step, :id, :run, :tool, :arguments, :state, :result, :images, :ok, :now, :done)
           on conflict (project, work, step, id) do update
              set state = excluded.state, result = excluded.result, images = excluded.images, ok = excluded.ok,
                  done_at = excluded.done_at
            where call.state = 'started' and excluded.state = 'done'""",
        work=place.work,
        step=place.step,
        id=place.call,
        run=run,
        tool=tool,
        arguments=arguments,
        state="started" if result is None else "done",
        result=result or "",
        images=images,
        ok=int(ok),
        now=now,
        done=None if result is None else now,
    )


def begin_program_call(
    tx: Transaction, *, work: str, run: str, n: int, step: int, tool: str, arguments: str, now: int
) -> None:
    """A program has begun to use a tool of its own. Whoever may write now: it has done so."""
    tx.run(
        """insert into program_call(project, work, run, n, step, tool, arguments, at)
           values (:project, :work, :run, :n, :step, :tool, :arguments, :now)
           on conflict (project, work, run, n) do nothing""",
        work=work,
        run=run,
        n=n,
        step=step,
        tool=tool,
        arguments=arguments,
        now=now,
    )


def end_program_call(tx: Transaction, *, work: str, run: str, n: int, result: str, ok: bool, now: int) -> None:
    tx.run(
        """update program_call set result = :result, ok = :ok, done_at = :now
            where project = :project and work = :work and run = :run and n = :n and done_at is null""",
        work=work,
        run=run,
        n=n,
        result=result,
        ok=int(ok),
        now=now,
    )


def forget(tx: Transaction, agent: str) -> None:
    """Forget the steps of an agent that is gone."""
    tx.run(f"delete from step where project = :project and work in ({_WORK_OF_AGENT})", agent=agent)
    tx.run(f"delete from call where project = :project and work in ({_WORK_OF_AGENT})", agent=agent)
    tx.run(f"delete from program_call where project = :project and work in ({_WORK_OF_AGENT})", agent=agent)


_WORK_OF_AGENT = "select work from instruction where project = :project and agent = :agent"
_WORK = f"select work from instruction where project = :project and id in ({OF_WORKSPACE})"


def forget_workspace(tx: Transaction, workspace: str) -> None:
    """Forget the steps of all work in a workspace. The instructions must still be there."""
    tx.run(f"delete from step where project = :project and work in ({_WORK})", workspace=workspace)
    tx.run(f"delete from call where project = :project and work in ({_WORK})", workspace=workspace)
    tx.run(f"delete from program_call where project = :project and work in ({_WORK})", workspace=workspace)
