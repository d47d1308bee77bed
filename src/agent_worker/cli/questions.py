"""What agents ask the person, answered where it is asked: questions, approvals, votes, limits.

On a terminal each is shown with its numbered answers and the next line that is typed answers it. In a pipe one line
names the command. Who answers elsewhere meanwhile is as good.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agent_worker.cli.call import call, part
from agent_worker.cli.console import Console
from agent_worker.cli.output import paint
from agent_worker.cli.prose import drawn, wrapped
from agent_worker.core.errors import AgentWorkerError, BadInput, NotFound
from agent_worker.core.text import clean

ASKED = ("question", "approval", "vote", "veto", "limit")  #: kinds that are asked in place
_APPROVAL = ("yes, once", "yes, for this run", "yes, always for exactly this", "no (you may add a reason)")
_VETO = ("let it stand", "veto it (you may add a reason)")
_LIMIT = ("go on, with a new allowance", "leave it paused")
_ROWS = 20  #: of one argument


class Questions:
    def __init__(self, console: Console, *, otherwise: str | None = None) -> None:
        self._console = console
        self._otherwise = otherwise  # what is prompted for when nothing is asked
        self._asking = False
        self._open: list[dict[str, Any]] = []
        self._refused = ""  # an answer that is none of the options: typed once more, it is meant
        self.left_paused = False  #: the person was asked about a limit, and said no

    @property
    def is_asking(self) -> bool:
        return self._asking

    def hear(self, record: Mapping[str, Any]) -> None:
        match record:
            case {"event": "inbox", "id": str(id), "kind": kind} if kind in ASKED:
                try:
                    self._put(call("GET", f"/inbox/{part(id)}"))
                except NotFound:
                    return  # somebody was faster
            case {"event": "settled", "id": str(id)} if any(item["id"] == id for item in self._open):
                self._settled(id, "answered elsewhere")

    def answer(self, text: str) -> None:
        """The line that was typed is the answer to what is asked now."""
        item = self._open[0]
        try:
            wanted = reply_to(item, text)
            if wanted is None:
                self.left_paused = item["kind"] == "limit"
                return self._settled(item["id"], "")
            call("POST", f"/inbox/{part(item['id'])}", **wanted | {"other": text == self._refused != ""})
        except NotFound:
            self._settled(item["id"], "answered elsewhere")
        except BadInput as error:
            again = bool(item["options"]) and item["kind"] == "question" and bool(text.strip())
            self._refused = text if again else ""
            choices = choices_of(item)
            numbers = f"; please answer with a number from 1 to {len(choices)}" if choices and error.hint else ""
            more = "; type it again to answer exactly that" if again else numbers
            self._console.tell(f"{error.message}{more}", "yellow")
        except AgentWorkerError as error:
            self._console.tell(error.message, "red")
            self._settled(item["id"], "")
        else:
            self._settled(item["id"], f"✓ {_chosen(item, text)}")

    def _put(self, item: dict[str, Any]) -> None:
        if self._console.takes_keys:
            self._open.append(item)
        elif item["kind"] != "limit":  # that is the end of what is followed, and told there
            self._console.aside(in_one_line(item))

    def look(self) -> None:
        """Ask the next open question, unless one is being asked. Called after what happened before was shown."""
        if self._open and not self._asking:
            self._ask()

    def _ask(self) -> None:
        item, self._asking = self._open[0], True
        choices = choices_of(item)
        self._console.say(*shown(item, self._console.columns))
        numbers = f" (1–{len(choices)})" if choices else ""
        self._console.ask(f"your answer{numbers}: ")

    def _settled(self, id: str, told: str) -> None:
        was_first = self._open[0]["id"] == id
        self._open = [item for item in self._open if item["id"] != id]
        self._refused = ""
        if told:
            self._console.tell(told, "bright_black")
        if was_first:
            self._asking = False
            self._console.prompt(self._otherwise)
            self.look()


def choices_of(item: Mapping[str, Any]) -> tuple[str, ...]:
    """What can be answered, in the order of its numbers; empty where any words will do."""
    fixed = {"approval": _APPROVAL, "veto": _VETO, "limit": _LIMIT}
    return fixed.get(item["kind"]) or tuple(item["options"])


def _chosen(item: Mapping[str, Any], text: str) -> str:
    """What the person has said, in words."""
    first, choices = text.strip().partition(" ")[0], choices_of(item)
    if first.isdecimal() and first not in choices and 1 <= int(first) <= len(choices):
        return choices[int(first) - 1].partition(" (")[0]
    return text.strip()


def shown(item: Mapping[str, Any], columns: int) -> Iterator[str]:
    """An item as it is shown on a terminal, with its numbered answers."""
    who = clean(item["agent"])
    match item["kind"]:
        case "approval":
            yield f"{paint(who, 'yellow', bold=True)} wants to use {paint(clean(item['tool']), 'cyan')}:"
            yield from arguments(item, columns)
        case "question":
            yield from drawn(f"**{item['agent']} asks:** {item['question']}", columns)
        case "limit":
            yield ""  # the channel has told what it is
        case _:
            yield from drawn(item["text"], columns)
    for number, choice in enumerate(choices_of(item), 1):
        first, *more = wrapped(clean(choice), columns - 6) or [""]
        yield f"  {paint(f'[{number}]', 'cyan')} {first}"
        yield from (f"      {line}" for line in more)


def arguments(item: Mapping[str, Any], columns: int) -> Iterator[str]:
    """The call as one reads it: a single argument as it is, several with their names."""
    alone = len(item["arguments"]) == 1
    for name, value in item["arguments"].items():
        lines = wrapped(clean(value), columns - 4)
        if not alone and len(lines) == 1:
            lines = wrapped(clean(f"{name}: {value}"), columns - 4)
        elif not alone:
            yield f"    {clean(name)}:"
        yield from (f"    {line}" for line in lines[:_ROWS])
        if len(lines) > _ROWS:
            yield paint(f"    [… {len(lines) - _ROWS} more]", "bright_black")


def in_one_line(item: Mapping[str, Any]) -> str:
    """What waits, and the command that answers it, in one line for a pipe."""
    number = item["number"]
    verbs = {
        "approval": f"agent-worker inbox approve {number} (or deny)",
        "veto": f"agent-worker inbox approve {number} (or deny)",
        "limit": f"agent-worker inbox retry {number}",
    }
    command = verbs.get(item["kind"], f'agent-worker inbox answer {number} "…"')
    return f"waiting for you: {' '.join(item['text'].split())[:300]} → {command}"


def reply_to(item: Mapping[str, Any], text: str) -> dict[str, Any] | None:
    """What a typed line means: arguments of the answer; None leaves a limit as it is. Raises BadInput."""
    first, _, rest = text.strip().partition(" ")
    word = first.lower().rstrip(".:,)")
    match item["kind"], word:
        case "question" | "vote", _:
            return {"action": "answer", "text": text.strip()}
        case "approval", "1" | "y" | "yes" | "once":
            return {"action": "approve", "scope": "once"}
        case "approval", "2" | "run":
            return {"action": "approve", "scope": "run"}
        case "approval", "3" | "always":
            return {"action": "approve", "scope": "always"}
        case ("approval", "4" | "n" | "no") | ("veto", "2" | "n" | "no" | "veto"):
            return {"action": "deny", "text": rest.strip()}
        case "veto", "1" | "y" | "yes":
            return {"action": "approve"}
        case "limit", "1" | "y" | "yes":
            return {"action": "retry"}
        case "limit", "2" | "n" | "no":
            return None
    raise BadInput(f"please answer with a number from 1 to {len(choices_of(item))}")
