"""What has come of an earlier question by now: for whoever left before its end, or was told that it waits."""

from __future__ import annotations

from agent_worker.agents.loader import LoadedProject
from agent_worker.core.address import Address
from agent_worker.core.errors import AgentWorkerError, NotFound
from agent_worker.core.later import dataclass
from agent_worker.database.database import Transaction
from agent_worker.doors.openai.target import answered, check_opens
from agent_worker.service.agent_run import came_of_work
from agent_worker.service.channel_run import came_of
from agent_worker.service.followed import Served
from agent_worker.service.service import Service
from agent_worker.work.door_tokens import DoorToken


@dataclass(frozen=True, slots=True)
class Retrieved:
    model: str
    at: int  #: seconds
    served: Served | None  #: None while it is worked on


async def retrieved(service: Service, loaded: LoadedProject, token: DoorToken, response: str) -> Retrieved:
    id = response.removeprefix("resp_")
    address = await service.read(loaded, answered, response)
    if address is None:
        raise NotFound(f"there is no response {response[:100]} here, or the team that gave it has ended")
    check_opens(token, address)
    at = await service.read(loaded, _asked_at, id)
    came = await (came_of_work if address.agent else came_of)(service, loaded, id)
    if isinstance(came, AgentWorkerError):
        raise came
    return Retrieved(_model(address), at, came)


def _model(address: Address) -> str:
    return str(address)


def _asked_at(tx: Transaction, id: str) -> int:
    row = tx.one(
        """select queued_at as at from instruction where project = :project and id = :id
           union all
           select m.at from delivery d
             join message m on m.project = :project and m.workspace = d.workspace and m.seq = d.seq
            where d.project = :project and d.message = :id""",
        id=id,
    )
    return int(row["at"]) // 1_000_000 if row else 0
