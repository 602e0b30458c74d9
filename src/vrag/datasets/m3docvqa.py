"""M3DocVQA (arXiv 2411.04952): the questions of MultiModalQA over Wikipedia articles printed to PDF.

The scorer is that of MultiModalQA (arXiv 2104.06039), which goes back to that of DROP (arXiv 1903.00161).
"""

from __future__ import annotations

import importlib
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from vrag.cases.case_json import case_of
from vrag.cases.rows import any_object, object_of, plain_list, text_of
from vrag.datasets.files.archive import members
from vrag.datasets.files.clean_cases import Remarks, distinct_names
from vrag.datasets.files.lookup import (
    PDF,
    blamed,
    check_name,
    choose_split,
    document,
    find_all,
    missing,
    objects,
)
from vrag.datasets.protocols import (
    NUMBER_WORDS,
    Benchmark,
    Hub,
    OpenBenchmark,
    abstains,
    without_articles,
    without_punctuation,
)
from vrag.errors import CaseError
from vrag.types import AnswerFormat, GoldPage

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from vrag.datasets.files.archive import Member
    from vrag.types import Case

SPLITS = {
    "dev": ("MMQA_dev.jsonl", "MMQA_dev.jsonl.gz"),
    "train": ("MMQA_train.jsonl", "MMQA_train.jsonl.gz"),
}


class M3DocVQA(Benchmark):
    """The development set; the test set has no answers. Gold are documents, as no pages are annotated.

    Its authors score answers as lists of spans (`score`), and count gold documents
    among the first k pages, as `document_recall@10` does.
    """

    name = "m3docvqa"
    title = "M3DocVQA (arXiv 2411.04952)"
    about = "questions over text, tables and pictures of several Wikipedia articles, as PDF"
    licence = "not stated (questions); CC BY-SA (articles)"
    hub = Hub(
        repo="https://github.com/bloomberg/m3docrag",
        files=("MMQA_dev.jsonl", "pdfs_dev/*.pdf"),
        note="Its scripts fetch the questions of MultiModalQA and print the articles.",
    )
    measures = ("m3docvqa/f1", "m3docvqa/em", "document_recall@10")

    def open(self, folder: Path, split: str | None = None) -> OpenBenchmark:
        """Find questions and PDFs, in `pdfs_dev/` or in `pdfs_dev.zip`, of `dev` or `train`."""
        chosen, paths = choose_split(folder, SPLITS, split, self.hub)
        name = f"pdfs_{chosen}"
        pdfs: Sequence[Path | Member] = find_all(folder, f"{name}/*.pdf")
        if not pdfs:
            pdfs = [file for archive in find_all(folder, f"{name}.zip") for file in members(archive, PDF)]
        if not pdfs:
            raise missing(folder, f"{name}/*.pdf", self.hub)
        remarks = Remarks()
        files = {file.name: file for file in reversed(pdfs)}
        cases = distinct_names(_cases(paths, files, remarks), remarks)
        return OpenBenchmark(cases, [document(name, files[name]) for name in sorted(files)], remarks.notes)


def _cases(paths: Sequence[Path], files: Collection[str], remarks: Remarks) -> Iterator[Case]:
    for where, row in objects(paths):
        with blamed(where):
            contexts = [
                object_of(element, "An element of 'supporting_context'")
                for element in plain_list(row, "supporting_context")
            ]
            gold = list(dict.fromkeys(f"{text_of(context, 'doc_id')}.pdf" for context in contexts))
            if not gold:
                raise CaseError("'supporting_context' names no document.")
            answers = [text_of(object_of(part, "An answer"), "answer") for part in plain_list(row, "answers")]
            if not answers:
                raise CaseError("There are no 'answers'; those of the test set are not public.")
            kind = any_object(row.get("metadata")).get("type")
            parts = dict.fromkeys(text_of(context, "doc_part").capitalize() for context in contexts)
            fields = {
                "uid": f"m3docvqa-{text_of(row, 'qid')}",
                "query": text_of(row, "question"),
                **_right_answers(answers),
                "meta_info": {
                    "file_name": check_name(gold[0], where),
                    "source_type": list(parts),
                    "query_type": kind if isinstance(kind, str) else "",
                    "benchmark": "m3docvqa",
                },
            }
        for name in gold:
            if name not in files:
                remarks.count("gold documents are missing and cannot be found", check_name(name, where))
        yield replace(
            case_of(fields, where),
            gold=tuple(GoldPage(name) for name in gold),
            answer_format=AnswerFormat.LIST if len(answers) > 1 else AnswerFormat.UNKNOWN,
        )


def _right_answers(values: Sequence[str]) -> dict[str, Any]:
    """Return the answer: one, or a list of all.

    A list is right as a row of its elements as well, and "300.0" as "300" and as it stands.
    """
    wholes = (value.removesuffix(".0") for value in values)
    short = [
        whole if whole.lstrip("-").isdecimal() else value for whole, value in zip(wholes, values, strict=True)
    ]
    if len(short) == 1:
        return {"reference_answer": short[0], "alternatives": [text for text in values if text != short[0]]}
    return {"reference_answer": json.dumps(short, ensure_ascii=False), "alternatives": [", ".join(short)]}


