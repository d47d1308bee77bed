"""Secrets do not get into what is written; everything else does, letter for letter (N5)."""

from __future__ import annotations

import json
import string
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_worker.backends.backend import Hands, PastStep, Reply, Turn
from agent_worker.clock import TestClock
from agent_worker.errors import Permanent
from agent_worker.events import Delta, Event
from agent_worker.redaction import FAMILIES, Redactor, secrets_in
from agent_worker.tools.tool import Call
from tests.teams import open_team

KEY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
#: Never real: each is put together here, so that no scanner stumbles over this file.
SECRETS = {
    "aws": ["AKIA" + "IOSFODNN7EXAMPLE", "ASIA" + "IOSFODNN7EXAMPLE"],
    "github": ["ghp_" + "a1B2" * 9, "github_" + "pat_" + "11ABCDEFG0" * 4, "ghs_" + "x" * 36],
    "gitlab": ["glpat-" + "aB3-" * 5, "glrt-" + "t1_" * 9],
    "slack": ["xoxb-" + "123456789012-abcdefABCDEF", "xapp-" + "1-A0123-456-abcdef"],
    "google": ["AIza" + "SyA-1234_" * 4, "GOCSPX-" + "aB3-" * 7],
    "openai": ["sk-" + "proj-" + "Ab3dE-_f" * 6, "sk-" + "0123456789abcdefghij"],
    "anthropic": ["sk-" + "ant-api03-" + "Ab3dE-_f" * 6],
    "stripe": ["sk_" + "live_" + "4eC39HqLyjWDarjtT1zdp7dc", "rk_" + "test_" + "4eC39HqLyjWDarjt"],
    "npm": ["npm_" + "a1B2" * 9],
    "private-key": [
        f"-----BEGIN {kind}PRIVATE KEY-----\n{KEY}\n-----END {kind}PRIVATE KEY-----" for kind in ("", "RSA ")
    ],
    "jwt": ["eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0In0." + "dozjgNryP4J3jVmNHl0w5N_XgL0n3I9"],
}
CASES = [(kind, secret) for kind, secrets in SECRETS.items() for secret in secrets]
redact = Redactor()


@pytest.mark.parametrize(("kind", "secret"), CASES)
@pytest.mark.parametrize("around", ["{}", "key={} ok", '"{}"', "a\n{}\nb", "({}).", "https://x.example/?t={}&b=1"])
def test_N5_every_family_is_found_wherever_it_stands(kind: str, secret: str, around: str) -> None:
    assert redact(around.format(secret)) == around.format(f"[redacted:{kind}]")


@pytest.mark.parametrize(("kind", "secret"), CASES)
def test_N5_also_inside_json_and_json_in_json(kind: str, secret: str) -> None:
    once = json.dumps({"text": f"see\n{secret}\nthere"})
    assert redact(once) == json.dumps({"text": f"see\n[redacted:{kind}]\nthere"})
    assert f"[redacted:{kind}]" in redact(json.dumps(once))


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("Authorization: Bearer abcdef123456", "Authorization: Bearer [redacted:authorization]"),
        ("proxy-authorization: basic dXNlcjpwYXNz", "proxy-authorization: basic [redacted:authorization]"),
        ('{"authorization": "Token 0123456789"}', '{"authorization": "Token [redacted:authorization]"}'),
        ("AUTHORIZATION=0123456789abcdef", "AUTHORIZATION=[redacted:authorization]"),
        ("postgres://bob:hunter2@db/x", "postgres://bob:[redacted:password]@db/x"),
        ("redis://:p@ss@host:1", "redis://:[redacted:password]@host:1"),
        ("https://a:a@h and https://h/", "https://a:[redacted:password]@h and https://h/"),
        ("aws_secret_access_key = " + "wJa/" * 10, "aws_secret_access_key = [redacted:aws]"),
        (f"-----BEGIN PRIVATE KEY-----\n{KEY}\n{KEY[:40]}", "[redacted:private-key]"),
    ],
)
def test_N5_headers_addresses_and_cut_off_keys_keep_their_harmless_part(text: str, safe: str) -> None:
    assert redact(text) == safe


