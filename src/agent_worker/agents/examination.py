"""Before a model decides small questions it answers some whose answer we know: one that errs is worse than rules.

Each kind of question that decides something has its papers. A run that would put such a question puts the next paper
instead, within the same budget, and the rules decide; when the last one is in, the model is asked in earnest or it is
not. A mark holds for a month and for this model at this address. The one writer of table `examination`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import cache
from typing import Literal

from agent_worker.core.clock import Clock
from agent_worker.core.later import dataclass
from agent_worker.core.text import plural
from agent_worker.database.database import ProjectDatabase, Row, Transaction
from agent_worker.identity.judging import KEPT, ProbeQuestion
from agent_worker.memory.judging import ANSWER_SAME, PAIRS, SAME, Pair, PairsQuestion, SameQuestion, Task, Verdict
from agent_worker.memory.memory import MemoryEntry
from agent_worker.work import agent_rows, inbox

HOLDS = timedelta(days=30)
DECIDES = {
    "pairs": "whether a memory repeats or replaces another",
    "same": "whether two memories say the same",
    "probe": "whether an answer keeps a principle",
}


@dataclass(frozen=True, slots=True)
class Mark:
    right: int
    harmful: int  #: wrong, so that something would have been lost or a person alarmed; what it leaves open is not


@dataclass(frozen=True, slots=True)
class Paper:
    system: str
    prompt: str
    answer: int  #: tokens
    questions: int
    marked: Callable[[str], Mark]


@dataclass(frozen=True, slots=True)
class Exam:
    papers: Sequence[Paper]
    least: int  #: right answers
    most: int = 0  #: harmful ones

    @property
    def questions(self) -> int:
        return sum(paper.questions for paper in self.papers)


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a model has come in the examination for one kind of question."""

    task: Task
    state: Literal["open", "passed", "failed"]
    right: int
    of: int
    paper: int = 0  #: the next one

    @property
    def told(self) -> str:
        """How far the model has come, as a sentence for people."""
        decides = DECIDES[self.task]
        match self.state:
            case "open":
                return f"is being examined: {decides} ({self.of} of {exams()[self.task].questions} questions so far)"
            case "passed":
                return f"may decide {decides} ({self.right} of {plural(self.of, 'test question')} right)"
            case _:
                return f"may not decide {decides} ({self.right} of {plural(self.of, 'test question')} right): rules do"


def standing(task: Task, marks: Mapping[int, Mark]) -> Standing:
    """How far a model has come with one kind of question, by the marks of the papers that it has answered."""
    exam = exams()[task]
    there = {number: mark for number, mark in marks.items() if number < len(exam.papers)}
    right, harmful = sum(mark.right for mark in there.values()), sum(mark.harmful for mark in there.values())
    of = sum(exam.papers[number].questions for number in there)
    if harmful > exam.most or right + exam.questions - of < exam.least:
        return Standing(task, "failed", right, of)
    missing = next((number for number in range(len(exam.papers)) if number not in there), None)
    return Standing(task, "passed", right, of) if missing is None else Standing(task, "open", right, of, missing)


@dataclass(frozen=True, slots=True)
class Examiner:
    """Examines one model for one agent's project."""

    database: ProjectDatabase
    clock: Clock
    model: str
    credential: str
    agent: str  #: whose work it is asked about: the person is told there

    async def standing(self, task: Task) -> Standing | None:
        """How far the model has come with a kind of question. None for a kind that decides nothing: what the model says
        is checked there, or stands beside its source.
        """
        if task not in exams():
            return None
        found = await self.database.read(standings, judge_id(self.model, self.credential), now=self.clock.micros())
        return found[task]

    async def hand_in(self, sat: Standing, told: str) -> Standing:
        mark = exams()[sat.task].papers[sat.paper].marked(told)
        return await self.database.write(hand_in, self, sat, mark, now=self.clock.micros())


def judge_id(model: str, credential: str) -> str:
    """The id of a model at an address together with the papers as they are now: new papers begin a new examination."""
    papers = "\0".join(paper.system + paper.prompt for exam in exams().values() for paper in exam.papers)
    return hashlib.sha256("\0".join((model, credential, papers)).encode()).hexdigest()[:32]


def standings(tx: Transaction, judge: str, *, now: int) -> dict[Task, Standing]:
    rows: list[Row] = tx.all(
        "select * from examination where project = :project and judge = :judge and at > :since",
        judge=judge,
        since=now - HOLDS // timedelta(microseconds=1),
    )
    marks: dict[str, dict[int, Mark]] = {}
    for row in rows:
        marks.setdefault(row["task"], {})[row["paper"]] = Mark(row["right_ones"], row["harmful"])
    return {task: standing(task, marks.get(task, {})) for task in exams()}


