"""A difference between two texts, as lines one can read: what came, what went, and where."""

from __future__ import annotations

from collections.abc import Iterable

from agent_worker.daemon.web.markup import Html, h

_KINDS = {"+": "added", "-": "removed", "@": "place"}


def diff_lines(lines: Iterable[str]) -> list[Html]:
    return [h("span", line + "\n", class_=_KINDS.get(line[:1])) for line in lines]
