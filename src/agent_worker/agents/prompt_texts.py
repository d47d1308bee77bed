"""Keeps what the model is sent in each run, so that `agent-worker explain --full` can show it.

Sections and definitions of tools that were sent before are stored already: those of an agent's last run are remembered
here by their hash, so a prompt like the last one costs some hashes and no row. Those before are not: most of them are
never sent again, and a day of them is megabytes. Above: run_steps.py. Below: work/sent_texts.py.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from datetime import timedelta
from functools import partial

from agent_worker.agents.prompt import Prompt, Section, tokens_in
from agent_worker.agents.run_begin import Assignment
from agent_worker.core.errors import BadInput
from agent_worker.core.later import dataclass
from agent_worker.database.database import ProjectDatabase, Transaction
from agent_worker.definitions.fields import parse_duration
from agent_worker.definitions.settings import PROMPTS_KEPT, VARIABLES
from agent_worker.tools.tool import ToolSpec
from agent_worker.work import run_rows, sent_texts
from agent_worker.work.sent_texts import MARK, SentIds

KEPT = timedelta(seconds=PROMPTS_KEPT)  #: that texts are kept, unless the user says else
KEPT_VARIABLE = VARIABLES["keep_prompts"]
PREFACE = "preface"  #: the section of what a program is told first when it goes on with earlier work
_DAY, _MICROSECOND = timedelta(days=1), timedelta(microseconds=1)
REMEMBERED = 1000  #: who was sent something, of whom the last texts are remembered
_TOOLSETS = 256
_AT_ONCE = 100  # texts that go with one run when they are too old: nobody waits long for them


def kept_for(environ: Mapping[str, str], default: timedelta = KEPT) -> timedelta:
    """How long texts are kept, as the user has said; nothing: none are. Raises BadInput."""
    text = environ.get(KEPT_VARIABLE, "").strip()
    if not text:
        return default
    try:
        kept = timedelta(seconds=0.0 if text == "0" else parse_duration(text))
    except (ValueError, OverflowError):
        kept = _DAY / 2
    if kept and kept < _DAY:
        hint = f"a day or more: export {KEPT_VARIABLE}=30d; 0 keeps none"
        raise BadInput(f"{KEPT_VARIABLE}={text!r} is not a time to keep something", hint=hint)
    return kept


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A text on its way to a model, as it is kept."""

    text: str
    is_json: bool = False
    marked: bool = False  #: `MARK` stands in it for the mark of its run
    digest: bytes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", hashlib.sha256(self.text.encode(errors="replace")).digest())

    @classmethod
    def of(cls, section: Section, mark: str) -> Outgoing:
        """A section without the mark of its run: the same words are the same text in every run."""
        if not mark or mark not in section.text or MARK in section.text:
            return cls(section.text)
        return cls(section.text.replace(mark, MARK), marked=True)


@dataclass(frozen=True, slots=True)
class OutgoingPrompt:
    """Everything that one run is sent."""

    manifest: str
    mark: str = ""
    sections: tuple[Outgoing, ...] = ()
    tools: Outgoing | None = None
    stored: Mapping[bytes, str] = field(default_factory=dict)  #: digest → id of those that need not be stored again

    def ids(self, new: Mapping[bytes, str]) -> SentIds:
        found = {**self.stored, **new}
        return SentIds(
            tuple(found[text.digest] for text in self.sections),
            tuple(text.marked for text in self.sections),
            found[self.tools.digest] if self.tools else "",
            self.mark,
        )


@dataclass(frozen=True, slots=True)
class StoredTexts:
    """What came of keeping the texts of one run."""

    new: Mapping[bytes, str]  #: digest → id
    nothing_old: bool  #: no text is left that is too old


Recipient = tuple[str, str, str | None]  #: project, agent, workspace


