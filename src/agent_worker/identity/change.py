"""What would change in a soul, and what it rests on: the values that proposals and versions are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from agent_worker.core.errors import BadInput
from agent_worker.core.later import dataclass

Verb = Literal["add", "change", "remove"]
RISKS: Mapping[str, str] = {"add": "addition", "change": "change", "remove": "removal"}
LONGEST = 300  # characters of one entry of a soul


@dataclass(frozen=True, slots=True)
class Evidence:
    """Words of the person, or something the agent did, in one run."""

    run: str
    quote: str
    day: str = ""  #: 2026-11-16

    @property
    def record(self) -> dict[str, str]:
        return {key: value for key, value in (("run", self.run), ("day", self.day), ("quote", self.quote)) if value}

    @classmethod
    def of(cls, written: Any) -> tuple[Evidence, ...]:
        """What a file says; anything else than evidence in it is passed over."""
        found = [each for each in written if isinstance(each, dict)] if isinstance(written, list) else []
        return tuple(cls(*(str(each.get(key) or "") for key in ("run", "quote", "day"))) for each in found)


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of a soul comes, goes, or stands in the place of another."""

    verb: Verb
    field: str  #: principles, expertise, style …
    value: str
    was: str = ""  #: of a change: what it replaces

    @property
    def risk(self) -> str:
        return RISKS[self.verb]

    @property
    def record(self) -> dict[str, str]:
        """The change as a file says it: `{ add: principles, value: Always explain trade-offs }`."""
        return {self.verb: self.field, **({"was": self.was} if self.was else {}), "value": self.value}

    @property
    def diff(self) -> str:
        """The change as a person reads it: what goes, then what comes."""
        gone = {"add": "", "change": self.was, "remove": self.value}[self.verb]
        come = "" if self.verb == "remove" else self.value
        return "\n".join(f"{sign} {self.field}: {text}" for sign, text in (("-", gone), ("+", come)) if text)

    @classmethod
    def of(cls, written: Any) -> Change:
        """Read what `record` wrote. Raises BadInput."""
        match written:
            case {"add": str(field), "value": str(value)}:
                return cls("add", field, value)
            case {"change": str(field), "was": str(was), "value": str(value)}:
                return cls("change", field, value, was)
            case {"remove": str(field), "value": str(value)}:
                return cls("remove", field, value)
        raise BadInput("a change is one of add, change, remove, with a value", hint="{ add: principles, value: … }")

    def check(self) -> None:
        """Raises BadInput for what can be no entry of a soul."""
        if not self.value.strip() or len(self.value) > LONGEST or not self.value.isprintable():
            raise BadInput(f"an entry of a soul is one line of at most {LONGEST} characters")
        if not self.field.isidentifier() or self.field == "probes":
            raise BadInput(f"{self.field!r} is not part of a soul", hint="role, expertise, style or principles")

    def applied_to(self, value: Any) -> Any:
        """What the field says after it; None when nothing is left. Raises BadInput when it does not fit any more."""
        is_list = isinstance(value, list) or (value is None and self.field in ("principles", "expertise"))
        if value is not None and not isinstance(value, str | list):
            raise BadInput(f"{self.field} is not written as text or a list of texts", hint="edit soul.yaml by hand")
        entries = list(value or []) if is_list else [value] if value else []
        match self.verb:
            case "add" if self.value in entries:
                after = entries
            case "add" if is_list or not entries:
                after = [*entries, self.value]
            case "add":
                raise BadInput(f"{self.field} says {value!r} already", hint="change it, or add a principle")
            case "change" if self.was in entries:
                after = [self.value if each == self.was else each for each in entries]
            case "change" if self.value in entries:
                after = entries
            case "remove":
                after = [each for each in entries if each != self.value]
            case _:
                raise BadInput(f"{self.field} does not say {self.was!r} any more")
        return (after or None) if is_list else (after[0] if after else None)
