"""ViDoRe v2 (arXiv 2505.17166): pages of collections for queries in four languages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vrag.evaluation.benchmark import Hub
from vrag.evaluation.sources.beir import BeirColumns, open_tables
from vrag.types import Case, GoldPage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from vrag.evaluation.benchmark import OpenBenchmark
    from vrag.evaluation.sources.beir import BeirQuery, BeirTables, RelevantPage

__all__ = ["ViDoReV2"]

COLUMNS = BeirColumns(query="query-id", page="corpus-id", document="doc-id", number="page-number")

HUB = Hub(
    repo="vidore/esg_reports_v2",
    files=("corpus/*", "queries/*", "qrels/*"),
    note="Also economics_reports_v2, biomedical_lectures_v2, esg_reports_human_labeled_v2 of vidore.",
)


@dataclass(frozen=True, slots=True)
class ViDoReV2:
    """One of its data sets in a folder, or several in folders beside one another.

    The split is the language of the queries; the set that people labelled is English and says no language.
    Where the corpus does not say which document a page is of, each page is a document. Answers stand beside
    the pages, several for a query: any is right.
    """

    name: str = "vidore_v2"
    title: str = "ViDoRe v2 (arXiv 2505.17166)"
    about: str = "pages of whole collections; four languages"
    licence: str = "MIT; the documents are their owners'"
    hub: Hub = HUB
    measures: tuple[str, ...] = ("ndcg@5",)

    def open(self, folder: Path, split: str | None = None) -> OpenBenchmark:
        """Finds the tables of each data set.

        Args:
            folder: Of one data set, or with several.
            split: A language, as `french`; `english` if None.

        Raises:
            CaseError: If a table is missing, or there are no queries in that language.
        """
        return open_tables(
            folder, split, name=self.name, strip="vidore_", columns=COLUMNS, hub=self.hub, make=_cases
        )


def _cases(
    tables: BeirTables, asked: Mapping[str, BeirQuery], answering: Mapping[str, Sequence[RelevantPage]]
) -> Iterator[Case]:
    for id, pages in answering.items():
        yield _case(asked[id], pages, tables)


def _case(query: BeirQuery, answering: Sequence[RelevantPage], tables: BeirTables) -> Case:
    answers = list(dict.fromkeys(text for one in answering if (text := _answer(one))))
    if not answers:
        tables.remarks.count("queries have no answer and count for retrieval only", f"query {query.id}")
    pages = [(tables.pages[one.page], one.relevance) for one in answering]
    return Case(
        uid=query.id,
        query=query.text,
        reference_answer=answers[0] if answers else "",
        file_name=pages[0][0].document,
        gold=tuple(GoldPage(page.document, page.number, relevance) for page, relevance in pages),
        alternatives=tuple(answers[1:]),
    )


def _answer(one: RelevantPage) -> str:
    answer = one.row.get("answer")
    return answer.strip() if isinstance(answer, str) else ""
