"""Which of several keys counts, and what a project or a client cannot do with them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from agent_worker.backends.models.keys import FILE, KeyRing
from agent_worker.backends.models.providers import AS_NAMED, PROVIDERS, route
from agent_worker.core.clock import TestClock
from agent_worker.core.errors import BadInput, NoKey, NotFound, Refused
from agent_worker.core.provider_variables import KEY_VARIABLES, brought_by, key_variable, more_of
from agent_worker.core.redaction import Redactor
from agent_worker.definitions.project_files import ProjectFiles, load_project
from agent_worker.files.root import Root
from agent_worker.trust.gate import Gate
from agent_worker.trust.project_keys import keys_in, keys_in_env_file, power_of_keys

STORED, PROJECT, DAEMON, CLIENT = (f"sk-of-the-{who}-0123456789" for who in ("store", "project", "daemon", "client"))


class Place:
    """A home, a project with a `.env`, and a daemon's environment."""

    def __init__(self, tmp: Path, environ: dict[str, str] | None = None) -> None:
        self.home = Root.private(tmp / "home")
        self.gate = Gate(self.home, TestClock())
        self.root = tmp / "p"
        (self.root / ".agents").mkdir(parents=True)
        self.redact = Redactor()
        self.environ = environ or {}
        self.ring = self.again()

    def again(self) -> KeyRing:
        """After a restart."""
        return KeyRing(self.environ, self.redact, self.home, self.gate)

    def write(self, text: str) -> ProjectFiles:
        (self.root / ".env").write_text(text)
        return load_project(self.root)

    def approve(self, project: ProjectFiles) -> None:
        self.gate.approve(project.root, power_of_keys(project, keys_in_env_file(project)))

    def key(self) -> str:
        return route("openai/x", AS_NAMED, env=self.ring.of(self.root.resolve())).key

    def host(self) -> str:
        return route("openai/x", AS_NAMED, env=self.ring.of(self.root.resolve())).host

    def sources(self) -> dict[str, str]:
        return {each.variable: each.source for each in self.ring.listing(self.root.resolve())}


