"""Verification of a collection, and its repair."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from vrag.errors import CollectionBusy, CollectionError, VragError
from vrag.index.collection import Collection
from vrag.index.integrity.inspection import Inspection, check_journal
from vrag.index.integrity.problems import ProblemKind, VerifyProblem, VerifyReport
from vrag.index.integrity.repair import Repair, can_remake
from vrag.index.location import COPIES, FILE_NAME, CollectionHeader, LocalLocation
from vrag.index.tables.file_records import journal_path, read_table_records
from vrag.index.tables.version_files import TABLES
from vrag.scratch import scratch_directory
from vrag.types import DocumentStatus

if TYPE_CHECKING:
    from vrag.index.integrity.problems import Progress

Reindex: TypeAlias = Callable[[Collection, Sequence[Path]], object]
"""A function that adds files to a collection again, so that items of theirs which are missing are made."""
PrepareReindex: TypeAlias = Callable[[Collection], Reindex]
"""A function that loads what `Reindex` needs, such as the embedder, and returns it."""
_ATTEMPTS = 5
"""Inspections without the lock, of which one has to see the same tables from its beginning to its end."""


def open_damaged(directory: Path, *, wait: float = 0.0, durable: bool = True) -> Collection:
    """Open the collection in a directory like `Collection.open`; the copy of its header may be the sound one.

    What was interrupted is left to `verify`, which reports it. Raises `CollectionError` if there is none.
    """
    try:
        header = CollectionHeader.read(directory) or _read_copy(directory)
    except CollectionError:
        header = _read_copy(directory)
    if header is None:
        return Collection.open(directory, wait=wait, durable=durable)  # which says what is wrong
    return Collection(LocalLocation(directory, wait, durable=durable), header)


def _read_copy(directory: Path) -> CollectionHeader | None:
    path = directory / COPIES / FILE_NAME
    try:
        return CollectionHeader.parse(path.read_bytes().decode("utf-8", "replace"), str(path))
    except (OSError, CollectionError):
        return None


def verify(
    collection: Collection,
    *,
    repair: bool = False,
    prepare: PrepareReindex | None = None,
    progress: Progress | None = None,
) -> VerifyReport:
    """Check every byte of a collection on this machine, except for its runs.

    With `repair`, damage is repaired as `vrag.index.integrity.repair` describes; with `prepare` deleted items
    are made again at once, otherwise the next `add` does. Where the collection cannot be locked because
    nothing can be written there, it is checked without the lock. Raises `CollectionBusy` while another
    process is writing, or changes what is checked without the lock: what it has begun is not damage. What
    `prepare` raises ends the repair before rows change.
    """
    if collection.home is None:
        from vrag.index.remote.remote_collection import read_only

        raise read_only(collection.address)
    inspect, interrupted = _inspect, list[VerifyProblem]()
    with ExitStack() as stack:
        try:
            stack.enter_context(collection.location.lock())
        except CollectionError as error:
            if repair or isinstance(error, CollectionBusy):
                raise
            inspect = _inspect_unlocked
        else:
            interrupted = _end_interrupted(collection, repaired=repair)
        scratch = stack.enter_context(scratch_directory())
        before = inspect(collection, scratch, progress)
        problems = _problems(before)
        if not repair or not problems:
            return _report(before, [*interrupted, *problems], repaired=False)
        if Repair.restore_bytes(before):
            before = _inspect(collection, scratch, progress)
        repairing = Repair(collection, before, scratch)
        is_known = can_remake(collection)
        reindex = prepare(collection) if prepare and is_known and before.is_damaged else None
        repairing.run(can_remake=is_known)
    failure = _make_items_again(collection, repairing, reindex)
    report = _verify_repair(collection, problems, repairing, failure, progress)
    return replace(report, problems=(*interrupted, *report.problems))


def _make_items_again(collection: Collection, repair: Repair, reindex: Reindex | None) -> str:
    """Make items again; return what went wrong, in a sentence."""
    if reindex is None or not repair.begun:
        return ""
    try:
        reindex(collection, repair.begun)
    except (VragError, OSError) as error:
        reason = error.message if isinstance(error, VragError) else f"{error}."
        return f"Some items could not be made again: {reason}"
    return ""


def _verify_repair(
    collection: Collection,
    problems: list[VerifyProblem],
    repair: Repair,
    failure: str,
    progress: Progress | None,
) -> VerifyReport:
    """Inspect again, and mark the problems that are gone as repaired or deleted."""
    with collection.location.lock(), scratch_directory() as scratch:
        after = _inspect(Collection(collection.location, collection.header), scratch, progress)
    left = _problems(after)
    remaining = {(problem.subject, problem.detail) for problem in left}
    found: list[VerifyProblem] = []
    for problem in problems:
        is_gone = (problem.subject, problem.detail) not in remaining and problem.item not in repair.kept
        is_gone &= bool(problem.item) or problem.document not in repair.short
        found.append(replace(problem, repaired=is_gone, deleted=is_gone and _is_deleted(problem, after)))
    known = {(problem.subject, problem.detail) for problem in problems}
    found += [problem for problem in left if (problem.subject, problem.detail) not in known]
    for document, reason in repair.lost.items():
        advice = "Add the file again, or remove the document."
        found.append(VerifyProblem(document, after.names.get(document, document[:16]), reason, advice=advice))
    if failure:
        found.append(VerifyProblem("", collection.address, failure, advice="Run: vrag index add"))
    return _report(after, found, repaired=True)


def _end_interrupted(collection: Collection, *, repaired: bool) -> list[VerifyProblem]:
    """Undo what was interrupted, if anything; return what that changed. The caller holds the lock."""
    found: list[VerifyProblem] = []
    if collection.is_interrupted:
        for name in TABLES:
            table = collection.directory / COPIES / f"{name}.lance"
            found += check_journal(f"{COPIES}/{journal_path(table).name}", read_table_records(table))
        with suppress(CollectionError):  # what cannot be undone is found by the inspection
            collection.undo_interrupted()
    if collection.undone is not None:
        detail, advice = "An interrupted commit was undone.", "Run the same `vrag index add` again."
        if collection.undone:
            count = "1 document is" if collection.undone == 1 else f"{collection.undone} documents are"
            detail = f"An interrupted commit was undone: {count} no longer complete."
            advice = "The next `vrag index add` reads what is missing."
        found.append(VerifyProblem("", COPIES, detail, ProblemKind.LEFTOVER, advice=advice))
    return [replace(problem, repaired=repaired) for problem in found]


def _is_deleted(problem: VerifyProblem, after: Inspection) -> bool:
    """Return whether what a problem was about is not there after the repair, nor made again."""
    if problem.item:
        documents = (entry.document for entry in after.known.values())
        ready = {document.id for document in documents if document.status is DocumentStatus.READY}
        return problem.item not in after.item_counts and problem.document not in ready
    if problem.document:
        is_named = problem.kind is ProblemKind.DAMAGE and problem.subject in after.names.values()
        return not after.counts[problem.document] and not is_named
    is_own_file = problem.file.startswith(("items/", "cache/"))
    return is_own_file and not (after.home / problem.file).exists()


def _inspect(collection: Collection, scratch: Path, progress: Progress | None) -> Inspection:
    """Inspect a collection; a table of a copy says nothing about the table."""
    for table in (collection.item_table, collection.file_table):
        table.reopen()
    inspection = Inspection(collection, scratch, progress)
    inspection.run()
    return inspection


def _inspect_unlocked(collection: Collection, scratch: Path, progress: Progress | None) -> Inspection:
    """Inspect a collection that somebody may be writing to, until nothing changed meanwhile."""
    for _ in range(_ATTEMPTS):
        stamp = Inspection(collection, scratch).stamp()
        inspection = _inspect(collection, scratch, progress)
        if not inspection.problems or inspection.stamp() == stamp:
            return inspection
    raise CollectionBusy(
        f"Another process changed {collection.address} while it was checked.",
        "Run the command again when less is written.",
    )


def _problems(inspection: Inspection) -> list[VerifyProblem]:
    problems = inspection.problems
    if inspection.unprotected:
        detail = f"{inspection.unprotected} rows have no checksums."
        problems.append(VerifyProblem("", COPIES, detail, ProblemKind.UNPROTECTED, COPIES))
    return problems


def _report(inspection: Inspection, problems: list[VerifyProblem], *, repaired: bool) -> VerifyReport:
    return VerifyReport(
        files=len(inspection.known) + len(inspection.damaged_files),
        items=inspection.items,
        pictures=inspection.pictures,
        problems=tuple(problems),
        repaired=repaired,
    )
