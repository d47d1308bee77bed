"""What a disk refuses is told in a sentence, with the status that fits; what is no disk's fault stays our mistake."""

from __future__ import annotations

import errno
import os

import pytest

from agent_worker.core.errors import AgentWorkerError
from agent_worker.doors.errors import status_of
from agent_worker.files.folder import disk_explained


@pytest.mark.parametrize(
    ("number", "status"),
    [
        (errno.ENOSPC, 507),
        (errno.EDQUOT, 507),
        (errno.EROFS, 507),
        (errno.EACCES, 507),
        (errno.EPERM, 507),
        (errno.EIO, 507),
        (errno.EMFILE, 503),
        (errno.ENFILE, 503),
    ],
)
def test_D14_what_a_disk_refuses_has_a_sentence_a_hint_and_a_status(number: int, status: int) -> None:
    with pytest.raises(AgentWorkerError) as caught, disk_explained():
        raise OSError(number, os.strerror(number), ".tmp-123")
    assert status_of(caught.value) == status
    assert caught.value.hint
    assert ".tmp-" not in caught.value.message


def test_D14_what_is_no_disks_fault_stays_a_mistake_of_ours() -> None:
    with pytest.raises(FileNotFoundError), disk_explained():
        raise FileNotFoundError(errno.ENOENT, "no such file")