def test_a_stored_key_counts_before_the_projects_the_daemons_and_a_clients(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with pytest.raises(NoKey) as missing:
        place.key()
    assert missing.value.hint == "agent-worker key set openai"
    assert place.ring.bring({"OPENAI_API_KEY": CLIENT})
    assert (place.key(), place.sources()) == (CLIENT, {"OPENAI_API_KEY": "client"})
    place.environ["OPENAI_API_KEY"] = DAEMON
    assert (place.key(), place.sources()) == (DAEMON, {"OPENAI_API_KEY": "daemon"})
    project = place.write(f"OPENAI_API_KEY={PROJECT}\n")
    place.approve(project)
    place.ring.look_at(project)
    assert (place.key(), place.sources()) == (PROJECT, {"OPENAI_API_KEY": "project"})
    assert place.ring.set("openai", f" {STORED}\n") == "OPENAI_API_KEY"
    assert (place.key(), place.sources()) == (STORED, {"OPENAI_API_KEY": "stored"})
    place.ring.remove("openai")
    assert place.key() == PROJECT


def test_a_stored_key_outlives_the_process_in_a_file_of_the_person_alone(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.ring.set("MY_KEY", STORED)
    place.ring.bring({"OPENAI_API_KEY": CLIENT})
    assert place.again().of()["MY_KEY"] == STORED
    file = place.home.location(FILE)
    assert file.stat().st_mode & 0o777 == 0o600
    assert CLIENT not in file.read_text(), "what a client brings is kept in memory only"
    assert "OPENAI_API_KEY" not in place.again().of()


def test_whatever_becomes_known_is_redacted(tmp_path: Path) -> None:
    place = Place(tmp_path)
    odd = [f"{each}-without-a-shape-{n}" for n, each in enumerate(("plum", "pear", "fig"))]
    place.ring.set("MY_KEY", odd[0])
    place.ring.look_at(place.write(f"OPENAI_API_KEY='{odd[1]}'"))
    place.ring.bring({"GROQ_API_KEY": odd[2]})
    assert not [each for each in odd if each in place.redact(json.dumps(odd))]
    assert STORED not in repr(place.ring)
    fresh = Redactor()
    KeyRing({}, fresh, place.home)
    assert odd[0] not in fresh(odd[0]), "also after a restart"


def test_a_projects_env_file_is_not_used_before_it_is_approved_nor_after_it_changed(tmp_path: Path) -> None:
    place = Place(tmp_path)
    project = place.write(f"OPENAI_API_KEY={PROJECT}")
    place.ring.look_at(project)
    assert place.sources() == {"OPENAI_API_KEY": "unapproved"}
    with pytest.raises(NoKey):
        place.key()
    place.approve(project)
    place.ring.look_at(project)
    assert place.key() == PROJECT
    (waiting,) = place.gate.unapproved(project.root, power_of_keys(project, {"OPENAI_API_KEY": "another"}))
    assert "OPENAI_API_KEY" in waiting.power.what
    assert "changed in a part that is" in waiting.shown()
    assert PROJECT not in waiting.shown() + place.home.read_text("trust.json")
    place.ring.look_at(place.write("OPENAI_API_KEY=another"))
    with pytest.raises(NoKey):
        place.key()


def test_an_env_file_gives_keys_and_cannot_lead_the_users_key_elsewhere(tmp_path: Path) -> None:
    place = Place(tmp_path, {"OPENAI_API_KEY": DAEMON})
    evil = "OPENAI_BASE_URL=https://evil.example/v1\nHTTPS_PROXY=http://evil.example\nOPENAI_ORG_ID=x\nPATH=/evil\n"
    (place.root / ".agents" / "a.yaml").write_text(
        "backend: sdk\nmodel: openai/x\nprovider: { name: openai, api_key: $OPENAI_BASE_URL }\n"
    )
    project = place.write(evil + "GROQ_API_KEY=gsk-0123456789\n")
    assert list(keys_in_env_file(project)) == ["GROQ_API_KEY"]
    place.approve(project)
    place.ring.look_at(project)
    env = place.ring.of(project.root)
    assert (place.key(), place.host()) == (DAEMON, "api.openai.com")
    assert [name for name in ("OPENAI_BASE_URL", "HTTPS_PROXY", "OPENAI_ORG_ID", "PATH") if name in env] == []
    assert "GROQ_API_KEY" not in place.ring.of(tmp_path / "another"), "it is this project's key"


def test_what_a_client_brings_is_used_together_or_not_at_all(tmp_path: Path) -> None:
    """Its address with a key of ours would send that key where nobody sent it."""
    place = Place(tmp_path)
    brought = {"OPENAI_API_KEY": CLIENT, "OPENAI_BASE_URL": "https://proxy.example/v1"}
    assert place.ring.bring(brought)
    assert not place.ring.bring(brought)
    assert (place.key(), place.host()) == (CLIENT, "proxy.example")
    place.ring.set("openai", STORED)
    assert (place.key(), place.host()) == (STORED, "api.openai.com")
    assert not place.ring.bring(brought)
    assert place.host() == "api.openai.com"
    other = Place(tmp_path / "other")
    other.ring.bring(brought)
    project = other.write(f"OPENAI_API_KEY={PROJECT}")
    other.approve(project)
    other.ring.look_at(project)
    assert (other.key(), other.host()) == (PROJECT, "api.openai.com")


def test_a_client_brings_variables_of_providers_and_nothing_else() -> None:
    environ = {"OPENAI_API_KEY": "k", "ANTHROPIC_BASE_URL": "https://x", "PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "s"}
    assert brought_by(environ) == {"OPENAI_API_KEY": "k"}
    assert set(brought_by({"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "u", "OPENAI_ORG_ID": "o"})) == {
        "OPENAI_API_KEY",
        *("OPENAI_BASE_URL", "OPENAI_ORG_ID"),
    }


def test_a_client_cannot_bring_what_is_no_providers(tmp_path: Path) -> None:
    place = Place(tmp_path)
    assert not place.ring.bring({"PATH": "/evil", "MY_KEY": "x", "OPENAI_BASE_URL": "https://evil.example"})
    assert list(place.ring.of()) == []


@pytest.mark.parametrize("value", ["", " ", "two words", "a\nb", "x" * 10_000, "\x07bell"])
def test_what_cannot_be_a_key_is_not_stored(tmp_path: Path, value: str) -> None:
    with pytest.raises(BadInput, match="not a key"):
        Place(tmp_path).ring.set("openai", value)


def test_a_key_is_named_by_its_provider_or_its_variable() -> None:
    assert key_variable("google") == "GEMINI_API_KEY"
    assert key_variable("MY_KEY_2") == "MY_KEY_2"
    for name, hint in (("opnai", "did you mean openai?"), ("my-key", "providers:"), ("OPENAI_BASE_URL", "export")):
        with pytest.raises(BadInput) as caught:
            key_variable(name)
        assert hint in caught.value.hint


def test_every_variable_of_a_provider_is_known() -> None:
    assert {name for each in PROVIDERS.values() for name in each.variables} < KEY_VARIABLES
    for each in PROVIDERS.values():
        owner = "openai" if each.name == "openai-chat" else each.name
        assert {each.base_variable, *each.headers.values()} - {""} <= set(more_of(owner))


@pytest.mark.parametrize("what", ["link", "bytes", "pipe"])
def test_an_env_file_that_cannot_be_read_is_told_where_its_key_is_missing(what: str, tmp_path: Path) -> None:
    place = Place(tmp_path)
    file = place.root / ".env"
    match what:
        case "link":
            (tmp_path / "elsewhere").write_text(f"OPENAI_API_KEY={PROJECT}")
            file.symlink_to(tmp_path / "elsewhere")
        case "bytes":
            file.write_bytes(b"OPENAI_API_KEY=\xff\xfe")
        case "pipe":
            os.mkfifo(file)
    place.ring.look_at(load_project(place.root))
    with pytest.raises(NoKey, match=r"OPENAI_API_KEY is not set \(the keys in \.env are not used: .*\)"):
        place.key()
    file.unlink()
    file.mkdir()  # of other tools, and no mistake
    place.ring.look_at(load_project(place.root))
    with pytest.raises(NoKey, match=r"OPENAI_API_KEY is not set\n"):
        place.key()


def test_an_env_file_is_read_as_people_write_it() -> None:
    text = """
    # a comment
    export OPENAI_API_KEY="one # two"   # mine
    GROQ_API_KEY = three # four
    XAI_API_KEY='five'
    MISTRAL_API_KEY=
    not a line
    MY_KEY=$OPENAI_API_KEY
    OTHER=six
    """
    assert keys_in(text, named=["MY_KEY"]) == {
        "OPENAI_API_KEY": "one # two",
        "GROQ_API_KEY": "three",
        "XAI_API_KEY": "five",
        "MY_KEY": "$OPENAI_API_KEY",
    }


def test_nothing_is_stored_without_a_home_and_a_damaged_store_says_so(tmp_path: Path) -> None:
    ring = KeyRing({}, Redactor())
    assert not ring.can_wait
    with pytest.raises(Refused):
        ring.set("openai", STORED)
    place = Place(tmp_path)
    with pytest.raises(NotFound, match="OPENAI_API_KEY"):
        place.ring.remove("openai")
    place.home.replace(FILE, "not json")
    with pytest.raises(Refused, match=r"keys\.json cannot be read"):
        place.again()
