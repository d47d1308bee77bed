"""What the three protocols of model APIs have in common: a turn becomes a request, events become an answer.

A protocol is pure: it opens no connection (model_client.py does) and judges no answer (reply.py does). Past steps are
turned into JSON once and kept for as long as the step itself lives, because the cost of a step must not grow with the
length of the work.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, Protocol

from agent_worker.backends.backend import PastStep, Turn
from agent_worker.backends.models.providers import Quirks, Route
from agent_worker.core.json_object import json_object
from agent_worker.core.later import dataclass
from agent_worker.tools.tool import Call, Result, ToolSpec

Json = dict[str, Any]

#: Why an answer ended. `paused`: it wants to be asked again; `refused`: by a filter of the provider.
Stop = Literal["end", "calls", "length", "paused", "refused"]

GO_ON = "Go on."
CALL_CUT_OFF = "The call was cut off."
NOT_SHOWN = "[an image that this provider cannot be shown]"
#: The one argument of a call whose arguments are no JSON object; the tool's own check tells the model.
INVALID = "INVALID_JSON"


@dataclass(slots=True)
class HeardCall:
    """A call as far as it was heard."""

    id: str
    tool: str
    pieces: list[str] = field(default_factory=list)
    extra: Json = field(default_factory=dict)  #: of the provider's own, to be sent back as it came

    @property
    def arguments(self) -> Json:
        text = "".join(self.pieces)
        if not text.strip():
            return {}
        value = json_object(text)
        return {INVALID: text} if value is None else value

    @property
    def is_whole(self) -> bool:
        """Whether all arguments have come. A call without any looks like one that was cut off: that costs a try, not a
        wrong call.
        """
        return bool(self.arguments) and INVALID not in self.arguments


@dataclass(slots=True)
class Told:
    """What the provider said about tokens, unchecked. `input` includes what was read from and written to its cache."""

    input: object = None
    cached: object = None
    written: object = None  #: of the input, put into the provider's cache
    output: object = None
    usd: object = None

    def known(self) -> bool:
        return any(value is not None for value in (self.input, self.output))


@dataclass(slots=True)
class Heard:
    """One answer as far as it was heard: its parts in their order, each in the form in which it is sent back."""

    parts: list[Json | HeardCall] = field(default_factory=list)
    said: list[str] = field(default_factory=list)  #: the text, in pieces
    stop: Stop | None = None  #: None: it did not end, or ended too early
    is_over: bool = False  #: nothing more will be said, whether the connection ends or not
    told: Told = field(default_factory=Told)

    @property
    def text(self) -> str:
        return "".join(self.said)

    @property
    def has_begun(self) -> bool:
        """Whether the provider worked on it, and will want its money, however it ends."""
        return self.told.known() or bool(self.said or self.parts)

    @property
    def calls(self) -> list[HeardCall]:
        return [part for part in self.parts if isinstance(part, HeardCall)]

    def say(self, text: str) -> str:
        self.said.append(text)
        return text


class Listener(Protocol):
    """Folds the events of one answer."""

    heard: Heard

    def hear(self, event: Json) -> str:
        """Take in one event, and return the text that it adds. Raises ToldError for an error in the stream."""
        ...


class ToldError(Exception):
    """Not a failure yet: an error that came as an event. models/failures.py says of what class it is."""

    def __init__(self, error: object) -> None:
        super().__init__(error)
        self.error = error


class ModelProtocol(Protocol):
    """How one kind of model API is asked, and how its answer is read."""

    path: str  #: beneath the address of the provider

    def headers(self, route: Route) -> Json: ...

    def body(self, turn: Turn, steps: Sequence[PastStep], route: Route, kept: Fragments) -> bytes: ...

    def listen(self, route: Route) -> Listener: ...

    def raw(self, heard: Heard) -> str:
        """The answer as it came, for the record: what `body` sends back in a later step."""
        ...


class Fragments:
    """JSON that is sent again and again, each piece made once: past steps, and lists of tools."""

    def __init__(self) -> None:
        self._steps: dict[int, tuple[weakref.ref[PastStep], bytes]] = {}
        self._tools: dict[tuple[int, ...], tuple[tuple[ToolSpec, ...], bytes]] = {}

    def step(self, step: PastStep, make: Callable[[PastStep], Iterable[Json]]) -> bytes:
        """The messages of a step, joined by commas. Forgotten with the step, so that an id stands for its step."""
        kept = self._steps.get(id(step))
        if kept is None:
            key = id(step)
            reference = weakref.ref(step, lambda _: self._steps.pop(key, None))
            kept = self._steps[key] = reference, joined(make(step))
        return kept[1]

    def tools(self, tools: tuple[ToolSpec, ...], make: Callable[[ToolSpec], Json]) -> bytes:
        key = tuple(map(id, tools))
        kept = self._tools.get(key)
        if kept is None:
            while len(self._tools) >= _TOOLSETS:
                del self._tools[next(iter(self._tools))]
            # The tools are kept too: no other tool can get the id of one of theirs.
            kept = self._tools[key] = tools, joined(map(make, tools))
        return kept[1]

    def __len__(self) -> int:
        return len(self._steps)


_TOOLSETS = 256
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))  # `dumps` would make one each time


def encoded(value: object) -> bytes:
    """A value as JSON. Halves of characters, which no JSON text can hold, become question marks."""
    return _ENCODER.encode(value).encode(errors="replace")


def joined(values: Iterable[object]) -> bytes:
    return b",".join(map(encoded, values))


def body_of(fields: Mapping[str, object], lists: Mapping[str, Iterable[bytes]]) -> bytes:
    """A JSON object of plain fields and of lists whose items are encoded already; empty lists are left out."""
    plain = encoded(fields)[:-1]
    parts = [plain]
    for name, items in lists.items():
        if content := b",".join(filter(None, items)):
            comma = b"," if len(parts) > 1 or len(plain) > 1 else b""
            parts.append(comma + encoded(name) + b":[" + content + b"]")
    return b"".join(parts) + b"}"


def sent_back(raw: str, protocol: str) -> Any:
    """What is stored of an answer, if this protocol stored it; None otherwise, and then it is retold in plain words."""
    try:
        record = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return record.get(protocol) if isinstance(record, dict) else None


def result_of(step: PastStep, call: Call, quirks: Quirks) -> Result:
    """The result as this provider can be shown it."""
    result = step.results.get(call.id)
    if result is None:
        return Result(CALL_CUT_OFF, ok=False)
    if not result.images or quirks.images:
        return result
    return Result("\n".join([result.text, *([NOT_SHOWN] * len(result.images))]), result.ok)


def in_words(result: Result) -> str:
    """A result where the protocol cannot say by itself that a call went wrong."""
    return result.text if result.ok else encoded({"error": result.text}).decode()


def mapping(value: object) -> Json:
    """Part of an event, which may be anything: an empty one if it is not a mapping."""
    return value if isinstance(value, dict) else {}


def words(value: object) -> str:
    return value if isinstance(value, str) else ""


def items(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def place(value: object) -> int | str | None:
    """What tells parts of an answer apart: a number as a rule, and nothing that could not be looked up."""
    return value if isinstance(value, int | str) else None
