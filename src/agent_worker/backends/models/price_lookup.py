"""The process that looks up a price, and prints it as JSON.

    python -m agent_worker.backends.models.price_lookup PROVIDER MODEL

It is a process of its own because the list of prices is large; prices.py starts it.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from genai_prices import Usage, calc_price
from genai_prices.types import ModelPrice, TieredPrices

_RATES = {"read": "input_mtok", "written": "output_mtok", "cached": "cache_read_mtok", "stored": "cache_write_mtok"}


def look_up(provider: str, model: str) -> dict[str, Any] | None:
    try:
        found = calc_price(Usage(input_tokens=1, output_tokens=1), model, provider_id=provider)
    except LookupError:
        return None
    price = found.model_price
    rates = {name: _rate(price, field) for name, field in _RATES.items()}
    return rates if rates["read"] and rates["written"] else None


def _rate(price: ModelPrice, field: str) -> dict[str, Any] | None:
    rate = getattr(price, field)
    if rate is None:
        return None
    if isinstance(rate, TieredPrices):
        return {"base": float(rate.base), "tiers": [[tier.start, float(tier.price)] for tier in rate.tiers]}
    return {"base": float(rate), "tiers": []}


if __name__ == "__main__":
    print(json.dumps(look_up(*sys.argv[1:])))