@pytest.mark.parametrize(
    "text",
    [
        "",
        "task-1-of-the-long-list-that-we-have",
        "sk-learn-is-a-library-for-statistics-in-python",
        "class sk-estimator-doc-link-of-a-page",
        "Authorization: required for every request",
        "Authorization: Bearer <your token>, Authorization: Bearer $TOKEN",
        "look for -----BEGIN PRIVATE KEY----- in the files, then stop",
        "https://host:8080/path and mail bob@example.com",
        "http://user@host/ ssh://git@github.com:22/x",
        "eyJhbGciOiJIUzI1NiJ9 alone, eyJ.a.b",
        "ghp_short AKIA123 xoxb- npm_install glpat-",
        "sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "[redacted:password] and [redacted:",
    ],
)
def test_honest_text_stays_as_it_is(text: str) -> None:
    assert redact(text) == text


def test_N5_registered_values_are_found_in_each_way_they_are_written() -> None:
    value = 'pa"ss/wörd\n1'
    safe = Redactor([value])
    for text in (value, json.dumps({"a": value}), json.dumps([value], ensure_ascii=False), "x=pa%22ss%2Fw%C3%B6rd%0A1"):
        assert "[redacted:secret]" in safe(text)
        assert "ss" not in safe(text)


def test_short_values_are_not_registered_and_the_longest_goes_first() -> None:
    safe = Redactor(["abc", "", "abcdefgh", "abcdefgh-and-more"])
    assert safe("abc abcdefgh abcdefgh-and-more") == "abc [redacted:secret] [redacted:secret]"


def test_a_secret_learnt_later_is_redacted_from_then_on() -> None:
    safe = Redactor()
    assert safe("hunter2hunter2") == "hunter2hunter2"
    safe.register(["hunter2hunter2"])
    assert safe("hunter2hunter2") == "[redacted:secret]"


@pytest.mark.parametrize("value", ["redacted", "[redacted:secret]", "secret]x", "]secret[", ":password", "d:secret"])
def test_a_secret_that_reads_like_a_marker_does_not_break_markers(value: str) -> None:
    safe = Redactor([value, "hunter2hunter2"])
    once = safe(f"{value} hunter2hunter2 x{value}x redis://:pw@h")
    assert safe(once) == once
    assert "hunter2" not in once


def test_N5_secrets_are_found_in_the_environment_by_their_names(tmp_path: Path) -> None:
    environment = {
        "GITHUB_TOKEN": "v-token",
        "AWS_SECRET_ACCESS_KEY": "v-aws",
        "OPENAI_API_KEY": "v-openai",
        "db_password": "v-password",
        "STRIPE_KEY": "v-stripe",
        "SENTRY_DSN": "v-dsn",
        "MINE": "v-named",
        "PWD": "/srv/project",
        "PATH": "/usr/bin",
        "SSH_AUTH_SOCK": "/run/ssh",
        "AWS_ACCESS_KEY_ID": "v-id",
        "TOKENIZERS_PATH": "v-path",
        "GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path),
        "KEYBOARD": "german",
    }
    expected = ["v-token", "v-aws", "v-openai", "v-password", "v-stripe", "v-dsn", "v-named"]
    assert list(secrets_in(environment, named=["MINE", "NOT_SET"])) == expected


# ── any text ──

PIECES = [
    *(secret for _, secret in CASES),
    *(hint for family in FAMILIES for hint in family.hints),
    *(
        "Authorization: Bearer ",
        "://u:",
        "@",
        "secret_access_key=",
        ".",
        "-",
        "\n",
        "\\n",
        "[redacted:secret]",
        "[redacted:",
    ),
    *("hunter2hunter2", "redacted", "a" * 40, "9", "A" * 16, "sk-", "-----END PRIVATE KEY-----"),
]
REGISTERED = Redactor(["hunter2hunter2", "redacted", "9-9-9-9-9"])
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=8) | st.text(string.ascii_letters, max_size=40)).map(
    "".join
)


