"""The pages of the repository, their headings and the links between them: what is broken, and what nobody can reach.

Used by the site (docs.py) and by the tests; knows nothing of how a page looks. Other machines are not asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

CONTENTS = "docs/README.md"  #: what the site shows beside every page
_FOLDERS = ("", "docs", "examples", "bench")  # whose Markdown files are pages
_IN_HTML = re.compile(r"""\b(?:href|src|srcset)\s*=\s*["']([^"']+)["']""")
_NO_FILES = frozenset({"__pycache__", ".workspace", ".index"})

markdown = MarkdownIt("commonmark", {"html": True}).enable("table")


def slug(heading: str) -> str:
    """The anchor that a heading has on GitHub, and on our site."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


@dataclass(frozen=True)
class Page:
    path: Path  #: beneath the repository
    text: str

    @cached_property
    def tokens(self) -> list[Token]:
        return markdown.parse(self.text)

    @cached_property
    def headings(self) -> list[tuple[str, str, str]]:
        """Of every heading its tag, its text and its anchor, which no other heading of the page has."""
        found: list[tuple[str, str, str]] = []
        seen: dict[str, int] = {}
        for opened, inline in zip(self.tokens, self.tokens[1:], strict=False):
            if opened.type == "heading_open":
                text = "".join(child.content for child in inline.children or ())
                anchor = slug(text)
                seen[anchor] = seen.get(anchor, -1) + 1
                found.append((opened.tag, text, f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor))
        return found

    @property
    def title(self) -> str:
        return next((text for tag, text, _ in self.headings if tag == "h1"), self.path.stem)

    @cached_property
    def links(self) -> list[str]:
        """Where it leads: links, pictures, and those of its HTML."""
        return [link for token in _flat(self.tokens) for link in _links_of(token)]


def _flat(tokens: Iterable[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _flat(token.children or ())


def _links_of(token: Token) -> list[str]:
    if token.type in ("html_block", "html_inline"):
        return [address.split()[0] for address in _IN_HTML.findall(token.content)]
    address = token.attrs.get("href" if token.type == "link_open" else "src")
    return [str(address)] if address is not None else []


@dataclass(frozen=True)
class Pages:
    """All pages beneath a root."""

    root: Path
    _read: dict[Path, Page] = field(default_factory=dict)

    @cached_property
    def all(self) -> list[Page]:
        found = {path for name in _FOLDERS for path in (self.root / name).glob("**/*.md" if name else "*.md")}
        return [self.page(path.relative_to(self.root)) for path in sorted(found)]

    def page(self, path: Path) -> Page:
        if path not in self._read:
            self._read[path] = Page(path, (self.root / path).read_text("utf-8"))
        return self._read[path]

    def target(self, page: Page, link: str) -> tuple[Path, str] | None:
        """The file or folder, and the anchor, that a link leads to; None when it leads out of the repository."""
        parts = urlsplit(link)
        if parts.scheme in ("http", "https", "mailto"):
            return None
        if parts.scheme or parts.netloc or parts.path.startswith("/"):
            raise ValueError("is not a relative path")
        place = (self.root / page.path.parent / unquote(parts.path)) if parts.path else self.root / page.path
        found = place.resolve()
        if not found.is_relative_to(self.root.resolve()):
            raise ValueError("leads out of the repository")
        if not found.exists():
            raise ValueError("is not there")
        return found.relative_to(self.root.resolve()), unquote(parts.fragment)

    def broken(self) -> Iterator[str]:
        """Each link that leads nowhere, as a sentence."""
        for page in self.all:
            for link in page.links:
                try:
                    self._follow(page, link)
                except ValueError as error:
                    yield f"{page.path}: {link} {error}"

    def _follow(self, page: Page, link: str) -> None:
        if (found := self.target(page, link)) is None or not found[1]:
            return
        path, anchor = found
        there = self.readme_of(path)
        if there.suffix != ".md" or anchor not in [name for _, _, name in self.page(there).headings]:
            raise ValueError("names a heading that is not there")

    def readme_of(self, path: Path) -> Path:
        """What is shown of a folder: its README, if it has one."""
        return path / "README.md" if (self.root / path / "README.md").is_file() else path

    def listed(self, folder: Path) -> list[Path]:
        """The files of a folder without a README; where it has Markdown files, only those."""
        files = [path.relative_to(self.root) for path in sorted((self.root / folder).rglob("*")) if path.is_file()]
        files = [path for path in files if not _NO_FILES & set(path.parts) and path.suffix != ".pyc"]
        return [path for path in files if path.suffix == ".md"] or files

    def reached(self) -> set[Path]:
        """Every page that one gets to from the contents, however many links away."""
        reached: set[Path] = set()
        ahead = [Path(CONTENTS)]
        while ahead:
            path = self.readme_of(ahead.pop())
            if path in reached:
                continue
            reached.add(path)
            if (self.root / path).is_dir():
                ahead += self.listed(path)
            elif path.suffix == ".md":
                ahead += [found[0] for link in self.page(path).links if (found := self.target(self.page(path), link))]
        return reached

    def lost(self) -> list[Path]:
        """Pages that nothing leads to."""
        reached = self.reached()
        return [page.path for page in self.all if page.path not in reached]
