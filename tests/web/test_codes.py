"""C5: a code is good for a minute, whatever happens in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_worker.core.clock import TestClock
from agent_worker.daemon.http.request_guard import Admin, Tokens
from agent_worker.daemon.web.login import FILE, SECONDS, SIGNED_IN, LoginCodes, PageTokens
from agent_worker.files.root import Root


def signed_in(home: Path, clock: TestClock) -> tuple[Tokens, PageTokens]:
    """As a daemon begins: what it knows of pages that signed in before."""
    tokens = Tokens("admin")
    return tokens, PageTokens(Root.private(home), tokens, clock)


async def test_C5_a_code_lives_for_a_minute(tmp_path: Path) -> None:
    clock = TestClock()
    tokens, pages = signed_in(tmp_path, clock)
    codes = LoginCodes(pages, clock)
    late, soon = codes.make(), codes.make()
    await clock.advance(SECONDS - 1)
    token = codes.redeem(soon)
    assert token is not None
    assert tokens.caller(token.encode()) == Admin()
    await clock.advance(2)
    assert codes.redeem(late) is None


def test_a_code_that_was_shown_means_nothing_any_more(tmp_path: Path) -> None:
    codes = LoginCodes(signed_in(tmp_path, TestClock())[1], TestClock())
    code = codes.make()
    assert codes.redeem(code) is not None
    assert codes.redeem(code) is None


def test_codes_that_nobody_takes_do_not_pile_up(tmp_path: Path) -> None:
    codes = LoginCodes(signed_in(tmp_path, TestClock())[1], TestClock())
    made = [codes.make() for _ in range(100)]
    assert codes.redeem(made[0]) is None
    assert codes.redeem(made[-1]) is not None


async def test_C5_a_page_stays_signed_in_over_restarts_for_thirty_days(tmp_path: Path) -> None:
    clock = TestClock()
    token = signed_in(tmp_path, clock)[1].issue()
    assert token not in (tmp_path / FILE).read_text(), "only its digest is kept"
    assert (tmp_path / FILE).stat().st_mode & 0o77 == 0
    again, _ = signed_in(tmp_path, clock)
    assert again.caller(token.encode()) == Admin()
    await clock.advance(SIGNED_IN / 1e6 + 1)
    later, _ = signed_in(tmp_path, clock)
    assert later.caller(token.encode()) is None


def test_C5_who_signs_out_is_out_everywhere_and_for_good(tmp_path: Path) -> None:
    tokens, pages = signed_in(tmp_path, TestClock())
    made = [pages.issue() for _ in range(3)]
    assert pages.end_all() == 3
    for known in (tokens, signed_in(tmp_path, TestClock())[0]):
        assert [known.caller(token.encode()) for token in made] == [None] * 3


def test_pages_that_nobody_signs_out_do_not_pile_up(tmp_path: Path) -> None:
    tokens, pages = signed_in(tmp_path, TestClock())
    made = [pages.issue() for _ in range(100)]
    assert tokens.caller(made[0].encode()) is None
    assert tokens.caller(made[-1].encode()) == Admin()
    assert len(json.loads((tmp_path / FILE).read_text())) <= 32


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"x": 1}', '{"zz": "soon"}', '{"ab": 99999999999999999}'])
def test_a_broken_list_of_pages_signs_everybody_out_and_stops_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    tokens, pages = signed_in(tmp_path, TestClock())
    assert tokens.caller(pages.issue().encode()) == Admin()
