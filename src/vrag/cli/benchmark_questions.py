"""What `vrag eval run` is asked to ask: a prepared benchmark, or a file of questions about a collection."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from vrag.cli.display import add_progress, tell_report, warn
from vrag.cli.paths import tell_absent
from vrag.cli.questions import read_questions
from vrag.errors import CaseError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.assemble import Workbench
    from vrag.evaluation.preparing import Part, Prepared
    from vrag.settings import SettingsReport
    from vrag.types import Case

__all__ = ["Questions", "prepared_at", "questions_at"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """Questions with their answers, and where the documents are."""

    cases: tuple[Case, ...]
    parts: tuple[Part, ...]
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

    def bench(self, report: SettingsReport) -> Workbench:
        """What searches their documents; those of a benchmark are indexed first, if no server has them."""
        if self.documents is None or report.settings.search_url:
            return _opened(report, self.cases)
        return _indexed(report, self.documents)


def questions_at(path: Path, limit: int | None) -> Questions:
    """The questions of a prepared folder, or of a file.

    Args:
        path: Of either.
        limit: How many of the first are asked; None for all.

    Raises:
        CaseError: If they cannot be read.
    """
    from vrag.evaluation.preparing import CASES

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
    from vrag.evaluation.preparing import ABOUT, LOCK, read_prepared

    if not path.exists():
        hint = "Name a folder of `vrag eval prepare`, or a file of questions."
        raise CaseError(f"{path} does not exist.", hint)
    if not any((path / name).exists() for name in (ABOUT, LOCK)):
        hint = f"Prepare it: vrag eval prepare dataset={path} --out PREPARED"
        raise CaseError(f"{path} is no prepared benchmark.", hint)
    return read_prepared(path)


def _file(path: Path, limit: int | None) -> Questions:
    from vrag.evaluation.preparing import Part

    cases = tuple(read_questions(path, limit))
    part = Part(
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


def _opened(report: SettingsReport, cases: Sequence[Case]) -> Workbench:
    from vrag.assemble import open_workbench

    bench = open_workbench(report.settings)
    tell_absent(cases, bench.documents)
    return bench


def _indexed(report: SettingsReport, documents: Path) -> Workbench:
    from vrag.assemble import open_for_adding, open_workbench
    from vrag.index.build import add

    opened, options, model = open_for_adding(report)
    with add_progress() as progress:
        done = add(opened, [documents], options, embedder=model, progress=progress)
    tell_report(done, quiet_when_unchanged=True)
    bench = open_workbench(report.settings, model)
    if others := _others(bench, documents):
        warn(f"{others} documents of the collection are of no question here, and are searched as well.")
    return bench


def _others(bench: Workbench, documents: Path) -> int:
    """How many documents that can be found are not of the benchmark, such as those of an earlier one."""
    names = {path.name for path in documents.iterdir()}
    return sum(document.items > 0 and document.name not in names for document in bench.documents)
