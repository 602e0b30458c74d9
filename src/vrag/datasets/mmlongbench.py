"""MMLongBench-Doc (Ma et al. 2024, arXiv 2407.01523): questions about long PDFs, a fifth without an answer.

The scorer follows the rules of the published `eval_score.py` to the letter, with their oversights: 9.9 is a
right answer to "how many, 9", a gold integer written "21%" can never be met, and "answerable" is 71 % of "Not
answerable". Two things differ:

- Lists are read as literals, where the script evaluates whatever stands in brackets, so that a model's
  answer would run as a program. `[1+1, 3]` is therefore a text here, and `[2, 3]` for the script.
- Where the script breaks off, this one goes on. A text in brackets that is not a list is one element. Two
  empty lists are the same: 1. A gold number that is not written as one ("1.5 million") is compared as text,
  and only its equal counts.

The authors have a model extract a short answer first; see `vrag.datasets.protocols.Rule`.
"""

from __future__ import annotations

import ast
import math
import re
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from vrag.cases.annotations import UNANSWERABLE
from vrag.cases.rows import CaseFormat, hops, literal_list, text_of
from vrag.datasets.files.clean_cases import Remarks, gold_by_document, one_split, read_questions, take_in
from vrag.datasets.files.lookup import filed, find_all, find_documents, missing, need_all
from vrag.datasets.protocols import Benchmark, Hub, OpenBenchmark
from vrag.metrics import edits
from vrag.types import AnswerFormat

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from vrag.types import Case

EDITIONS = {1_091: "the first edition, as on the hub", 1_082: "the edition of the paper"}
"""Editions by their number of questions: the authors took nine out, in the repository and not on the hub."""


class MMLongBench(CaseFormat, Benchmark):
    """`samples.json` of the repository or the parquet of the hub, with `documents/`.

    Pages count from 1, with a stray 0 that is not a page. Results are reported on the only split. Of the
    PDFs, those that a question names are taken: the folder of the hub has others of no use.
    """

    name = "mmlongbench"
    title = "MMLongBench-Doc (arXiv 2407.01523)"
    about = "long PDFs: evidence across pages, unanswerable questions"
    licence = "CC BY-NC 4.0, for research; the documents are their owners'"
    hub = Hub(
        repo="yubo2333/MMLongBench-Doc",
        files=("data/*.parquet", "documents/*.pdf"),
        note="data/samples.json of github.com/mayubo2333/MMLongBench-Doc is the later edition: 1,082 "
        "questions.",
    )
    measures = ("mmlongbench", "mmlongbench/f1")
    columns = (frozenset({"doc_id", "question", "answer", "evidence_pages", "evidence_sources"}),)

    def data_source(self, split: str) -> str:  # noqa: ARG002 - the reference has one name
        """Return `mmlongdoc`."""
        return "mmlongdoc"

    def open(self, folder: Path, split: str | None = None) -> OpenBenchmark:
        """Find questions and PDFs; the split may be called `test`, or `train` as on the hub."""
        one_split(split, "test", "train")
        paths = find_all(folder, "samples.json", "train-*.parquet")
        if not paths:
            raise missing(folder, "samples.json or train-00000-of-00001.parquet", self.hub)
        remarks = Remarks()

        def read_cases() -> Iterator[Case]:
            for where, row, cases in read_questions(paths[:1], self):
                place = where.rsplit(", ", 1)[-1]
                pages, answered = literal_list(row, "evidence_pages"), row.get("answer") != UNANSWERABLE
                if 0 in pages:
                    remarks.count("questions had a gold page 0, which does not exist and was left out", place)
                if not answered and any(pages):
                    remarks.count(
                        "questions that cannot be answered had gold pages, which were left out", place
                    )
                if answered and not any(pages):
                    remarks.count(
                        "questions with an answer have no gold page and count for answers only", place
                    )
                yield from cases

        cases = take_in(read_cases(), self.name, self.name, remarks)
        remarks.say(f"{len(cases):,} questions: {EDITIONS.get(len(cases), 'no edition of the authors')}.")
        gold = gold_by_document(cases)
        files = find_documents(folder, gold)
        need_all(gold, files, folder, self.hub)
        if unused := files.without(gold):
            remarks.say(f"{len(unused):,} PDFs that no question names were left out.")
        return OpenBenchmark(cases, filed(gold, files), remarks.notes)

    def cases(self, row: Mapping[str, Any], number: int) -> Iterable[Mapping[str, Any]]:
        """Convert the question; the rows have no ids, so that the place in the file makes one.

        Seven questions without an answer have pages all the same: those are not gold.
        """
        answer = text_of(row, "answer")
        pages = [page for page in literal_list(row, "evidence_pages") if page != 0]
        if answer == UNANSWERABLE:
            pages = []
        meta = {
            "file_name": text_of(row, "doc_id"),
            "reference_page": pages,
            "source_type": literal_list(row, "evidence_sources"),
            "query_type": "Unanswerable" if answer == UNANSWERABLE else hops(pages),
            "document_type": row.get("doc_type"),
            "answer_format": row.get("answer_format"),
        }
        query = text_of(row, "question")
        return [
            {"uid": f"mmlongbench-{number}", "query": query, "reference_answer": answer, "meta_info": meta}
        ]


