"""A synthetic corpus on disk: documents/*.pdf, train.json, held_out.json, and a mark of whose it is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from vrag.cases import write_cases
from vrag.errors import CaseError

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from vrag.synthesis.corpus import Corpus

__all__ = ["write"]

MARK = "synthesis.json"
"""Written first: it says that what stands in the folder was made and may be made anew."""


def write(corpus: Corpus, folder: Path) -> None:
    """Writes a corpus; the documents of a former one are removed.

    Raises:
        CaseError: If the folder was not made here and is not empty, documents of others stand among its own,
            or it cannot be written.
    """
    papers = folder / "documents"
    try:
        former = _former(folder)
        papers.mkdir(parents=True, exist_ok=True)
        _mark(folder, former | corpus.documents.keys())
        for name in former - corpus.documents.keys():
            (papers / name).unlink(missing_ok=True)
        for name, data in corpus.documents.items():
            (papers / name).write_bytes(data)
        _mark(folder, corpus.documents.keys())
    except OSError as error:
        raise CaseError(f"{folder} cannot be written: {error.strerror or error}.") from error
    write_cases(folder / "train.json", corpus.train)
    write_cases(folder / "held_out.json", corpus.held_out)


def _mark(folder: Path, documents: AbstractSet[str]) -> None:
    """Says which documents were made here, or are about to be."""
    text = json.dumps({"documents": sorted(documents)}, indent=1)
    (folder / MARK).write_text(f"{text}\n", encoding="utf-8")


def _former(folder: Path) -> set[str]:
    """Documents of a former run that stand in the folder; none where it is new.

    Raises:
        CaseError: If no former run made the folder, or its documents hold what none wrote.
    """
    if not folder.exists() or not any(folder.iterdir()):
        return set()
    if not (folder / MARK).is_file():
        raise CaseError(f"{folder} is not empty.", "Name a new folder.")
    made = _marked(folder)
    standing = {path.name for path in (folder / "documents").glob("*")}
    if strange := sorted(standing - made):
        where = folder / "documents" / strange[0]
        raise CaseError(f"{where} was not made by `vrag data synthesize`.", "Name a new folder.")
    return standing


def _marked(folder: Path) -> set[str]:
    """Names of the documents that a former run wrote.

    Raises:
        CaseError: If its mark cannot be read.
    """
    try:
        value = json.loads((folder / MARK).read_text(encoding="utf-8"))
        return set(map(str, value["documents"]))
    except (ValueError, KeyError, TypeError) as error:
        raise CaseError(f"{folder / MARK} is damaged.", "Name a new folder.") from error
