"""The public question sets that the readers learn from, and figures of readers on them."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vrag.reading.text_reader import TextReader
from vrag.reading.training.text_data import (
    LANGUAGES,
    TextQuestion,
    answer_f1,
    answer_words,
    read_cmrc,
    read_jaquad,
    read_xquad,
)

TABLES, SPANS = "tables", "spans"
"""The two readers: of tables, and of running text."""


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """A public repository with questions and answers."""

    folder: str
    """Name of its copy in the folder of the data."""
    url: str
    reader: str
    """The reader that learns from it: `TABLES` or `SPANS`."""
    content: str
    licence: str
    file: str
    """A file or folder that a copy has."""

    def clone_command(self, data: Path) -> str:
        """Return the command that makes the copy."""
        return f"git clone --depth 1 {self.url} {shlex.quote(str(data / self.folder))}"


QUESTION_SETS = (
    QuestionSet(
        "WikiTableQuestions",
        "https://github.com/ppasupat/WikiTableQuestions",
        TABLES,
        "22,000 questions over tables of Wikipedia",
        "CC BY-SA 4.0",
        "data/training.tsv",
    ),
    QuestionSet(
        "TAT-QA",
        "https://github.com/NExTplusplus/TAT-QA",
        TABLES,
        "questions over tables and text of financial reports",
        "CC BY 4.0",
        "dataset_raw/tatqa_dataset_dev.json",
    ),
    QuestionSet(
        "squadshifts",
        "https://github.com/modestyachts/squadshifts-website",
        SPANS,
        "SQuADShifts: English questions over Wikipedia, Reddit and product reviews",
        "CC BY 4.0",
        "datasets/new_wiki_v1.0.json",
    ),
    QuestionSet(
        "COVID-QA",
        "https://github.com/deepset-ai/COVID-QA",
        SPANS,
        "English questions over medical papers",
        "Apache-2.0",
        "data/question-answering/200423_covidQA.json",
    ),
    QuestionSet(
        "cmrc2018",
        "https://github.com/ymcui/cmrc2018",
        SPANS,
        "CMRC 2018: Chinese questions",
        "CC BY-SA 4.0",
        "squad-style-data/cmrc2018_dev.json",
    ),
    QuestionSet(
        "DRCD",
        "https://github.com/DRCKnowledgeTeam/DRCD",
        SPANS,
        "questions in traditional Chinese",
        "CC BY-SA 3.0",
        "DRCD_dev.json",
    ),
    QuestionSet(
        "JaQuAD",
        "https://github.com/SkelterLabsInc/JaQuAD",
        SPANS,
        "Japanese questions",
        "CC BY-SA 3.0",
        "data/train",
    ),
    QuestionSet(
        "xquad",
        "https://github.com/google-deepmind/xquad",
        SPANS,
        "XQuAD: 1,190 questions of SQuAD in twelve languages",
        "CC BY-SA 4.0",
        "xquad.en.json",
    ),
)


def missing_sets(data: Path, reader: str) -> tuple[QuestionSet, ...]:
    """Return the sets of a reader that a folder has no copy of."""
    return tuple(
        known
        for known in QUESTION_SETS
        if known.reader == reader and not (data / known.folder / known.file).exists()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFigures:
    """Measures of a reader on questions about given paragraphs."""

    questions: int
    f1: float
    """Mean F1 of the words of the best answer, 0 where there is none."""
    exact: float
    milliseconds: float
    """Mean time of a question."""


def text_tests(data: Path) -> Iterator[tuple[str, list[TextQuestion]]]:
    """Yield name and questions of each test set of running text that a folder has."""
    readers: Mapping[str, Callable[[], list[TextQuestion]]] = {
        **{f"xquad-{code}": _reader_of_language(data / "xquad", code) for code in LANGUAGES},
        "cmrc-trial": lambda: read_cmrc(data / "cmrc2018", "trial"),
        "jaquad-dev": lambda: read_jaquad(data / "JaQuAD", "dev"),
    }
    for name, read in readers.items():
        try:
            questions = read()
        except FileNotFoundError:
            continue
        if questions:
            yield name, questions


def _reader_of_language(folder: Path, code: str) -> Callable[[], list[TextQuestion]]:
    return lambda: read_xquad(folder, code)


def measure_texts(reader: TextReader, questions: Sequence[TextQuestion]) -> TextFigures:
    """Measure the best answer of a reader to each question, beside the best of the right answers."""
    begin = time.perf_counter()
    scores = [_score(reader, question) for question in questions]
    seconds = time.perf_counter() - begin
    return TextFigures(
        questions=len(scores),
        f1=float(np.mean(scores)) if scores else 0.0,
        exact=float(np.mean([score == 1 for score in scores])) if scores else 0.0,
        milliseconds=1000 * seconds / max(len(scores), 1),
    )


def _score(reader: TextReader, question: TextQuestion) -> float:
    (spans,) = reader.read(question.question, [question.text])
    if not spans:
        return 0.0
    found = answer_words(question.text[spans[0].start : spans[0].end])
    return max((answer_f1(found, answer_words(answer)) for _, answer in question.answers), default=0.0)
