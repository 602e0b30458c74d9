"""The sample corpus: documents of an invented ferry co-operative, with questions and gold boxes.

`corpus/` holds a report, slides with one picture-only slide, a scanned letter without a text layer,
a photograph of a price board, a guide in Chinese and a note. `questions.json` is in the reference
dataset format, with `regions` (page from 1, box in fractions of the page) beside each question.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def corpus_dir() -> Path:
    """The folder with the sample documents, inside the installed package."""
    return Path(str(files(__name__))) / "corpus"


def questions_path() -> Path:
    """The questions about the sample documents, as JSON."""
    return Path(str(files(__name__))) / "questions.json"
