"""In which order models and coding programs are preferred for new agents, when the person names none.

Which one a command then takes: cli/choice.py.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection

PROGRAMS = ("claude", "codex", "gemini", "opencode")  # in the order of preference
KEYS = {  # in the order of preference: variable → model
    "ANTHROPIC_API_KEY": "anthropic/claude-sonnet-5-5",
    "OPENAI_API_KEY": "openai/gpt-6-sol",
    "OPENROUTER_API_KEY": "openrouter/anthropic/claude-sonnet-5.5",
    "GOOGLE_API_KEY": "google/gemini-3.8-flash",
}


def model_of(keys: Collection[str]) -> str | None:
    """A model that can be used with one of these keys, given as variables."""
    return next((model for key, model in KEYS.items() if key in keys), None)


def installed() -> list[str]:
    return [name for name in PROGRAMS if shutil.which(name)]
