"""What can wait in a person's inbox: the kinds of its items, which a sink of notifications may choose from."""

from __future__ import annotations

from typing import Literal

Kind = Literal[
    "mention",
    "question",
    "approval",
    "vote",
    "veto",
    "failure",
    "dead",
    "limit",
    "key",
    "conflict",
    "space",
    "control",
    "feedback",
    "soul",
    "drift",
    "dispute",
    "sharing",
    "check",
    "held",
    "judge",
    "test",
]
