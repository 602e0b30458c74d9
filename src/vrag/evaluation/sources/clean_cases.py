"""What loaders do to all questions: read them, give them uids, and take away what is no gold."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vrag.cases import UNANSWERABLE, case_of
from vrag.cases.formats.dataset import FORM
from vrag.errors import CaseError
from vrag.evaluation.sources.file_lookup import check_name
from vrag.evaluation.sources.source_files import blamed, distinct_names, objects

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from vrag.cases import CaseFormat
    from vrag.evaluation.sources.load_report import Remarks
    from vrag.types import Case

__all__ = ["gold_by_document", "one_split", "read_questions", "take_in"]


def read_questions(
    paths: Sequence[Path], source: CaseFormat, *, own: bool = False
) -> Iterator[tuple[str, Mapping[str, Any], list[Case]]]:
    """The rows of files of questions: the place of each in words, what it holds, and its cases.

    Args:
        paths: The files.
        source: Which kind of rows they hold.
        own: They are somebody's own: the source says itself what a row lacks, and nothing was downloaded.

    Raises:
        CaseError: If a file cannot be read, or a row is not as published; names the row.
    """
    number = -1
    for number, (where, row) in enumerate(objects(paths)):
        if not own and not source.fits(row):
            columns = ", ".join(row) or "none"
            raise CaseError(
                f"{where} is no question of {source.name}; its columns: {columns:.200}.",
                "Is it a file of another data set?",
            )
        with blamed(where):
            made = list(source.cases(row, number))
        yield where, row, [_checked(case_of(each, where), where, own=own) for each in made]
    if number < 0:
        hint = f"A question: {FORM}" if own else "Download it again; it may be cut short."
        raise CaseError(f"{paths[0]} holds no questions.", hint)


def _checked(case: Case, where: str, *, own: bool) -> Case:
    check_name(case.file_name, where, own=own)
    for gold in case.gold:
        check_name(gold.document, where, own=own)
    for region in case.regions:
        if region.document:
            check_name(region.document, where, own=own)
    return case


def take_in(cases: Iterable[Case], prefix: str, benchmark: str, remarks: Remarks) -> list[Case]:
    """Cases of a benchmark: their uids begin with a prefix and differ, and what is no gold is gone.

    A question without words is dropped, one that cannot be answered has no gold pages, and a box without an
    area is no gold box.

    Args:
        cases: As they were read.
        prefix: The name of the benchmark, and of its split where several have the same uids.
        benchmark: Its name.
        remarks: Are told what was dropped or mended.
    """
    named = (
        replace(case, uid=_begun(case.uid, prefix), benchmark=benchmark)
        for case in cases
        if _asks(case, remarks)
    )
    return list(distinct_names((_without_false_gold(case, remarks) for case in named), remarks))


def _asks(case: Case, remarks: Remarks) -> bool:
    """Whether there are words in the question."""
    if case.query.strip():
        return True
    remarks.count("questions are empty, and were dropped", case.uid)
    return False


def _begun(uid: str, prefix: str) -> str:
    return uid if uid.startswith(f"{prefix}-") else f"{prefix}-{uid}"


def _without_false_gold(case: Case, remarks: Remarks) -> Case:
    if case.reference_answer == UNANSWERABLE and (case.reference_page or case.regions or case.gold):
        remarks.count("questions that cannot be answered had gold pages, which were left out", case.uid)
        return replace(case, reference_page=(), regions=(), gold=())
    regions = tuple(region for region in case.regions if region.box.area > 0)
    if len(regions) < len(case.regions):
        remarks.count("questions had gold boxes without an area, which were left out", case.uid)
    return replace(case, regions=regions)


def gold_by_document(cases: Iterable[Case]) -> dict[str, set[int]]:
    """Gold pages by document, in the order in which cases name documents; none of one without any."""
    found: dict[str, set[int]] = {}
    for case in cases:
        found.setdefault(case.file_name, set()).update(() if case.gold else case.reference_page)
        for gold in case.gold:
            found.setdefault(gold.document, set()).update(() if gold.page is None else (gold.page,))
    return found


def one_split(split: str | None, *known: str) -> str:
    """The split that is asked for; the first one if none is.

    Raises:
        CaseError: If there is no such split.
    """
    if split is None or split in known:
        return split or known[0]
    raise CaseError(f"There is no split {split!r:.40}.", f"There are: {', '.join(known)}.")
