"""The providers of models that we know: how a model is named, where its requests go and which key they carry.

`route` is the one place that brings the three together, at the moment of the call: a key that belongs to a
provider goes to that provider's host, to a host the user chose through the environment, or to one the user
approved. Opens no connection (model_client.py does).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, replace
from difflib import get_close_matches
from functools import lru_cache
from typing import Literal
from urllib.parse import urlsplit

from agent_worker.backends.models.keys import ProjectEnvironment
from agent_worker.core.errors import BadInput, NoKey, Permanent
from agent_worker.core.later import dataclass
from agent_worker.core.outbound import check_url, host_of, is_local, is_this_machine
from agent_worker.core.provider_variables import ADDRESSES, HEADERS, KEYLESS, KEYS, owner_of

Protocol = Literal["anthropic", "responses", "chat"]


@dataclass(frozen=True, slots=True)
class Quirks:
    """How a provider differs from the others that speak chat completions."""

    limit: str = "max_tokens"  #: the field that limits the tokens of an answer
    asks_for_usage: bool = True  #: whether it is asked to tell the usage; some refuse the question and tell it anyway
    thinking: str = ""  #: the field in which it tells what it thought, and wants it back
    tells_cost: bool = False  #: what a request has cost, in dollars
    fewest_tokens: int = 1  #: the smallest limit of tokens that it takes
    images: bool = False  #: it can be shown pictures; where that depends on the model, it is not


PLAIN = Quirks()


@dataclass(frozen=True, slots=True)
class Provider:
    name: str
    base_url: str
    variables: tuple[str, ...]  #: where its key is looked for; the first one that is set wins
    speaks: Protocol = "chat"
    base_variable: str = ""  #: lets the user point it elsewhere
    keyless: bool = False
    own: bool = False  #: a program that the user runs: as long as it is in the local network, its tokens cost nothing
    quirks: Quirks = PLAIN
    headers: Mapping[str, str] = field(default_factory=dict)  #: header → the user's variable that it is taken from
    cheap: str = ""  #: a model that costs little, to try a key with; '' where nobody knows which there are


_OPENAI = Quirks(limit="max_completion_tokens", fewest_tokens=16, images=True)
_SEES = Quirks(images=True)
_OPENAI_HEADERS = dict(zip(("openai-organization", "openai-project"), HEADERS["openai"], strict=True))
_HANDS_BACK = Quirks(thinking="reasoning_content")
PROVIDERS = {
    provider.name: provider
    for provider in (
        Provider(
            "anthropic",
            "https://api.anthropic.com",
            KEYS["anthropic"],
            "anthropic",
            ADDRESSES["anthropic"],
            quirks=_SEES,
            cheap="claude-haiku-5-5",
        ),
        Provider(
            "openai",
            "https://api.openai.com/v1",
            KEYS["openai"],
            "responses",
            ADDRESSES["openai"],
            quirks=_OPENAI,
            headers=_OPENAI_HEADERS,
            cheap="gpt-5.4-nano",
        ),
        Provider(
            "openai-chat",
            "https://api.openai.com/v1",
            KEYS["openai"],
            "chat",
            ADDRESSES["openai"],
            quirks=_OPENAI,
            headers=_OPENAI_HEADERS,
            cheap="gpt-5.4-nano",
        ),
        Provider(
            "openrouter",
            "https://openrouter.ai/api/v1",
            KEYS["openrouter"],
            quirks=Quirks(thinking="reasoning_details", tells_cost=True, images=True),
            cheap="anthropic/claude-haiku-5.5",
        ),
        Provider(
            "google",
            "https://generativelanguage.googleapis.com/v1beta/openai",
            KEYS["google"],
            quirks=_SEES,
            cheap="gemini-3.5-flash-lite",
        ),
        Provider(
            "deepseek",
            "https://api.deepseek.com",
            KEYS["deepseek"],
            quirks=_HANDS_BACK,
            cheap="deepseek-flash",
        ),
        Provider(
            "mistral",
            "https://api.mistral.ai/v1",
            KEYS["mistral"],
            quirks=Quirks(asks_for_usage=False, images=True),
            cheap="mistral-small-latest",
        ),
        Provider("groq", "https://api.groq.com/openai/v1", KEYS["groq"], cheap="openai/gpt-oss-20b"),
        Provider("xai", "https://api.x.ai/v1", KEYS["xai"], quirks=_SEES, cheap="grok-4-1-fast-non-reasoning"),
        Provider(
            "moonshotai",
            "https://api.moonshot.ai/v1",
            KEYS["moonshotai"],
            quirks=Quirks(thinking="reasoning_content", images=True),
            cheap="kimi-k2.6",
        ),
        Provider("together", "https://api.together.xyz/v1", KEYS["together"], cheap="openai/gpt-oss-120b"),
        Provider(
            "fireworks",
            "https://api.fireworks.ai/inference/v1",
            KEYS["fireworks"],
            cheap="accounts/fireworks/models/gpt-oss-20b",
        ),
        *(
            Provider(
                name,
                f"http://127.0.0.1:{port}/v1",
                KEYS[name],
                "chat",
                ADDRESSES[name],
                keyless=name in KEYLESS,
                own=True,
            )
            for name, port in (("ollama", 11434), ("lmstudio", 1234), ("vllm", 8000), ("llamacpp", 8080))
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Approval:
    """Addresses and hosts that the user, not the project, has allowed."""

    local: bool = False  #: endpoints in the local network, without encryption
    hosts: frozenset[str] = frozenset()  #: may be sent a provider's own key

    @classmethod
    def of(cls, url: str) -> Approval:
        """The approval of somebody who was shown this address, and which key goes there."""
        return cls(local=True, hosts=frozenset({host_of(url)} if url else ()))


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What the definition of an agent says under `provider`. All empty: the provider that the model names."""

    name: str = ""
    base_url: str = ""
    api_key: str = ""  #: `$VARIABLE`
    approval: Approval | None = None  #: what the user allowed this agent, beyond what all are allowed


