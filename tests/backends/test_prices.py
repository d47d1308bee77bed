"""What tokens cost: looked up once, kept, and counted as the list of prices itself counts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from genai_prices import Usage, calc_price
from genai_prices.data_snapshot import get_snapshot

from agent_worker.backends.models import prices
from agent_worker.backends.models.price_lookup import look_up
from agent_worker.backends.models.prices import Price, PriceList
from agent_worker.backends.models.providers import PROVIDERS
from agent_worker.files.root import Root

USED = [(1000, 0, 0, 100), (1000, 800, 100, 7), (250_000, 1000, 0, 5000), (0, 0, 0, 3), (300_000, 0, 299_000, 1)]


def models() -> Iterator[tuple[str, str]]:
    """Every model of the providers we know that the list has a price for."""
    for provider in get_snapshot().providers:
        if provider.id in PROVIDERS:
            yield from ((provider.id, model.id) for model in provider.models if look_up(provider.id, model.id))


def test_a_price_is_counted_as_the_list_counts_it() -> None:
    known = list(models())
    assert len(known) > 300
    for provider, model in known:
        found = look_up(provider, model)
        assert found
        price = Price.load(json.loads(json.dumps(found)))
        for read, cached, stored, written in USED:
            usage = Usage(input_tokens=read, cache_read_tokens=cached, cache_write_tokens=stored, output_tokens=written)
            theirs = float(calc_price(usage, model, provider_id=provider).total_price)
            ours = price.of(read=read, cached=cached, stored=stored, written=written)
            assert ours == pytest.approx(theirs), (provider, model, read, cached, stored, written)


PAID = sorted(name for name, provider in PROVIDERS.items() if not provider.own)


@pytest.mark.parametrize("name", PAID)
def test_every_provider_but_those_that_cost_nothing_is_in_the_list(name: str) -> None:
    with pytest.raises(LookupError, match="model"):  # not: "unable to find provider"
        calc_price(Usage(input_tokens=1), "no-such-model", provider_id=name)


@pytest.mark.parametrize("name", PAID)
def test_every_provider_is_tried_with_a_model_that_is_cheap_and_not_about_to_go(name: str) -> None:
    found = calc_price(Usage(input_tokens=100, output_tokens=16), PROVIDERS[name].cheap, provider_id=name)
    assert found.total_price < 0.001
    assert not found.model.deprecated


async def test_a_price_is_looked_up_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Root.private(tmp_path / "home")
    first = PriceList(home)
    price = await first.of("anthropic", "claude-sonnet-4-5")
    assert price is not None
    assert price.of(read=1_000_000, cached=0, stored=0, written=0) > price.of(read=0, cached=0, stored=0, written=1)
    assert await first.of("anthropic", "claude-nobody-knows") is None
    monkeypatch.setattr(prices.sys, "executable", "/nowhere/python")  # nothing can be looked up any more
    again = PriceList(home)
    assert await again.of("anthropic", "claude-sonnet-4-5") == price
    assert await again.of("anthropic", "claude-nobody-knows") is None
    assert set(json.loads(home.read_text("prices.json"))["models"]) == {
        "anthropic/claude-sonnet-4-5",
        "anthropic/claude-nobody-knows",
    }


async def test_a_process_looks_up_a_price_once_however_many_want_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = tmp_path / "asked"
    lookup = tmp_path / "python"
    lookup.write_text(f"#!/bin/sh\necho asked >> {asked}\necho null\n")
    lookup.chmod(0o700)
    monkeypatch.setattr(prices.sys, "executable", str(lookup))
    nothing_kept = PriceList()
    nothing_kept.expect("anthropic", "claude-x")
    wanted = await asyncio.gather(*(nothing_kept.of("anthropic", "claude-x") for _ in range(5)))
    assert [*wanted, await nothing_kept.of("anthropic", "claude-x")] == [None] * 6
    assert asked.read_text().splitlines() == ["asked"]


@pytest.mark.parametrize("kept", ["", "[]", "{", '{"list": "0", "models": {"a/b": {}}}', '{"list": 1, "models": 2}'])
async def test_what_was_kept_of_another_list_or_is_damaged_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: str
) -> None:
    home = Root.private(tmp_path / "home")
    home.make_dirs()
    home.replace("prices.json", kept)
    monkeypatch.setattr(prices.sys, "executable", "/nowhere/python")
    assert await PriceList(home).of("a", "b") is None


async def test_a_price_that_cannot_be_looked_up_is_unknown_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prices.sys, "executable", "/bin/false")
    home = Root.private(tmp_path / "home")
    assert await PriceList(home).of("anthropic", "claude-sonnet-4-5") is None
    assert not home.exists("prices.json")
