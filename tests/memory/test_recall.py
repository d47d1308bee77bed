"""What is found, in which order, and what is said about why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.needs import skip_without

from agent_worker.memory.index import Index
from agent_worker.memory.index_tables import IndexEntry
from agent_worker.memory.meaning import Meaning, load_embedding
from agent_worker.memory.recall import MOST_FOUND, MOST_RANKED, SearchScope, age, recall
from agent_worker.memory.words import tells_time

NOW = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)


def talk(
    *turns: str, source: str = "talk", begin: datetime = NOW - timedelta(days=3), scope: str = ""
) -> list[IndexEntry]:
    """Turns written as `bob: text`, a minute apart."""
    entries = []
    for number, turn in enumerate(turns):
        author, text = turn.split(": ", 1)
        at = begin + timedelta(minutes=number)
        entries.append(IndexEntry(str(number), "history", source, text, author, at, number, scope=scope))
    return entries


def memory(key: str, text: str, *, scope: str = "private") -> IndexEntry:
    return IndexEntry(key, "memory", "memory/core.yaml", text, label=key, scope=scope)


def texts(index: Index, query: str, scopes: Sequence[str] | None = None, **how: object) -> list[str]:
    return [found.entry.text for found in recall([SearchScope(index, scopes)], query, now=NOW, **how)]  # type: ignore[arg-type]


@pytest.fixture
def index() -> Iterator[Index]:
    index = Index()
    yield index
    index.close()


@pytest.mark.parametrize("query", ["deploys", "Deployed?", "DEPLOYING", "what did we say about deploying"])
def test_a_word_is_found_in_every_form(index: Index, query: str) -> None:
    index.put("talk", talk("bob: the cat sleeps", "bob: we deploy on Tuesday"))
    assert texts(index, query)[0] == "we deploy on Tuesday"


def test_one_matching_word_is_enough(index: Index) -> None:
    index.put("talk", talk("bob: we deploy on Tuesday"))
    assert texts(index, "who is responsible for the next deploy to Mars?") == ["we deploy on Tuesday"]


def test_words_that_only_ask_find_nothing_when_others_are_there(index: Index) -> None:
    index.put("a", talk("bob: what did you say about it", source="a"))
    index.put("b", talk("bob: the printer jams", source="b"))
    assert texts(index, "what did you say about the printer") == ["the printer jams"]


def test_words_that_only_ask_are_looked_for_when_there_are_no_others(index: Index) -> None:
    index.put("talk", talk("bob: who is who", "carol: the printer jams"))
    assert texts(index, "who is who?")[0] == "who is who"


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("OPS-306", "see ticket OPS-306 for that"),
        ('"x', "the x axis is wrong"),
        ("who:bob", "the field who:bob is odd"),
        ("body:printer", "the printer jams"),
        ("NEAR(printer", "the printer jams"),
        ("printer*", "the printer jams"),
        ("^printer", "the printer jams"),
        ("printer AND", "the printer jams"),
        ("-printer +jams", "the printer jams"),
        ("snake_case_name", "call snake_case_name first"),
        ("src/guard/recall.py", "look into src/guard/recall.py"),
        ("NOT OR AND printer", "the printer jams"),
    ],
)
def test_search_syntax_is_found_as_text(index: Index, query: str, text: str) -> None:
    index.put("talk", talk("bob: the cat sleeps", f"bob: {text}", "bob: good night", "bob: see you"))
    assert texts(index, query)[0] == text


def test_a_column_of_the_index_cannot_be_named_from_outside(index: Index) -> None:
    index.put("talk", talk("bob: the printer jams"))
    assert texts(index, "around:jams") == texts(index, "date:jams") == ["the printer jams"]


def test_a_compound_is_found_before_its_parts(index: Index) -> None:
    index.put("a", talk("bob: OPS-412 and the other 306 things in ops", source="a"))
    index.put("b", talk("bob: everything about it is in OPS-306 by now", source="b"))
    assert texts(index, "OPS-306")[0] == "everything about it is in OPS-306 by now"


@pytest.mark.parametrize("query", ["", "   ", "?!", '"', "*", "()", "\0", "\ud800", "🙂", "-" * 10_000])
def test_a_query_without_words_finds_nothing(index: Index, query: str) -> None:
    index.put("talk", talk("bob: the printer jams"))
    assert texts(index, query) == []


SHELF = Index()
SHELF.put("talk", talk("bob: the printer jams", "小明: 打印机卡纸了", "ann: OPS-306, 3.5 % on 3 March, NEAR(x, y)"))


@given(st.text(st.characters(), max_size=200) | st.text(alphabet='"*:^-+(){}ANDORTNEAR 306bob\0月日三', max_size=60))
def test_no_query_raises(query: str) -> None:
    recall([SearchScope(SHELF)], query, now=NOW)


@given(st.text(st.characters(), max_size=200), st.text(st.characters(), max_size=20))
def test_no_text_is_too_odd_to_be_indexed(text: str, author: str) -> None:
    index = Index()
    index.put("talk", [IndexEntry("1", "history", "talk", text + " printer", author, position=1)])
    assert len(recall([SearchScope(index)], "printer", now=NOW)) == 1
    index.close()


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("机房在哪里", "下个月要迁移到新机房，地点在苏州。"),
        ("DNS缓存", "我提前一周把DNS的缓存时间调低。"),
        ("引っ越しはいつ", "来月、横浜に引っ越すことにしました。"),
        ("サーバー", "ゲーム会社のサーバー担当です。"),
        ("ｻｰﾊﾞｰ", "ゲーム会社のサーバー担当です。"),
        ("회의 시간", "내일 회의는 세 시에 합니다."),
        ("腰", "我想换一把人体工学椅，腰疼。"),
    ],
)
def test_scripts_without_spaces_are_found(index: Index, query: str, text: str) -> None:
    for number, line in enumerate(["今天天气很好。", "お弁当を作ります。", "점심 먹으러 갑시다.", text]):
        index.put(f"talk-{number}", talk(f"li: {line}", source=f"talk-{number}"))
    assert texts(index, query)[0] == text


def test_accents_and_wide_letters_do_not_matter(index: Index) -> None:
    index.put("talk", talk("bob: meet at the café", "bob: cable ＡＢＣ１２３"))
    assert texts(index, "cafe")[0] == texts(index, "cafe\u0301")[0] == "meet at the café"
    assert texts(index, "abc123")[0] == "cable ＡＢＣ１２３"


def test_what_the_named_author_said_comes_first(index: Index) -> None:
    index.put("a", talk("ann: the release is late", source="a"))
    index.put("b", talk("bob: the release is fine", source="b", begin=NOW - timedelta(days=90)))
    assert texts(index, "what did ann say about the release")[0] == "the release is late"
    assert texts(index, "what did Bob say about the release")[0] == "the release is fine"


def test_two_named_authors_are_no_reason_to_prefer_either(index: Index) -> None:
    index.put("a", talk("ann: the release is late", source="a"))
    index.put("b", talk("bob: the release is fine", source="b"))
    why = [found.why for found in recall([SearchScope(index)], "ann or bob on the release", now=NOW)]
    assert not any("said by" in reason for reason in why)


def test_a_query_that_only_names_an_author_gets_what_they_said_last(index: Index) -> None:
    index.put("talk", talk("bob: one", "ann: bob is here", "bob: two", "bob: three"))
    assert texts(index, "what did bob say?", limit=2) == ["three", "two"]


def test_an_answer_is_found_by_the_words_of_its_question(index: Index) -> None:
    index.put("talk", talk("ann: nice weather", "ann: where does the offsite happen?", "bob: near Rostock", "ann: ok"))
    found = {hit.entry.text: hit.why for hit in recall([SearchScope(index)], "offsite", now=NOW)}
    assert found["near Rostock"] == "near 'offsite'; 2 days ago"


def test_the_turn_right_after_a_question_comes_before_what_else_stands_near_it(index: Index) -> None:
    index.put("talk", talk("ann: good day", "ann: who has the van?", "bob: my brother", "ann: how nice"))
    found = texts(index, "van")
    assert found.index("my brother") < found.index("how nice")


def test_what_is_said_comes_before_what_is_only_asked(index: Index) -> None:
    index.put("a", talk("ann: is the boiler broken?", source="a"))
    index.put("b", talk("ann: the boiler is broken", source="b", begin=NOW - timedelta(days=4)))
    assert texts(index, "boiler broken")[0] == "the boiler is broken"


@pytest.mark.parametrize("query", ["when does the plumber come", "Which day does the plumber come?"])
def test_one_who_asks_when_gets_the_turn_that_tells_a_time(index: Index, query: str) -> None:
    index.put("a", talk("ann: the plumber comes slowly", source="a"))
    index.put("b", talk("ann: the plumber comes tomorrow", source="b", begin=NOW - timedelta(days=9)))
    assert texts(index, query)[0] == "the plumber comes tomorrow"
    assert texts(index, "does the plumber come")[0] == "the plumber comes slowly"


@pytest.mark.parametrize(
    "text", ["on Friday", "at half past two", "the 9th of March", "in two weeks", "10.47", "3月3日"]
)
def test_a_time_is_known_however_it_is_told(text: str) -> None:
    assert tells_time(f"they will be here {text}")


@pytest.mark.parametrize("text", ["you may march on", "one second spoon", "the 9 of them", "version 6.4"])
def test_what_only_looks_like_a_time_is_none(text: str) -> None:
    assert not tells_time(text)


def test_an_answer_that_is_appended_later_is_known_as_one(index: Index) -> None:
    first, answer, other = talk("ann: who has the van?", "bob: my brother", "ann: how nice of him")
    for turn in (first, answer, other):
        index.append("talk", [turn], stamp=turn.id)
    assert texts(index, "van") == [first.text, answer.text, other.text]


def test_an_entry_that_says_it_comes_before_its_neighbours(index: Index) -> None:
    index.put("talk", talk("ann: hello there", "bob: good morning", "ann: the offsite", "bob: fine", "ann: see you"))
    found = texts(index, "offsite")
    assert found[0] == "the offsite"
    assert set(found[1:]) == {"good morning", "fine", "see you"}  # one before it, two after it


def test_memories_are_not_each_others_neighbours(index: Index) -> None:
    index.put("memory/core.yaml", [memory("day", "Tuesday"), memory("drink", "tea")])
    assert texts(index, "tuesday") == ["Tuesday"]


@pytest.mark.parametrize(
    "query",
    [
        "what did we say on 3 March",
        "what did we say on March 3rd",
        "what happened on the 3rd of March 2026",
        "2026-03-03",
        "3月3日",
        "2026年3月3日说了什么",
        "mar 3",
        "last tuesday",
    ],
)
def test_a_date_finds_what_was_said_that_day(index: Index, query: str) -> None:
    for day in (1, 2, 3, 4, 5):
        source = f"day-{day}"
        begin = datetime(2026, 3, day, 9, 0, tzinfo=UTC)
        index.put(source, talk(f"bob: words of day {'abcdef'[day]}", source=source, begin=begin))
    found = recall([SearchScope(index)], query, now=NOW)
    assert found[0].entry.text == "words of day d"
    assert found[0].why == "on 3 March 2026; 1 week ago"


def test_yesterday_is_reckoned_from_now(index: Index) -> None:
    for days in (0, 1, 2):
        begin = NOW - timedelta(days=days, hours=1)
        index.put(f"day-{days}", talk(f"bob: {'abc'[days]} standup", source=f"day-{days}", begin=begin))
    assert texts(index, "standup of yesterday")[0] == "b standup"


def test_a_date_is_that_of_the_place_where_it_was_said(index: Index) -> None:
    tokyo = datetime.fromisoformat("2026-03-04T01:00:00+09:00")  # still the third in UTC
    index.put("talk", talk("bob: late talk", begin=tokyo))
    assert texts(index, "4 March") == ["late talk"]
    assert texts(index, "3 March") == []


def test_a_number_is_not_a_day_of_the_month(index: Index) -> None:
    index.put("talk", talk("bob: hello", begin=datetime(2026, 3, 3, tzinfo=UTC)))
    assert texts(index, "3 servers") == []


def test_of_two_equal_entries_the_newer_comes_first(index: Index) -> None:
    index.put("old", talk("bob: the release is late", source="old", begin=NOW - timedelta(days=300)))
    index.put("new", talk("bob: the release is late", source="new"))
    assert [found.entry.source for found in recall([SearchScope(index)], "release", now=NOW)] == ["new", "old"]


def test_a_better_match_beats_a_newer_one(index: Index) -> None:
    index.put("old", talk("bob: the coupon module of the portal", source="old", begin=NOW - timedelta(days=900)))
    index.put("new", talk("bob: the module for the lights", source="new"))
    assert texts(index, "coupon module of the portal")[0] == "the coupon module of the portal"


def test_only_the_kinds_and_scopes_asked_for_are_searched(index: Index) -> None:
    index.put("talk", talk("bob: the door code is 4711", scope="personal"))
    index.put("work", talk("bob: the door is blue", source="work", scope="review"))
    index.put("memory/core.yaml", [memory("door", "red"), memory("doors", "green", scope="shareable")])
    assert texts(index, "door", kinds=["memory"], scopes=["shareable"]) == ["green"]
    assert texts(index, "door", kinds=["history"], scopes=["review"]) == ["the door is blue"]
    assert texts(index, "door", scopes=["nowhere"]) == []
    assert len(texts(index, "door")) == 4


def test_a_memory_is_found_by_its_key(index: Index) -> None:
    index.put("memory/core.yaml", [memory("deploy-day", "Tuesday")])
    assert texts(index, "on which day do we deploy") == ["Tuesday"]


def crowd(index: Index, text: str, count: int = MOST_RANKED + 1_000) -> None:
    index.put("crowd", talk(*(f"bob: {text}" for _ in range(count)), source="crowd"))


def test_a_memory_is_not_crowded_out_by_history(index: Index) -> None:
    index.put("memory/core.yaml", [memory("deploy-day", "we deploy on Tuesday")])
    crowd(index, "deploy again")
    assert texts(index, "deploy", kinds=["memory"]) == ["we deploy on Tuesday"]
    assert "we deploy on Tuesday" in texts(index, "deploy")


def test_a_rare_word_decides_where_another_is_everywhere(index: Index) -> None:
    index.put("talk", talk("ann: the deploy of the basket", begin=NOW - timedelta(days=200)))
    crowd(index, "deploy again")
    assert texts(index, "deploy basket")[0] == "the deploy of the basket"


def test_words_that_are_everywhere_still_order_what_rare_ones_find(index: Index) -> None:
    index.put("a", talk("ann: the old basket is not nice at all", source="a"))
    index.put("b", talk("ann: the basket and its deploy are nice", source="b"))
    crowd(index, "deploy again")
    index.put("others", talk(*(["bob: nothing"] * 2 * MOST_RANKED), source="others"))
    assert texts(index, "deploy basket", limit=2)[0] == "the basket and its deploy are nice"


def test_words_that_are_all_everywhere_find_the_entry_that_has_them_together(index: Index) -> None:
    index.put("talk", talk("ann: red and green", begin=NOW - timedelta(days=200)))
    crowd(index, "red")
    index.put("green", talk(*(["bob: green"] * (MOST_RANKED + 1_000)), source="green"))
    assert texts(index, "red green", limit=1) == ["red and green"]


def test_a_word_that_is_everywhere_finds_something(index: Index) -> None:
    crowd(index, "deploy again")
    assert len(texts(index, "deploy", limit=10)) == 10


def test_no_more_is_found_than_asked_for_nor_than_is_sensible(index: Index) -> None:
    crowd(index, "deploy again", 300)
    assert len(texts(index, "deploy", limit=7)) == 7
    assert len(texts(index, "deploy", limit=10_000)) == MOST_FOUND
    assert texts(index, "deploy", limit=0) == texts(index, "deploy", limit=-3) == []


def test_a_whole_instruction_can_be_the_query(index: Index) -> None:
    index.put("talk", talk("bob: we deploy on Tuesday", "ann: fine"))
    long = "please deploy the new basket " + " ".join(f"word{number}" for number in range(5_000))
    assert texts(index, long)[0] == "we deploy on Tuesday"


def test_it_says_why(index: Index) -> None:
    index.put("talk", talk("bob: we deploy every Friday", "ann: really?"))
    found = recall([SearchScope(index)], "When did Bob want to deploy, on Friday?", now=NOW)
    assert found[0].why == "matches 'deploy', 'friday'; said by bob; 3 days ago"


def test_it_says_why_in_whole_words(index: Index) -> None:
    index.put("talk", talk("li: 不能重复扣款", "bob: see OPS-306"))
    assert recall([SearchScope(index)], "怎么避免重复扣款", now=NOW)[0].why == "matches '重复扣款'; 3 days ago"
    assert recall([SearchScope(index)], "ops-306?", now=NOW)[0].why == "matches 'ops-306'; 2 days ago"


@pytest.mark.parametrize(
    ("ago", "words"),
    [
        (timedelta(seconds=-90), "just now"),
        (timedelta(seconds=5), "just now"),
        (timedelta(minutes=1), "1 minute ago"),
        (timedelta(hours=5), "5 hours ago"),
        (timedelta(days=1), "1 day ago"),
        (timedelta(days=20), "2 weeks ago"),
        (timedelta(days=100), "3 months ago"),
        (timedelta(days=800), "2 years ago"),
    ],
)
def test_age_is_told_as_people_tell_it(ago: timedelta, words: str) -> None:
    assert age(NOW - ago, NOW) == words


def test_meaning_finds_what_has_no_word_in_common(index: Index) -> None:
    embedding = load_embedding()
    if embedding is None:
        skip_without("the extra `semantic`")
    lines = ("the physician wrote a prescription", "a goal in the last minute", "the train was late", "rain all day")
    for number, line in enumerate(lines):
        index.put(f"talk-{number}", talk(f"bob: {line}", source=f"talk-{number}"))
    found = recall([SearchScope(index, meaning=Meaning(embedding, None))], "doctor, medicine", now=NOW)
    assert found[0].entry.text == lines[0]
    assert found[0].why == "similar in meaning; 3 days ago"


def test_a_turn_means_what_those_next_to_it_are_about(index: Index) -> None:
    embedding = load_embedding()
    if embedding is None:
        skip_without("the extra `semantic`")
    index.put("a", talk("ann: did the physician call?", "bob: yes, at nine", source="a"))
    index.put("b", talk("ann: did the train arrive?", "bob: yes, at eight", source="b"))
    found = recall([SearchScope(index, meaning=Meaning(embedding, None))], "doctor", now=NOW)
    assert "yes, at nine" in [each.entry.text for each in found]
    assert "yes, at eight" not in [each.entry.text for each in found]


def test_a_word_is_found_by_another_that_means_nearly_the_same(index: Index) -> None:
    embedding = load_embedding()
    if embedding is None:
        skip_without("the extra `semantic`")
    index.put("talk", talk("bob: the physicians, the hospital", "bob: the physician", "bob: a train"))
    meaning = Meaning(embedding, None)
    index.read(lambda tables: meaning.ready(tables, "doctor", tables.shelves(None, None)))
    assert index.read(lambda tables: meaning.like(tables, ["doctor"]))[0] in ("physician", "physicians")
    assert index.read(lambda tables: meaning.like(tables, ["physician"])) != ["physicians"], "another form is no other"


def test_meaning_finds_nothing_where_nothing_is_near(index: Index) -> None:
    embedding = load_embedding()
    if embedding is None:
        skip_without("the extra `semantic`")
    index.put("talk", talk("bob: the ticket OPS-306 is closed", "bob: the train was late"))
    place = SearchScope(index, meaning=Meaning(embedding, None))
    assert [recall([place], query, now=NOW) for query in ("*", '"x', "NEAR(a b)", "")] == [[], [], [], []]


def test_several_places_are_one_ranking(index: Index) -> None:
    """The second place holds the better answer, and meaning was asked in both."""
    embedding = load_embedding()
    if embedding is None:
        skip_without("the extra `semantic`")
    other = Index()
    index.put("talk", talk("bob: my cat is called Tibbles"))
    other.put("room", talk("bob: the purple canary sings at midnight", source="room"))
    for places in ([index, other], [other, index]):
        found = recall([SearchScope(each, meaning=Meaning(embedding, None)) for each in places], "canary", now=NOW)
        assert found[0].entry.source == "room"
    other.close()


def test_meaning_keeps_its_vectors_in_a_file_and_notices_edits(tmp_path) -> None:  # type: ignore[no-untyped-def]
    embedding = load_embedding()
    if embedding is None:
        skip_without("the extra `semantic`")
    index = Index(tmp_path / "recall.db")
    index.put("talk", talk("bob: the physician wrote a prescription", "bob: the train was late"))
    first = Meaning(embedding, tmp_path / "meaning.npz")
    before = recall([SearchScope(index, meaning=first)], "doctor", now=NOW)
    first.save()
    again = Meaning(embedding, tmp_path / "meaning.npz")
    assert recall([SearchScope(index, meaning=again)], "doctor", now=NOW) == before
    index.put("talk", talk("bob: the hospital called", "bob: the train was late"))
    assert recall([SearchScope(index, meaning=again)], "doctor", now=NOW)[0].entry.text == "the hospital called"
    (tmp_path / "meaning.npz").write_bytes(b"junk")
    fresh = Meaning(embedding, tmp_path / "meaning.npz")
    assert recall([SearchScope(index, meaning=fresh)], "doctor", now=NOW)[0].entry.text == "the hospital called"
    index.close()
