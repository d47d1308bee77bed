"""HTML made from values: text is escaped unless it is `Html` already, so nothing that somebody wrote becomes markup.

    h("p", "a < b", class_="note")   →   <p class="note">a &lt; b</p>

`Html` is made here, from escaped parts, and in prose.py, from sanitised ones, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TypeAlias


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


Child: TypeAlias = "str | int | float | Iterable[Child] | None"
Attribute = str | int | float | bool | None

_EMPTY = frozenset({"br", "hr", "input", "meta", "rect", "line", "circle", "path"})


def h(tag: str, *children: Child, **attributes: Attribute) -> Html:
    """One element. `class_` is class, `data_x` is data-x; True is a bare attribute, None and False are left out."""
    head = "".join(map(_attribute, attributes.items()))
    if tag in _EMPTY and not children:
        return Html(f"<{tag}{head}>" if tag in ("br", "hr", "input", "meta") else f"<{tag}{head}/>")
    return Html(f"<{tag}{head}>{join(*children)}</{tag}>")


def join(*children: Child) -> Html:
    return Html("".join(map(_child, children)))


def _child(child: Child) -> str:
    match child:
        case None:
            return ""
        case Html():
            return str(child)
        case str():
            return escape(child)
        case int() | float():
            return str(child)
        case _:
            return "".join(map(_child, child))


def _attribute(pair: tuple[str, Attribute]) -> str:
    name, value = pair[0].rstrip("_").replace("_", "-"), pair[1]
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'
