"""Which model or coding program new agents use when the person names none: the first that can be used here."""

from __future__ import annotations

from agent_worker.core.errors import BadInput
from agent_worker.core.preferred import installed, model_of


def chosen(backend: str | None, model: str | None) -> tuple[str, str | None]:
    """What a team from a template uses: a model whose key is there, else a program that is installed, else mock."""
    if backend or model:
        return backend or "sdk", model
    if model := model_with_a_key():
        return "sdk", model
    return next(iter(installed()), "mock"), None


def chosen_for_one(command: str, backend: str | None, model: str | None) -> tuple[str | None, str | None]:
    """What one new agent uses. It may change files from the start, so a program is only used if it was named."""
    if backend or model:
        return backend, model
    if model := model_with_a_key():
        return None, model
    which = next(iter(installed()), "mock")
    raise BadInput(
        "it needs a model or a coding program, and there is no key of a model provider",
        hint=f"{command} --backend {which}; or a key, and then again: agent-worker key set anthropic",
    )


def model_with_a_key() -> str | None:
    from agent_worker.offline.checks import keys_of_a_start

    return model_of({each["variable"] for each in keys_of_a_start() if each["source"] != "unapproved"})
