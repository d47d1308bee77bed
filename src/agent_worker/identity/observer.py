"""Notices what an agent should become, without a model: what its person keeps telling it, and what it keeps doing.

Pure: past work, the soul and the proposals there were go in, changes with their evidence come out. One counts from
three runs on, on two days or more, all of them in direct conversation with the person. What was rejected is not found
again; what was decided otherwise only by what was said since.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from itertools import pairwise

from agent_worker.core.later import dataclass, pattern
from agent_worker.identity.change import Change, Evidence
from agent_worker.identity.corrections import Correction, as_correction, corrections_in
from agent_worker.identity.past_work import PastTurn
from agent_worker.identity.proposals import Proposals
from agent_worker.identity.soul import CurrentSoul

RUNS, DAYS = 3, 2  #: what a proposal needs at least
LOOK_BACK = 400  #: pieces of work
HABIT_OF = 10  #: of the last ones that
HABIT_SHARE = 0.8  # use a tool
#: Tools whose use says something about how an agent works; those that only look are left out.
_TELLING = {
    "note_write": "Keep a note (note_write) about each piece of work",
    "todo_add": "Put what is left to do on the todo list (todo_add)",
    "memory_write": "Remember what was decided (memory_write) in each piece of work",
    "write_file": "Write the result into a file (write_file)",
    "team_doc_append": "Add the result to the team's document (team_doc_append)",
}
_EDITED = 0.75  # how alike a text and what a person made of it are
_LONG_ENOUGH = 8  # words of it
_MOST_EDITS = 4  # places: more is another text
_TERM = pattern(r"[\w'’-]+")


@dataclass(frozen=True, slots=True)
class Noticed:
    """A change that would be right, and what says so."""

    change: Change
    evidence: tuple[Evidence, ...]
    said: bool  #: in the person's own words: under `auto` only such may become part of a soul unasked


def may_tell(asked: str, tools: Collection[str]) -> bool:
    """Whether it may be worth looking at earlier work: a cheap test, which most work does not pass."""
    return len(asked.split()) >= _LONG_ENOUGH or bool(set(tools) & _TELLING.keys()) or bool(corrections_in(asked))


def is_telling(turn: PastTurn, answer_before: str = "") -> bool:
    """Whether a piece of work may be the one that completes some evidence. Most are not: nothing is looked up then."""
    if not turn.from_person:
        return False
    return (
        bool(corrections_in(turn.asked))
        or bool(set(turn.tools) & _TELLING.keys())
        or bool(replaced(answer_before, turn.asked))
    )


def notice(
    turns: Sequence[PastTurn], soul: CurrentSoul, known: Proposals, *, trusted: Collection[str] = ()
) -> list[Noticed]:
    """What the last turn makes certain. `trusted` are tools that return nothing which others wrote."""
    if not turns or not turns[-1].from_person:
        return []
    own = [turn for turn in turns if turn.from_person]
    found = [*_corrected(own, soul, known), *_edited(own, soul, known), *_habitual(own, soul, known, trusted)]
    return [each for each in found if is_enough(each.evidence)]


def is_enough(evidence: Sequence[Evidence]) -> bool:
    return len({each.run for each in evidence}) >= RUNS and len({each.day for each in evidence}) >= DAYS


# --- what the person says -----------------------------------------------------------------------------


def _corrected(turns: Sequence[PastTurn], soul: CurrentSoul, known: Proposals) -> Iterator[Noticed]:
    said = [(turn, each) for turn in turns for each in corrections_in(turn.asked)]
    for turn, latest in said:
        if turn is not turns[-1]:
            continue
        change = _change_for(latest, soul)
        if change is None:
            continue
        after = _counts_from(change, known)
        if after is None:
            continue
        same = _since_the_opposite(said, latest)
        same = [(then, each) for then, each in same if then.at > after]
        if not same:
            continue
        if change.verb != "remove":
            change = Change(change.verb, change.field, _worded(same), change.was)
        first = {then.run: Evidence(then.run, each.quote, then.day) for then, each in reversed(same)}
        yield Noticed(change, tuple(reversed(first.values())), said=True)


def _change_for(wanted: Correction, soul: CurrentSoul) -> Change | None:
    """The change that follows from what was noticed; None when the soul says so already, or there is nothing to
    drop."""
    principles = [as_correction(each) for each in soul.principles]
    if wanted.wants == "drop":
        there = next((each for each in principles if each.wants == "do" and each.opposes(wanted)), None)
        return Change("remove", "principles", there.principle) if there else None
    if any(each.means(wanted) for each in principles):
        return None
    opposite = next((each for each in principles if each.opposes(wanted)), None)
    if opposite:
        return Change("change", "principles", wanted.principle, opposite.principle)
    return Change("add", "principles", wanted.principle)


def _since_the_opposite(
    said: Sequence[tuple[PastTurn, Correction]], latest: Correction
) -> list[tuple[PastTurn, Correction]]:
    same: list[tuple[PastTurn, Correction]] = []
    for turn, each in said:
        if each.opposes(latest):
            same = []  # the person has changed their mind
        elif each.means(latest):
            same.append((turn, each))
    return same


def _worded(same: Sequence[tuple[PastTurn, Correction]]) -> str:
    """A wish as the person said it most often; of equals, as they said it last."""
    counted = Counter(each.principle for _, each in same)
    most = max(counted.values())
    return next(each.principle for _, each in reversed(same) if counted[each.principle] == most)


def _counts_from(change: Change, known: Proposals) -> float | None:
    """The time from which evidence for a change counts, as it was proposed before; None when it counts no more."""
    about = [each for each in known.entries if each.is_about(change)]
    if any(each.state in ("open", "rejected") for each in about):
        return None
    decided = [_micros(each.decided) for each in about if each.decided]
    return max(decided, default=0)


def _micros(stamp: str) -> float:
    try:
        return datetime.fromisoformat(stamp).timestamp() * 1e6
    except ValueError:
        return 0


# --- what the person changes --------------------------------------------------------------------------


def _edited(turns: Sequence[PastTurn], soul: CurrentSoul, known: Proposals) -> Iterator[Noticed]:
    """The person sends back what the agent wrote, with the same word replaced each time."""
    pairs: dict[tuple[str, str], dict[str, Evidence]] = {}
    for before, turn in pairwise(turns):
        for old, new in replaced(before.answer, turn.asked):
            quote = f"{old} → {new}"
            pairs.setdefault((old, new), {})[turn.run] = Evidence(turn.run, quote, turn.day)
    for (old, new), found in pairs.items():
        change = Change("add", "principles", f'Write "{new}", not "{old}"')
        if turns[-1].run in found and change.value not in soul.principles and _counts_from(change, known) is not None:
            yield Noticed(change, tuple(found.values()), said=False)


def replaced(before: str, after: str) -> set[tuple[str, str]]:
    """The words that somebody put in the place of others; none if the second is no edited version of the first."""
    one, two = _TERM.findall(before.lower()), _TERM.findall(after.lower())
    if min(len(one), len(two)) < _LONG_ENOUGH:
        return set()
    matcher = difflib.SequenceMatcher(None, one, two, autojunk=False)
    if matcher.quick_ratio() < _EDITED or matcher.ratio() < _EDITED:
        return set()
    edits = [each for each in matcher.get_opcodes() if each[0] != "equal"]
    if len(edits) > _MOST_EDITS:
        return set()
    swaps = [(i, j, k, m) for tag, i, j, k, m in edits if tag == "replace" and j - i <= 3 and m - k <= 3]
    return {(" ".join(one[i:j]), " ".join(two[k:m])) for i, j, k, m in swaps}


# --- what the agent does ------------------------------------------------------------------------------


def _habitual(
    turns: Sequence[PastTurn], soul: CurrentSoul, known: Proposals, trusted: Collection[str]
) -> Iterator[Noticed]:
    """A tool that it uses nearly each time. Work that read what others wrote does not count: it may be their habit."""
    lately = [turn for turn in turns if set(turn.tools) <= set(trusted)][-HABIT_OF:]
    if len(lately) < HABIT_OF or lately[-1].run != turns[-1].run:
        return
    for tool, principle in _TELLING.items():
        using = [turn for turn in lately if tool in turn.tools]
        change = Change("add", "principles", principle)
        if len(using) < HABIT_SHARE * HABIT_OF or tool not in turns[-1].tools:
            continue
        if any(tool in each for each in soul.principles) or _counts_from(change, known) is None:
            continue
        yield Noticed(change, tuple(Evidence(t.run, f"used {tool}", t.day) for t in using), said=False)
