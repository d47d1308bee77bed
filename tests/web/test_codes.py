"""C5: a code is good for a minute, whatever happens in it."""

from __future__ import annotations

from agent_worker.core.clock import TestClock
from agent_worker.daemon.http.request_guard import Admin, Tokens
from agent_worker.daemon.web.login import SECONDS, LoginCodes


async def test_C5_a_code_lives_for_a_minute() -> None:
    clock = TestClock()
    tokens = Tokens("admin")
    codes = LoginCodes(tokens, clock)
    late, soon = codes.make(), codes.make()
    await clock.advance(SECONDS - 1)
    token = codes.redeem(soon)
    assert token is not None
    assert tokens.caller(token.encode()) == Admin()
    await clock.advance(2)
    assert codes.redeem(late) is None


def test_a_code_that_was_shown_means_nothing_any_more() -> None:
    codes = LoginCodes(Tokens("admin"), TestClock())
    code = codes.make()
    assert codes.redeem(code) is not None
    assert codes.redeem(code) is None


def test_codes_that_nobody_takes_do_not_pile_up() -> None:
    codes = LoginCodes(Tokens("admin"), TestClock())
    made = [codes.make() for _ in range(100)]
    assert codes.redeem(made[0]) is None
    assert codes.redeem(made[-1]) is not None
