"""A desk to ask from: a collection of one note about a ferry, and questions about it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SEARCH = "<think>Look.</think><search>ferry</search>"
ANSWER = "<think>Seen.</think><answer>48,200</answer>"


def lay_out(folder: Path, references: Sequence[str]) -> Path:
    """Makes `notes`, a collection, and `questions.json`, one question for each reference; the folder."""
    from vrag.index.build import add
    from vrag.index.collection import Collection

    (folder / "note.md").write_text("The ferry carried 48,200 passengers in 2024.\n")
    add(Collection.create(folder / "notes"), [folder / "note.md"])
    rows = [
        {
            "uid": f"c{number}",
            "query": f"How many passengers, {number}?",
            "reference_answer": reference,
            "meta_info": {"file_name": "note.md"},
        }
        for number, reference in enumerate(references)
    ]
    (folder / "questions.json").write_text(json.dumps({"examples": rows}))
    return folder
