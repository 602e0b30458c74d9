"""MMLongBench-Doc (arXiv 2407.01523): questions about long PDFs, a fifth of which cannot be answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vrag.cases import SOURCES
from vrag.cases.case_format import UNANSWERABLE, literal_list
from vrag.evaluation.benchmark import Hub, OpenBenchmark
from vrag.evaluation.sources.clean_cases import gold_by_document, one_split, read_questions, take_in
from vrag.evaluation.sources.file_lookup import filed, find_documents, need_all
from vrag.evaluation.sources.load_report import Remarks
from vrag.evaluation.sources.source_files import find_all, missing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from vrag.types import Case

__all__ = ["MMLongBench"]

EDITIONS = {1_091: "the first edition, as on the hub", 1_082: "the edition of the paper"}
"""By their number of questions: the authors took nine out, in the repository and not on the hub."""

HUB = Hub(
    repo="yubo2333/MMLongBench-Doc",
    files=("data/*.parquet", "documents/*.pdf"),
    note="data/samples.json of github.com/mayubo2333/MMLongBench-Doc is the later edition: 1,082 questions.",
)


@dataclass(frozen=True, slots=True)
class MMLongBench:
    """`samples.json` of the repository or the parquet of the hub, beside `documents/`.

    Results are reported on its only split. Of the PDFs, those that a question names are taken: the folder of
    the hub has others of no use.
    """

    name: str = "mmlongbench"
    title: str = "MMLongBench-Doc (arXiv 2407.01523)"
    about: str = "long PDFs: evidence across pages, unanswerable questions"
    licence: str = "CC BY-NC 4.0, for research; the documents are their owners'"
    hub: Hub = HUB
    measures: tuple[str, ...] = ("mmlongbench", "mmlongbench/f1")

    def open(self, folder: Path, split: str | None = None) -> OpenBenchmark:
        """Finds questions and PDFs.

        Raises:
            CaseError: If one is missing, or a row is not as published.
        """
        one_split(split, "test", "train")  # so it is called on the hub
        paths = find_all(folder, "samples.json", "train-*.parquet")
        if not paths:
            raise missing(folder, "samples.json or train-00000-of-00001.parquet", self.hub)
        remarks = Remarks()
        cases = take_in(_read(paths[:1], remarks), self.name, self.name, remarks)
        remarks.say(f"{len(cases):,} questions: {EDITIONS.get(len(cases), 'no edition of the authors')}.")
        wanted = gold_by_document(cases)
        files = find_documents(folder, wanted)
        need_all(wanted, files, folder, self.hub)
        if unused := files.without(wanted):
            remarks.say(f"{len(unused):,} PDFs that no question names were left out.")
        return OpenBenchmark(cases, filed(wanted, files), remarks.notes)


def _read(paths: list[Path], remarks: Remarks) -> Iterator[Case]:
    for where, row, cases in read_questions(paths, SOURCES["mmlongbench"]):
        _note(row, where.rsplit(", ", 1)[-1], remarks)
        yield from cases


def _note(row: Mapping[str, Any], where: str, remarks: Remarks) -> None:
    pages = literal_list(row, "evidence_pages")
    if 0 in pages:
        remarks.count("questions had a gold page 0, which does not exist and was left out", where)
    if row.get("answer") == UNANSWERABLE and any(pages):
        remarks.count("questions that cannot be answered had gold pages, which were left out", where)
    if row.get("answer") != UNANSWERABLE and not any(pages):
        remarks.count("questions with an answer have no gold page and count for answers only", where)
