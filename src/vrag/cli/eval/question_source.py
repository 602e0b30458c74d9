"""What `vrag eval run` is asked to ask: a prepared benchmark, or a file of questions about a collection."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from vrag.cli.terminal.console import add_progress, tell_report, warn
from vrag.cli.terminal.paths import tell_absent
from vrag.cli.terminal.questions import read_questions
from vrag.errors import CaseError
from vrag.render.text_format import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.embed.embedder import Embedder
    from vrag.evaluation.prepare import Prepared, PreparedPart
    from vrag.factory import Session
    from vrag.settings import SettingsReport
    from vrag.types import Case, Document

__all__ = ["Indexed", "Questions", "index_documents", "prepared_at", "questions_at"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """Questions with their answers, and where the documents are."""

    cases: tuple[Case, ...]
    parts: tuple[PreparedPart, ...]
    """The benchmarks that they are of."""
    digest: str
    """SHA-256 of their file."""
    documents: Path | None
    """Folder of their documents, to be indexed; None where a collection has them."""

    def places(self, named: Sequence[str]) -> dict[str, Any]:
        """Settings of where their documents are searched.

        Args:
            named: Collections that somebody named; a benchmark has one of its own.
        """
        if self.documents is None:
            return {"collections": tuple(named) or None}
        if len(named) > 1:
            raise typer.BadParameter("A benchmark is indexed into one collection.", param_hint="--collection")
        return {"collection": named[0] if named else str(self.documents.parent / "collection")}

    def session(self, report: SettingsReport) -> Session:
        """What searches their documents; those of a benchmark are indexed first, if no server has them."""
        from vrag.factory import open_session

        if self.documents is None or report.settings.search_url:
            session = open_session(report.settings)
        else:
            session = index_documents(report, [self.documents]).session
            _tell_others(session, self.documents)
        tell_absent(self.cases, session.documents)
        return session


def questions_at(path: Path, limit: int | None) -> Questions:
    """The questions of a prepared folder, or of a file.

    Args:
        path: Of either.
        limit: How many of the first are asked; None for all.

    Raises:
        CaseError: If they cannot be read.
    """
    from vrag.evaluation.prepare import CASES

    if path.is_file():
        return _file(path, limit)
    prepared = prepared_at(path)
    return Questions(
        cases=tuple(prepared.cases()[:limit]),
        parts=prepared.parts,
        digest=_digest(path / CASES),
        documents=prepared.documents,
    )


def prepared_at(path: Path) -> Prepared:
    """The benchmark of a prepared folder.

    Args:
        path: As somebody named it, who may have meant a file, or a folder of their own.

    Raises:
        CaseError: If it is none.
    """
    from vrag.evaluation.prepare import ABOUT, LOCK, read_prepared

    if not path.exists():
        hint = "Name a folder of `vrag eval prepare`, or a file of questions."
        raise CaseError(f"{path} does not exist.", hint)
    if not any((path / name).exists() for name in (ABOUT, LOCK)):
        hint = f"Prepare it: vrag eval prepare dataset={path} --out PREPARED"
        raise CaseError(f"{path} is no prepared benchmark.", hint)
    return read_prepared(path)


def _file(path: Path, limit: int | None) -> Questions:
    from vrag.evaluation.prepare import PreparedPart

    cases = tuple(read_questions(path, limit))
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
    return Questions(cases=cases, parts=(part,), digest=_digest(path), documents=None)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Indexed(NamedTuple):
    """Documents that can be searched."""

    session: Session
    documents: list[Document]
    """Those that were named; the collection may hold others."""
    embedder: Embedder | None
    """What made their vectors; None where words alone are searched."""


def index_documents(report: SettingsReport, paths: Sequence[Path]) -> Indexed:
    """Indexes what is new under some paths.

    Raises:
        CorpusError: If nothing could be read.
    """
    from vrag.factory import indexing, open_session

    print_added = partial(tell_report, quiet_when_unchanged=True)
    with add_progress() as progress:
        indexed = indexing.index_documents(report, paths, progress=progress, on_added=print_added)
    session = open_session(report.settings.model_copy(update={"collections": ()}), indexed.embedder)
    return Indexed(session, indexed.documents, indexed.embedder)


def _tell_others(session: Session, documents: Path) -> None:
    """Print how many documents of the collection are not of the benchmark."""
    names = {path.name for path in documents.iterdir()}
    others = sum(document.items > 0 and document.name not in names for document in session.documents)
    if others:
        warn(f"The search also covers {count(others, 'document')} that no question is about.")
