"""One team of every backend: four coding programs, a model API and a mock, in one workflow of a real daemon."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from tests import stored
from tests.backends.programs.world import World, call, has_result, is_installed, words, world
from tests.fakes.model_protocols import Answer, Json
from tests.fakes.model_server import Step
from tests.needs import needs
from tests.patience import eventually

PROGRAMS = ("claude", "codex", "opencode", "gemini")
MISSING = [name for name in PROGRAMS if not is_installed(name)]
pytestmark = [
    needs(", ".join(MISSING), there=not MISSING),
]


@pytest.fixture
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("mixed")) as made:
        yield made


def greet_once(body: Json) -> Step:
    name = re.search(r"You are of-(\w+)\.", words(body))
    assert name
    if has_result(body):
        return "That is all."
    return Answer("", (call(body, "channel_send", text=f"Greetings from {name[1]}."),))


def test_six_backends_talk_in_one_channel(there: World) -> None:
    agents = [there.hire(f"of-{program}", program, more="access: read\n") for program in PROGRAMS]
    (there.project / ".agents" / "of-sdk.yaml").write_text(
        "model: anthropic/fake\nprompt: { system: You are of-sdk. }\n"
        f"provider: {{ name: anthropic, base_url: {there.model.url('think')}, api_key: $TEST_KEY }}\n"
    )
    (there.project / ".agents" / "of-mock.yaml").write_text("backend: mock\n")
    members = [*agents, "of-sdk", "of-mock"]
    (there.project / ".workflows" / "everybody.yaml").write_text(
        "agents:\n" + "".join(f"  {name}: {{ ref: {name} }}\n" for name in members)
    )
    there.do("POST", "/trust")
    there.model.mind = greet_once
    there.do("POST", "/workflows", workflow="everybody")
    there.send("@everybody", "@all please say hello")
    for name in members:
        there.until_run(name, lambda runs: runs[-1][0] == "done")
    said = {row["sender"]: row["text"] for row in there.read(stored.messages) if row["sender"].startswith("of-")}
    assert said.keys() == set(members)
    assert all(said[name] == f"Greetings from {name.removeprefix('of-')}." for name in members if name != "of-mock")
    assert eventually(lambda: not there.children())
