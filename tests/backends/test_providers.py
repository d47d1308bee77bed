"""Which key goes where, and which addresses are refused."""

from __future__ import annotations

from typing import Any

import pytest

from agent_worker.backends.models.anthropic_messages import AnthropicMessages
from agent_worker.backends.models.providers import (
    AS_NAMED,
    PROVIDERS,
    Approval,
    Endpoint,
    Route,
    configured_providers,
    parse_model,
    route,
)
from agent_worker.core.errors import BadInput, Permanent
from agent_worker.core.outbound import check_url, proxy_for

ENV = {"ANTHROPIC_API_KEY": "ant", "OPENAI_API_KEY": "oai", "MY_KEY": "mine"}


def go(spec: str, endpoint: Endpoint = AS_NAMED, env: dict[str, str] = ENV, **approved: Any) -> Route:
    return route(spec, endpoint, env=env, approval=Approval(**approved))


@pytest.mark.parametrize(
    ("spec", "provider", "found"),
    [
        ("anthropic/claude-x", "", ("anthropic", "claude-x")),
        ("anthropic:claude-x", "", ("anthropic", "claude-x")),
        ("openrouter/vendor/model:free", "", ("openrouter", "vendor/model:free")),
        ("ollama:qwen3:8b", "", ("ollama", "qwen3:8b")),
        ("claude-x", "anthropic", ("anthropic", "claude-x")),
        ("anthropic/claude-x", "anthropic", ("anthropic", "claude-x")),
        ("vendor/model", "openrouter", ("openrouter", "vendor/model")),
    ],
)
def test_a_model_is_named_in_either_way(spec: str, provider: str, found: tuple[str, str]) -> None:
    assert parse_model(spec, provider) == found


