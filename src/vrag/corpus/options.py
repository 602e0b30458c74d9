"""Options of the conversion of files to items."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass

SCHEMA = 2
"""Raised whenever the same bytes and settings come to give other items."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusOptions:
    """Options of the conversion of files to items. The defaults are the tested setting."""

    dpi: float = 144.0
    """Resolution of rendered pages, in pixels per inch: two pixels per PDF point."""
    ocr: bool = True
    """True if pictures without usable text are read by OCR."""
    max_pixels: int = 50_000_000
    """Pixels of one picture beyond which a file is refused. Vector pages are rendered smaller instead."""
    page_seconds: float = 60.0
    """Time limit for opening a file, and for each of its items, in seconds of processor time (on Windows: of
    wall time). What is blocked is given up after ten times as long."""
    workers: int = 0
    """Number of processes; 0 for the number of cores that this process may use."""
    max_pages: int = 20_000
    """Items of one file beyond which it is refused."""
    passage_chars: int = 1200
    """Length in characters that a passage of a text file aims at; twice that is the most."""
    clip_seconds: float = 60.0
    """Length that the clips of a video aim at, in seconds: each begins at a key frame."""
    office_seconds: float = 180.0
    """Time limit for the conversion of an office document by LibreOffice, as `page_seconds` counts."""

    @property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits over those settings on which the content of an item depends."""
        content = [SCHEMA, float(self.dpi), self.ocr, self.max_pixels, self.passage_chars]
        content.append(float(self.clip_seconds))
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:12]

    @property
    def processes(self) -> int:
        """The number of worker processes, at least 1."""
        if hasattr(os, "sched_getaffinity"):  # fewer than the machine's cores under taskset or a container
            return self.workers or len(os.sched_getaffinity(0))
        return self.workers or os.cpu_count() or 1
