"""M3DocVQA (arXiv 2411.04952): the questions of MultiModalQA over Wikipedia articles printed to PDF."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from vrag.cases import case_of
from vrag.cases.source import plain_list, text_of
from vrag.errors import CaseError
from vrag.evaluation.benchmark import Filed, Hub, Opened
from vrag.evaluation.benchmarks.names import check_name
from vrag.evaluation.benchmarks.published import blamed, choose_split, find_all, missing, objects, told_apart
from vrag.evaluation.benchmarks.remarks import Remarks
from vrag.types import AnswerFormat, GoldPage

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from vrag.types import Case

__all__ = ["M3DocVQA"]

HUB = Hub(
    repo="https://github.com/bloomberg/m3docrag",
    files=("MMQA_dev.jsonl", "pdfs_dev/*.pdf"),
    note="Its scripts fetch the questions of MultiModalQA, to unpack with gunzip, and print the articles.",
)
SPLITS = {"dev": ("MMQA_dev.jsonl",), "train": ("MMQA_train.jsonl",)}


@dataclass(frozen=True, slots=True)
class M3DocVQA:
    """The development set; the test set has no answers. Gold are documents, as no pages are annotated.

    Its authors score answers as sets of spans with words for numbers read (list EM and F1); ours are EM and
    F1 as in SQuAD, of a list's elements in a row. They count documents among the first k pages.
    """

    name: str = "m3docvqa"
    title: str = "M3DocVQA (arXiv 2411.04952)"
    about: str = "questions over text, tables and pictures of several Wikipedia articles, as PDF"
    licence: str = "not stated (questions); CC BY-SA (articles)"
    hub: Hub = HUB
    measures: tuple[str, ...] = ("f1", "em", "document_recall@10")

    def open(self, folder: Path, split: str | None = None) -> Opened:
        """Finds questions and PDFs.

        Args:
            folder: Where they are.
            split: `dev` or `train`; None for the first that is there.

        Raises:
            CaseError: If questions or all PDFs are missing; while reading, if a row is not as published.
        """
        chosen, paths = choose_split(folder, SPLITS, split, self.hub)
        pdfs = find_all(folder, f"pdfs_{chosen}/*.pdf")
        if not pdfs:
            raise missing(folder, f"pdfs_{chosen}/*.pdf", self.hub)
        remarks = Remarks()
        there = {path.name: path for path in reversed(pdfs)}
        cases = told_apart(_cases(paths, there, remarks), remarks)
        return Opened(cases, [Filed(name, there[name]) for name in sorted(there)], remarks.notes)


def _cases(paths: Sequence[Path], there: Collection[str], remarks: Remarks) -> Iterator[Case]:
    for where, row in objects(paths):
        with blamed(where):
            gold, parts = _gold(row)
            fields = {
                "uid": f"m3docvqa-{text_of(row, 'qid')}",
                "query": text_of(row, "question"),
                **_answer(row),
                "meta_info": {
                    "file_name": check_name(gold[0], where),
                    "source_type": parts,
                    "query_type": _kind(row.get("metadata")),
                    "benchmark": "m3docvqa",
                },
            }
        for name in gold:
            if name not in there:
                remarks.count("gold documents are missing and cannot be found", check_name(name, where))
        listed = len(plain_list(row, "answers")) > 1
        yield replace(
            case_of(fields, where),
            gold=tuple(GoldPage(name) for name in gold),
            answer_format=AnswerFormat.LIST if listed else AnswerFormat.UNKNOWN,
        )


def _gold(row: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """File names of the gold documents and which parts of them are, each once.

    Raises:
        CaseError: If there are none.
    """
    names: dict[str, None] = {}
    parts: dict[str, None] = {}
    for each in plain_list(row, "supporting_context"):
        if not isinstance(each, dict):
            raise CaseError("An element of 'supporting_context' is no object.")
        context = cast("dict[str, Any]", each)
        names[f"{text_of(context, 'doc_id')}.pdf"] = None
        parts[text_of(context, "doc_part").capitalize()] = None
    if not names:
        raise CaseError("'supporting_context' names no document.")
    return list(names), list(parts)


def _answer(row: Mapping[str, Any]) -> dict[str, Any]:
    """The answer: one, or a list of all; a list can be said in a row as well, and a whole number with a zero.

    Raises:
        CaseError: If there is none.
    """
    values = [_value(each) for each in plain_list(row, "answers")]
    if not values:
        raise CaseError("There are no 'answers'; those of the test set are not public.")
    short = [_short(value) for value in values]
    if len(values) > 1:
        return {
            "reference_answer": json.dumps(short, ensure_ascii=False),
            "alternatives": [", ".join(short)],
        }
    return {"reference_answer": short[0], "alternatives": [text for text in values if text != short[0]]}


def _value(answer: object) -> str:
    if not isinstance(answer, dict):
        raise CaseError("An answer is no object.")
    return text_of(cast("dict[str, Any]", answer), "answer")


def _short(answer: str) -> str:
    """A number without the zero that made it a float: "300.0" is "300"."""
    return answer.removesuffix(".0") if answer.removesuffix(".0").lstrip("-").isdecimal() else answer


def _kind(metadata: object) -> str:
    kind = cast("dict[str, Any]", metadata).get("type") if isinstance(metadata, dict) else None
    return kind if isinstance(kind, str) else ""
