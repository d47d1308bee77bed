"""What we keep of an answer, once it has ended. Refuses one that there is nothing to go on with."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from agent_worker.backends.backend import PastStep, Reply, Turn, Usage
from agent_worker.backends.models.prices import Price
from agent_worker.backends.models.protocol import Heard, ModelProtocol, words
from agent_worker.core.errors import Exhausted, Permanent, Transient
from agent_worker.tools.tool import Call

#: More than any model reads or writes at once; what is beyond is a mistake of the provider.
_MOST_TOKENS = 10_000_000
_CHARACTERS_PER_TOKEN = 4
_TOKENS_OF_AN_IMAGE = 1600  # a large one, at the providers that tell how they count
CUT_OFF = "\n\n[cut off: the answer reached its token limit]"


def reply_of(heard: Heard, protocol: ModelProtocol) -> Reply:
    """The answer without its usage. Raises when there is nothing in it to go on with."""
    check_ended(heard)
    _drop_cut_call(heard)
    _tell_calls_apart(heard)
    raw = protocol.raw(heard)
    text = heard.text
    calls = tuple(Call(call.id, call.tool, call.arguments) for call in heard.calls)
    if heard.stop == "length" and not calls:
        if not text:
            raise Exhausted("the model reached its token limit before it said anything", hint="raise max_tokens")
        text += CUT_OFF
    if heard.stop == "refused" and not text and not calls:
        raise Permanent("the provider refused to answer", hint="put it differently, or use another model")
    return Reply(text=text, calls=calls, raw=raw, more=heard.stop == "paused" and not calls)


def check_ended(heard: Heard) -> None:
    if heard.stop is None:
        raise Transient("the provider's answer ended too early")


def usage_of(heard: Heard, turn: Turn, steps: Sequence[PastStep], price: Price | None) -> Usage:
    """What an answer has used: as the provider told it, or as far as its texts let us guess."""
    told, usd = heard.told, _dollars(heard.told.usd)
    read, written = _tokens(told.input), _tokens(told.output)
    guessed = usd is None and not (read and written)
    read = read or _estimate(_sent(turn, steps)) + _TOKENS_OF_AN_IMAGE * _images(steps)
    if not written or heard.stop is None:  # a count that was told before the end is not of all that was written
        least = _estimate(_written(heard))
        guessed, written = guessed or (usd is None and least > written), max(written, least)
    cached = min(_tokens(told.cached), read)
    stored = min(_tokens(told.written), read - cached)
    if usd is None and price:
        usd = price.of(read=read, cached=cached, stored=stored, written=written)
    return Usage(input=read, cached=cached, output=written, usd=usd, guessed=guessed)


def _dollars(said: object) -> float | None:
    return float(said) if isinstance(said, int | float) and math.isfinite(said) and said >= 0 else None


def _drop_cut_call(heard: Heard) -> None:
    """Drop a call that the token limit cut in the middle; the calls before it are whole."""
    calls = heard.calls
    if heard.stop != "length" or not calls or heard.parts[-1] is not calls[-1] or calls[-1].is_whole:
        return
    if len(calls) == 1:
        raise Exhausted(
            f"the model reached its token limit in the middle of calling {calls[-1].tool}",
            hint="raise max_tokens",
        )
    heard.parts.pop()


def _tell_calls_apart(heard: Heard) -> None:
    """Give calls with equal ids different ones: results are kept by id, and not every server makes them differ."""
    seen: set[str] = set()
    for number, call in enumerate(heard.calls):
        if not call.id or call.id in seen:
            call.id = f"{call.id or 'call'}-{number}"
        seen.add(call.id)


def _tokens(said: object) -> int:
    """A count that a provider told us, which may be anything."""
    if not isinstance(said, int | float) or not math.isfinite(said):
        return 0
    return min(max(int(said), 0), _MOST_TOKENS)


def _written(heard: Heard) -> Iterator[str]:
    yield heard.text
    for part in heard.parts:
        yield words(part.get("thinking")) if isinstance(part, dict) else "".join(part.pieces)


def _sent(turn: Turn, steps: Sequence[PastStep]) -> Iterable[str]:
    yield turn.system
    yield turn.prompt
    for tool in turn.tools:
        yield tool.description
        yield str(tool.schema)
    for step in steps:
        yield step.reply.raw or step.reply.text
        yield from (result.text for result in step.results.values())


def _images(steps: Sequence[PastStep]) -> int:
    return sum(len(result.images) for step in steps for result in step.results.values())


def _estimate(texts: Iterable[str]) -> int:
    return min(_MOST_TOKENS, sum(map(len, texts)) // _CHARACTERS_PER_TOKEN + 1)
