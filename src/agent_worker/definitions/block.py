"""The base of every mapping that people write: frozen, no unknown keys, all mistakes at once.

Pydantic checks a rule that spans several fields only after each field is right. Ours are checked
on what was written, beside the fields, so that one look shows everything; see `Block.rules`.

What checks a block takes pydantic milliseconds to make. It is made when such a block is first written somewhere: a
block that contains others knows only that they check themselves, and the default of one that may be left out comes
from `model_construct`, as there is nothing to check.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any, ClassVar, NamedTuple, Self

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails, InitErrorDetails, PydanticCustomError, core_schema

from agent_worker.definitions.problems import did_you_mean

Where = tuple[str | int, ...]

_MAKING: ContextVar[bool] = ContextVar("making", default=False)  #: what checks a block; others inside it wait


class Broken(NamedTuple):
    """A rule that does not hold: where, from the block on down, and why."""

    path: Where
    message: str
    hint: str = ""

    def below(self, *path: str | int) -> Broken:
        """The same problem, seen from a block further up."""
        return self._replace(path=(*path, *self.path))


class Block(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True, defer_build=True
    )

    #: Keys that one might expect here but that have no place here, each with the reason.
    misplaced: ClassVar[Mapping[str, str]] = {}

    #: Keys that one might expect here but that belong into a block of this one, each with that block's key.
    further_in: ClassVar[Mapping[str, str]] = {}

    #: What other programs call a key of this block, each with how it is written here.
    called_here: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def rules(cls, written: Mapping[str, Any]) -> Iterator[Broken]:
        """What is wrong between fields. `written` is unchecked: any value may have any type."""
        yield from ()

    @model_validator(mode="wrap")
    @classmethod
    def _everything_at_once(cls, written: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        broken = list(cls.rules(written)) if isinstance(written, dict) else []
        errors = [InitErrorDetails(type=wrong(rule.message, rule.hint), loc=rule.path, input=None) for rule in broken]
        try:
            value = handler(written)
        except ValidationError as error:
            errors += [cls._rephrased(details) for details in error.errors(include_url=False)]
        if errors:
            raise ValidationError.from_exception_data(cls.__name__, errors, hide_input=True)
        return value

    @classmethod
    def _rephrased(cls, details: ErrorDetails) -> InitErrorDetails:
        """An error of pydantic's in our form; for an unknown key, with what we know about this block's keys."""
        loc, given = details["loc"], details["input"]
        if details["type"] == "extra_forbidden" and len(loc) == 1:
            message, hint = cls._about_unknown(str(loc[0]))
            unknown = _custom("unknown_key", {"message": message, "hint": hint})
            return InitErrorDetails(type=unknown, loc=loc, input=given)
        context = {"hint": "", **(details.get("ctx") or {}), "message": details["msg"]}
        return InitErrorDetails(type=_custom(details["type"], context), loc=loc, input=given)

    @classmethod
    def _about_unknown(cls, key: str) -> tuple[str, str]:
        if key in cls.misplaced:
            return cls.misplaced[key], "remove it here"
        spellings = cls.spellings()
        if key in spellings:
            return "is given twice, under two spellings", f"keep one of {', '.join(spellings[key])}"
        if key in cls.further_in:
            return "unknown key", f"it belongs under {cls.further_in[key]}: {{ {key}: … }}"
        if key in cls.called_here:
            return "unknown key", f"write {cls.called_here[key]}"
        return "unknown key", did_you_mean(key, list(spellings)) or f"known here: {', '.join(spellings)}"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        if _MAKING.get():
            name = f"{cls.__module__}.{cls.__qualname__}:{id(cls)}"  # as pydantic itself calls a model under $defs
            described = {"pydantic_js_functions": [cls._described]}
            return core_schema.no_info_plain_validator_function(cls.model_validate, ref=name, metadata=described)
        making = _MAKING.set(True)
        try:
            return handler(source)
        finally:
            _MAKING.reset(making)

    @classmethod
    def _described(cls, _: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        cls.model_rebuild()
        return handler(cls.__pydantic_core_schema__)

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Adds the second spellings, which pydantic leaves out."""
        schema = handler(core)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for spelling, (first, *_) in cls.spellings().items():
            also = {**properties[first], "description": f"another spelling of {first}"}
            properties.setdefault(spelling, also)
        return schema

    @classmethod
    def spellings(cls) -> dict[str, tuple[str, ...]]:
        """Each key that may be written, with all spellings of its field."""
        found: dict[str, tuple[str, ...]] = {}
        for name, info in cls.model_fields.items():
            alias = info.validation_alias or info.alias or name
            names = tuple(map(str, alias.choices)) if isinstance(alias, AliasChoices) else (str(alias),)
            found |= dict.fromkeys(names, names)
        return found


def wrong(message: str, hint: str = "") -> PydanticCustomError:
    """The error that a check of a single value raises."""
    return _custom("problem", {"message": message, "hint": hint})


def only_one_of(written: Mapping[str, Any], *keys: str) -> bool:
    return sum(written.get(key) is not None for key in keys) == 1


def entries(value: Any) -> Iterator[tuple[str | int, dict[str, Any]]]:
    """The mappings in a mapping or list of unchecked things, each with its key or index."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return ((key, item) for key, item in pairs if isinstance(item, dict))


def _custom(kind: str, context: dict[str, Any]) -> PydanticCustomError:
    # The message goes in as a value: braces in it must not be read as a template.
    return PydanticCustomError(kind, "{message}", context)
