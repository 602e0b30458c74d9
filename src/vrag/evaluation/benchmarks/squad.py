"""SQuAD (arXiv 1606.05250, 1806.03822): questions about paragraphs of Wikipedia, some without an answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

from vrag.cases import UNANSWERABLE, case_of
from vrag.cases.case_format import plain_list, text_of
from vrag.cases.formats.squad import Squad as Rows
from vrag.errors import CaseError
from vrag.evaluation.benchmark import Hub, OpenBenchmark
from vrag.evaluation.sources.load_report import Remarks
from vrag.evaluation.sources.passages import ParagraphDocument, distinct
from vrag.evaluation.sources.source_files import blamed, choose_split, distinct_names, objects
from vrag.types import AnswerFormat, GoldPage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from vrag.types import Case

__all__ = ["SQuAD"]

SPLITS = {
    "dev-v2.0": ("dev-v2.0.json", "squad_v2/validation-*.parquet", "squad_v2/validation/*.parquet"),
    "dev-v1.1": ("dev-v1.1.json", "plain_text/validation-*.parquet", "plain_text/validation/*.parquet"),
    "train-v2.0": ("train-v2.0.json", "squad_v2/train-*.parquet", "squad_v2/train/*.parquet"),
    "train-v1.1": ("train-v1.1.json", "plain_text/train-*.parquet", "plain_text/train/*.parquet"),
}

HUB = Hub(
    repo="rajpurkar/squad_v2",
    files=("squad_v2/validation-*.parquet",),
    splits=("dev-v2.0",),
    note="Or dev-v2.0.json of https://rajpurkar.github.io/SQuAD-explorer.",
)


@dataclass(frozen=True, slots=True)
class SQuAD:
    """The development sets, of the published JSON or the hub's parquet.

    Its authors hand the paragraph over with its question. Here all paragraphs are one collection, and the
    paragraph has to be found: scores are lower than theirs, and a question of version 2 "without an answer"
    has none in its paragraph, though another may hold one.
    """

    name: str = "squad"
    title: str = "SQuAD (arXiv 1606.05250, 1806.03822)"
    about: str = "questions about paragraphs of Wikipedia; version 2 has some without an answer"
    licence: str = "CC BY-SA 4.0"
    hub: Hub = HUB
    measures: tuple[str, ...] = ("f1", "em", "document_recall@10")

    def open(self, folder: Path, split: str | None = None) -> OpenBenchmark:
        """Finds the files.

        Args:
            folder: Where they are.
            split: `dev-v2.0`, `dev-v1.1`, `train-v2.0` or `train-v1.1`; None for the first that is there.

        Raises:
            CaseError: If they are missing; while reading, if a row is not as published.
        """
        chosen, paths = choose_split(folder, SPLITS, split, self.hub)
        remarks = Remarks()
        remarks.say(f"The questions are those of {chosen}.")
        cases = distinct_names(_cases(paths, remarks), remarks)
        return OpenBenchmark(cases, distinct(passage for *_, passage in _paragraphs(paths)), remarks.notes)


def _cases(paths: Sequence[Path], remarks: Remarks) -> Iterator[Case]:
    for number, (where, row, passage) in enumerate(_paragraphs(paths)):
        with blamed(where):
            found = [case_of(fields, where) for fields in Rows().cases(row, number)]
        if passage.empty and found:
            remarks.count("paragraphs have no words and cannot be found", passage.title)
        for case in found:
            answered = case.reference_answer != UNANSWERABLE
            yield replace(
                case,
                uid=f"squad-{case.uid}",
                file_name=passage.name,
                gold=(GoldPage(passage.name),) if answered else (),
                answer_format=AnswerFormat.UNKNOWN if answered else AnswerFormat.NONE,
                benchmark="squad",
            )


def _paragraphs(paths: Sequence[Path]) -> Iterator[tuple[str, Mapping[str, Any], ParagraphDocument]]:
    """Each paragraph as a row of its own: where it stands, itself with its questions, its text.

    Raises:
        CaseError: If a row is neither an article nor a question.
    """
    for where, row in objects(paths):
        with blamed(where):
            title = text_of(row, "title")
            paragraphs = plain_list(row, "paragraphs") if "paragraphs" in row else [row]
            for paragraph in paragraphs:
                if not isinstance(paragraph, dict):
                    raise CaseError("A paragraph is no object.")
                fields = cast("dict[str, Any]", paragraph)
                text = text_of(fields, "context")
                one = row if fields is row else {"title": title, "paragraphs": [fields]}
                yield where, one, ParagraphDocument(_spoken(title), text)


def _spoken(title: str) -> str:
    """A title without the signs of an address: `Caf%C3%A9_Mozart` is "Café Mozart"."""
    return unquote(title).replace("_", " ")
