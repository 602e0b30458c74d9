"""M3DocVQA (arXiv 2411.04952): the questions of MultiModalQA over Wikipedia articles printed to PDF."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from vrag.cases import case_of
from vrag.cases.case_format import plain_list, text_of
from vrag.errors import CaseError
from vrag.evaluation.benchmark import Hub, OpenBenchmark
from vrag.evaluation.sources.archive import members
from vrag.evaluation.sources.file_lookup import PDF, check_name, document
from vrag.evaluation.sources.load_report import Remarks
from vrag.evaluation.sources.source_files import (
    blamed,
    choose_split,
    distinct_names,
    find_all,
    missing,
    objects,
)
from vrag.types import AnswerFormat, GoldPage

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from vrag.evaluation.sources.archive import Member
    from vrag.types import Case

__all__ = ["M3DocVQA"]

HUB = Hub(
    repo="https://github.com/bloomberg/m3docrag",
    files=("MMQA_dev.jsonl", "pdfs_dev/*.pdf"),
    note="Its scripts fetch the questions of MultiModalQA and print the articles.",
)
SPLITS = {
    "dev": ("MMQA_dev.jsonl", "MMQA_dev.jsonl.gz"),
    "train": ("MMQA_train.jsonl", "MMQA_train.jsonl.gz"),
}


@dataclass(frozen=True, slots=True)
class M3DocVQA:
    """The development set; the test set has no answers. Gold are documents, as no pages are annotated.

    Its authors score answers as lists of spans (`vrag.evaluation.scorers.m3docvqa`), and count gold documents
    among the first k pages, as `document_recall@10` does.
    """

    name: str = "m3docvqa"
    title: str = "M3DocVQA (arXiv 2411.04952)"
    about: str = "questions over text, tables and pictures of several Wikipedia articles, as PDF"
    licence: str = "not stated (questions); CC BY-SA (articles)"
    hub: Hub = HUB
    measures: tuple[str, ...] = ("m3docvqa/f1", "m3docvqa/em", "document_recall@10")

    def open(self, folder: Path, split: str | None = None) -> OpenBenchmark:
        """Finds questions and PDFs.

        Args:
            folder: Where they are; the PDFs in `pdfs_dev/`, or in `pdfs_dev.zip`.
            split: `dev` or `train`; None for the first that is there.

        Raises:
            CaseError: If questions or all PDFs are missing, or the archive is damaged; while reading, if a
                row is not as published.
        """
        chosen, paths = choose_split(folder, SPLITS, split, self.hub)
        pdfs = _pdfs(folder, f"pdfs_{chosen}")
        if not pdfs:
            raise missing(folder, f"pdfs_{chosen}/*.pdf", self.hub)
        remarks = Remarks()
        there = {file.name: file for file in reversed(pdfs)}
        cases = distinct_names(_cases(paths, there, remarks), remarks)
        return OpenBenchmark(cases, [document(name, there[name]) for name in sorted(there)], remarks.notes)


def _pdfs(folder: Path, name: str) -> Sequence[Path | Member]:
    """The PDFs in folders of this name; if there are none, those in an archive of this name."""
    if found := find_all(folder, f"{name}/*.pdf"):
        return found
    return [file for archive in find_all(folder, f"{name}.zip") for file in members(archive, PDF)]


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
