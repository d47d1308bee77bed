"""The sink `email`: one message, by the person's own mail server, never without encryption but on this machine."""

from __future__ import annotations

import smtplib
import ssl
from email.message import EmailMessage

from agent_worker.definitions.notifications import Sink
from agent_worker.doors.outbox.notice import Notice, NotSent, given

PATIENCE = 30.0  #: seconds
_HERE = ("localhost", "127.0.0.1", "::1")


def send_email(sink: Sink, notice: Notice) -> None:
    message = EmailMessage()
    message["Subject"] = " ".join(notice.title.split())
    message["From"], message["To"] = sink.sender, sink.recipient
    message["Message-ID"] = f"<{notice.id}@agent-worker.invalid>"
    message.set_content(notice.text)
    try:
        with _connected(str(sink.server)) as server:
            if sink.user:
                server.login(sink.user, given(sink.password))
            server.send_message(message)
    except (OSError, ValueError, smtplib.SMTPException) as error:
        raise NotSent(f"the mail server did not accept it: {error}") from None


def _connected(where: str) -> smtplib.SMTP:
    encrypted = where.startswith("smtps://")
    host, _, port = where.removeprefix("smtps://").partition(":")
    if encrypted:
        return smtplib.SMTP_SSL(host, int(port or 465), timeout=PATIENCE, context=ssl.create_default_context())
    server = smtplib.SMTP(host, int(port or 587), timeout=PATIENCE)
    if host not in _HERE:
        server.starttls(context=ssl.create_default_context())
    return server
