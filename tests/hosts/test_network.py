"""A host whose network is really cut, by the kernel, both ways or one: as root, with large counts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests import stored
from tests.faults.report import LONG, report
from tests.hosts.namespace import Namespace, open_namespace
from tests.hosts.test_daemons import Daemons
from tests.needs import needs
from tests.patience import PATIENCE, eventually
from tests.postgresql import open_cluster
from tests.teams import write_project

from agent_worker.client.connection import COMMAND
from agent_worker.client.discovery import DATABASE_VARIABLE

SLOW = "backend: mock\nscript: [{ say: done, slow: 15s }, { again: true }]\n"
CLI = "from agent_worker.cli.main import main; main()"
WAYS = [(True, True), (True, False), (False, True)]

pytestmark = [
    pytest.mark.skipif(
        not LONG or os.geteuid() != 0, reason="only root makes networks, and AGENT_WORKER_FAULTS=long asks for them"
    ),
    needs("ip, of iproute2", there=not LONG or shutil.which("ip") is not None),
]


class Inside:
    """A daemon in a namespace, which reaches the database over the cable."""

    def __init__(self, namespace: Namespace, home: Path, project: Path, url: str) -> None:
        self._namespace, self._project = namespace, project
        self._environ = {DATABASE_VARIABLE: url, "AGENT_WORKER_HOME": str(home), "AGENT_WORKER_PORT": "0"}
        self.process = subprocess.Popen(self._command(*COMMAND), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def says(self, *words: str) -> str:
        """What the command line says in there."""
        command = self._command(sys.executable, "-c", CLI, *words)
        done = subprocess.run(command, cwd=self._project, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def _command(self, *words: str) -> list[str]:
        return [*self._namespace.command("env", *(f"{name}={value}" for name, value in self._environ.items()), *words)]


@contextmanager
def begun(namespace: Namespace, home: Path, project: Path, url: str) -> Iterator[Inside]:
    home.mkdir(mode=0o700)
    inside = Inside(namespace, home, project, url)
    try:
        yield inside
    finally:
        namespace.heal()
        inside.process.terminate()
        inside.process.wait(PATIENCE)


def checkout(root: Path) -> Path:
    write_project(root, ["alice"], extra={"alice": SLOW})
    (root / "moniro.yaml").write_text("id: shop\n")
    return root


@pytest.mark.parametrize(("there", "back"), WAYS)
def test_H11_a_host_whose_network_is_cut_ends_its_work_before_another_does_it_and_works_again(
    tmp_path: Path, there: bool, back: bool
) -> None:
    here, theirs = (checkout(tmp_path / name) for name in ("here", "theirs"))
    with open_namespace() as namespace, open_cluster(f"listen_addresses = '127.0.0.1,{namespace.ours}'\n") as cluster:
        with (cluster.directory / "data" / "pg_hba.conf").open("a") as allowed:
            allowed.write(f"host all all {namespace.theirs}/32 trust\n")
        cluster.run("select pg_reload_conf()")
        daemons = Daemons(cluster.new_database())
        over_the_cable = daemons.url.replace("127.0.0.1", namespace.ours)
        with begun(namespace, tmp_path / "inside", theirs, over_the_cable) as inside:
            inside.says("send", "alice", "are you there?")
            assert eventually(lambda: daemons.read(stored.runs, state="running"))
            other = daemons.begin(tmp_path / "outside", here)
            try:
                other.client.request("GET", f"/status?project={here}")
                namespace.cut(there=there, back=back)
                assert eventually(lambda: daemons.read(stored.runs, state="done") and len(daemons.hosts(other)) == 1)
                namespace.heal()
                assert eventually(lambda: len(daemons.hosts(other)) == 2)
                talk = Counter(entry["text"] for entry in daemons.read(stored.talk))
                assert talk == {"are you there?": 1, "done": 1}
                lost, done = sorted(daemons.read(stored.runs), key=lambda run: run["started_at"])
                assert (lost["state"], done["state"]) == ("lost", "done")
                assert "done" in inside.says("ask", "alice", "and now?")
                report.count("H11 networks cut")
            finally:
                daemons.end()
