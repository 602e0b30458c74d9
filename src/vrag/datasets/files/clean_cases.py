"""Steps that all data sets have in common: read questions, give them uids, remove false gold."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count, islice
from typing import TYPE_CHECKING, Any

from vrag.cases.annotations import UNANSWERABLE
from vrag.cases.case_json import case_of
from vrag.datasets.files.lookup import blamed, check_name, objects
from vrag.errors import CaseError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from vrag.cases.rows import CaseFormat
    from vrag.types import Case

MAX_EXAMPLES = 5
"""Examples of each kind in a remark."""
FORM = (
    '{"query": "…", "reference_answer": "…", "meta_info": {"file_name": "report.pdf", "reference_page": [2]}}'
)
"""A question, as messages show it; its `uid` and `reference_page` may be left out."""


@dataclass(frozen=True, slots=True)
class Remarks:
    """Sentences about what was dropped or corrected while files are read; they are right at any moment."""

    notes: list[str] = field(default_factory=list[str])
    """The sentences, in the order of their first case: the `notes` of an open benchmark."""
    _examples: dict[str, tuple[int, dict[str, None]]] = field(
        default_factory=dict[str, tuple[int, dict[str, None]]]
    )
    """Index of the sentence in `notes`, and all its cases, by kind."""

    def say(self, sentence: str) -> None:
        """Add a sentence as it is, once."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def count(self, kind: str, example: str) -> None:
        """Count a case of a kind, once however often it is met.

        >>> remarks = Remarks()
        >>> for key in ("a", "b", "a"):
        ...     remarks.count("videos are missing", key)
        >>> remarks.notes
        ['Videos are missing (2): a, b.']
        """
        if kind not in self._examples:
            self._examples[kind] = (len(self.notes), {})
            self.notes.append("")
        index, examples = self._examples[kind]
        examples[example] = None
        named = ", ".join(f"{each:.80}" for each in islice(examples, MAX_EXAMPLES))
        more = ", …" if len(examples) > MAX_EXAMPLES else ""
        self.notes[index] = f"{kind[:1].upper()}{kind[1:]} ({len(examples):,}): {named}{more}."


def read_questions(
    paths: Sequence[Path], source: CaseFormat, *, own: bool = False
) -> Iterator[tuple[str, Mapping[str, Any], list[Case]]]:
    """Yield the rows of files of questions: the place of each in words, its fields, and its cases.

    With `own` they are the user's files: the format names a missing field, and nothing was downloaded. Raises
    `CaseError` if a file cannot be read, or a row is not as published; names the row.
    """
    number = -1
    for number, (where, row) in enumerate(objects(paths)):
        if not own and not source.fits(row):
            columns = ", ".join(row) or "none"
            raise CaseError(
                f"{where} is not a question of {source.name}; its columns: {columns:.200}.",
                "Is it a file of another data set?",
            )
        with blamed(where):
            fields = list(source.cases(row, number))
        cases = [case_of(case, where) for case in fields]
        for case in cases:
            regions = (region.document for region in case.regions if region.document)
            for name in (case.file_name, *(gold.document for gold in case.gold), *regions):
                check_name(name, where, own=own)
        yield where, row, cases
    if number < 0:
        hint = f"A question: {FORM}" if own else "Download it again; it may be cut short."
        raise CaseError(f"{paths[0]} holds no questions.", hint)


def take_in(cases: Iterable[Case], prefix: str, benchmark: str, remarks: Remarks) -> list[Case]:
    """Return the cases of a benchmark with distinct uids that begin with a prefix, and without false gold.

    A question without words is dropped, one that cannot be answered has no gold pages, and a box without an
    area is not a gold box. The prefix is the name of the benchmark, and of its split where several have the
    same uids.
    """

    def clean() -> Iterator[Case]:
        for case in cases:
            uid = case.uid if case.uid.startswith(f"{prefix}-") else f"{prefix}-{case.uid}"
            if not case.query.strip():
                remarks.count("questions are empty, and were dropped", case.uid)
                continue
            regions = tuple(region for region in case.regions if region.box.area > 0)
            pages, gold = case.reference_page, case.gold
            if case.reference_answer == UNANSWERABLE and (pages or case.regions or gold):
                remarks.count("questions that cannot be answered had gold pages, which were left out", uid)
                pages, regions, gold = (), (), ()
            elif len(regions) < len(case.regions):
                remarks.count("questions had gold boxes without an area, which were left out", uid)
            yield replace(
                case, uid=uid, benchmark=benchmark, reference_page=pages, regions=regions, gold=gold
            )

    return list(distinct_names(clean(), remarks))


def distinct_names(cases: Iterable[Case], remarks: Remarks) -> Iterator[Case]:
    """Yield cases whose uids differ: a repeated case comes once, another case with its uid gets a new one."""
    seen: dict[str, Case] = {}
    for case in cases:
        if seen.get(case.uid) == case:
            remarks.count("questions are there twice and were taken once", case.uid)
            continue
        uid = case.uid
        if uid in seen:
            remarks.count("questions had the id of another, to which a number was added", uid)
            uid = next(free for n in count(2) if (free := f"{case.uid}-{n}") not in seen)
        seen[uid] = case
        yield replace(case, uid=uid)


def gold_by_document(cases: Iterable[Case]) -> dict[str, set[int]]:
    """Return gold pages by document, in the order in which cases name documents; none of one without any."""
    found: dict[str, set[int]] = {}
    for case in cases:
        found.setdefault(case.file_name, set()).update(() if case.gold else case.reference_page)
        for gold in case.gold:
            found.setdefault(gold.document, set()).update(() if gold.page is None else (gold.page,))
    return found


def one_split(split: str | None, *known: str) -> str:
    """Return the split that is asked for, the first known one if None; an error if there is no such split."""
    if split is None or split in known:
        return split or known[0]
    raise CaseError(f"There is no split {split!r:.40}.", f"There are: {', '.join(known)}.")
