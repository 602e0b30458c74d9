"""SQuAD (arXiv 1606.05250, 1806.03822): questions about paragraphs; passages, so no pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from vrag.cases.case_format import UNANSWERABLE, any_list, plain_list, text_of
from vrag.errors import CaseError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["Squad"]


@dataclass(frozen=True, slots=True)
class Squad:
    """An article a row, of the published JSON, or a question a row, of its parquet."""

    name: str = "squad"

    def data_source(self, split: str) -> str:  # noqa: ARG002 - one name for all
        """`squad`."""
        return "squad"

    def fits(self, row: Mapping[str, Any]) -> bool:
        """By `paragraphs`, or by `context` and `answers`."""
        return {"title", "paragraphs"} <= row.keys() or {
            "title",
            "context",
            "question",
            "answers",
        } <= row.keys()

    def cases(self, row: Mapping[str, Any], number: int) -> Iterable[Mapping[str, Any]]:  # noqa: ARG002
        """The questions about an article; of several right answers, the first, then the others that differ.

        `plausible_answers`, of questions that have none, are no answers.

        Raises:
            CaseError: If a column is missing.
        """
        title = text_of(row, "title")
        for question in _questions(row):
            answers = _answers(question.get("answers"))
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


def _questions(row: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if "paragraphs" not in row:
        yield row
        return
    for paragraph in plain_list(row, "paragraphs"):
        if not isinstance(paragraph, dict):
            raise CaseError("A paragraph is no object.")
        for question in plain_list(cast("dict[str, Any]", paragraph), "qas"):
            if not isinstance(question, dict):
                raise CaseError("A question is no object.")
            yield cast("dict[str, Any]", question)


def _answers(value: object) -> list[str]:
    """The texts of the answers, each once: a list of objects, or an object of lists.

    Raises:
        CaseError: If it is neither; a hidden test set is no set of questions without answers.
    """
    if isinstance(value, dict):
        found = any_list(cast("dict[str, Any]", value).get("text"))
    else:
        rows = plain_list({"answers": value}, "answers")
        found = [cast("dict[str, Any]", row).get("text") for row in rows if isinstance(row, dict)]
    return list(dict.fromkeys(text for text in found if isinstance(text, str) and text.strip()))