MAX_LIST_CHARACTERS = 10_000
"""Length of a text that is read as a list; a longer one is one element."""
_MAX_DISTANCE = 0.5
_CLOSE = 0.01
"""Share of the larger of both by which decimal numbers may differ."""
_PARENTHESIS = re.compile(r"(?<!\s)\s*\([^)]*\)")
_QUOTE = re.compile(r"^['\"]|['\"]$")
_VERBATIM = re.compile(
    r"\d+(?:-\d+|\s\d+)?"  # a number, two of them, a telephone number
    r"|\d{4}[-\s]\d{2}[-\s]\d{2}"  # a date
    r"|[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\.[a-zA-Z]{2,}"  # an address
)


def score(case: Case, answer: str | None) -> Mapping[str, float]:
    """Measure `mmlongbench`: how right the answer is by the rule for `case.answer_format`; see `mark`.

    An abstention is "Not answerable" and is compared as such. The best reference counts; the data set has
    one.
    """
    if answer is None:
        return {"mmlongbench": 0.0}
    marks = (mark(reference, answer.strip(), case.answer_format) for reference in case.references)
    return {"mmlongbench": max(marks)}


def mark(gold: str, answer: str, form: AnswerFormat) -> float:
    """Return how right an answer is, 0 to 1.

    - An integer: the same once the answer is cut to its whole part; nothing but a bare number is one.
    - A decimal number: within 1 % of the larger, or the same when both are rounded to as many digits as
      the one with fewer has, two at least; of the gold, or a hundred times it, or a hundredth.
    - Text, and "Not answerable": equality where the gold is `verbatim`, else `similarity`.
    - A list, and any other format: as many elements, which are compared in the order of the alphabet. All
      must be equal if the first gold one is a number or verbatim; else the least similarity counts.
    """
    match form:
        case AnswerFormat.INTEGER:
            try:
                same = int(gold) == int(float(answer))
            except (ValueError, OverflowError):
                same = not gold  # as published: where the gold is empty, all but numbers are right
            return float(same)
        case AnswerFormat.FLOAT:
            return _mark_float(clean(gold), clean(answer))
        case AnswerFormat.TEXT | AnswerFormat.NONE:
            right, given = clean(gold), clean(answer)
            return float(right == given) if verbatim(right) else similarity(right, given)
        case _:
            rights, givens = (sorted(map(clean, _elements(text))) for text in (gold, answer))
            if len(rights) != len(givens) or not rights:
                return float(rights == givens)
            if _number(rights[0]) is not None or verbatim(rights[0]):
                return float("-".join(rights) == "-".join(givens))
            return min(map(similarity, rights, givens))


def clean(text: str) -> str:
    """Return the text as it is compared: lower case, without parentheses, quotes around it, "$" and "%".

    >>> clean("'Blue' (dark)"), clean("$ 5 %"), clean("5 miles")
    ('blue', '5', '5 miles')
    """
    closed, end, rest = text.lower().strip().rpartition(")")  # else a long run of "(" takes minutes
    bare = (_PARENTHESIS.sub("", closed + end) + rest).strip()
    bare = _QUOTE.sub("", bare).strip()
    return bare.lstrip("$").rstrip("%").strip()


def verbatim(gold: str) -> bool:
    """Return whether only this very text is right: integers, dates, addresses, times, names of files.

    >>> verbatim("2015-03-04"), verbatim("page 3"), verbatim("12.5")
    (True, True, False)
    """
    return (
        any(part in gold for part in ("https://", "a.m.", "p.m."))
        or gold.endswith((".py", "ipynb"))
        or gold.startswith("page")
        or _VERBATIM.fullmatch(gold) is not None
    )


def similarity(gold: str, answer: str) -> float:
    """Return ANLS as this data set has it: a text with exactly half of its letters wrong has 0 as well.

    >>> similarity("abcde", "abcxy"), similarity("ab", "ax")
    (0.6, 0.0)
    """
    longer = max(len(gold.upper()), len(answer.upper()))
    if not longer:
        return 1.0
    return max(0.0, 1.0 - edits(gold, answer, most=_MAX_DISTANCE * longer) / longer)


def _mark_float(gold: str, answer: str) -> float:
    right, given = _number(gold), _number(answer)
    if right is None:
        return float(gold == answer)
    if given is None:
        return 0.0
    for value in (right / 100, right, right * 100):
        digits = max(min(_digits(given), _digits(value)), 2)
        if math.isclose(value, given, rel_tol=_CLOSE) or round(given, digits) == round(value, digits):
            return 1.0
    return 0.0


def _number(text: str) -> float | None:
    with suppress(ValueError):
        return float(text)
    return None


def _digits(number: float) -> int:
    """Return the number of digits after the point as Python writes it; 3 where it writes none."""
    _, point, after = str(number).rpartition(".")
    return len(after) if point else 3


def _elements(text: str) -> list[str]:
    """Return the elements of a list that is written as Python; the text itself where it is not a list."""
    if not text.startswith("[") or len(text) > MAX_LIST_CHARACTERS:
        return [text]
    with warnings.catch_warnings(), suppress(ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        warnings.simplefilter("ignore")  # of odd escapes in what a model wrote
        tree = ast.parse(text, mode="eval").body
        if isinstance(tree, ast.List) and not any(isinstance(node, ast.Set) for node in ast.walk(tree)):
            # a set is written in another order every time
            return [str(element) for element in cast("list[object]", ast.literal_eval(tree))]
    return [text]