def hand_in(tx: Transaction, examiner: Examiner, sat: Standing, mark: Mark, *, now: int) -> Standing:
    judge = judge_id(examiner.model, examiner.credential)
    tx.run(
        """insert into examination(project, judge, task, paper, right_ones, harmful, at)
           values (:project, :judge, :task, :paper, :right, :harmful, :now)
           on conflict (project, judge, task, paper) do update
              set right_ones = excluded.right_ones, harmful = excluded.harmful, at = excluded.at""",
        judge=judge,
        task=sat.task,
        paper=sat.paper,
        right=mark.right,
        harmful=mark.harmful,
        now=now,
    )
    after = standings(tx, judge, now=now)[sat.task]
    if after.state == "failed":
        name = agent_rows.identity(tx, examiner.agent)["name"]
        text = f"{examiner.model} {after.told}. It was tried with questions whose answers we know, so that a weak "
        text += "model leaves nobody worse off than none. See what it may decide: "
        text += f"agent-worker agent info {name}. To use another model, name it under guard.model."
        inbox.ask(tx, "judge", ref=judge, text=text, agent=examiner.agent, now=now)
    return after


# --- the papers ---------------------------------------------------------------------------------------


def _pairs_paper(some: Sequence[tuple[Verdict, Pair]]) -> Paper:
    asked = PairsQuestion(tuple(pair for _, pair in some))

    def marked(told: str) -> Mark:
        said = asked.read(told)
        lost = (said.get(pair) in ("same", "update") and said[pair] != truth for truth, pair in some)
        return Mark(sum(said.get(pair) == truth for truth, pair in some), sum(lost))

    return Paper(PAIRS, asked.prompt, asked.answer, len(some), marked)


def _same_paper(truth: Verdict, pair: Pair) -> Paper:
    asked = SameQuestion(pair)

    def marked(told: str) -> Mark:
        says_so = bool(asked.read(told))
        return Mark(int(says_so == (truth == "same")), int(says_so and truth != "same"))

    return Paper(SAME, asked.prompt, ANSWER_SAME, 1, marked)


def _probe_paper(answer: str, some: Sequence[tuple[str, str]]) -> Paper:
    asked = ProbeQuestion(tuple(principle for principle, _ in some), answer)

    def marked(told: str) -> Mark:
        said = asked.read(told)
        right = sum(said.get(principle) == truth for principle, truth in some)
        return Mark(right, len(said) - right)

    return Paper(KEPT, asked.prompt, asked.answer, len(some), marked)


def _pair(known: tuple[str, str], new: tuple[str, str]) -> Pair:
    return MemoryEntry(*known, "working"), MemoryEntry(*new, "working")


#: Pairs as rules leave them open, with what is so. None of them stands in a benchmark.
PAIRS_AND_TRUTH: tuple[tuple[Verdict, Pair], ...] = (
    ("both", _pair(("library", "The library is closed on Sundays"), ("library desk", "The library lends laptops"))),
    ("same", _pair(("noise", "Nobody may use drills after eight"), ("drills", "After eight drills must not be used"))),
    ("update", _pair(("mail", "Mail is sorted by Ann"), ("sorting", "Ann has left and Bo sorts the mail now"))),
    ("same", _pair(("pens", "Pens are ordered by Rita"), ("orders", "It is Rita who orders the pens"))),
    ("both", _pair(("boat", "The boat lies in the harbour"), ("boat paint", "The boat is painted white"))),
    ("update", _pair(("bike", "The bike is broken"), ("repair", "The bike was repaired and is no longer broken"))),
    ("update", _pair(("bakery", "Bread comes from Olsen"), ("bread", "Bread no longer comes from Olsen but from Kim"))),
    ("both", _pair(("choir", "The choir sings in the church"), ("choir lead", "The choir is led by Mara"))),
    ("same", _pair(("windows", "Windows are cleaned by a robot"), ("robot", "A robot is what cleans the windows"))),
    ("both", _pair(("orchard", "The orchard has old trees"), ("orchard gate", "The orchard is locked at night"))),
    ("same", _pair(("guests", "Guests must sign in"), ("sign in", "Every guest has to sign in"))),
    ("update", _pair(("pool", "The pool is open to all"), ("pool rule", "The pool was closed and nobody may use it"))),
)

_ANSWERS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (
        "Thank you for waiting. The build failed because a file is missing. Please add the file and try again.",
        (
            ("Be polite", "yes"),
            ("Answer in French", "no"),
            ("Say why something failed", "yes"),
            ("Blame the person who asks", "no"),
        ),
    ),
    (
        "Do it yourself, I have better things to do than to look at your stupid report.",
        (("Be kind", "no"), ("Offer help", "no"), ("Never insult anybody", "no"), ("Answer in English", "yes")),
    ),
    (
        "There are two ways. The first is cheap but slow, the second is fast but costs more. I would take the first.",
        (
            ("Explain the advantages and drawbacks", "yes"),
            ("Give a recommendation", "yes"),
            ("Ask for the budget", "no"),
            ("Compare several options", "yes"),
        ),
    ),
)


@cache
def exams() -> Mapping[Task, Exam]:
    """The papers for each kind of question. Random answers pass once in a hundred times; a model that errs in one of
    seven answers passes mostly.
    """
    pairs = [_pairs_paper(PAIRS_AND_TRUTH[place : place + 3]) for place in range(0, len(PAIRS_AND_TRUTH), 3)]
    same = [_same_paper(truth, pair) for truth, pair in PAIRS_AND_TRUTH]
    probes = [_probe_paper(answer, some) for answer, some in _ANSWERS]
    return {"pairs": Exam(pairs, least=6), "same": Exam(same, least=10), "probe": Exam(probes, least=9, most=2)}
