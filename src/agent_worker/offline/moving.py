"""`db migrate`: all that the daemon keeps goes from its home to PostgreSQL, or back, while no daemon runs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from agent_worker.agents.hosting import lasting_id
from agent_worker.client.discovery import DATABASE
from agent_worker.core.clock import SystemClock
from agent_worker.core.errors import BadInput, Refused, StorageFault
from agent_worker.core.later import dataclass
from agent_worker.database.database import WholeTransaction
from agent_worker.database.recovery import look_at
from agent_worker.files.root import Root
from agent_worker.memory import audit
from agent_worker.offline.moving_files import redactor, taken_along, written_to_files
from agent_worker.offline.stored import alone, time_stamp
from agent_worker.trust import approval_rows
from agent_worker.trust.approvals import Approvals
from agent_worker.trust.shared_approvals import place_of
from agent_worker.trust.store import kept_in
from agent_worker.work import project_rows


@dataclass(frozen=True, slots=True)
class Moved:
    """What was copied, and where what was there before is kept."""

    rows: Mapping[str, int]  #: by table
    source: str  #: left as it was
    kept: Path | None = None  #: the database whose place was taken, when there was one
    told: tuple[str, ...] = ()  #: what a person should look at, a sentence each


def moved_to(url: str) -> Moved:
    """Copy what this home keeps to an empty PostgreSQL."""
    place = _place(url)
    from agent_worker.database.transfer import to_postgres

    with alone() as home:
        database = home / DATABASE
        if wrong := look_at(database):
            raise StorageFault(f"{database} is damaged: {wrong}", hint="agent-worker doctor --fix")
        settle = partial(_taken_along, home=Root.private(home))
        return Moved(to_postgres(database, place, chains, settle, redact=redactor()), str(database))


def moved_from(url: str) -> Moved:
    """Copy what a PostgreSQL holds to this home; what the home kept is set aside."""
    place = _place(url)
    from agent_worker.database.postgres_session import place_of
    from agent_worker.database.transfer import from_postgres

    with alone() as home:
        private, told, approved = Root.private(home), list[str](), dict[Path, Approvals]()
        settle = partial(_brought_home, home=private, told=told, approved=approved)
        rows, kept = from_postgres(place, home / DATABASE, chains, settle, aside=f"replaced-{time_stamp()}")
        for root, approvals in approved.items():  # last: who is killed before this is asked again
            kept_in(private, root).change(partial(Approvals.become, other=approvals))
        return Moved(rows, place_of(url), kept, tuple(told))


def _taken_along(tx: WholeTransaction, home: Root) -> dict[str, int]:
    """Checkouts are those of this host from now on; what was approved here, and what files hold, is all hosts'."""
    here = lasting_id(home)
    project_rows.become(tx, before="", after=here)
    for project in map(tx.of, project_rows.ids(tx)):
        for row in project_rows.checkouts(project):
            if row["host"] == here:
                approvals = kept_in(home, Path(row["root"])).read()
                approvals.move(place_of(here, row["root"]))
                approval_rows.store(project, approvals.written(), "")
    return taken_along(tx, here, now=SystemClock().micros())


def _brought_home(tx: WholeTransaction, home: Root, told: list[str], approved: dict[Path, Approvals]) -> dict[str, int]:
    """Keep only the checkouts of this host; for a project without one, that of another host, if it is here.

    `told` and `approved` are filled with what is to be known, and to be approved once all of it is in place.
    """
    here = lasting_id(home)
    project_rows.become(tx, before=here, after="")
    for project in project_rows.ids(tx):
        of_project = tx.of(project)
        if root := project_rows.root_here(of_project):
            approvals = Approvals.read(approval_rows.stored(of_project), place_of(here, root))
            approvals.move("")
            approved[Path(root)] = approvals
        if not project_rows.root_here(of_project):
            known = project_rows.checkouts(of_project)
            for host in [row["host"] for row in known if Path(row["root"]).is_dir()][:1]:
                project_rows.become(tx, before=host, after="", project=project)
    return written_to_files(tx, home, told)


def chains(tx: WholeTransaction) -> dict[str, str]:
    """Where the audit of each project is broken; '' where it is whole."""
    return {project: audit.flaw(tx.of(project)) for project in project_rows.ids(tx)}


def _place(url: str) -> str:
    """The address, if it is one of PostgreSQL and the library for it is here."""
    try:
        from agent_worker.database import postgres_session
    except ImportError:
        hint = "uv tool install '.[postgres]', or pip install '.[postgres]'"
        raise Refused("PostgreSQL needs a library that is not installed here", hint=hint) from None
    try:
        return postgres_session.checked(url)
    except BadInput as error:
        raise BadInput("that is not the address of a PostgreSQL database", hint=error.hint) from None
