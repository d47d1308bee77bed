"""What does its work when it is first used, not while the module that names it is imported.

`dataclass` compiles five functions for each class: half a millisecond, and there are some hundred classes, of which a
process uses some. Here `__init__`, `__repr__`, `__eq__` and `__hash__` are made by the standard library too, but not
before somebody calls one of them. Everything else is the same: fields, defaults, slots, `replace`, `asdict`, `match`.
`pattern` is `re.compile`, done when the expression is first looked for; `module` is a library that few processes need.
"""

from __future__ import annotations

import dataclasses
import importlib
import re
from typing import TYPE_CHECKING, Any, AnyStr

if TYPE_CHECKING:  # a type checker knows how to read those
    from dataclasses import dataclass as dataclass

    def pattern(text: AnyStr, flags: int | re.RegexFlag = 0) -> re.Pattern[AnyStr]: ...
    def module(name: str) -> Any: ...

else:

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """Like `dataclasses.dataclass`, with its options `frozen`, `slots`, `eq`, `kw_only` and `weakref_slot`."""
        return _made(cls, **options) if cls else lambda cls: _made(cls, **options)

    class pattern:
        """Like `re.compile`. Call its methods: functions of `re` that take an expression do not know it."""

        def __init__(self, text: str | bytes, flags: int = 0) -> None:
            self._written = text, flags

        def __getattr__(self, name: str) -> Any:
            """A method of the compiled one, kept here so that it is not asked for again."""
            found = getattr(re.compile(*self._written), name)
            setattr(self, name, found)
            return found

    class module:
        """A library, imported when something in it is first asked for. The importer tells a type checker what it is."""

        def __init__(self, name: str) -> None:
            self._called = name

        def __getattr__(self, name: str) -> Any:
            found = getattr(importlib.import_module(self._called), name)
            setattr(self, name, found)
            return found


_NONE = dataclasses.MISSING
_METHODS = ("__init__", "__repr__")
_COMPARED = ("__eq__", "__hash__")


def _made(cls: type, *, frozen: bool = False, eq: bool = True, **options: bool) -> Any:
    own = set(vars(cls))
    cls.__doc__ = cls.__doc__ or cls.__name__  # else one is written, from a signature that is worked out
    made: Any = dataclasses.dataclass(cls, init=False, repr=False, eq=False, **options)
    for name in (*_METHODS, *_COMPARED) if eq else _METHODS:
        if name not in own:
            setattr(made, name, _later(made, name, frozen=frozen))
    if frozen:
        made.__setattr__, made.__delattr__ = _not_set, _not_deleted
        made.__getstate__, made.__setstate__ = _state, _set_state
    elif eq and "__hash__" not in own:
        made.__hash__ = None
    return made


def _later(cls: type, name: str, *, frozen: bool) -> Any:
    """A method that puts the real one in its place and calls it."""

    def first(self: object, *args: Any, **kwargs: Any) -> Any:
        real = _initialiser(cls, frozen=frozen) if name == "__init__" else _standard(cls, name)
        setattr(cls, name, real)
        return real(self, *args, **kwargs)

    return first


def _standard(cls: type, name: str) -> Any:
    """The method that the standard library makes of these fields."""
    fields: Any = [(each.name, each.type, each) for each in dataclasses.fields(cls)]
    wanted: Any = {"repr": name == "__repr__", "eq": name in _COMPARED, "unsafe_hash": name == "__hash__"}
    like = dataclasses.make_dataclass(cls.__name__, fields, namespace={"__doc__": ""}, init=False, **wanted)
    return getattr(like, name)


def _initialiser(cls: type, *, frozen: bool) -> Any:
    """Make `__init__` alone. The standard library would make four other functions with it."""
    known: dict[str, Any] = {"put__": object.__setattr__, "unset__": _NONE}
    plain, body, by_name = ["self"], ["pass"], list[str]()
    for field in dataclasses.fields(cls):
        known |= {f"default__{field.name}": field.default, f"make__{field.name}": field.default_factory}
        if field.init:
            (by_name if field.kw_only else plain).append(_parameter(field))
        if field.init or field.default is not _NONE or field.default_factory is not _NONE:
            set_ = f"put__(self, {field.name!r}, {{}})" if frozen else f"self.{field.name} = {{}}"
            body.append(set_.format(_value(field)))
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join([*plain, "*", *by_name] if by_name else plain)
    exec("\n ".join([f"def __init__({parameters}):", *body]), known)
    return known["__init__"]


def _parameter(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is not _NONE:
        return f"{field.name}=unset__"
    return field.name if field.default is _NONE else f"{field.name}=default__{field.name}"


def _value(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is _NONE:
        return field.name if field.init else f"default__{field.name}"
    made = f"make__{field.name}()"
    return f"{made} if {field.name} is unset__ else {field.name}" if field.init else made


def _not_set(self: object, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _not_deleted(self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    """The fields of an object, for copying it: the usual way sets each field, which a frozen object refuses."""
    return [getattr(self, each.name) for each in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for each, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)