MAX_SPANS = 500
"""Elements of a list in an answer; a longer one is one span."""
_BREAK = re.compile(r"[\s-]+")
_NUMBERS = {word: float(number) for word, number in NUMBER_WORDS.items()} | {"point": 0.0}
"""Words that the script takes for numbers; "point" is 0."""


def score(case: Case, answer: str | None) -> Mapping[str, float]:
    """Measure `m3docvqa/em`: the same spans in any order; `m3docvqa/f1`: over the words of matched spans.

    The list EM and F1 of the published `evaluate.py`. The right answer is the list of all its spans. An
    answer is one span, as M3DocRAG has it, whose answers are texts; only an answer that is a list in JSON is
    the list of its elements, as MultiModalQA has them. Nothing is cut at commas, which stand within names as
    well. An abstention is an empty span.

    Deviation: any white space separates words; in the script only spaces do.
    """
    if answer is None:
        return {"m3docvqa/em": 0.0, "m3docvqa/f1": 0.0}
    spans = [""] if abstains(answer) else _spans(answer)
    if len(spans) > MAX_SPANS:
        spans = [answer]
    listed = case.answer_format is AnswerFormat.LIST
    right = _spans(case.reference_answer) if listed else [case.reference_answer]
    return {"m3docvqa/em": list_em(spans, right), "m3docvqa/f1": list_f1(spans, right)}


def list_em(answer: Sequence[str], right: Sequence[str]) -> float:
    """Return 1 if they are the same spans, and as many; else 0.

    >>> list_em(["The Hague", "5"], ["five", "Hague"]), list_em(["a cat"], ["cat", "cat"])
    (1.0, 0.0)
    """
    given, wanted = ({" ".join(span_words(span)) for span in spans} for spans in (answer, right))
    return float(len(answer) == len(right) and given == wanted)


def list_f1(answer: Sequence[str], right: Sequence[str]) -> float:
    """Return the F1 of each span with the one that it is matched with, over the longer list; to two digits.

    Spans are sets of words. Where a right span has numbers and a given one has none of them, they have
    nothing in common. Of two without words the F1 is 1.

    >>> list_f1(["red cat"], ["red dog"]), list_f1(["red cat"], ["cat", "dog"]), list_f1(["4"], ["5"])
    (0.5, 0.33, 0.0)
    """

    def f1(span: frozenset[str], right_span: frozenset[str]) -> float:
        numbers = {word for word in right_span if _is_number(word)}
        if numbers and not numbers & span:
            return 0.0
        precision = len(span & right_span) / len(span) if span else 1.0
        recall = len(span & right_span) / len(right_span) if right_span else 1.0
        return 2 * precision * recall / (precision + recall) if precision + recall else 0.0

    given, wanted = ([frozenset(span_words(span)) for span in spans] for spans in (answer, right))
    scores = [[f1(span, right_span) for span in given] for right_span in wanted]
    total = sum(scores[row][column] for row, column in best_match(scores))
    mean = total / max(len(given), len(wanted), 1)
    return round(100 * mean) / 100


def best_match(scores: Sequence[Sequence[float]]) -> list[tuple[int, int]]:
    """Return the pairs of row and column of a one-to-one match whose scores have the greatest sum, by row.

    >>> best_match([[0.9, 0.8], [0.7, 0.1]])
    [(0, 1), (1, 0)]
    """
    if not scores or not scores[0]:
        return []
    if len(scores) == 1 == len(scores[0]):
        return [(0, 0)]  # most answers are one span, and importing scipy takes longer than scoring them
    optimize: Any = importlib.import_module("scipy.optimize")  # it ships no types
    rows, columns = optimize.linear_sum_assignment(scores, maximize=True)
    return list(zip(rows.tolist(), columns.tolist(), strict=True))


def span_words(span: str) -> list[str]:
    """Split a span into the words by which it is compared.

    They are cut at spaces and hyphens, so that a number has no sign; numbers, and words for them, are written
    as Python writes a float; others lose the punctuation of ASCII, and articles are dropped.

    >>> span_words("The 1,000 end-to-end tests: twenty-one failed")
    ['1000.0', 'end', 'to', 'end', 'tests', '20.0', '1.0', 'failed']
    """
    words: list[str] = []
    for part in _BREAK.split(span.lower()):
        bare = part if _is_number(part) else without_punctuation(part)  # which may then be a number
        number = float(bare) if _is_number(bare) else _NUMBERS.get(bare)
        words += without_articles(bare if number is None else str(number)).split()
    return words


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _spans(text: str) -> list[str]:
    """Return the elements of a list in JSON; any other text is one span."""
    if not text.lstrip().startswith("["):
        return [text]
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return [text]
    parts = cast("list[Any]", value)
    plain = all(isinstance(part, str | int | float) and not isinstance(part, bool) for part in parts)
    return [str(part) for part in parts] if plain and parts else [text]
