"""Reads fields of what a program printed, which may be anything: what is not as expected counts as missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

NOTHING: Mapping[str, Any] = {}


def block(event: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = event.get(name)
    return found if isinstance(found, dict) else NOTHING


def blocks(event: Mapping[str, Any], name: str) -> Sequence[Mapping[str, Any]]:
    found = event.get(name)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def text(event: Mapping[str, Any], name: str) -> str:
    found = event.get(name)
    return found if isinstance(found, str) else ""


def count(event: Mapping[str, Any], name: str) -> int:
    found = event.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def amount(event: Mapping[str, Any], name: str) -> float | None:
    found = event.get(name)
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) and abs(found) < 1e9 else None
