"""The question sets that the reader of running text learns from, and their division by paragraph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from vrag.reading.training.text_data import (
    LANGUAGES,
    TextQuestion,
    read_cmrc,
    read_covid,
    read_drcd,
    read_jaquad,
    read_shifts,
    read_xquad,
)

HELD_OUT = 12
"""Every so many-th article is kept for the calibration."""
MAX_QUESTIONS = 8000
"""Questions of one set that are learnt from, a random choice."""
MAX_TRANSLATED = 400
"""Questions of one language of XQuAD that are learnt from, a random choice; English is taken whole."""
MAX_TESTED = 1200
"""Questions of one set that are measured."""

_Reader = Callable[[Path], list[TextQuestion]]
_TRAINING: dict[str, tuple[str, _Reader]] = {
    "shifts-new_wiki": ("squadshifts", lambda folder: read_shifts(folder, "new_wiki")),
    "shifts-reddit": ("squadshifts", lambda folder: read_shifts(folder, "reddit")),
    "shifts-amazon": ("squadshifts", lambda folder: read_shifts(folder, "amazon_reviews")),
    "covid": ("COVID-QA", read_covid),
    "cmrc-dev": ("cmrc2018", lambda folder: read_cmrc(folder, "dev")),
    "drcd-dev": ("DRCD", lambda folder: read_drcd(folder, "dev")),
    "drcd-test": ("DRCD", lambda folder: read_drcd(folder, "test")),
    "jaquad-train": ("JaQuAD", lambda folder: read_jaquad(folder, "train")),
}
_TESTS: dict[str, tuple[str, _Reader]] = {
    "cmrc-trial": ("cmrc2018", lambda folder: read_cmrc(folder, "trial")),
    "jaquad-dev": ("JaQuAD", lambda folder: read_jaquad(folder, "dev")),
}


class SpanSets(NamedTuple):
    """Questions by use; no two uses share a paragraph, but for `translated` and XQuAD in `tests`."""

    training: list[TextQuestion]
    translated: list[TextQuestion]
    """XQuAD, which is learnt from only when the figures have been measured."""
    calibration: list[TextQuestion]
    tests: dict[str, list[TextQuestion]]


def read_span_sets(folder: Path, *, share: float = 1.0, seed: int = 0) -> SpanSets:
    """Read those of the sets that stand in a folder, each in the folder of its repository.

    `share` is the part of the questions of each set that is taken. Raises `FileNotFoundError` if there is no
    set to train with.
    """
    random = np.random.default_rng(seed)

    def choose(questions: Sequence[TextQuestion], most: int) -> list[TextQuestion]:
        count = int(share * min(len(questions), most) + 0.5)
        return [questions[number] for number in sorted(random.permutation(len(questions))[:count].tolist())]

    known = [q for found in _read(folder, _TRAINING).values() for q in choose(found, MAX_QUESTIONS)]
    if not known:
        names = ", ".join(sorted({name for name, _ in _TRAINING.values()}))
        raise FileNotFoundError(f"{folder} has none of the folders {names}")
    xquad = {code: read_xquad(folder / "xquad", code) for code in LANGUAGES if _has_language(folder, code)}
    translated = [choose(found, 2000 if code == "en" else MAX_TRANSLATED) for code, found in xquad.items()]
    tests = _read(folder, _TESTS) | {f"xquad-{code}": found for code, found in xquad.items()}
    return SpanSets(
        training=[question for question in known if question.article % HELD_OUT],
        translated=[question for found in translated for question in found],
        calibration=[question for question in known if not question.article % HELD_OUT],
        tests={name: choose(found, MAX_TESTED) for name, found in tests.items()},
    )


def _read(folder: Path, sets: dict[str, tuple[str, _Reader]]) -> dict[str, list[TextQuestion]]:
    """Read the sets whose folders exist."""
    return {name: read(folder / inner) for name, (inner, read) in sets.items() if (folder / inner).is_dir()}


def _has_language(folder: Path, code: str) -> bool:
    return (folder / "xquad" / f"xquad.{code}.json").is_file()


def pair_with_wrong_paragraphs(questions: Sequence[TextQuestion], seed: int = 0) -> list[TextQuestion]:
    """Return each question with a paragraph that does not answer it, and without right answers.

    Where its article has others, every second question gets one of these; all others get a paragraph of
    another article of the same set.
    """
    random = np.random.default_rng(seed)
    paragraphs: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for question in questions:
        paragraphs[question.source][question.text] = question.article
    paired: list[TextQuestion] = []
    for number, question in enumerate(questions):
        others = [
            (text, article) for text, article in paragraphs[question.source].items() if text != question.text
        ]
        same = [text for text, article in others if article == question.article]
        chosen = same if same and number % 2 else [text for text, _ in others]
        if chosen:
            text = chosen[int(random.integers(len(chosen)))]
            paired.append(question._replace(text=text, answers=()))
    return paired