@dataclass(frozen=True, slots=True)
class Route:
    """One model at one address with one key. Its text never shows the key."""

    provider: str
    model: str
    speaks: Protocol
    base_url: str
    key: str = field(repr=False)  #: empty when none is sent
    variable: str  #: where the key came from
    foreign: bool  #: the address comes from the project: only what we mean to send may go there
    local: bool  #: the address may lie in the local network
    quirks: Quirks = PLAIN
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  #: more of the user's own
    free: bool = False  #: its tokens cost nothing, unless it tells that they did

    @property
    def host(self) -> str:
        return host_of(self.base_url)


@dataclass(frozen=True, slots=True)
class ProviderStatus:
    """Whether a provider can be used, without saying its key."""

    name: str
    configured: bool
    variable: str  #: the one that holds the key, or the one to set
    host: str
    keyless: bool = False  #: it runs on a machine of the user's: what is missing is no key, but perhaps the server


_OWNERS = {
    variable: [known for known in PROVIDERS.values() if variable in known.variables]
    for provider in PROVIDERS.values()
    for variable in provider.variables
}
AS_NAMED = Endpoint()
NOTHING_APPROVED = Approval()


def parse_model(spec: str, provider: str = "") -> tuple[str, str]:
    """Provider and model of `provider/model`, `provider:model`, or of a bare name when the provider is given."""
    first = re.match(r"([^/:]+)[/:](.+)", spec)
    if provider:
        named = first is not None and first[1] == provider
        return provider, first[2] if first and named else spec
    if not first:
        raise BadInput(f"model {spec!r} does not name its provider", hint="write provider/model")
    return first[1], first[2]


def check_model(spec: str, endpoint: Endpoint) -> None:
    """Raises BadInput when nobody could be asked for this model, whatever keys there are."""
    name, _ = parse_model(spec, endpoint.name)
    if name not in PROVIDERS:
        _custom(name, endpoint)


def configured_providers(env: Mapping[str, str]) -> list[ProviderStatus]:
    """Every provider we know, those that can be used first."""
    found = [status_of(provider, env) for provider in PROVIDERS.values() if provider.name != "openai-chat"]
    return sorted(found, key=lambda status: not status.configured)


def status_of(provider: Provider, env: Mapping[str, str]) -> ProviderStatus:
    found = next((v for v in provider.variables if env.get(v)), "")
    # A keyless provider runs on this machine or does not; only its address being set says that it does.
    configured = bool(found) or (provider.keyless and bool(env.get(provider.base_variable)))
    wanted = found or (provider.base_variable if provider.keyless else provider.variables[0])
    host = host_of(env.get(provider.base_variable, "") or provider.base_url)
    return ProviderStatus(provider.name, configured, wanted, host, provider.keyless)


def route(spec: str, endpoint: Endpoint, *, env: Mapping[str, str], approval: Approval = NOTHING_APPROVED) -> Route:
    """Where a request goes and which key it carries. Raises Permanent, with what to change."""
    try:
        return _route(spec, endpoint, env, approval)
    except BadInput as error:
        raise Permanent(error.message, hint=error.hint) from None


def _route(spec: str, endpoint: Endpoint, env: Mapping[str, str], approval: Approval) -> Route:
    name, model = parse_model(spec, endpoint.name)
    provider = PROVIDERS.get(name) or _custom(name, endpoint)
    base_url, foreign = _address(provider, endpoint, env, approval)
    host = host_of(base_url)
    if endpoint.api_key:
        key, variable = _named_key(endpoint.api_key, env)
    elif foreign and host not in approval.hosts:
        key, variable = _no_key(provider, host)
    else:
        key, variable = _own_key(provider, env)
    _refuse_theft(variable, provider, host, approval, foreign=foreign)
    # Whoever is unknown and wants a key may be a gateway to models that cost something.
    free = is_local(base_url) if provider.own else name not in PROVIDERS and is_this_machine(host) and not key
    return Route(
        provider=name,
        model=model,
        # Only OpenAI itself is known to serve the Responses API; what imitates it serves chat completions.
        speaks="chat" if provider.speaks == "responses" and _moved(provider, base_url) else provider.speaks,
        base_url=base_url,
        key=key,
        variable=variable,
        foreign=foreign,
        local=approval.local or not foreign,
        quirks=_at_home(provider.quirks, free=free) if is_local(base_url) else provider.quirks,
        headers={} if foreign else _own_headers(provider, env),
        free=free,
    )


