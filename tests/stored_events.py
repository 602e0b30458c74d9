"""The events of recorded runs as earlier versions wrote them, for tests that change some."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.agent.runs.event_lines import unseal_line
from vrag.atomic_io import read_lines, write_lines

if TYPE_CHECKING:
    from pathlib import Path


def strip_checksums(events: Path) -> Path:
    """Take the checksums out of the lines of a run; returns the same path."""
    write_lines(events, [unseal_line(line).data for line in read_lines(events)])
    return events
