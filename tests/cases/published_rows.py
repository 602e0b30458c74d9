"""Rows of published data sets, as they come."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from vrag.datasets.registry import open_cases

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.types import Case

SLIDEVQA = {
    "deck_name": "budget-talk",
    "qa_id": 12,
    "question": "What is the sum?",
    "answer": "7",
    "arithmetic_expression": "3+4",
    "evidence_pages": [1, 20],
}
MMLONGBENCH = {
    "doc_id": "report.pdf",
    "doc_type": "Research report",
    "question": "Which colours?",
    "answer": "['red', 'blue']",
    "evidence_pages": "[3, 0, 5]",
    "evidence_sources": "['Chart', 'Table']",
    "answer_format": "List",
}
MMDOCIR: dict[str, Any] = {
    "doc_name": "report",
    "domain": "News",
    "page_indices": [0, 9],
    "layout_indices": [0, 90],
    "questions": [
        {
            "Q": "Where?",
            "A": "Orla",
            "type": "['Figure']",
            "page_id": [0, 4],
            "layout_mapping": [{"page": 4, "page_size": [600, 800], "bbox": [60, 80, 300, 900]}],
        }
    ],
}
HOTPOTQA: dict[str, Any] = {
    "_id": "5a8b57f25542995d1e6f1371",
    "question": "Were both American?",
    "answer": "yes",
    "type": "comparison",
    "level": "hard",
    "supporting_facts": [["Scott Derrickson", 0], ["Ed Wood", 0]],
    "context": [["Ed Wood", ["He was …"]]],
}
SQUAD: dict[str, Any] = {
    "title": "Normandy",
    "paragraphs": [
        {
            "context": "The Normans …",
            "qas": [
                {"id": "1", "question": "Who?", "answers": [{"text": "Normans", "answer_start": 4}]},
                {"id": "2", "question": "Why?", "answers": [], "is_impossible": True},
            ],
        }
    ],
}
ROWS: dict[str, dict[str, Any]] = {
    "slidevqa": SLIDEVQA,
    "mmlongbench": MMLONGBENCH,
    "mmdocir": MMDOCIR,
    "hotpotqa": HOTPOTQA,
    "squad": SQUAD,
}


def read(path: Path, value: object, source: str | None = None) -> tuple[str, list[Case]]:
    """What a JSON file with this value is read as."""
    path.write_text(json.dumps(value), encoding="utf-8")
    found, cases = open_cases(path, source)
    return found.name, list(cases)