@pytest.mark.parametrize("spec", ["claude-x", "", "/x", "anthropic/"])
def test_a_model_that_names_no_provider_is_refused_with_how_to_write_it(spec: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_model(spec)
    assert "provider/model" in caught.value.hint


def test_a_provider_is_reached_at_its_own_host_with_its_own_key() -> None:
    assert (go("anthropic/x").host, go("anthropic/x").key) == ("api.anthropic.com", "ant")
    assert (go("openai/x").host, go("openai/x").key) == ("api.openai.com", "oai")


@pytest.mark.parametrize("name", PROVIDERS)
def test_every_known_provider_has_a_route(name: str) -> None:
    provider = PROVIDERS[name]
    where = go(f"{name}/some-model", env={provider.variables[0]: "k"})
    assert where.key == "k"
    assert where.base_url == provider.base_url.removesuffix("/v1" if name == "anthropic" else "")


@pytest.mark.parametrize("written", ["http://gpu.local:11434", "http://gpu.local:11434/", "http://gpu.local:11434/v1"])
def test_of_a_server_of_ones_own_it_is_enough_to_say_where_it_is(written: str) -> None:
    assert go("ollama/m", env={"OLLAMA_BASE_URL": written}).base_url == "http://gpu.local:11434/v1"
    assert go("ollama/m", env={"OLLAMA_BASE_URL": "http://gpu.local/proxy"}).base_url == "http://gpu.local/proxy"


@pytest.mark.parametrize("name", ["ollama", "lmstudio", "vllm", "llamacpp"])
def test_a_model_on_a_machine_of_ones_own_costs_nothing_and_one_elsewhere_may(name: str) -> None:
    variable = f"{name.upper()}_BASE_URL"
    assert go(f"{name}/m").free
    for near in ("http://192.168.1.7:1/v1", "http://gpu.local:1/v1", "http://[::1]:1/v1"):
        assert go(f"{name}/m", env={variable: near}).free
        assert go(f"{name}/m", Endpoint(base_url=near), local=True).free
    for far in ("https://ollama.com/v1", "https://8.8.8.8/v1"):
        assert not go(f"{name}/m", env={variable: far}).free
        assert not go(f"{name}/m", Endpoint(base_url=far)).free


def test_a_server_on_this_machine_that_wants_no_key_costs_nothing_whatever_it_is_called() -> None:
    for here in ("http://127.0.0.1:1/v1", "http://localhost:1/v1", "http://[::1]:1/v1"):
        assert go("m", Endpoint("other", here), local=True).free
        assert not go("m", Endpoint("other", here, "$MY_KEY"), local=True).free, "it may be a gateway that is paid"
        assert not go("openai/m", env={**ENV, "OPENAI_BASE_URL": here}).free
    for near in ("http://192.168.1.7:1/v1", "http://gpu.local:1/v1"):
        assert not go("m", Endpoint("other", near), local=True).free, "nobody knows whose it is"


def test_openai_itself_speaks_responses_and_its_imitators_chat() -> None:
    assert go("openai/x").speaks == "responses"
    assert go("openai/x", Endpoint(base_url="https://llm.example/v1", api_key="$MY_KEY")).speaks == "chat"
    assert go("openai/x", env={**ENV, "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}).speaks == "chat"


def test_a_local_server_that_imitates_openai_is_told_the_limit_in_the_field_that_all_know() -> None:
    assert go("openai-chat/x").quirks.limit == "max_completion_tokens"
    for name in ("openai", "openai-chat", "llamacpp"):
        env = {**ENV, "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}
        assert go(f"{name}/x", env=env).quirks.limit == "max_tokens"


def test_the_address_of_an_anthropic_endpoint_loses_the_version_that_is_part_of_its_path() -> None:
    endpoint = Endpoint("anthropic", "https://llm.example/v1", "$MY_KEY")
    assert go("claude-x", endpoint).base_url == "https://llm.example"


def test_a_providers_key_is_not_sent_to_a_foreign_host() -> None:
    with pytest.raises(Permanent, match="is not sent to") as caught:
        go("anthropic/x", Endpoint(base_url="https://evil.example"))
    assert "api_key" in caught.value.hint


@pytest.mark.parametrize("variable", ["$ANTHROPIC_API_KEY", "${OPENAI_API_KEY}"])
def test_naming_a_providers_key_does_not_send_it_to_a_foreign_host(variable: str) -> None:
    with pytest.raises(Permanent, match="is not sent to"):
        go("anthropic/x", Endpoint(base_url="https://evil.example", api_key=variable))


def test_the_key_of_one_provider_is_not_sent_to_another() -> None:
    with pytest.raises(Permanent, match="belongs to openai"):
        go("anthropic/x", Endpoint(api_key="$OPENAI_API_KEY"))


def test_a_host_that_the_user_approved_is_sent_the_providers_key() -> None:
    endpoint = Endpoint(base_url="https://gateway.example")
    assert go("anthropic/x", endpoint, hosts=frozenset({"gateway.example"})).key == "ant"


def test_an_endpoint_is_sent_the_key_that_was_made_for_it() -> None:
    where = go("anthropic/x", Endpoint(base_url="https://llm.example", api_key="$MY_KEY"))
    assert (where.host, where.key, where.variable) == ("llm.example", "mine", "MY_KEY")


def test_the_user_may_move_a_provider_through_the_environment() -> None:
    where = go("anthropic/x", env={**ENV, "ANTHROPIC_BASE_URL": "http://127.0.0.1:4000"})
    assert (where.base_url, where.key, where.foreign) == ("http://127.0.0.1:4000", "ant", False)


def test_what_the_users_environment_adds_goes_to_the_provider_itself_and_nowhere_else() -> None:
    more = {"OPENAI_ORG_ID": "org", "ANTHROPIC_CUSTOM_HEADERS": "X-Team: red\nnonsense\n: x"}
    assert go("openai/x", env=ENV | more).headers == {"openai-organization": "org"}
    assert go("anthropic/x", env=ENV | more).headers == {"x-team": "red"}
    assert go("deepseek/x", env=more | {"DEEPSEEK_API_KEY": "k"}).headers == {}
    foreign = Endpoint(base_url="https://llm.example", api_key="$MY_KEY")
    assert go("openai/x", foreign, env=ENV | more).headers == {}
    assert "red" not in repr(go("anthropic/x", env=ENV | more))


def test_a_token_of_anthropic_is_sent_as_a_token_and_a_key_as_a_key() -> None:
    headers = AnthropicMessages().headers
    assert headers(go("anthropic/x"))["x-api-key"] == "ant"
    assert headers(go("anthropic/x", env={"ANTHROPIC_AUTH_TOKEN": "t"}))["authorization"] == "Bearer t"


def test_a_key_written_into_a_file_is_refused() -> None:
    with pytest.raises(Permanent, match="must name an environment variable") as caught:
        go("anthropic/x", Endpoint(api_key="sk-ant-literal"))
    assert "sk-ant-literal" not in caught.value.message


def test_a_variable_that_is_not_set_is_named() -> None:
    with pytest.raises(Permanent, match="NO_SUCH is not set"):
        go("anthropic/x", Endpoint(api_key="$NO_SUCH"))


def test_an_unknown_provider_is_told_what_was_probably_meant() -> None:
    with pytest.raises(Permanent) as caught:
        go("antropic/claude-x")
    assert caught.value.hint == "did you mean anthropic?"


def test_a_route_does_not_show_its_key() -> None:
    assert "ant'" not in repr(go("anthropic/x"))
    assert "key" not in repr(go("anthropic/x"))


def test_configured_providers_come_first_and_say_which_variable_they_use() -> None:
    found = configured_providers({"GOOGLE_API_KEY": "g"})
    assert (found[0].name, found[0].configured, found[0].variable) == ("google", True, "GOOGLE_API_KEY")
    assert [status.name for status in found if status.configured] == ["google"]
    assert {status.name: status.variable for status in found}["anthropic"] == "ANTHROPIC_API_KEY"
    assert "g'" not in repr(found)


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data",
        "http://metadata.google.internal/",
        "http://127.0.0.1:8080",
        "https://127.0.0.1",
        "https://localhost/v1",
        "https://x.localhost",
        "https://10.0.0.1",
        "https://192.168.1.1",
        "https://172.16.0.1",
        "https://100.64.0.1",
        "https://0.0.0.0",
        "https://2130706433",
        "https://0177.0.0.1",
        "https://0x7f.0.0.1",
        "https://127.1",
        "https://[::1]",
        "https://[::ffff:127.0.0.1]",
        "https://[::ffff:a9fe:a9fe]",
        "https://[64:ff9b::7f00:1]",
        "https://[fd00::1]",
        "https://[fe80::1]",
        "file:///etc/passwd",
        "ftp://example.com",
        "gopher://example.com",
        "https://user:pw@example.com",
        "https://example.com.",
        "https://example.com?x=1",
        "https://example.com#x",
        "https://example.com\\@evil.example",
        "https://exam ple.com",
        "https://example.com:port",
        "https://",
        "http://example.com",
        "example.com",
        "",
    ],
)
def test_an_address_that_a_project_must_not_name_is_refused(url: str) -> None:
    with pytest.raises(BadInput):
        check_url(url)


@pytest.mark.parametrize("url", ["https://llm.example/v1", "https://8.8.8.8:8443/x", "https://[2606:4700::1]"])
def test_a_public_address_is_accepted(url: str) -> None:
    assert check_url(url + "/") == url


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://localhost:11434/v1", "http://10.0.0.1"])
def test_a_local_address_is_accepted_when_the_user_allows_it(url: str) -> None:
    assert check_url(url, allow_local=True) == url


@pytest.mark.parametrize("url", ["http://169.254.169.254", "http://[fe80::1]", "http://0.0.0.0:80"])
def test_the_metadata_address_is_refused_even_then(url: str) -> None:
    with pytest.raises(BadInput):
        check_url(url, allow_local=True)


@pytest.mark.parametrize(
    ("url", "env", "proxy"),
    [
        ("https://llm.example", {}, None),
        ("https://llm.example", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("https://llm.example", {"https_proxy": "http://p:1", "no_proxy": "a.b, .example"}, None),
        ("https://llm.example", {"https_proxy": "http://p:1", "no_proxy": "*"}, None),
        ("https://llm.example", {"https_proxy": "http://p:1", "no_proxy": "other.example"}, "http://p:1"),
        ("https://llm.example", {"https_proxy": "http://p:1", "NO_PROXY": "LLM.Example"}, None),
        ("https://llm.example", {"https_proxy": "http://p:1", "no_proxy": "llm.example:443"}, None),
        ("https://llm.example:8443/v1", {"https_proxy": "http://p:1", "no_proxy": "llm.example:8443"}, None),
        ("https://llm.example", {"https_proxy": "http://p:1", "no_proxy": "llm.example:8443"}, "http://p:1"),
        ("https://myllm.example", {"https_proxy": "http://p:1", "no_proxy": "llm.example"}, "http://p:1"),
        ("https://10.1.2.3", {"https_proxy": "http://p:1", "no_proxy": "192.168.0.0/16,10.0.0.0/8"}, None),
        ("https://11.1.2.3", {"https_proxy": "http://p:1", "no_proxy": "10.0.0.0/8"}, "http://p:1"),
        ("https://[fd00::7]:8/v1", {"https_proxy": "http://p:1", "no_proxy": "fd00::/8"}, None),
        ("https://[fd00::7]:8/v1", {"https_proxy": "http://p:1", "no_proxy": "[fd00::7]:8"}, None),
        ("https://[fd00::7]:8/v1", {"https_proxy": "http://p:1", "no_proxy": "fd00::7"}, None),
        ("https://[fd00::7]:8/v1", {"https_proxy": "http://p:1", "no_proxy": "fd00::8, no, /, :, []"}, "http://p:1"),
        ("http://127.0.0.1:1", {"http_proxy": "http://p:1"}, None),
    ],
)
def test_the_users_proxy_is_used_except_where_it_must_not_be(url: str, env: dict[str, str], proxy: str | None) -> None:
    assert proxy_for(url, env) == proxy
