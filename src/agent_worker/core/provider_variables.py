"""The environment variables of model providers: which hold a key, and which say where and how it is used.

Known to the command line too, which brings what its user has exported to the daemon. What a provider is and how it is
spoken to is told in backends/models/providers.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from agent_worker.core.errors import BadInput, NotFound
from agent_worker.core.suggestion import slip_of

#: Provider → where its key is looked for; the first one that is set wins.
KEYS: dict[str, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "openai": ("OPENAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "google": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "groq": ("GROQ_API_KEY",),
    "xai": ("XAI_API_KEY",),
    "moonshotai": ("MOONSHOTAI_API_KEY",),
    "together": ("TOGETHER_API_KEY",),
    "fireworks": ("FIREWORKS_API_KEY",),
    "ollama": ("OLLAMA_API_KEY",),
    "lmstudio": ("LMSTUDIO_API_KEY",),
    "vllm": ("VLLM_API_KEY",),
    "llamacpp": ("LLAMACPP_API_KEY",),
    "cursor": ("CURSOR_API_KEY",),  # not a provider of models, but of a program that needs a key
}
#: Provider → the variable by which a user points it elsewhere.
ADDRESSES: dict[str, str] = {
    "anthropic": "ANTHROPIC_BASE_URL",
    "openai": "OPENAI_BASE_URL",
    "ollama": "OLLAMA_BASE_URL",
    "lmstudio": "LMSTUDIO_BASE_URL",
    "vllm": "VLLM_BASE_URL",
    "llamacpp": "LLAMACPP_BASE_URL",
}
#: Provider → what else the user's environment adds to requests.
HEADERS: dict[str, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_CUSTOM_HEADERS",),
    "openai": ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID"),
}
KEYLESS = frozenset(
    {"ollama", "lmstudio", "vllm", "llamacpp"}
)  #: on a machine of the user's own; its address says that it is wanted
#: Where a key comes from, as people are told.
KEY_SOURCES = {
    "stored": "the store",
    "project": "the .env of this project",
    "daemon": "the environment of the daemon",
    "client": "the environment of a command, until the daemon ends",
    "unapproved": "the .env of this project, once you approve it (agent-worker trust)",
}
KEY_VARIABLES = frozenset(variable for variables in KEYS.values() for variable in variables)


def more_of(provider: str) -> tuple[str, ...]:
    """The variables of a provider that hold no key: they mean nothing without one."""
    return (*([ADDRESSES[provider]] if provider in ADDRESSES else []), *HEADERS.get(provider, ()))


@lru_cache(256)
def owner_of(variable: str) -> str:
    """The provider that this variable belongs to; '' when it is nobody's."""
    return next((name for name in KEYS if variable in (*KEYS[name], *more_of(name))), "")


def key_variable(name: str) -> str:
    """The variable that a key is kept under, by the name of its provider or by its own. Raises BadInput."""
    if name in KEYS:
        return KEYS[name][0]
    if owner_of(name) and name not in KEY_VARIABLES:
        raise BadInput(f"{name} is not a key", hint=f"export {name}=… where the daemon is started")
    if name.isascii() and name.isidentifier() and name == name.upper():
        return name
    slip = slip_of(name, KEYS)
    known = f"providers: {', '.join(KEYS)}; or the variable itself: MY_KEY"
    raise NotFound(f"there is no provider {name!r}", hint=f"did you mean {slip.meant}?" if slip else known, slip=slip)


def brought_by(environ: Mapping[str, str]) -> dict[str, str]:
    """What a client brings from its environment: variables of providers that it can use, and nothing else."""
    wanted = [name for each in KEYS if can_use(each, environ) for name in (*KEYS[each], *more_of(each))]
    return {name: environ[name] for name in wanted if environ.get(name)}


def can_use(provider: str, environ: Mapping[str, str]) -> bool:
    """Whether these variables say all that is needed to use this provider."""
    needed = (*KEYS[provider], *([ADDRESSES[provider]] if provider in KEYLESS else []))
    return any(environ.get(name) for name in needed)