@settings(max_examples=400, deadline=None)
@given(TEXTS)
def test_N5_redacting_twice_changes_nothing_more_and_texts_do_not_explode(text: str) -> None:
    once = REGISTERED(text)
    assert REGISTERED(once) == once
    assert len(once) <= 30 * len(text)
    assert "hunter2hunter2" not in once


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_N5_any_text_is_taken(text: str) -> None:
    assert REGISTERED(REGISTERED(text)) == REGISTERED(text)


@settings(max_examples=200, deadline=None)
@given(st.text(string.ascii_lowercase + " .,\n", max_size=200), st.sampled_from(CASES), st.text(" .,\n", max_size=20))
def test_N5_a_secret_among_words_is_found_and_the_words_stay(before: str, case: tuple[str, str], after: str) -> None:
    kind, secret = case
    assert redact(f"{before} {secret} {after}") == f"{before} [redacted:{kind}] {after}"


@pytest.mark.parametrize(
    "unit",
    [
        *("eyJ", "eyJ.", "-eyJaaaaaaaaaaaa.", "sk-", "-sk-", "://a:", "://:a@@", "://", "-", "Authorization: "),
        *("-----BEGIN PRIVATE KEY-----", "-----BEGIN ", "Authorization: Bearer ", "secret_access_key=", "AKIA", "ghp_"),
        *("glpat-", "glpat-aaaaaaaaaaaaaaaaaaaa.", "[redacted:", "[redacted:secret]", "hunter2hunter2", "words and "),
    ],
)
def test_N5_time_grows_with_the_length_whatever_the_text(unit: str) -> None:
    """A quarter of a megabyte takes some 50 ms; a pattern that goes back over it would take minutes."""
    text = unit * (2**18 // len(unit))
    started = time.process_time()
    REGISTERED(text)
    assert time.process_time() - started < 2


# --- where it is wired in


class Leaky:
    """A model that says, calls with and fails with a secret, as one that has seen it may."""

    def __init__(self, secret: str) -> None:
        self._secret = secret

    async def reply(self, turn: Turn, steps: Sequence[PastStep], hands: Hands) -> Reply:
        told = f"the key is {self._secret}, I think"
        if "fail" in turn.prompt:
            raise Permanent(f"401 for {self._secret}", hint=f"not {self._secret}")
        if not steps:
            said = Call("c1", "channel_send", {"text": told})
            return Reply(
                told,
                calls=(said, Call("c2", "my_status_set", {"status": told}), Call("c3", "no_such_tool", {"a": told})),
            )
        return Reply(told)


def files_with(secret: str, folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]


async def test_N5_a_secret_that_is_said_called_printed_or_failed_with_is_written_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "correct-horse-battery-staple"
    monkeypatch.setenv("DEPLOY_TOKEN", secret)
    heard: list[Event] = []
    settings = {"clock": TestClock(), "database": tmp_path / "state.db", "workflow": ""}
    async with open_team(tmp_path / "project", "alice", "bob", **settings) as team:
        team.engine.stage.bus.listen(heard.append)
        team.employ("alice", Leaky(secret))
        await team.post("user", f"@alice use {secret}")
        await team.dm("alice", f"and {secret} here")
        await team.still()
        await team.post("user", "@alice now fail")
        await team.still()
        assert await team.states() == ["done", "done", "failed"]
        assert "[redacted:secret]" in "".join(await team.texts())
        assert not files_with(secret, tmp_path)
    # Pieces of a text that is being written are not whole texts; they are shown and not kept.
    told = [event for event in heard if not isinstance(event, Delta) and secret in json.dumps(event.as_record())]
    assert not told
