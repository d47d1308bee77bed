"""The pictures of the page in the README, taken anew of the demo's team: `uv run poe pictures`."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).parent.parent
FIGURES = ROOT / "docs" / "figures"
sys.path.insert(0, str(ROOT))

from tests import stored  # noqa: E402
from tests.patience import eventually  # noqa: E402
from tests.shells.served import served  # noqa: E402
from tests.web.browser import chromium, visit  # noqa: E402


def main() -> None:
    with tempfile.TemporaryDirectory() as tmp, served(Path(tmp)) as daemon, chromium() as browser:
        demo = daemon.client.request("POST", "/demo", {})[1]
        there = replace(daemon, project=Path(demo["project"]))
        done = "the review is done"
        assert eventually(lambda: any(done in row["text"] for row in daemon.read(stored.messages))), "it did not end"
        run = daemon.read(stored.runs, name="ben")[-1]["id"]
        with visit(browser, there, viewport={"width": 1280, "height": 800}) as guest:
            page = guest.open(guest.workspace("review"))
            page.get_by_text(done).wait_for()
            page.screenshot(path=FIGURES / "page-workspace.png")
            guest.go(guest.place(f"run/{run}"))
            page.screenshot(path=FIGURES / "page-run.png")


if __name__ == "__main__":
    main()
