"""A workspace as one HTML file that needs nothing else: what was said, decided and written, and what it cost.

Made from the answers of the daemon, so that it can be attached to a pull request and read years later. It can do
nothing: no script, no request, and a policy in its head that says so.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import field
from datetime import UTC, datetime
from typing import Any

from agent_worker.core.later import dataclass
from agent_worker.core.states import told
from agent_worker.core.text import plural
from agent_worker.daemon.web.frame import money
from agent_worker.daemon.web.markup import Html, h, join
from agent_worker.daemon.web.prose import prepared, prepared_now, prose
from agent_worker.daemon.web.rendering import end_rendering

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
STYLE = """
:root { color-scheme: light dark; --ink: #1e1f22; --soft: #5d6068; --line: #e4e3df; --paper: #fcfcfb; --accent: #4153c4;
  --wash: #f1f2fa }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e4e2; --soft: #a4a7af; --line: #33353b; --paper: #151619;
  --accent: #93a2ff; --wash: #1e2029 } }
body { margin: 0 auto; max-width: 52rem; padding: 2rem 1rem 4rem; color: var(--ink); background: var(--paper);
  font: 15px/1.55 ui-sans-serif, system-ui, sans-serif }
h1 { font-size: 1.5rem; margin: 0 0 .2rem } h2 { font-size: 1.1rem; margin: 2.5rem 0 .5rem; padding-top: 1rem;
  border-top: 1px solid var(--line) } h3 { font-size: 1rem; margin: 1.5rem 0 .3rem }
.soft, time { color: var(--soft); font-size: .85rem } article { margin: 1rem 0; scroll-margin: 1rem }
article > p:first-child { margin: 0 } article.system, article.decision { color: var(--soft) }
article.proposal, article.decision { border-left: 3px solid var(--accent); padding-left: .8rem }
.mention { color: var(--accent); font-weight: 600 } pre { background: var(--wash); padding: .7rem; overflow-x: auto }
code { font: .88em ui-monospace, monospace } table { border-collapse: collapse; width: 100%; font-size: .9rem }
th, td { text-align: left; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top }
.number { text-align: right; font-variant-numeric: tabular-nums } details { margin: .4rem 0 }
.held { text-decoration: line-through; color: var(--soft) }
summary { cursor: pointer; color: var(--soft) } p { margin: .4rem 0 } a { color: var(--accent) }
"""

Answer = dict[str, Any]  #: as the daemon gave it


@dataclass(frozen=True, slots=True)
class Record:
    title: str
    lines: Sequence[Answer]
    documents: Sequence[Answer] = ()
    proposals: Sequence[Answer] = ()
    runs: Sequence[Answer] = ()
    resources: dict[str, str] = field(default_factory=dict)  #: long texts, by id


def as_page(record: Record) -> str:
    """A workspace as one page, for a program that does nothing else: what takes long is waited for, and given up in
    time.
    """
    prepared_now(_texts(record))
    try:
        return _page(record)
    finally:
        end_rendering()


async def as_page_meanwhile(record: Record) -> str:
    """As `as_page`, in a process that has other things to do."""
    await prepared(*_texts(record))
    return await asyncio.to_thread(_page, record)


def as_markdown(record: Record) -> str:
    said = [f"**{line['sender']}** ({_time(line['at'])})\n\n{_struck(line)}\n" for line in record.lines]
    written = [f"---\n\n## {document['name']}\n\n{document['text']}" for document in record.documents]
    return "\n".join([f"# {record.title}\n", *said, *written, ""])


def as_jsonl(record: Record) -> str:
    return "".join(f"{json.dumps(line)}\n" for line in record.lines)


def _struck(line: Answer) -> str:
    return f"~~{line['text']}~~ (taken back)" if line["held"] else str(line["text"])


def _texts(record: Record) -> Iterator[tuple[str, tuple[str, ...]]]:
    for line in record.lines:
        yield line["text"], tuple(line.get("mentions") or ())
    yield from ((text, ()) for text in (*record.resources.values(), *(doc["text"] for doc in record.documents)))


def _page(record: Record) -> str:
    head = h(
        "head",
        h("meta", charset="utf-8"),
        h("meta", http_equiv="Content-Security-Policy", content=POLICY),
        h("meta", name="viewport", content="width=device-width, initial-scale=1"),
        h("title", record.title),
        h("style", Html(STYLE)),
    )
    body = h(
        "body",
        h("header", h("h1", record.title), h("p", _summary(record), class_="soft")),
        h("main", _channel(record), _documents(record), _proposals(record), _runs(record)),
    )
    return f"<!doctype html>\n{h('html', head, body, lang='en')}\n"


def _summary(record: Record) -> str:
    tokens, usd = sum(run["tokens"] for run in record.runs), sum(run["usd"] for run in record.runs)
    cost = money(usd, any(run["estimated"] for run in record.runs))
    counted = (
        (record.lines, "message"),
        (record.documents, "document"),
        (record.proposals, "vote"),
        (record.runs, "run"),
    )
    return ", ".join([*(plural(len(found), word) for found, word in counted), plural(tokens, "token"), cost])


def _channel(record: Record) -> Html:
    return join(_line(line, record.resources.get(line.get("resource") or "")) for line in record.lines)


def _line(line: Answer, whole: str | None) -> Html:
    head = h("p", h("strong", line["sender"]), " ", h("time", _time(line["at"])))
    folded = h("details", h("summary", "the whole text"), prose(whole)) if whole else None
    said = prose(line["text"], tuple(line.get("mentions") or ()))
    if line.get("held"):
        said = join(h("p", "taken back", class_="soft"), h("div", said, class_="held"))
    return h("article", head, said, folded, id=f"m{line['seq']}", class_=line.get("kind", "message"))


def _documents(record: Record) -> Html | None:
    if not record.documents:
        return None
    return join(h("h2", "Documents"), [(h("h3", doc["name"]), prose(doc["text"])) for doc in record.documents])


def _proposals(record: Record) -> Html | None:
    if not record.proposals:
        return None
    return join(h("h2", "Votes"), map(_proposal, record.proposals))


def _proposal(view: Answer) -> Html:
    rows = [
        h("tr", h("td", option), h("td", count, class_="number"), h("td", _voters(view, option)))
        for option, count in view["tally"].items()
    ]
    told = view["result"] or view["state"]
    return join(h("h3", f"{view['number']}. {view['question']}"), h("table", rows), h("p", told, class_="soft"))


def _voters(view: Answer, option: str) -> str:
    return ", ".join(vote["voter"] for vote in view["votes"] if vote["choice"] == option)


def _runs(record: Record) -> Html | None:
    if not record.runs:
        return None
    figures = [h("th", name, class_="number") for name in ("steps", "tokens", "cost")]
    head = h("tr", [h("th", name) for name in ("agent", "state", "began")], figures, h("th", "model"))
    oldest_first = reversed(record.runs)
    return join(h("h2", "Runs"), h("table", h("thead", head), h("tbody", map(_run, oldest_first))))


def _run(run: Answer) -> Html:
    state = f"{told(run['state'])}: {run['reason']}" if run["reason"] else told(run["state"])
    figures = (run["steps"], f"{run['tokens']:,}", money(run["usd"], run["estimated"]))
    return h(
        "tr",
        [h("td", value) for value in (run["agent"], state, _time(run["started_at"]))],
        [h("td", value, class_="number") for value in figures],
        h("td", run["model"] or run["backend"]),
    )


def _time(micros: int) -> str:
    return datetime.fromtimestamp(micros / 1e6, UTC).strftime("%Y-%m-%d %H:%M UTC")
