"""Approvals are kept outside the project, by content, and a change is shown as one."""

from __future__ import annotations

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent_worker.core.clock import TestClock
from agent_worker.core.errors import DefinitionError, Refused
from agent_worker.definitions.project_files import load_project
from agent_worker.files.root import Root
from agent_worker.trust.approvals import KEPT
from agent_worker.trust.powers import Power, powers_of
from agent_worker.trust.store import NotApproved, TrustStore, kept_in

AGENT = "model: anthropic/claude-sonnet-4-5\nprompt: {system: You review.}\n"
FILES = {
    ".agents/alice.yaml": f"{AGENT}tools: [./tools/search.py:find_issue]\nskills: [.agents/skills]\n",
    ".agents/skills/pdf/SKILL.md": "Fill in forms.\nThen stop.\n",
    "tools/search.py": 'def find_issue(text: str) -> str:\n    """Find it."""\n    return text\n',
    ".workflows/review.yaml": "agents: {alice: {ref: alice}}\nsetup: [{shell: git diff main...HEAD, as: changes}]\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture
def home(tmp_path: Path) -> Root:
    return Root.private(tmp_path / "home")


def trust(home: Root | None, project: Path | str) -> TrustStore:
    return TrustStore(kept_in(home, project), clock=TestClock())


def powers(root: Path) -> tuple[Power, ...]:
    project = load_project(root)
    assert not project.problems
    return powers_of(project, project.workflows["review"])


def test_Y18_nothing_is_approved_at_first_and_the_error_lists_what_would_happen(root: Path, home: Root) -> None:
    with pytest.raises(NotApproved) as caught:
        trust(home, root).require(powers(root))
    assert caught.value.code == "untrusted"
    assert isinstance(caught.value, Refused)
    assert "  set-up of review runs: git diff main...HEAD\n" in caught.value.message
    assert "alice may run ./tools/search.py:find_issue" in caught.value.message
    assert "--trust" in caught.value.hint
    assert [one.before for one in caught.value.waiting] == [None] * 3
    assert "def find_issue" in caught.value.waiting[1].shown()


def test_what_was_approved_stays_approved_for_other_processes(root: Path, home: Root) -> None:
    trust(home, root).approve(powers(root))
    trust(home, root).require(powers(root))
    record = json.loads(home.read_text("trust.json"))["projects"][str(root)]
    assert set(record["approved"].values()) == {"2026-01-05T09:00:00+00:00"}
    assert stat.S_IMODE((home.path / "trust.json").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("file", "old", "new", "gone", "come"),
    [
        (".workflows/review.yaml", "main...HEAD", "main..HEAD", "-$ git diff main...HEAD", "+$ git diff main..HEAD"),
        ("tools/search.py", "return text", "return next", "-    return text", "+    return next"),
        (".agents/skills/pdf/SKILL.md", "stop.", "stop!", "-Then stop.", "+Then stop!"),
        (".agents/skills/pdf/SKILL.md", "stop.", "stop.\u200b", "-Then stop.", "+Then stop.⟦U+200B⟧"),
    ],
)
def test_Y19_one_byte_asks_again_and_shows_the_difference(
    root: Path, home: Root, file: str, old: str, new: str, gone: str, come: str
) -> None:
    trust(home, root).approve(powers(root))
    (root / file).write_text(FILES[file].replace(old, new))
    (waiting,) = trust(home, root).unapproved(powers(root))
    lines = waiting.shown().split("\n")
    assert gone in lines
    assert come in lines
    with pytest.raises(NotApproved, match=r"changed: "):
        trust(home, root).require(powers(root))
    trust(home, root).approve([waiting.power])
    trust(home, root).require(powers(root))


def test_Y19_a_dropped_question_is_part_of_the_difference(root: Path, home: Root) -> None:
    asking = f"{AGENT}tools: [{{name: ./tools/search.py:find_issue, approve: true}}]\n"
    (root / ".agents/alice.yaml").write_text(asking)
    trust(home, root).approve(powers(root))
    (root / ".agents/alice.yaml").write_text(asking.replace("true", "false"))
    (waiting,) = trust(home, root).unapproved(powers(root))
    assert "own process, asking you each time\n+alice may run" in waiting.shown()


def test_Y19_a_change_too_far_back_to_be_kept_is_still_a_change(root: Path, home: Root) -> None:
    long = FILES["tools/search.py"] + "#" * 100_000
    (root / "tools/search.py").write_text(long)
    trust(home, root).approve(powers(root))
    (root / "tools/search.py").write_text(long[:-1] + "!")
    (waiting,) = trust(home, root).unapproved(powers(root))
    assert waiting.shown() == "(it changed in a part that is too long, secret, or not text)"


def test_plain_words_may_change_without_asking(root: Path, home: Root) -> None:
    trust(home, root).approve(powers(root))
    for file in (".agents/alice.yaml", ".workflows/review.yaml"):
        text = FILES[file].replace("You review.", "You review well.") + ("kickoff: Go.\n" if "review" in file else "")
        (root / file).write_text(text)
    trust(home, root).require(powers(root))


def test_an_approval_is_for_one_project_however_its_path_is_written(root: Path, home: Root, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    trust(home, tmp_path / "link" / ".." / "project").approve(powers(root))
    trust(home, tmp_path / "link").require(powers(root))
    for other in (tmp_path / "Project", tmp_path / "other"):
        assert len(trust(home, other).unapproved(powers(root))) == 3


def test_Y19_a_project_link_that_is_turned_elsewhere_is_another_project(root: Path, home: Root, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(root)
    trust(home, link).approve(powers(root))
    link.unlink()
    (tmp_path / "evil").mkdir()
    link.symlink_to(tmp_path / "evil")
    assert len(trust(home, link).unapproved(powers(root))) == 3


def test_G3s_a_fetched_project_is_known_by_its_source_so_the_next_version_is_a_difference(
    root: Path, home: Root
) -> None:
    trust(home, "github:owner/repo").approve(powers(root))
    (root / "tools/search.py").write_text("import os\n" + FILES["tools/search.py"])
    (waiting,) = trust(home, "github:owner/repo").unapproved(powers(root))
    assert "+import os" in waiting.shown()


def test_Y20_a_project_does_not_decide_its_own_trust(root: Path, home: Root) -> None:
    elsewhere = trust(home, root)
    elsewhere.approve(powers(root))
    forged = home.read_text("trust.json")
    for place in ("trust.json", ".agent-worker/trust.json", ".state/trust.json"):
        (root / place).parent.mkdir(exist_ok=True)
        (root / place).write_text(forged)
    home.remove("trust.json")
    assert len(elsewhere.unapproved(powers(root))) == 3
    for inside in (root, root / ".agent-worker", root / ".state"):
        inside.chmod(0o700)
        assert len(trust(Root.private(inside), root).unapproved(powers(root))) == 3


def test_Y20_a_home_inside_the_project_remembers_for_this_process_only(root: Path) -> None:
    (inside := root / ".state").mkdir(mode=0o700)
    store = trust(Root.private(inside), root)
    store.approve(powers(root))
    store.require(powers(root))
    assert list(inside.iterdir()) == []
    assert len(trust(Root.private(inside), root).unapproved(powers(root))) == 3


def test_Y20_trust_is_no_key_of_any_file(root: Path) -> None:
    (root / ".workflows/review.yaml").write_text(FILES[".workflows/review.yaml"] + "trust: true\n")
    with pytest.raises(DefinitionError, match="trust: unknown key"):
        load_project(root).load_workflow(root / ".workflows/review.yaml")


def test_without_a_home_approvals_last_as_long_as_the_store(root: Path) -> None:
    store = trust(None, root)
    store.approve(powers(root))
    store.require(powers(root))


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"\xff", b'{"projects": {"x": 1}}', b'{"projects": []}', b"[" * 100_000]
)
def test_from_a_damaged_file_nothing_is_approved_and_it_can_be_written_again(
    root: Path, home: Root, content: bytes
) -> None:
    home.replace("trust.json", content)
    store = trust(home, root)
    assert len(store.unapproved(powers(root))) == 3
    store.approve(powers(root))
    store.require(powers(root))


def test_several_that_approve_at_once_lose_nothing(root: Path, home: Root) -> None:
    wanted = powers(root)
    stores = [trust(home, f"github:owner/{number}") for number in range(8)]
    with ThreadPoolExecutor(len(stores)) as pool:
        list(pool.map(lambda store: store.approve(wanted), stores))
    for store in stores:
        store.require(wanted)
    assert [entry.name for entry in home.list()] == ["trust.json"]


def test_when_texts_grow_too_many_those_not_approved_longest_go_and_the_approvals_stay(home: Root) -> None:
    many = [Power("python", "a", str(number), "a runs", "x" * KEPT, str(number)) for number in range(40)]
    for project in ("github:a/a", "github:b/b", "github:a/a"):
        trust(home, project).approve(many)
    record = json.loads(home.read_text("trust.json"))["projects"]
    assert {name: bool(record[name]["texts"]) for name in record} == {"github:b/b": False, "github:a/a": True}
    trust(home, "github:b/b").require(many)


def test_N5_a_key_in_a_file_is_neither_shown_nor_kept_and_a_change_of_it_is_a_change(root: Path, home: Root) -> None:
    key, other = "gh" + "p_" + "a1B2" * 9, "gh" + "p_" + "c3D4" * 9
    before = Power("shell", "a", "bash", "a runs it", f"curl -H {key}", "1")
    after = Power("shell", "a", "bash", "a runs it", f"curl -H {other}", "2")
    (waiting,) = trust(home, root).unapproved([before])
    trust(home, root).approve([before])
    (changed,) = trust(home, root).unapproved([after])
    shown = waiting.shown() + changed.shown() + home.read_text("trust.json")
    assert key not in shown
    assert other not in shown
    assert "it changed in a part that is too long, secret, or not text" in changed.shown()


def test_nothing_to_approve_writes_nothing(root: Path, home: Root) -> None:
    trust(home, root).approve(())
    assert home.list() == ()


def test_a_long_list_is_cut_in_the_error_only(root: Path, home: Root) -> None:
    many = [Power("shell", f"a{number}", "bash", f"a{number} runs", "", str(number)) for number in range(30)]
    with pytest.raises(NotApproved, match="and 10 more") as caught:
        trust(home, root).require(many)
    assert len(caught.value.waiting) == 30
