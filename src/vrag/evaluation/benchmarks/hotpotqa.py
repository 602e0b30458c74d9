"""HotpotQA (arXiv 1809.09600): questions that take paragraphs of two Wikipedia articles to answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from vrag.cases import case_of
from vrag.cases.case_format import any_list
from vrag.cases.formats.hotpotqa import HotpotQa as Rows
from vrag.errors import CaseError
from vrag.evaluation.benchmark import Hub, OpenBenchmark
from vrag.evaluation.sources.load_report import Remarks
from vrag.evaluation.sources.passages import ParagraphDocument, distinct, title_in_name
from vrag.evaluation.sources.source_files import blamed, choose_split, distinct_names, objects
from vrag.types import GoldPage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from vrag.evaluation.benchmark import DocumentSource
    from vrag.types import Case

__all__ = ["HotpotQA"]

SPLITS = {
    "distractor": (
        "hotpot_dev_distractor_v1.json",
        "distractor/validation-*.parquet",
        "distractor/validation/*.parquet",
    ),
    "fullwiki": (
        "hotpot_dev_fullwiki_v1.json",
        "fullwiki/validation-*.parquet",
        "fullwiki/validation/*.parquet",
    ),
    "train": ("hotpot_train_v1.1.json", "distractor/train-*.parquet", "distractor/train/*.parquet"),
}

HUB = Hub(
    repo="hotpotqa/hotpot_qa",
    files=("distractor/validation-*.parquet", "fullwiki/validation-*.parquet"),
    splits=("distractor", "fullwiki"),
    note="Or hotpot_dev_distractor_v1.json of https://hotpotqa.github.io.",
)


@dataclass(frozen=True, slots=True)
class HotpotQA:
    """The development set, of the published JSON or the hub's parquet; the test set has no answers.

    Its collection is made of the paragraphs that come with the questions, each once, and is searched as a
    whole. That is harder than the ten paragraphs of a question (distractor), and easier than Wikipedia
    (fullwiki, in which gold paragraphs may be missing: these count as not found).

    Gold are paragraphs, not the sentences in them: the measures of supporting facts and the joint ones have
    paragraphs in the place of sentences, and another name; see `vrag.evaluation.measures.citations`.
    """

    name: str = "hotpotqa"
    title: str = "HotpotQA (arXiv 1809.09600)"
    about: str = "questions over paragraphs of two Wikipedia articles"
    licence: str = "CC BY-SA 4.0"
    hub: Hub = HUB
    measures: tuple[str, ...] = (
        "hotpotqa/f1",
        "em",
        "cited_f1",
        "hotpotqa/joint_paragraph_f1",
        "document_recall@10",
    )

    def open(self, folder: Path, split: str | None = None) -> OpenBenchmark:
        """Finds the files.

        Args:
            folder: Where they are.
            split: `distractor`, `fullwiki` or `train`; None for the first of them that is there.

        Raises:
            CaseError: If they are missing; while reading, if a row is not as published.
        """
        chosen, paths = choose_split(folder, SPLITS, split, self.hub)
        remarks = Remarks()
        if split is None and chosen != "distractor":
            remarks.say(f"The questions are those of {chosen}.")
        cases = distinct_names(_cases(paths, remarks), remarks)
        return OpenBenchmark(cases, _documents(paths), remarks.notes)


def _documents(paths: Sequence[Path]) -> Iterator[DocumentSource]:
    return distinct(passage for where, row in objects(paths) for passage in _context(row, where))


def _cases(paths: Sequence[Path], remarks: Remarks) -> Iterator[Case]:
    anywhere = _by_title(paths)
    for number, (where, row) in enumerate(objects(paths)):
        with blamed(where):
            (fields,) = Rows().cases(row, number)
        case = case_of(fields, where)
        here = {passage.title: passage.name for passage in _context(row, where) if not passage.empty}
        gold: list[GoldPage] = []
        for title in (named.document for named in case.gold):
            name = here.get(title) or anywhere.get(title)
            if name is None:
                remarks.count("gold paragraphs come with no question and cannot be found", title)
            gold.append(GoldPage(name or f"{title_in_name(title)}.md"))
        kind = row.get("type")
        yield replace(
            case,
            uid=f"hotpotqa-{case.uid}",
            file_name=gold[0].document,
            gold=tuple(gold),
            query_type=kind if isinstance(kind, str) and kind else case.query_type,
            benchmark="hotpotqa",
        )


def _by_title(paths: Sequence[Path]) -> dict[str, str]:
    """Names of all paragraphs by their titles; of two with one title, the first one's."""
    found: dict[str, str] = {}
    for where, row in objects(paths):
        for passage in _context(row, where):
            if not passage.empty:
                found.setdefault(passage.title, passage.name)
    return found


def _context(row: Mapping[str, Any], where: str) -> Iterator[ParagraphDocument]:
    """The paragraphs that come with a question. Sentences bring their blanks along, and are only joined.

    Raises:
        CaseError: If they are neither pairs of title and sentences, nor a column of each.
    """
    context = row.get("context")
    if isinstance(context, dict):
        columns = cast("dict[str, Any]", context)
        titles, texts = any_list(columns.get("title")), any_list(columns.get("sentences"))
        pairs = [*zip(titles, texts, strict=False)] if len(titles) == len(texts) else [()]
    else:
        pairs = [tuple(any_list(pair)) for pair in any_list(context)]
    for pair in pairs or [()]:
        title, sentences = pair if len(pair) == 2 else (None, None)
        parts = any_list(sentences)
        if not isinstance(title, str) or not all(isinstance(part, str) for part in parts):
            raise CaseError(
                f"{where}: 'context' is not made of titles and sentences.",
                "Take the file as it was published.",
            )
        yield ParagraphDocument(title, "".join(parts))