class PromptTexts:
    def __init__(self, kept: timedelta = KEPT) -> None:
        self.kept = kept
        self._day = -1
        # What each was sent last, stored or sent again today: digest → id. Who was sent something last stands last.
        self._known: dict[Recipient, Mapping[bytes, str]] = {}
        self._cleaned: set[str] = set()  # projects whose old texts have gone today
        self._toolsets: dict[tuple[int, ...], tuple[tuple[ToolSpec, ...], Outgoing]] = {}

    @property
    def remembered(self) -> int:
        """How many texts are known to be stored without a look."""
        return sum(map(len, self._known.values()))

    def keep(
        self, database: ProjectDatabase, job: Assignment, prompt: Prompt, tools: tuple[ToolSpec, ...], *, now: int
    ) -> asyncio.Future[StoredTexts]:
        """Write down what a run is sent. Asked for before anything that comes of the run, it is written before."""
        self._begin_day(now // (_DAY // _MICROSECOND))
        too_old = None if job.project in self._cleaned else now - self.kept // _MICROSECOND
        outgoing = self._outgoing(job, prompt, tools)
        writing = database.write_soon(_keep, job, outgoing, too_old, now=now)
        writing.add_done_callback(partial(self._remember, job, outgoing))
        return writing

    def add_preface(self, database: ProjectDatabase, job: Assignment, text: str, *, now: int) -> asyncio.Future[None]:
        """Write down what a program is told before its prompt, as a section of it."""
        return database.write(_add_preface, job, text, is_kept=bool(self.kept), now=now)

    async def add_lesson(
        self, database: ProjectDatabase, job: Assignment, model: str, texts: Sequence[str], *, now: int
    ) -> None:
        """Write down what the model that learned from a run was told and asked, and what it answered."""
        if self.kept:
            await database.write(_add_lesson, job, model, texts, now=now)

    def _outgoing(self, job: Assignment, prompt: Prompt, tools: tuple[ToolSpec, ...]) -> OutgoingPrompt:
        if not self.kept:
            return OutgoingPrompt(prompt.manifest)
        sections = tuple(Outgoing.of(section, prompt.mark) for section in prompt.sections)
        told, known = self._definitions(tools) if tools else None, self._known.get(_recipient(job), {})
        digests = [text.digest for text in (*sections, told) if text]
        stored = {digest: known[digest] for digest in digests if digest in known}
        return OutgoingPrompt(prompt.manifest, prompt.mark, sections, told, stored)

    def _remember(self, job: Assignment, outgoing: OutgoingPrompt, written: asyncio.Future[StoredTexts]) -> None:
        """Remember that these texts are stored: they need not be written again today."""
        if written.cancelled() or written.exception():
            return  # whoever waits for it is told
        made, who = written.result(), _recipient(job)
        self._known.pop(who, None)
        self._known[who] = {**outgoing.stored, **made.new}
        while len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]
        if made.nothing_old:
            self._cleaned.add(job.project)

    def _begin_day(self, day: int) -> None:
        """Forget what was stored before today: a text that is still sent is then stored anew, and does not become too
        old."""
        if day != self._day:
            self._known.clear()
            self._cleaned.clear()
        self._day = day

    def _definitions(self, tools: tuple[ToolSpec, ...]) -> Outgoing:
        key = tuple(map(id, tools))
        made = self._toolsets.get(key)
        if made is None:
            while len(self._toolsets) >= _TOOLSETS:
                del self._toolsets[next(iter(self._toolsets))]
            # The tools are kept too: no other tool can get the id of one of theirs.
            made = self._toolsets[key] = tools, Outgoing(_as_json(tools), is_json=True)
        return made[1]


def _as_json(tools: Sequence[ToolSpec]) -> str:
    """Tools as a model is told of them; each protocol has other names for the same three fields."""
    told = [{"name": tool.name, "description": tool.description, "schema": tool.schema} for tool in tools]
    return json.dumps(told, ensure_ascii=False)


def _recipient(job: Assignment) -> Recipient:
    return job.project, job.fence.agent, job.workspace


def _keep(tx: Transaction, job: Assignment, outgoing: OutgoingPrompt, too_old: int | None, *, now: int) -> StoredTexts:
    """Everything of a run in one transaction; what is too old goes by the way."""
    texts = {text.digest: text for text in (*outgoing.sections, outgoing.tools) if text}
    new = {
        digest: sent_texts.keep(
            tx, text.text, agent=job.fence.agent, workspace=job.workspace, now=now, is_json=text.is_json
        )
        for digest, text in texts.items()
        if digest not in outgoing.stored
    }
    sent = outgoing.ids(new).dump() if texts else ""
    run_rows.keep_manifest(tx, job.run, outgoing.manifest, sent=sent)
    nothing_old = too_old is not None and sent_texts.forget_before(tx, too_old, most=_AT_ONCE) < _AT_ONCE
    return StoredTexts(new, nothing_old)


def _add_lesson(tx: Transaction, job: Assignment, model: str, texts: Sequence[str], *, now: int) -> None:
    row = run_rows.manifest_of(tx, job.run)
    ids = SentIds.load(row["sent"])
    kept = (sent_texts.keep(tx, text, agent=job.fence.agent, workspace=job.workspace, now=now) for text in texts)
    if ids.sections:
        run_rows.keep_manifest(tx, job.run, row["manifest"], sent=replace(ids, lesson=(model, *kept)).dump())


def _add_preface(tx: Transaction, job: Assignment, text: str, *, is_kept: bool, now: int) -> None:
    row = run_rows.manifest_of(tx, job.run)
    entries, ids = json.loads(row["manifest"] or "[]"), SentIds.load(row["sent"])
    at = sum(entry["part"] == "system" for entry in entries)
    size = tokens_in(text)
    entry = {"name": PREFACE, "part": "prompt", "limit": size, "source": "agent-worker"}
    entry |= {"left_out": "", "runs": (), "tokens": size}
    until = at + (at < len(entries) and entries[at]["name"] == PREFACE)
    if is_kept and ids.sections:
        id = sent_texts.keep(tx, text, agent=job.fence.agent, workspace=job.workspace, now=now)
        ids = ids.with_section(at, until, id)
    entries[at:until] = [entry]
    run_rows.keep_manifest(tx, job.run, json.dumps(entries), sent=ids.dump() if ids.sections else "")
