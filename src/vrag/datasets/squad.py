"""SQuAD (arXiv 1606.05250, 1806.03822): questions about paragraphs of Wikipedia, some without an answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

from vrag.cases.annotations import UNANSWERABLE
from vrag.cases.case_json import case_of
from vrag.cases.rows import CaseFormat, any_list, any_object, object_of, plain_list, text_of
from vrag.datasets.files.clean_cases import Remarks, distinct_names
from vrag.datasets.files.documents import ParagraphDocument, distinct
from vrag.datasets.files.lookup import blamed, choose_split, objects
from vrag.datasets.protocols import Benchmark, Hub, OpenBenchmark, abstains, bag_f1, squad_words
from vrag.types import AnswerFormat, GoldPage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from vrag.types import Case

SPLITS = {
    "dev-v2.0": ("dev-v2.0.json", "squad_v2/validation-*.parquet", "squad_v2/validation/*.parquet"),
    "dev-v1.1": ("dev-v1.1.json", "plain_text/validation-*.parquet", "plain_text/validation/*.parquet"),
    "train-v2.0": ("train-v2.0.json", "squad_v2/train-*.parquet", "squad_v2/train/*.parquet"),
    "train-v1.1": ("train-v1.1.json", "plain_text/train-*.parquet", "plain_text/train/*.parquet"),
}


class SQuAD(CaseFormat, Benchmark):
    """The development sets: an article a row of the published JSON, or a question a row of the parquet.

    Its authors hand the paragraph over with its question. Here all paragraphs are one collection, and the
    paragraph has to be found: scores are lower than theirs, and a question of version 2 "without an answer"
    has none in its paragraph, though another may hold one.
    """

    name = "squad"
    title = "SQuAD (arXiv 1606.05250, 1806.03822)"
    about = "questions about paragraphs of Wikipedia; version 2 has some without an answer"
    licence = "CC BY-SA 4.0"
    hub = Hub(
        repo="rajpurkar/squad_v2",
        files=("squad_v2/validation-*.parquet",),
        splits=("dev-v2.0",),
        note="Or dev-v2.0.json of https://rajpurkar.github.io/SQuAD-explorer.",
    )
    measures = ("f1", "em", "document_recall@10")
    columns = (frozenset({"title", "paragraphs"}), frozenset({"title", "context", "question", "answers"}))

    def open(self, folder: Path, split: str | None = None) -> OpenBenchmark:
        """Find the files of `dev-v2.0`, `dev-v1.1`, `train-v2.0` or `train-v1.1`; None for the first."""
        chosen, paths = choose_split(folder, SPLITS, split, self.hub)
        remarks = Remarks()
        remarks.say(f"The questions are those of {chosen}.")
        documents = distinct(paragraph for *_, paragraph in _paragraphs(paths))
        return OpenBenchmark(distinct_names(self._cases(paths, remarks), remarks), documents, remarks.notes)

    def cases(self, row: Mapping[str, Any], number: int) -> Iterable[Mapping[str, Any]]:  # noqa: ARG002
        """Convert the questions about an article; of several right answers, the first, then the others.

        `plausible_answers`, of questions that have none, are not answers. Answers are a list of objects, or
        an object of lists; anything else is an error: a hidden test set is not a set of questions without
        answers.
        """
        title = text_of(row, "title")
        questions: list[Mapping[str, Any]] = [] if "paragraphs" in row else [row]
        for value in plain_list(row, "paragraphs") if "paragraphs" in row else ():
            paragraph = object_of(value, "A paragraph")
            questions += [object_of(question, "A question") for question in plain_list(paragraph, "qas")]
        for question in questions:
            found = question.get("answers")
            if isinstance(found, dict):
                texts = any_list(cast("dict[str, Any]", found).get("text"))
            else:
                texts = [any_object(value).get("text") for value in plain_list(question, "answers")]
            answers = list(dict.fromkeys(text for text in texts if isinstance(text, str) and text.strip()))
            yield {
                "uid": text_of(question, "id"),
                "query": text_of(question, "question"),
                "reference_answer": answers[0] if answers else UNANSWERABLE,
                "meta_info": {
                    "file_name": title,
                    "source_type": ["Text"],
                    "query_type": "Single-Hop" if answers else "Unanswerable",
                },
                "alternatives": answers[1:],
            }

    def _cases(self, paths: Sequence[Path], remarks: Remarks) -> Iterator[Case]:
        for number, (where, row, paragraph) in enumerate(_paragraphs(paths)):
            with blamed(where):
                found = [case_of(fields, where) for fields in self.cases(row, number)]
            if paragraph.empty and found:
                remarks.count("paragraphs have no words and cannot be found", paragraph.title)
            for case in found:
                answered = case.reference_answer != UNANSWERABLE
                yield replace(
                    case,
                    uid=f"squad-{case.uid}",
                    file_name=paragraph.name,
                    gold=(GoldPage(paragraph.name),) if answered else (),
                    answer_format=AnswerFormat.UNKNOWN if answered else AnswerFormat.NONE,
                    benchmark="squad",
                )


def _paragraphs(paths: Sequence[Path]) -> Iterator[tuple[str, Mapping[str, Any], ParagraphDocument]]:
    """Yield each paragraph as a row of its own: its place, a row with its questions, its text."""
    for where, row in objects(paths):
        with blamed(where):
            title = text_of(row, "title")
            readable_title = unquote(title).replace("_", " ")  # `Caf%C3%A9_Mozart` is "Café Mozart"
            for value in plain_list(row, "paragraphs") if "paragraphs" in row else [row]:
                paragraph = object_of(value, "A paragraph")
                text = text_of(paragraph, "context")
                questions = row if paragraph is row else {"title": title, "paragraphs": [paragraph]}
                yield where, questions, ParagraphDocument(readable_title, text)


def score(case: Case, answer: str | None) -> Mapping[str, float]:
    """Measure `em`: the same words in the same order; `f1`: over the bags of words; by the best reference.

    As the published `evaluate-v2.0.py`. Of a question that cannot be answered the right answer is the empty
    one, and so is an abstention. References without a word in them are left out.

    Deviation: a run that failed is wrong; the script leaves a missing answer out of the mean.
    """
    if answer is None:
        return {"em": 0.0, "f1": 0.0}
    words = _words(answer)
    references = [reference for reference in map(_words, case.references) if reference] or [[]]
    f1 = [bag_f1(words, right) if words and right else float(words == right) for right in references]
    return {"em": max(float(words == right) for right in references), "f1": max(f1)}


def _words(text: str) -> list[str]:
    return [] if abstains(text) else squad_words(text)
