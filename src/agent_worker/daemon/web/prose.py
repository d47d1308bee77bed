"""What people and agents wrote, as HTML that can do nothing: Markdown without raw HTML, then a sanitiser behind it.

Two layers, because either may have a hole: the Markdown parser escapes all HTML it is given, and what it makes is
cleaned to a short list of tags. No images (a picture is a request that leaves the machine), no ids and names (they
could stand in for our own), no address but http, https and mailto.

`prose` and `code` never work for long. They render a text themselves only if it is too small and plain to be dangerous
(`is_light`). Any other they look up (rendering.py), where a view has let it be made before (`await prepared(…)`), and
otherwise show as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

from agent_worker.daemon.web.markup import Html, h
from agent_worker.daemon.web.rendering import PATIENCE, RenderJob, rendering

LONGEST = 200_000  #: characters that are rendered; more is shown as it is
LONGEST_CODE = 20_000  #: that are coloured
LIGHT = 2000  #: characters
LINES = 100  #: of a light text
FEW = 40  #: signs in a light text that mean something to a parser
LOOKS = 1000  #: signs × lines: a parser looks at every line once more for each list and quote that is open
#: That are coloured: what people show each other. Others are shown plainly.
LANGUAGES = frozenset(
    (
        *("bash", "c", "cpp", "cs", "css", "diff", "docker", "dockerfile", "go", "graphql", "html", "ini", "java"),
        *("javascript", "js", "json", "jsx", "kotlin", "kt", "lua", "makefile", "patch", "php", "pl", "proto", "py"),
        *("python", "rb", "rs", "ruby", "rust", "scala", "sh", "shell", "sql", "swift", "tf", "toml", "ts", "tsx"),
        *("typescript", "xml", "yaml", "yml", "zsh"),
    )
)

_MEANINGFUL = str.maketrans("", "", "[]()!*_~`<>|&\\#+=@:-")
_NUMBERED = re.compile(r"\d[.)](?=\s)")  # begins a list, also within another one
_TAGS = {
    *("p", "br", "hr", "blockquote", "ul", "ol", "li", "h1", "h2", "h3", "h4", "h5", "h6"),
    *("em", "strong", "s", "code", "pre", "a", "span", "table", "thead", "tbody", "tr", "th", "td"),
}
_CLASSED = {tag: {"class"} for tag in ("span", "code", "th", "td")}
_ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}, **_CLASSED}
_LIVELY = re.compile(r"(?P<url>https?://[^\s<>\"'`]*[^\s<>\"'`.,;:!?)\]])|(?<![\w@])@(?P<name>[\w-]+)")
#: Marks of Markdown, which say nothing where a text is shown in one line: fences, rules, heads of lines, emphasis.
_MARKS = re.compile(r"^(?:```\w*|[-:| ]{3,}$|#{1,6}\s|>\s|[-*]\s)|\*\*|`")
_LINKED = re.compile(r"\[([^\[\]]{1,100})\]\([^()\s]{1,300}\)")


def in_a_line(text: str) -> str:
    """The beginning of a text as one line without its marks, for where it is only mentioned. For short texts."""
    return " ".join(" ".join(map(_unmarked, text.splitlines())).split())


def _unmarked(line: str) -> str:
    plain = _LINKED.sub(r"\1", _MARKS.sub("", line.strip()))
    return plain.strip("|").replace("|", "·") if plain.startswith("|") else plain


def prose(text: str, mentions: tuple[str, ...] = ()) -> Html:
    """Markdown. The names in `mentions` are marked where they are called."""
    if is_light(text):
        return _light_prose(text, mentions)
    made = rendering().look(RenderJob("prose", text, mentions)) if len(text) <= LONGEST else None
    return Html(made) if made is not None else h("pre", text, tabindex=0)


def code(text: str, name: str) -> Html:
    """A file's text, coloured by what its name says it is."""
    ending = _ending(name)
    if ending == "json" and len(text) <= LONGEST_CODE:  # its lexer goes through it once, character by character
        return made_code(text, ending)
    made = rendering().look(RenderJob("code", text, (ending,))) if len(text) <= LONGEST_CODE else None
    return Html(made) if made is not None else h("pre", h("code", h("span", text)), tabindex=0)


def is_light(text: str) -> bool:
    """Whether a text is so small and plain that rendering it here holds nobody up, nor would a hundred like it."""
    if len(text) > LIGHT or "```" in text or "~~~" in text:  # code is coloured by patterns
        return False
    lines = text.count("\n") + 1
    signs = len(text) - len(text.translate(_MEANINGFUL)) + len(_NUMBERED.findall(text))
    return lines <= LINES and signs <= FEW and signs * lines <= LOOKS


