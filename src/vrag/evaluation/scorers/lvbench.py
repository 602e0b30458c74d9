"""LVBench (arXiv 2406.08035): `lvbench`, whether the letter is right, and `lvbench/official`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vrag.metrics import normalised

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vrag.types import Case

__all__ = ["chosen_letter", "first_letter", "measures"]

_OPTION = re.compile(r"^[ \t]*\(?([A-D])[).:][ \t]*(\S.*)$", re.MULTILINE)
"""A line of the question with an option, as in `(A) A dog`."""
_ALONE = re.compile(r"\W*([A-Da-d])\W*")
_NAMES = (
    re.compile(r"\(([A-Da-d])\)"),
    re.compile(r"\A\W*([A-D])[).:]"),
    re.compile(r"\b(?i:answer|option|choice)(?i:\s+is)?\W{1,3}([A-D])\b"),
    re.compile(r"(?<![\w'’])([B-D](?![\w'’])|A(?=\s*(?:[.,;:!?]|$)))"),  # sentences begin with "A" as a word
)
"""How an answer names an option, the surest way first."""


def measures(case: Case, answer: str | None) -> Mapping[str, float]:
    """`lvbench`: the letter that an answer comes down to; `lvbench/official`: the one the script takes.

    The script takes "The answer is B" for a T, and "b" for no B. Ours reads letters as people do; see
    `chosen_letter`. By both an answer without the right letter is wrong.

    Deviation: a missing answer is wrong; the script leaves it out of the mean. Who guesses has a quarter.
    """
    if answer is None:
        return {"lvbench": 0.0, "lvbench/official": 0.0}
    right = {first_letter(reference).upper() for reference in case.references} - {""}
    return {
        "lvbench": float(chosen_letter(answer, case.query) in right),
        "lvbench/official": float(first_letter(answer) in right),
    }


def first_letter(answer: str) -> str:
    """The letter that the published script takes, or what it takes for one; empty of an empty answer.

    What stands before the first closing bracket, in it what follows the first opening one, and of that
    the first sign.

    >>> first_letter("(B) A dog"), first_letter("The answer is B")
    ('B', 'T')
    """
    text = answer.strip().split(")", maxsplit=1)[0].strip()
    if "(" in text:
        text = text.split("(")[1].strip()
    return text[:1]


def chosen_letter(answer: str, question: str) -> str | None:
    """The option that an answer chooses; None where it chooses none, or several.

    The answer is the letter; or the text of an option; or begins with the letter and a mark; or names
    one, in brackets, after "answer" or "option", or as a capital that stands alone.

    Args:
        answer: As it was given.
        question: With its options, each in a line such as `(A) A dog`.

    >>> chosen_letter("I think it is B.", "Who barks?"), chosen_letter("B or C", "Who barks?")
    ('B', None)
    """
    alone = _ALONE.fullmatch(answer)
    if alone:
        return alone[1].upper()
    said = normalised(answer)
    if said:
        worded = {letter for letter, text in _OPTION.findall(question) if normalised(text) == said}
        if len(worded) == 1:
            return worded.pop()
    return _named_letter(answer)


def _named_letter(answer: str) -> str | None:
    for name in _NAMES:
        letters = {letter.upper() for letter in name.findall(answer)}
        if letters:
            return letters.pop() if len(letters) == 1 else None
    return None
