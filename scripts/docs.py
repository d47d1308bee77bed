"""Build the site from the pages of the repository, into site/: `uv run poe docs`. It fails where a link leads nowhere.

The tree of the site is that of the repository, so links between pages hold as they are written; docs/README.md is what
stands beside every page. Made with what the daemon draws Markdown with, so there is nothing to install.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from string import Template
from urllib.parse import urlsplit

from markdown_it.token import Token
from pygments import highlight  # type: ignore[import-untyped]
from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]
from pygments.lexers import get_lexer_by_name, get_lexer_for_filename  # type: ignore[import-untyped]
from pygments.util import ClassNotFound  # type: ignore[import-untyped]

sys.path.insert(0, str(Path(__file__).parent))

from links import CONTENTS, Page, Pages, markdown

ROOT = Path(__file__).parent.parent
SITE = ROOT / "site"
STYLE = Path(__file__).parent / "docs.css"
_HTML = HtmlFormatter(nowrap=True)

_PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<link rel="stylesheet" href="${up}docs.css">
</head>
<body>
<input type="checkbox" id="menu"><label for="menu">Contents</label>
<nav><a class="home" href="${up}index.html">agent-worker</a>
$contents</nav>
<main>
$body
</main>
<aside>$headings</aside>
</body>
</html>
""")


class BrokenLinks(Exception):
    """Links that lead nowhere, and pages that nobody gets to."""


def build(root: Path = ROOT, site: Path = SITE) -> int:
    """How many pages there are. Raises BrokenLinks before anything is written."""
    pages = Pages(root)
    wrong = [*pages.broken()] or [f"{path}: no page leads here from {CONTENTS}" for path in pages.lost()]
    if wrong:
        raise BrokenLinks("\n".join(wrong))
    if site.exists():
        shutil.rmtree(site)
    count = 0
    for path in sorted(pages.reached()):
        count += _write(pages, path, site)
    shutil.copy(STYLE, site / STYLE.name)
    return count


def _write(pages: Pages, path: Path, site: Path) -> bool:
    """Whether it became a page of its own; pictures and the like are copied."""
    place = site / address(pages, path)
    place.parent.mkdir(parents=True, exist_ok=True)
    if (pages.root / path).is_dir():
        place.write_text(_around(pages, path / "README.md", path.name, _listing(pages, path)), "utf-8")
    elif path.suffix == ".md":
        page = pages.page(path)
        place.write_text(_around(pages, path, page.title, draw(pages, page), page), "utf-8")
    else:
        shutil.copy(pages.root / path, place)
        return False
    return True


def address(pages: Pages, path: Path) -> Path:
    """Where something of the repository is in the site."""
    if (pages.root / path).is_dir() or path.name == "README.md":
        return (path if (pages.root / path).is_dir() else path.parent) / "index.html"
    return path.with_suffix(".html") if path.suffix == ".md" else path


def draw(pages: Pages, page: Page, link_from: Path | None = None) -> str:
    """The page in HTML, with its links as they are in the site, seen from `link_from`."""
    place = link_from or page.path
    anchors = iter(page.headings)
    tokens = [_turned(pages, page, place, token) for token in page.tokens]
    for token in tokens:
        if token.type == "heading_open":
            token.attrSet("id", next(anchors)[2])
    return str(markdown.renderer.render(tokens, markdown.options, {}))


def _turned(pages: Pages, page: Page, place: Path, token: Token) -> Token:
    turned = token.copy()
    for name in ("href", "src"):
        if name in turned.attrs:
            turned.attrs = {**turned.attrs, name: _in_site(pages, page, place, str(turned.attrs[name]))}
    if turned.type in ("html_block", "html_inline"):
        for link in _links_in(page, turned):
            turned.content = turned.content.replace(f'"{link}"', f'"{_in_site(pages, page, place, link)}"')
    if turned.type == "fence":
        turned.type, turned.content = "html_block", _code(token.content, token.info)
    if turned.children:
        turned.children = [_turned(pages, page, place, child) for child in turned.children]
    return turned


def _links_in(page: Page, token: Token) -> list[str]:
    return [link for link in dict.fromkeys(page.links) if f'"{link}"' in token.content]


def _in_site(pages: Pages, page: Page, place: Path, link: str) -> str:
    found = pages.target(page, link)
    if found is None or link.startswith("#"):
        return link
    there = address(pages, pages.readme_of(found[0])).as_posix()
    fragment = urlsplit(link).fragment
    return _up(address(pages, place)) + there + (f"#{fragment}" if fragment else "")


def _up(place: Path) -> str:
    return "../" * (len(place.parts) - 1)


def _code(code: str, language: str, name: str = "") -> str:
    try:
        lexer = get_lexer_for_filename(name) if name else get_lexer_by_name(language.strip() or "text")
    except ClassNotFound:
        return f"<pre>{escape(code)}</pre>\n"
    return f"<pre>{highlight(code, lexer, _HTML)}</pre>\n"


def _listing(pages: Pages, folder: Path) -> str:
    """A folder without a README: its pages by their titles, or its files as they are."""
    lines = [f"<h1>{escape(folder.name)}</h1>"]
    files = pages.listed(folder)
    if any(path.suffix == ".md" for path in files):
        lines.append("<ul>")
        for path in files:
            here = path.relative_to(folder).with_suffix(".html").as_posix()
            lines.append(f'<li><a href="{here}">{escape(pages.page(path).title)}</a></li>')
        lines.append("</ul>")
        return "\n".join(lines)
    for path in files:
        name = path.relative_to(folder).as_posix()
        lines.append(f"<h2>{escape(name)}</h2>")
        lines.append(_code((pages.root / path).read_text("utf-8"), "", path.name))
    return "\n".join(lines)


def _around(pages: Pages, path: Path, title: str, body: str, page: Page | None = None) -> str:
    parts: Mapping[str, str] = {
        "title": escape(title if title == "agent-worker" else f"{title} · agent-worker"),
        "up": _up(address(pages, path)),
        "contents": draw(pages, pages.page(Path(CONTENTS)), path),
        "body": body,
        "headings": "\n".join(_headings(page)) if page else "",
    }
    return _PAGE.substitute(parts)


def _headings(page: Page) -> Iterator[str]:
    for tag, text, anchor in page.headings:
        if tag == "h2":
            yield f'<a href="#{escape(anchor)}">{escape(text)}</a>'


def main() -> None:
    try:
        count = build()
    except BrokenLinks as error:
        sys.exit(f"{error}\nerror: the site was not built")
    print(f"{count} pages in {SITE.relative_to(ROOT)}/, beginning with {SITE.relative_to(ROOT)}/index.html")


if __name__ == "__main__":
    main()
