"""No link of README or docs leads nowhere, every page can be reached from the contents, and a site is made of them."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

from links import CONTENTS, Pages, slug  # noqa: E402

import docs  # noqa: E402

SECTIONS = ["Install", "Quick start", "Concepts", "Guides", "Reference", "Benchmarks", "FAQ and troubleshooting"]


@pytest.fixture(scope="module")
def pages() -> Pages:
    return Pages(ROOT)


def written(root: Path, **texts: str) -> Path:
    """Pages beneath a root: `docs__a="…"` is docs/a.md."""
    for name, text in {"docs__README": "# Contents\n\n[home](../README.md)", "README": "# Home", **texts}.items():
        file = root / f"{name.replace('__', '/')}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    return root


def test_no_link_leads_nowhere(pages: Pages) -> None:
    assert not [*pages.broken()]


def test_every_page_is_reached_from_the_contents(pages: Pages) -> None:
    assert not pages.lost(), f"link it in {CONTENTS}, or from a page that is there"


def test_the_contents_have_the_sections_that_people_look_for(pages: Pages) -> None:
    titles = [text for tag, text, _ in pages.page(Path(CONTENTS)).headings if tag == "h2"]
    assert [title for title in titles if title in SECTIONS] == SECTIONS


def test_each_decision_has_a_number_of_its_own() -> None:
    numbers = [int(file.name[:4]) for file in sorted((ROOT / "docs" / "decisions").glob("*.md"))]
    assert numbers == [*range(1, len(numbers) + 1)]
    for file in (ROOT / "docs" / "decisions").glob("*.md"):
        assert file.read_text("utf-8").startswith(f"# {int(file.name[:4])}. "), file.name


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ("nowhere.md", "is not there"),
        ("../README.md#nothing", "names a heading that is not there"),
        ("#nothing", "names a heading that is not there"),
        ("../../elsewhere.md", "leads out of the repository"),
        ("/srv/docs/a.md", "is not a relative path"),
    ],
)
def test_a_link_that_leads_nowhere_fails_the_site_and_nothing_is_built(tmp_path: Path, link: str, why: str) -> None:
    (tmp_path / "elsewhere.md").write_text("# Elsewhere")
    root = written(tmp_path / "repository", docs__a=f"# A\n\n[there]({link})", docs__README="# Contents\n\n[a](a.md)")
    assert [*Pages(root).broken()] == [f"docs/a.md: {link} {why}"]
    with pytest.raises(docs.BrokenLinks, match=re.escape(link)):
        docs.build(root, tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_pictures_and_links_in_html_count_too(tmp_path: Path) -> None:
    absolute = "README.md: file:///srv/a is not a relative path"
    root = written(
        tmp_path,
        README='# Home\n\n![no](no.png)\n\n<img src="none.svg"> <a href="file:///srv/a">a</a>',
    )
    assert [*Pages(root).broken()] == ["README.md: no.png is not there", "README.md: none.svg is not there", absolute]


def test_what_stands_in_code_is_no_link(tmp_path: Path) -> None:
    root = written(tmp_path, README="# Home\n\n`[a](b.md)`\n\n```\n[a](b.md)\n```")
    assert not [*Pages(root).broken()]


def test_a_page_that_nothing_leads_to_fails_the_site(tmp_path: Path) -> None:
    root = written(tmp_path / "repository", docs__forgotten="# Forgotten")
    with pytest.raises(docs.BrokenLinks, match=r"docs/forgotten\.md: no page leads here"):
        docs.build(root, tmp_path / "site")


def test_headings_have_the_anchors_that_they_have_elsewhere() -> None:
    assert slug("workflow: `agents` with `ref`".replace("`", "")) == "workflow-agents-with-ref"
    assert slug('"This can run any file of the project"') == "this-can-run-any-file-of-the-project"


def test_of_two_headings_that_are_the_same_each_has_its_anchor(tmp_path: Path) -> None:
    page = Pages(written(tmp_path, README="# Home\n\n## Again\n\n## Again")).page(Path("README.md"))
    assert [anchor for _, _, anchor in page.headings] == ["home", "again", "again-1"]


def test_every_address_in_the_site_is_in_the_site(tmp_path: Path) -> None:
    """Of the real pages: links as they are written become links of the site, with their anchors."""
    assert docs.build(ROOT, tmp_path) > 50
    texts = {file.relative_to(tmp_path): file.read_text("utf-8") for file in tmp_path.rglob("*.html")}
    anchors = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in texts.items()}
    for path, text in texts.items():
        body = re.sub(r"<pre>.*?</pre>", "", text, flags=re.DOTALL)
        for address in re.findall(r'\b(?:href|src)="([^"]+)"', body):
            parts = urlsplit(address)
            if parts.scheme:
                assert parts.scheme in ("http", "https"), address
                continue
            there = (tmp_path / path.parent / parts.path).resolve() if parts.path else tmp_path.resolve() / path
            assert there.is_file(), f"{path}: {address}"
            if parts.fragment:
                assert unquote(parts.fragment) in anchors[there.relative_to(tmp_path.resolve())], f"{path}: {address}"
    assert not [path for path, text in texts.items() if str(ROOT) in text]
