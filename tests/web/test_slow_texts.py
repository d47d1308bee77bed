"""Texts that would take for ever to draw: the process that answers never draws them, and those that do are bounded.

What is asserted is the work that is done and where, not how long it takes.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.faults.report import LONG, report
from tests.patience import PATIENCE
from tests.teams import open_team

from agent_worker.agents.run_steps import written_call
from agent_worker.backends.mock import says
from agent_worker.core.clock import SystemClock
from agent_worker.core.difference import COMPARED
from agent_worker.core.mentions import find_mentions
from agent_worker.core.redaction import Redactor
from agent_worker.daemon.web import agents as agent_pages
from agent_worker.daemon.web import conversation, runs
from agent_worker.daemon.web import documents as document_pages
from agent_worker.daemon.web.conversation import PAGE
from agent_worker.daemon.web.inbox import inbox_view
from agent_worker.daemon.web.proposals import proposal_views
from agent_worker.daemon.web.prose import (
    FEW,
    LIGHT,
    LINES,
    LONGEST,
    LONGEST_CODE,
    LOOKS,
    code,
    is_light,
    made_prose,
    prepared,
    prose,
)
from agent_worker.daemon.web.rendering import ENTRY, WAITING, Rendering, RenderJob, end_rendering
from agent_worker.service import documents, memory
from agent_worker.service.documents import LONGEST_CHANGE
from agent_worker.service.service import Service

#: Ways to keep a parser busy, each for a number of characters.
PATTERNS: dict[str, Callable[[int], str]] = {
    "opened links": lambda n: "[" * n,
    "opened pictures": lambda n: "![" * (n // 2),
    "links in links": lambda n: "[" * (n // 2) + "]" * (n // 2),
    "links that never close": lambda n: "[a](" * (n // 4),
    "brackets mixed": lambda n: "[]([" * (n // 4),
    "links with open ends": lambda n: "[](<" * (n // 4),
    "definitions": lambda n: "".join(f"[{i}]: /u\n" for i in range(n // 12)),
    "references": lambda n: "[a]: /u\n" + "[a] " * (n // 4),
    "stars": lambda n: "*" * n,
    "stars and letters": lambda n: "a*" * (n // 2),
    "underlines": lambda n: "_a" * (n // 2),
    "stars in stars": lambda n: "**a *b " * (n // 7),
    "struck out": lambda n: "~~a" * (n // 3),
    "quotes in quotes": lambda n: ">" * n,
    "quotes and lists": lambda n: "> - " * (n // 4),
    "quoted lines": lambda n: ">\n" * (n // 2),
    "lists in lists": lambda n: "".join("  " * i + "- a\n" for i in range(int(n**0.5))),
    "numbers": lambda n: "1. a\n" * (n // 5),
    "numbers in numbers": lambda n: "1. " * (n // 3),
    "lines that go on with quoted numbers": lambda n: "> " * (n // 30) + "1. " * (n // 6) + "\na" * (n // 5),
    "lines that go on with few quotes": lambda n: "> " * 15 + "1. " * 15 + "\na" * (n // 2 - 40),
    "rows of few columns": lambda n: "|a" * 15 + "\n" + "|-" * 15 + "\n" + "|\n" * (n // 2 - 30),
    "links opened before words": lambda n: "[a" * (n // 2),
    "lines broken hard": lambda n: "a  \n" * (n // 4),
    "empty numbers": lambda n: "1.\n" * (n // 3),
    "back-ticks": lambda n: "".join("`" * (i % 60 + 1) + " " for i in range(n // 32)),
    "back-ticks only": lambda n: "`" * n,
    "angles": lambda n: "<" * n,
    "tags": lambda n: "<a " * (n // 3),
    "comments": lambda n: "<!--" * (n // 4),
    "blocks of HTML": lambda n: "<div>\n" * (n // 6),
    "many columns": lambda n: "|a" * (n // 4) + "\n" + "|-" * (n // 4) + "\n",
    "columns without rows": lambda n: "|a" * (n // 8) + "\n" + "|-" * (n // 8) + "\n" + "|\n" * (n // 4),
    "addresses": lambda n: "<http://a> " * (n // 11),
    "bare addresses": lambda n: "http://" * (n // 7),
    "calls": lambda n: "@a " * (n // 3),
    "calls on nobody": lambda n: "@" * n,
    "entities": lambda n: "&" * n,
    "backslashes": lambda n: "\\" * n,
    "headings": lambda n: "# a\n" * (n // 4),
    "fences": lambda n: "```\n" * (n // 4),
    "code of brackets": lambda n: "```python\n" + "(" * n + "\n```\n",
    "code of quotes": lambda n: "```js\n" + "`${" * (n // 3) + "\n```\n",
    "code of strings": lambda n: "```bash\n" + '"$(' * (n // 3) + "\n```\n",
    "code of comments": lambda n: "```cpp\n" + "/*" * (n // 2) + "\n```\n",
    "one long line": lambda n: "a" * n,
    "blank": lambda n: " \t" * (n // 2),
}
SIZES = (100, 300, 1000, 3000, 20_000, 190_000)
LITTLE = 50_000  #: calls of functions, a few milliseconds: a page has a hundred texts


@pytest.mark.parametrize("title", PATTERNS)
def test_X9_what_is_drawn_at_once_is_little_work(title: str) -> None:
    for size in SIZES:
        text = PATTERNS[title](size)
        if is_light(text):
            assert calls_in(lambda text=text: made_prose(text, ("a",))) <= LITTLE, f"{size} characters"
        else:
            assert prose(text) == prose(text)
            assert prose(text).startswith("<pre tabindex"), "drawn by the process that answers"


def calls_in(work: Callable[[], object]) -> int:
    """How many functions are called: the same on every machine."""
    counted = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return counted


@pytest.mark.parametrize("text", ["", "ok", "@bob **done**: see `a.py`, [here](https://x.example).\n\n- one\n- two\n"])
def test_X9_what_people_say_in_passing_is_drawn_at_once(text: str) -> None:
    assert is_light(text)


#: What is just light enough, and what is not any more.
LIMITS = {
    "characters": ("a" * LIGHT, "a" * (LIGHT + 1)),
    "lines": ("a\n" * (LINES - 1), "a\n" * LINES),
    "signs": ("*" * FEW, "*" * (FEW + 1)),
    "columns": ("|" * FEW, "|" * FEW + "\n-"),
    "numbers of lists": ("1. " * FEW, "1. " * (FEW + 1)),
    "signs for each line": ("-\n" * 20 + "\n" * (LOOKS // 20 - 21), "-\n" * 20 + "\n" * (LOOKS // 20 - 20)),
    "code": ("`` x ``", "```\nx\n```"),
    "code between waves": ("~~ x ~~", "~~~\nx\n~~~"),
}


@pytest.mark.parametrize("limit", LIMITS)
def test_X9_only_what_is_small_and_plain_in_every_way_is_drawn_at_once(limit: str) -> None:
    light, heavy = LIMITS[limit]
    assert is_light(light)
    assert not is_light(heavy)


@pytest.fixture(scope="module")
def drawn() -> Any:
    """All of them, by the process that draws: text → what came of it."""
    drawing = Rendering()
    jobs = [RenderJob("prose", make(20_000 if LONG else 5_000)) for make in PATTERNS.values()]
    drawing.make(jobs)
    drawing.close()
    return {title: (job, drawing.look(job)) for title, job in zip(PATTERNS, jobs, strict=True)}


def test_X9_whatever_it_is_given_the_process_that_draws_comes_to_an_end(drawn: Any) -> None:
    made = {title: html for title, (_, html) in drawn.items() if html is not None}
    given_up = set(drawn) - set(made)
    assert made, "nothing can be drawn"
    assert all(len(html) <= 4 * 1024 * 1024 for html in made.values())
    report.count("X9 hostile texts drawn", len(made))
    report.count("X9 hostile texts given up", len(given_up))


async def test_X9_a_text_is_drawn_once_however_often_it_is_looked_at(tmp_path: Path) -> None:
    counted = tmp_path / "asked"
    drawing = Rendering(fake(f"open({str(counted)!r}, 'a').write('x')"))
    job = RenderJob("prose", "[" * 9000)
    await asyncio.gather(*(drawing.prepare([job], within=PATIENCE) for _ in range(10)))
    await drawing.prepare([job], within=PATIENCE)
    assert drawing.look(job) == "<p>drawn</p>"
    assert counted.read_text() == "x"
    drawing.close()


async def test_X9_one_that_cannot_be_drawn_is_not_tried_again(tmp_path: Path) -> None:
    counted = tmp_path / "asked"
    drawing = Rendering(fake(f"open({str(counted)!r}, 'a').write('x'); os._exit(9)"))
    job = RenderJob("prose", "[" * 9000)
    for _ in range(5):
        await drawing.prepare([job], within=PATIENCE)
    assert drawing.look(job) is None
    assert counted.read_text() == "x"
    drawing.close()


async def test_X9_of_those_that_cannot_be_drawn_only_so_many_are_remembered(tmp_path: Path) -> None:
    """Somebody may write them without end."""
    counted = tmp_path / "asked"
    drawing = Rendering(fake(f"open({str(counted)!r}, 'a').write('x'); os._exit(9)"), kept=3 * ENTRY)
    jobs = [RenderJob("prose", f"{number} " + "[" * 9000) for number in range(4)]
    drawing.make(jobs)
    drawing.make(jobs[1:])
    assert counted.read_text() == "xxxx", "the last three are remembered"
    drawing.make(jobs[:1])
    assert counted.read_text() == "xxxxx", "the first one is not"
    drawing.close()


async def test_X9_more_texts_than_can_wait_are_shown_as_they_are(tmp_path: Path) -> None:
    held = tmp_path / "held"
    drawing = Rendering(fake(wait_for(held)))
    jobs = [RenderJob("prose", f"{number} " + "[" * 9000) for number in range(200)]
    await drawing.prepare(jobs, within=0)
    assert drawing.under_way == WAITING
    assert PAGE <= WAITING, "not even one page of them could be drawn"
    held.touch()
    drawing.close()


async def test_X9_a_send_is_answered_while_a_text_is_drawn(tmp_path: Path) -> None:
    held, begun = tmp_path / "held", tmp_path / "begun"
    drawing = Rendering(fake(f"open({str(begun)!r}, 'w').close(); {wait_for(held)}"))
    async with open_team(tmp_path / "p", "alice", clock=SystemClock()) as team:
        job = RenderJob("prose", "[" * 200_000)
        working = asyncio.create_task(drawing.prepare([job], within=600))
        while not begun.exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.01)
        team.backends["alice"].then(*(says(f"answer {number}") for number in range(20)))
        for number in range(20):
            await team.dm("alice", f"question {number}")
        await team.idle()
        assert not working.done()
        held.touch()
        await working
        assert drawing.look(job) == "<p>drawn</p>"
    drawing.close()


def fake(what: str) -> tuple[str, ...]:
    """A process that draws, as ours is asked and answers, and does this first."""
    source = (
        "import json, os, sys, time\n"
        "for line in sys.stdin:\n"
        f"    {what}\n"
        "    print(json.dumps({'html': '<p>drawn</p>'}), flush=True)\n"
    )
    return (sys.executable, "-c", source)


def wait_for(file: Path) -> str:
    return f"[time.sleep(0.01) for _ in iter(lambda: os.path.exists({str(file)!r}), True)]"


# --- on the pages -------------------------------------------------------------------------------------


@asynccontextmanager
async def shown(tmp_path: Path, text: str) -> AsyncIterator[dict[str, Any]]:
    """The same text in every place that a page shows: what each page makes of it, when it is asked for."""
    async with open_team(tmp_path / "p", "alice", "bob", clock=SystemClock()) as team:
        service, here = Service(team.runtime), str(tmp_path / "p")
        await service.project(here)
        team.backends["alice"].then(says(text))
        await documents.doc_write(service, "@review", "plan.md", text, None, here)
        await documents.doc_write(service, "@review", "plan.json", text[:LONGEST_CODE], None, here)
        await team.post("user", f"@alice {text}"[:250_000])
        await team.idle()
        home = team.runtime.registry.worker(team.id_of("alice")).home
        assert home is not None
        home.replace("notes/2026-01-01-long.md", text)
        home.replace("memory/core.yaml", f"fact: {{ value: {json.dumps(text[:2000])} }}\n")
        (run,) = await team.runs()
        yield {
            "document": document_pages.document(service, "@review", "plan.md", here),
            "file": document_pages.document(service, "@review", "plan.json", here),
            "message": conversation.messages_of(service, "@review", here),
            "run": runs.run(service, run["id"], here),
            "note": agent_pages.note(service, "alice", "2026-01-01-long.md", here),
            "memory": agent_pages.agent(service, "alice", here),
            "what is remembered": memory.memory_show(service, "alice", here),
            "inbox": inbox_view(service),
            "proposals": proposal_views(service, "review", here),
        }
        await service.close()
    end_rendering()


#: Two kinds that are given up take the same way, each at two seconds of computing for every place it stands in.
SHOWN = ["opened links", "columns without rows", "code of brackets", *(["quotes in quotes"] if LONG else [])]


@pytest.mark.parametrize("title", SHOWN)
async def test_X9_every_page_shows_a_hostile_text(tmp_path: Path, title: str) -> None:
    async with shown(tmp_path, PATTERNS[title](60_000)) as pages:
        for name, page in pages.items():
            assert await page is not None, name
            report.count("X9 pages with a hostile text")


# --- what else reads texts of others ------------------------------------------------------------------


@pytest.mark.parametrize("title", PATTERNS)
def test_X9_those_who_scan_a_text_go_through_it_once(title: str) -> None:
    """They would not come back from these otherwise."""
    text = PATTERNS[title](250_000)
    find_mentions(text, ["alice", "bob"], sender="user")
    assert Redactor()(text) == text
    assert written_call(text, ["bash"]) == ""


def test_X9_a_difference_of_long_texts_is_not_the_smallest_one() -> None:
    before = "\n".join(f"{number % 150}" for number in range(60_000))
    after = "\n".join(f"{number * 7 % 150}" for number in range(60_000))
    found = documents.changes(before, after)
    assert len(found) == LONGEST_CHANGE
    assert found[0].startswith("@@ line ")
    short = "\n".join(map(str, range(COMPARED)))
    assert documents.changes(short, short.replace("\n5\n", "\nfive\n"))[3:6] == [" 4", "-5", "+five"]


async def test_X9_too_long_a_text_is_shown_as_it_is() -> None:
    text = "**bold** " * LONGEST
    await prepared(text)
    assert prose(text).startswith('<pre tabindex="0">**bold**')
    long_code = "x = 1\n" * LONGEST_CODE
    await prepared(files=[(long_code, "x.py")])
    assert code(long_code, "x.py").startswith('<pre tabindex="0"><code><span>x = 1')


async def test_X9_what_people_write_is_drawn_as_ever() -> None:
    text = "# Title\n\n" + "Some *words* with `code`, [a link](https://x.example) and @alice.\n\n" * 200
    text += "```python\ndef f(x: int) -> int:\n    return x\n```\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n"
    assert not is_light(text)
    await prepared((text, ("alice",)), within=PATIENCE)
    html = prose(text, ("alice",))
    for piece in ("<h1>Title</h1>", "<em>words</em>", 'class="mention"', 'class="k"', '<td class="number">2</td>'):
        assert piece in html, piece
