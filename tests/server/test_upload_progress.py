"""The progress of an upload, as clients see it."""

from __future__ import annotations

from pathlib import Path

from vrag.corpus.converter import Converted, ItemCount, SourceFile
from vrag.server.collections.jobs import JobState, UploadJob
from vrag.testing import page


def test_the_counter_does_not_go_back_when_a_file_is_read_again() -> None:
    """Reading is interrupted for a removal, and begins again with what had been written."""
    source = SourceFile(Path("report.pdf"), "0" * 64, "report.pdf", 10, 0)
    item = page("report.pdf", 1, "words")
    job = UploadJob("default", source.path, source.document, source.size)
    seen: list[int] = []
    job.begin(0)
    job.note(ItemCount(source, 5))
    for _ in range(3):
        job.note(Converted(source, item))
        seen.append(job.done)
    job.wait()
    seen.append(job.done)
    assert (job.state, job.total) == (JobState.WAITING, 5)
    job.begin(1)
    for _ in range(4):
        job.note(Converted(source, item))
        seen.append(job.done)
    assert seen == [1, 2, 3, 3, 3, 3, 4, 5]
