"""Secrets do not get into what is written; everything else does, letter for letter (N5)."""

from __future__ import annotations

import html
import json
import string
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests import stored
from tests.faults.report import few
from tests.teams import open_team

from agent_worker.agents.call_record import SHOWN
from agent_worker.backends.backend import PastStep, Reply, StepSink, Turn
from agent_worker.core.clock import TestClock
from agent_worker.core.errors import Permanent
from agent_worker.core.events import Delta, Event
from agent_worker.core.redaction import FAMILIES, LONGEST_HELD, Passage, Redactor, secrets_in
from agent_worker.files.swap import content_hash
from agent_worker.tools.tool import Call
from agent_worker.workspaces import resources, workspace_rows
from agent_worker.workspaces.documents import Documents
from agent_worker.workspaces.routing import HEAD

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
        "Authorization: see-the-chapter-on-authorization, x-api-key: nameOfTheVariableThatHoldsIt",
        "api-key: THE_NAME_OF_THE_VARIABLE_THAT_HOLDS_IT, sk-LearnIsMeantForStatistics",
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


PASSWORD = 'p@ss/wörd "x" $1&<y>+z!'


@pytest.mark.parametrize(
    "written",
    [
        json.dumps(json.dumps({"a": PASSWORD})),
        json.dumps(json.dumps(PASSWORD, ensure_ascii=False), ensure_ascii=False),
        json.dumps(PASSWORD).replace("/", "\\/"),
        json.dumps(PASSWORD).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"),
        quote(PASSWORD),
        quote_plus(PASSWORD),
        quote(PASSWORD, safe="")
        .replace("%C3%B6", "%c3%b6")
        .replace("%2F", "%2f")
        .replace("%3C", "%3c")
        .replace("%3E", "%3e")
        .replace("%2B", "%2b"),
        html.escape(PASSWORD),
        *(
            b64encode(f"{before}{PASSWORD}{after}".encode()).decode()
            for before in ("", "u:", "me:")
            for after in ("", "\n")
        ),
        urlsafe_b64encode(f"me:{PASSWORD}".encode()).decode(),
    ],
)
def test_N5_also_as_other_programs_write_them(written: str) -> None:
    shown = Redactor([PASSWORD])(f"it is {written} there")
    assert "[redacted:secret]" in shown
    assert len(shown) < len("it is [redacted:secret] there") + 16


def test_N5_a_value_of_many_lines_is_found_line_by_line() -> None:
    lines = [f"line {number} of a certificate, {number * 7919}" for number in range(4)]
    safe = Redactor(["\n".join(lines) + "\n"])
    for text in ("\n".join(lines), "\r\n".join(lines), "\n".join(f"{n}: {line}" for n, line in enumerate(lines))):
        assert "certificate" not in safe(text)
    assert safe("of a certificate") == "of a certificate"


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


@settings(max_examples=few(400))
@given(TEXTS)
def test_N5_redacting_twice_changes_nothing_more_and_texts_do_not_explode(text: str) -> None:
    once = REGISTERED(text)
    assert REGISTERED(once) == once
    assert len(once) <= 30 * len(text)
    assert "hunter2hunter2" not in once


@settings(max_examples=few(200))
@given(st.text())
def test_N5_any_text_is_taken(text: str) -> None:
    assert REGISTERED(REGISTERED(text)) == REGISTERED(text)


@settings(max_examples=few(200))
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


# --- a text that arrives in pieces


def passed_on(redact: Redactor, pieces: Sequence[str]) -> list[str]:
    passage = Passage(redact)
    return [*(passage.add(piece) for piece in pieces), passage.end()]


def cut_up(text: str, sizes: Sequence[int]) -> list[str]:
    pieces, rest = [], text
    for size in sizes:
        pieces, rest = [*pieces, rest[:size]], rest[size:]
    return [*pieces, rest]


ODD = 'a pass "phrase" mit Ümläuten'
KNOWING = Redactor(["correct-horse-battery-staple", ODD])
BEFORE = ["", "Authorization: Bearer abcdef123456 ", "https://bob:pässwörd@host/x ", "look: -----BEGIN x-----END "]