async def prepared(
    *proses: str | tuple[str, tuple[str, ...]], files: Sequence[tuple[str, str]] = (), within: float = PATIENCE
) -> None:
    """Let what may take long be made, elsewhere: texts, some with whom they call, and files with their names."""
    pairs = [(each, ()) if isinstance(each, str) else each for each in proses]
    if jobs := [*_heavy(pairs), *_heavy_files(files)]:
        await rendering().prepare(jobs, within=within)


def prepared_now(proses: Iterable[tuple[str, tuple[str, ...]]]) -> None:
    """As `prepared`, for a program that has nothing else to do."""
    rendering().make(_heavy(proses))


def _heavy(proses: Iterable[tuple[str, tuple[str, ...]]]) -> Iterator[RenderJob]:
    for text, mentions in proses:
        if len(text) <= LONGEST and not is_light(text):
            yield RenderJob("prose", text, mentions)


def _heavy_files(files: Iterable[tuple[str, str]]) -> Iterator[RenderJob]:
    for text, name in files:
        if len(text) <= LONGEST_CODE and _ending(name) in LANGUAGES - {"json"}:
            yield RenderJob("code", text, (_ending(name),))


def _ending(name: str) -> str:
    return name.rpartition(".")[2] if "." in name else ""


@lru_cache(maxsize=1024)
def _light_prose(text: str, mentions: tuple[str, ...]) -> Html:
    return made_prose(text, mentions)


def made_prose(text: str, mentions: tuple[str, ...]) -> Html:
    """Render Markdown, however long it takes."""
    return clean(_parser().render(text, {"mentions": {name.lower() for name in mentions}}))


def made_code(text: str, language: str) -> Html:
    """Render code, however long it takes."""
    return h("pre", h("code", clean(_coloured(text, language, "") or str(h("span", text)))), tabindex=0)


def clean(made: str) -> Html:
    """The second layer: only what is on the list is left, whatever came."""
    return Html(
        nh3.clean(
            made,
            tags=_TAGS,
            clean_content_tags={"script", "style"},
            attributes=_ATTRIBUTES,
            link_rel="noopener noreferrer nofollow",
            url_schemes={"http", "https", "mailto"},
            url_relative="deny",
            set_tag_attribute_values={
                "a": {"target": "_blank"},
                "pre": {"tabindex": "0"},
            },  # a long line is scrolled by keys
        )
    )


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("js-default", {"breaks": True, "highlight": _coloured})
    parser.disable("image")
    parser.core.ruler.push("lively", _enliven)
    return parser


def _coloured(text: str, language: str, _: str) -> str:
    """Code as HTML with colours; '' leaves it to the parser, which then escapes it."""
    from pygments import highlight  # type: ignore[import-untyped]  # slow to import, and most messages hold no code
    from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
    from pygments.util import ClassNotFound  # type: ignore[import-untyped]

    if language.lower() not in LANGUAGES or len(text) > LONGEST_CODE:
        return ""
    try:
        lexer = get_lexer_by_name(language, stripnl=False)
    except ClassNotFound:
        return ""
    return str(highlight(text, lexer, HtmlFormatter(nowrap=True)))


def _enliven(state: StateCore) -> None:
    """Bare addresses become links, and calls on members are marked. Not in code and not in links."""
    names: set[str] = state.env.get("mentions", set())
    for block in state.tokens:
        if block.type in ("th_open", "td_open"):  # a style would not pass; that figures stand to the right shall
            block.attrs = {"class": "number"} if "right" in str(block.attrs.pop("style", "")) else {}
        if block.type == "inline" and block.children:
            block.children = list(_lively(block.children, names))


def _lively(tokens: Sequence[Token], names: set[str]) -> Iterator[Token]:
    in_link = 0
    for token in tokens:
        in_link += token.nesting if token.type in ("link_open", "link_close") else 0
        if token.type != "text" or in_link:
            yield token
        else:
            yield from _split(token.content, names)


def _split(text: str, names: set[str]) -> Iterator[Token]:
    done = 0
    for found in _LIVELY.finditer(text):
        url, name = found["url"], found["name"]
        if name is not None and name.lower() not in names | {"user"} and not (name.lower() == "all" and names):
            continue
        yield _text(text[done : found.start()])
        if url:
            yield from _wrapped("link", "a", url, {"href": url})
        else:
            yield from _wrapped("mention", "span", found.group(), {"class": "mention"})
        done = found.end()
    yield _text(text[done:])


def _wrapped(kind: str, tag: str, text: str, attributes: dict[str, Any]) -> Iterator[Token]:
    yield Token(f"{kind}_open", tag, 1, attrs=attributes)
    yield _text(text)
    yield Token(f"{kind}_close", tag, -1)


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)
