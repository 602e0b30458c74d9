"""Readers of question sets over running text, all in the format of SQuAD."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

LANGUAGES = "ar", "de", "el", "en", "es", "hi", "ro", "ru", "th", "tr", "vi", "zh"
"""Languages of XQuAD."""
MAX_PARAGRAPH = 1500
"""Characters of a piece of a long document."""
_PUNCTUATION = re.compile(r"[^\w\s]|_")
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_CHARACTER = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0eff]")


class TextQuestion(NamedTuple):
    """A question with its paragraph and right answers."""

    source: str
    """Data set and language, such as `xquad-en`."""
    paragraph: int
    """Number of the paragraph in its data set; the languages of XQuAD share numbers."""
    text: str
    question: str
    answers: tuple[tuple[int, str], ...]
    """Offset and text of each."""
    article: int = 0
    """Number of the article of the paragraph; of the paragraph itself in a file with one article only."""


def read_xquad(folder: Path, language: str) -> list[TextQuestion]:
    """Read one language of XQuAD."""
    return list(_read_squad(folder / f"xquad.{language}.json", f"xquad-{language}"))


def read_cmrc(folder: Path, split: str) -> list[TextQuestion]:
    """Read the split `dev` or `trial` of CMRC 2018."""
    return list(_read_squad(folder / "squad-style-data" / f"cmrc2018_{split}.json", "cmrc"))


def read_jaquad(folder: Path, split: str) -> list[TextQuestion]:
    """Read the split `train` or `dev` of JaQuAD."""
    found: list[TextQuestion] = []
    for path in sorted((folder / "data" / split).glob("*.json")):
        found += _read_squad(path, "jaquad", len(found))
    return found


def read_shifts(folder: Path, domain: str) -> list[TextQuestion]:
    """Read the domain `new_wiki`, `reddit` or `amazon_reviews` of SQuADShifts (English)."""
    return list(_read_squad(folder / "datasets" / f"{domain}_v1.0.json", f"shifts-{domain}"))


def read_drcd(folder: Path, split: str) -> list[TextQuestion]:
    """Read the split `dev` or `test` of DRCD (traditional Chinese)."""
    return list(_read_squad(folder / f"DRCD_{split}.json", f"drcd-{split}"))


def read_covid(folder: Path) -> list[TextQuestion]:
    """Read COVID-QA, each question with the piece of the document around its answer."""
    return [cut_around_answer(question) for question in read_covid_documents(folder)]


def read_covid_documents(folder: Path) -> Iterator[TextQuestion]:
    """Yield the questions of COVID-QA with the whole document, which has some 6,000 words."""
    return _read_squad(folder / "data" / "question-answering" / "200423_covidQA.json", "covid")


def _read_squad(path: Path, source: str, first: int = 0) -> Iterator[TextQuestion]:
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    paragraphs = [
        (at, paragraph) for at, article in enumerate(data["data"]) for paragraph in article["paragraphs"]
    ]
    for number, (article, paragraph) in enumerate(paragraphs, first):
        for item in paragraph["qas"]:
            found = item["answers"] if isinstance(item["answers"], list) else [item["answers"]]
            answers = tuple((int(answer["answer_start"]), str(answer["text"])) for answer in found)
            if answers:
                text, question = paragraph["context"], item["question"]
                group = first + article if len(data["data"]) > 1 else number
                yield TextQuestion(source, number, text, question, answers, group)


def cut_around_answer(question: TextQuestion) -> TextQuestion:
    """Cut a long text at ends of lines or sentences, to a piece that has the first answer."""
    if len(question.text) <= MAX_PARAGRAPH:
        return question
    start, answer = question.answers[0]
    edges = [0, *(match.end() for match in re.finditer(r"\n|(?<=[.!?。！？])\s", question.text))]
    first = max((edge for edge in edges if edge <= max(start - MAX_PARAGRAPH // 2, 0)), default=0)
    piece = question.text[first : max(first + MAX_PARAGRAPH, start + len(answer))]
    return question._replace(text=piece, answers=((start - first, answer),))


def answer_words(text: str) -> list[str]:
    """Return the words of an answer as the official measures compare them.

    As SQuAD does: without case, punctuation and English articles. Characters of scripts without spaces are
    words of their own, as in the measure of CMRC 2018.

    >>> answer_words("The Denver Broncos."), answer_words("约 5 米")
    (['denver', 'broncos'], ['约', '5', '米'])
    """
    plain = _ARTICLES.sub(" ", _PUNCTUATION.sub("", text.lower()))
    return _CHARACTER.sub(r" \g<0> ", plain).split()


def answer_f1(answer: Sequence[str], right: Sequence[str]) -> float:
    """Return the F1 of the words of an answer.

    >>> round(answer_f1(["denver", "broncos"], ["broncos"]), 3)
    0.667
    """
    common = sum(min(answer.count(word), right.count(word)) for word in set(answer))
    if not common:
        return float(answer == right)
    return 2 * common / (len(answer) + len(right))
