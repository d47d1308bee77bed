"""A soul changes: a proposal is filed, decided and carried out; a person edits, or goes back to an earlier version.

The one place where the files of a soul, the audit and the person's inbox are changed together: files first, then both
others in one transaction. Whoever stops in between is found where it was left: an approval may be made again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import Literal

from agent_worker.core.clock import Clock
from agent_worker.core.errors import Refused, Stale
from agent_worker.core.later import dataclass
from agent_worker.database.database import ProjectDatabase, Transaction
from agent_worker.definitions.agent import SoulEvolution
from agent_worker.definitions.agent_blocks import Soul
from agent_worker.files.root import Root
from agent_worker.identity import proposals, soul
from agent_worker.identity.change import Change, Evidence
from agent_worker.identity.proposals import Proposals, SoulProposal
from agent_worker.identity.soul import By, CurrentSoul, SoulVersion
from agent_worker.memory import audit
from agent_worker.work import inbox

A_WEEK = timedelta(days=7)
MOST_A_WEEK = 2  #: changes that are made unasked
BY_POLICY = "soul_evolution is auto"


@dataclass(frozen=True, slots=True)
class Bearer:
    """The agent whose soul changes."""

    agent: str  #: id
    name: str
    home: Root
    definition: Soul
    policy: SoulEvolution = "propose"


@dataclass(frozen=True, slots=True)
class Evolution:
    """What may be done to the soul of one agent."""

    bearer: Bearer
    database: ProjectDatabase
    clock: Clock

    async def settled(self) -> CurrentSoul:
        """The soul that holds now, with what people did to its files written down as versions."""
        now, who = self.clock.now(), self.bearer
        found, made = await asyncio.to_thread(soul.settle, who.home, who.definition, now=now)
        await self._note_settled(found, made)
        return found

    async def known(self) -> Proposals:
        """Every proposal; those that nobody decided about in time have expired."""
        found = await asyncio.to_thread(proposals.load, self.bearer.home)
        late = proposals.overdue(found, self.clock.now())
        for each in late:
            await self._close(each, "expired", "expired", who="guard")
        return await asyncio.to_thread(proposals.load, self.bearer.home) if late else found

    async def propose(
        self, change: Change, *, by: Literal["guard", "agent"], evidence: Sequence[Evidence], run: str, reason: str = ""
    ) -> SoulProposal:
        """File a proposal, and ask the person."""
        made = await self._file(change, by=by, evidence=evidence, reason=reason)
        await self.database.write(self._ask, made, run, now=self.clock.micros())
        return made

    async def grow(self, change: Change, *, evidence: Sequence[Evidence]) -> SoulVersion | None:
        """Make an addition part of the soul unasked, as its policy allows, and tell the person."""
        made = await self.approve(await self._file(change, by="guard", evidence=evidence), unasked=True)
        if made is not None:
            told = f"{self.bearer.name} has added this to its soul ({BY_POLICY}):\n\n    {change.diff}\n\n"
            told += f"To undo it: agent-worker agent soul {self.bearer.name} rollback {made.number - 1}"
            await self.tell(f"version {made.number}", told)
        return made

    async def tell(self, about: str, text: str, *, quiet: timedelta = timedelta()) -> bool:
        """Put something about this soul before the person; not again within `quiet` of the last time."""
        return await self.database.write(self._tell, about, text, quiet, now=self.clock.micros())

    async def _file(
        self, change: Change, *, by: Literal["guard", "agent"], evidence: Sequence[Evidence], reason: str = ""
    ) -> SoulProposal:
        home, now = self.bearer.home, self.clock.now()
        return await asyncio.to_thread(proposals.add, home, change, by=by, evidence=evidence, now=now, reason=reason)

    async def approve(
        self, proposal: SoulProposal, *, digest: str | None = None, unasked: bool = False
    ) -> SoulVersion | None:
        """Make a proposal part of the soul; None when it is in it already. With `digest`, only what a person was shown.

        `unasked`: the policy allows it, nobody has looked at it.
        """
        if proposal.state != "open":
            raise Refused(f"{proposal.id} is already {proposal.state}")
        if digest is not None and proposal.digest != digest:
            raise Stale(f"{proposal.id} has changed since:\n{proposal.change.diff}", hint="look at it again")
        made = await self._amend(
            lambda found: soul.applied(proposal.change, found),
            by="guard" if unasked else "user",
            reason=f"{BY_POLICY}: {proposal.id}" if unasked else f"approved {proposal.id}",
            evidence=proposal.evidence,
            deed="evolved" if unasked else "approved",
        )
        await self._close(proposal, "approved", None, who="guard" if unasked else "user")
        return made

    async def reject(self, proposal: SoulProposal, reason: str = "") -> SoulProposal:
        """Close a proposal for good: it does not come back."""
        return await self._close(proposal, "rejected", "rejected", who="user", reason=reason)

    async def withdraw(self, runs: Collection[str]) -> list[str]:
        """Close proposals that rest on runs which a person has taken back; returns their ids."""
        found = await asyncio.to_thread(proposals.load, self.bearer.home)
        gone = proposals.resting_on(found, runs)
        for each in gone:
            await self._close(each, "withdrawn", "withdrawn", who="user")
        return [each.id for each in gone]

    async def rollback(self, number: int) -> SoulVersion | None:
        """Give the soul the text of an earlier version, byte for byte; None when it has that text already."""
        await self.settled()
        earlier = await asyncio.to_thread(soul.version_at, self.bearer.home, number)
        reason = f"back to version {number}"
        return await self._amend(lambda _: earlier.text, by="user", reason=reason, deed="rolled_back")

    async def edit(self, text: str, *, was: str) -> SoulVersion | None:
        """Replace the soul by what a person wrote, if it still says what it `was`."""

        def changed(found: CurrentSoul) -> str:
            if found.text != was:
                raise Stale(f"the soul of {self.bearer.name} was changed in the meantime", hint="look at it again")
            return text

        return await self._amend(changed, by="user", reason="edited", deed="edited")

    async def made_unasked(self, now: datetime) -> int:
        """How many changes the policy made within a week."""
        since = soul.stamp(now - A_WEEK)
        versions = await asyncio.to_thread(soul.history, self.bearer.home)
        return sum(each.by == "guard" and each.at > since for each in versions)

    async def _amend(
        self,
        make: Callable[[CurrentSoul], str],
        *,
        by: By,
        reason: str,
        deed: audit.Deed,
        evidence: Sequence[Evidence] = (),
    ) -> SoulVersion | None:
        who, now = self.bearer, self.clock.now()

        def amend() -> tuple[CurrentSoul, SoulVersion | None, list[SoulVersion]]:
            before = soul.look(who.home, who.definition)
            return before, *soul.amend(who.home, who.definition, make, by=by, reason=reason, now=now, evidence=evidence)

        before, made, settled = await asyncio.to_thread(amend)
        await self._note_settled(before, settled)
        if made is not None:
            about = f"soul, version {made.number}: {reason}"
            await self._note(deed, about, who="user" if by == "user" else by, before=before.text)
        return made

    async def _close(
        self,
        proposal: SoulProposal,
        state: proposals.State,
        deed: audit.Deed | None,
        *,
        who: str,
        reason: str = "",
    ) -> SoulProposal:
        now = self.clock.now()
        closed = await asyncio.to_thread(proposals.settle, self.bearer.home, proposal, state, now=now, reason=reason)
        await self.database.write(self._settle_item, proposal)
        if deed:
            await self._note(deed, f"soul: {proposal.change.diff}", who=who)
        return closed

    async def _note_settled(self, before: CurrentSoul, made: Sequence[SoulVersion]) -> None:
        for each in made:
            stood = next((v.text for v in reversed(before.versions) if v.number < each.number), "")
            await self._note("edited", f"soul, version {each.number}: {each.reason}", who="user", before=stood)

    async def _note(self, deed: audit.Deed, about: str, *, who: str, before: str = "", run: str = "") -> None:
        entry = audit.AuditEntry(
            self.bearer.agent, who, deed, about, json.dumps({"soul": before}) if before else "", run
        )
        await self.database.write(audit.note, entry, now=self.clock.micros())

    # --- inside the writer ----------------------------------------------------------------------------

    def _ask(self, tx: Transaction, proposal: SoulProposal, run: str, *, now: int) -> None:
        who = "guard" if proposal.by == "guard" else self.bearer.name
        about = f"soul: {proposal.change.diff}"
        audit.note(tx, audit.AuditEntry(self.bearer.agent, who, "proposed", about, run=run), now=now)
        inbox.ask(
            tx,
            "soul",
            ref=self._ref(proposal),
            agent=self.bearer.agent,
            text=asked(self.bearer.name, proposal),
            details={"proposal": proposal.id},
            digest=proposal.digest,
            now=now,
        )

    def _tell(self, tx: Transaction, about: str, text: str, quiet: timedelta, *, now: int) -> bool:
        ref = f"{self.bearer.agent}/{about}"
        last = inbox.last_asked(tx, "drift", ref)
        if last is not None and now - last < quiet.total_seconds() * 1e6:
            return False
        inbox.ask(tx, "drift", ref=ref, agent=self.bearer.agent, text=text, now=now)
        return True

    def _settle_item(self, tx: Transaction, proposal: SoulProposal) -> None:
        inbox.close_about(tx, "soul", self._ref(proposal))

    def _ref(self, proposal: SoulProposal) -> str:
        return f"{self.bearer.agent}/{proposal.id}"


def asked(name: str, proposal: SoulProposal) -> str:
    """The text that a person reads before they decide: the diff, then the evidence."""
    verb = {"add": "grow", "change": "change", "remove": "lose a line"}[proposal.change.verb]
    who = f"{name} suggests that its own soul" if proposal.by == "agent" else f"The soul of {name}"
    head = f"{who} {'would ' if proposal.by == 'agent' else 'should '}{verb}:"
    lines = [f"- {each.day}: {each.quote}" for each in proposal.evidence[-6:]]
    return "\n".join([head, "", *(f"    {line}" for line in proposal.change.diff.splitlines()), "", *lines])