@lru_cache(64)
def _at_home(quirks: Quirks, *, free: bool) -> Quirks:
    """Those of a server in the local network. One that costs nothing by itself may say that a request cost something.

    If it imitates OpenAI, it may not know OpenAI's newer field, and would answer without an end.
    """
    return replace(quirks, limit=PLAIN.limit, tells_cost=quirks.tells_cost or free)


def _own_headers(provider: Provider, env: Mapping[str, str]) -> dict[str, str]:
    """What the user's environment adds to requests to this provider, as its own library would."""
    own = {header: env[variable] for header, variable in provider.headers.items() if env.get(variable)}
    more = env.get(HEADERS["anthropic"][0], "") if provider.speaks == "anthropic" else ""
    lines = (line.partition(":") for line in more.splitlines())
    return own | {name.strip().lower(): value.strip() for name, colon, value in lines if colon and name.strip()}


def _address(provider: Provider, endpoint: Endpoint, env: Mapping[str, str], approval: Approval) -> tuple[str, bool]:
    """The address of an endpoint, and whether the project chose it."""
    if endpoint.base_url:
        url = check_url(endpoint.base_url, allow_local=approval.local)
    else:
        # What the user put into the environment may be local: it is the user's machine.
        url = check_url(env.get(provider.base_variable, "") or provider.base_url, allow_local=True)
    if provider.speaks == "anthropic":
        url = url.removesuffix("/v1")  # it is part of their path; for everyone else it is part of the address
    elif provider.own and not urlsplit(url).path.strip("/"):
        url = f"{url.rstrip('/')}/v1"  # of a server on one's own machine people write where it is, and no more
    return url, bool(endpoint.base_url) and _moved(provider, url)


def _named_key(reference: str, env: Mapping[str, str]) -> tuple[str, str]:
    match = re.fullmatch(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?", reference)
    if not match:
        raise BadInput("api_key must name an environment variable", hint="write api_key: $MY_KEY")
    variable = match[1]
    key = env.get(variable, "")
    if missing := lacks_named(variable, env):
        raise missing
    return key, variable


def lacks_named(variable: str, env: Mapping[str, str]) -> NoKey | None:
    """The error of whoever needs this very key, when it is not set."""
    if env.get(variable):
        return None
    owner = owner_of(variable)
    subject = owner if owner and KEYS[owner][0] == variable else variable
    return NoKey(f"the key {variable} is not set{_unread(env)}", subject=subject)


def _no_key(provider: Provider, host: str) -> tuple[str, str]:
    if provider.keyless:
        return "", ""
    raise BadInput(
        f"the key of {provider.name} is not sent to {host}", hint="give the endpoint its own: api_key: $MY_KEY"
    )


def _own_key(provider: Provider, env: Mapping[str, str]) -> tuple[str, str]:
    for variable in provider.variables:
        if key := env.get(variable, ""):
            return key, variable
    if provider.keyless:
        return "", ""
    wanted = provider.variables[0]
    owner = owner_of(wanted)
    raise NoKey(f"there is no key for {owner or provider.name}: {wanted} is not set{_unread(env)}", subject=owner)


def _unread(env: Mapping[str, str]) -> str:
    """Why a key may be missing that the person sees in the project's `.env`."""
    told = env.unread if isinstance(env, ProjectEnvironment) else ""
    return f" ({told})" if told else ""


def _refuse_theft(variable: str, provider: Provider, host: str, approval: Approval, *, foreign: bool) -> None:
    """A project may name a variable of its own, but not send the key of one provider to somebody else."""
    owners = _OWNERS.get(variable)
    if not owners or host in approval.hosts or any(host == host_of(owner.base_url) for owner in owners):
        return
    if not foreign and provider in owners:
        return  # the user moved this provider through the environment
    raise BadInput(
        f"${variable} belongs to {owners[0].name} and is not sent to {host}",
        hint=f"approve {host} for it, or use another variable",
    )


def _custom(name: str, endpoint: Endpoint) -> Provider:
    if not endpoint.base_url:
        near = get_close_matches(name.lower(), PROVIDERS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(PROVIDERS)}; others need a base_url"
        raise BadInput(f"there is no provider {name!r}", hint=hint)
    return Provider(name, "", (), keyless=True)


def _moved(provider: Provider, base_url: str) -> bool:
    return host_of(base_url) != host_of(provider.base_url)