@settings(max_examples=few(200))
@example(["https://bob:pässwörd@host/x "], [24])
@given(
    st.lists(
        st.sampled_from([*(secret for _, secret in CASES), "correct-horse-battery-staple", ODD, *BEFORE, "so ist es,"]),
        max_size=4,
    ),
    st.lists(st.integers(1, 30), max_size=60),
)
def test_N5_however_a_text_is_cut_no_piece_of_a_secret_is_shown(said: list[str], sizes: list[int]) -> None:
    text = " and ".join(said)
    assert "".join(passed_on(KNOWING, cut_up(text, sizes))) == KNOWING(text)


@pytest.mark.parametrize("secret", [*(secret for _, secret in CASES), "correct-horse-battery-staple", ODD])
def test_N5_letter_by_letter_nothing_of_a_secret_is_shown(secret: str) -> None:
    text = f"the key is {secret}\nand that is all"
    shown = passed_on(KNOWING, list(text))
    assert "".join(shown) == KNOWING(text)


def test_what_is_being_written_is_shown_word_by_word() -> None:
    passage = Passage(Redactor())
    assert [passage.add(piece) for piece in ("Hel", "lo, wor", "ld. 好的，", "没问题", "\n")] == [
        "",
        "Hello, ",
        "world. 好的，",
        "没问题",
        "\n",
    ]
    assert passage.end() == ""


def test_a_word_without_end_is_not_held_for_ever() -> None:
    passage = Passage(Redactor())
    shown = [passage.add("x" * 1000) for _ in range(100)]
    assert len("".join(shown)) >= 100_000 - LONGEST_HELD - 1000


# --- where it is wired in


class Leaky:
    """A model that says, calls with and fails with a secret, as one that has seen it may."""

    def __init__(self, secret: str) -> None:
        self._secret = secret

    async def reply(self, turn: Turn, steps: Sequence[PastStep], recorder: StepSink) -> Reply:
        told = f"the key is {self._secret}, I think"
        for start in range(0, len(told), 7):
            recorder.say(told[start : start + 7])
        if "fail" in turn.prompt:
            raise Permanent(f"401 for {self._secret}", hint=f"not {self._secret}")
        if not steps:
            return Reply(told, calls=tuple(self._calls(told)))
        return Reply(told)

    def _calls(self, told: str) -> Iterator[Call]:
        wide = f"{'x' * (SHOWN - 40)}{told}"  # what is shown of it ends in the middle of the secret
        for number, (tool, arguments) in enumerate(
            [
                ("channel_send", {"text": told}),
                ("channel_send", {"text": "long " * 2000 + told}),
                ("channel_send", {"text": f"{'l' * (HEAD - 30)} {told} {'long ' * 2000}"}),
                ("my_status_set", {"status": told}),
                ("no_such_tool", {"a": wide}),
                (self._secret, {}),
                ("team_doc_create", {"name": "a.md", "text": told}),
                ("team_doc_append", {"name": "a.md", "text": told}),
                ("resource_create", {"text": told}),
                ("memory_write", {"key": self._secret, "value": told}),
                ("note_write", {"title": told, "text": told}),
                ("todo_add", {"text": told}),
                ("team_proposal_create", {"question": told, "options": [told, "no"], "voters": ["user"]}),
            ]
        ):
            yield Call(f"c{number}", tool, arguments)


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
        team.runtime.bus.listen(heard.append)
        team.employ("alice", Leaky(secret))
        await team.post("user", f"@alice use {secret}")
        await team.dm("alice", f"and {secret} here")
        await team.still()
        await team.post("user", "@alice now fail")
        await team.still()
        assert await team.states() == ["done", "done", "failed"]
        assert "[redacted:secret]" in "".join(await team.texts())
        there = [row["id"] for row in await team.runs(workspace=team.workspace.id)]
        assert sorted(row["tool"] for row in await team.calls(ok=0) if row["run"] in there) == [
            "[redacted:secret]",
            "no_such_tool",
        ]
        for kept in await team.read(stored.resources):
            assert "[redacted:secret]" in (await team.read(resources.load, team.workspace.id, kept["id"])).text
        workspace = await team.read(workspace_rows.get, team.workspace.id)
        document = await Documents(team.database, team.clock, workspace).read("a.md")
        assert document.text.count("[redacted:secret]") == 2
        assert document.revision == content_hash(document.text)
        assert not files_with(secret, tmp_path)
    assert not [event for event in heard if secret in json.dumps(event.as_record())]
    live = "".join(event.text for event in heard if isinstance(event, Delta))
    assert "the key is [redacted:secret], I think" in live
    assert secret not in live
    assert not [event for event in heard if secret[:10] in json.dumps(event.as_record())]
