"""The questions of `vrag eval run`: a prepared benchmark, or a file of questions about a collection."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from vrag.cli.indexing import index_documents
from vrag.cli.terminal.console import warn
from vrag.cli.terminal.inputs import read_questions, warn_missing_documents
from vrag.errors import CaseError
from vrag.render.text_format import count

if TYPE_CHECKING:
    from vrag.evaluation.prepare import Prepared, PreparedPart
    from vrag.factory import Session
    from vrag.settings import SettingsReport
    from vrag.types import Case


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionSource:
    """Questions with their answers, and their documents."""

    cases: tuple[Case, ...]
    parts: tuple[PreparedPart, ...]
    """The benchmarks of the questions."""
    digest: str
    """SHA-256 of their file."""
    documents: Path | None
    """Folder of their documents, to be indexed; None if a collection has them."""

    def collection_settings(self, named: Sequence[str]) -> dict[str, Any]:
        """Return the settings that name the collections: those of the user, or the benchmark's own."""
        if self.documents is None:
            return {"collections": tuple(named) or None}
        if len(named) > 1:
            message = "A benchmark is indexed into one collection. Name only one."
            raise typer.BadParameter(message, param_hint="--collection")
        return {"collection": named[0] if named else str(self.documents.parent / "collection")}

    def open_session(self, report: SettingsReport) -> Session:
        """Open what searches the documents; index those of a benchmark first, unless a server has them."""
        from vrag.factory import open_session

        if self.documents is None or report.settings.search_url:
            session = open_session(report.settings)
        else:
            session = index_documents(report, [self.documents]).session
            names = {path.name for path in self.documents.iterdir()}
            others = sum(each.items > 0 and each.name not in names for each in session.documents)
            if others:
                warn(f"The search also covers {count(others, 'document')} that no question is about.")
        warn_missing_documents(self.cases, session.documents)
        return session


def open_questions(path: Path, limit: int | None) -> QuestionSource:
    """Read the first `limit` questions of a prepared folder, or of a file.

    Raises:
        CaseError: If they cannot be read.
    """
    from vrag.evaluation.prepare import CASES, PreparedPart

    if path.is_file():
        cases, file, documents = tuple(read_questions(path, limit)), path, None
        part = PreparedPart(
            name="",
            title=path.name,
            licence="",
            source=str(path),
            split=None,
            cases=len(cases),
            documents=len({case.file_name for case in cases}),
            measures=(),
            notes=(),
        )
        parts: tuple[PreparedPart, ...] = (part,)
    else:
        prepared = open_prepared(path)
        cases, file, documents = tuple(prepared.cases()[:limit]), path / CASES, prepared.documents
        parts = prepared.parts
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return QuestionSource(cases=cases, parts=parts, digest=digest, documents=documents)


def open_prepared(path: Path) -> Prepared:
    """Read the benchmark of a prepared folder.

    Raises:
        CaseError: If it is not one: the user may have meant a file, or a folder of their own.
    """
    from vrag.evaluation.prepare import ABOUT, LOCK, read_prepared

    if not path.exists():
        hint = "Name a folder made by `vrag eval prepare`, or a file of questions."
        raise CaseError(f"{path} does not exist.", hint)
    if not any((path / name).exists() for name in (ABOUT, LOCK)):
        hint = f"Prepare it: vrag eval prepare dataset={path} --out PREPARED"
        raise CaseError(f"{path} is not a prepared benchmark.", hint)
    return read_prepared(path)
