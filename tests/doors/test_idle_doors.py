"""A door that nobody uses costs nothing: it is not even imported."""

from __future__ import annotations

import subprocess
import sys

#: Whose first request, or whose setting, brings them in.
LATE = (
    *(f"agent_worker.doors.{name}" for name in ("openai.app", "public", "answers.app", "hooks.app", "metrics")),
    *(f"agent_worker.doors.{name}" for name in ("otel.exporter", "otel.spans", "outbox.web", "outbox.mail")),
    *("opentelemetry", "google.protobuf", "smtplib"),
)


def test_no_door_is_imported_before_it_is_used() -> None:
    code = (
        f"import sys, agent_worker.daemon.http.app\nearly = set({LATE!r}) & set(sys.modules)\nassert not early, early\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
