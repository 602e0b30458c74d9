"""Errors: one tree, and they cross process borders whole."""

from __future__ import annotations

import pickle

import pytest

from vrag import errors
from vrag.errors import MissingExtra, VragError, as_sentence


def test_every_error_is_one_of_ours() -> None:
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    assert all(issubclass(error, VragError) for error in classes)


@pytest.mark.parametrize(
    "error", [errors.ConversionTimeout("It took long.", "Wait."), MissingExtra("torch", "models")]
)
def test_an_error_keeps_its_hint_across_processes(error: VragError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (again.message, again.hint, str(again)) == (error.message, error.hint, str(error))


@pytest.mark.parametrize(
    ("reason", "sentence"),
    [
        ("the box is empty", "The box is empty."),
        ("empty.", "Empty."),
        ("fares.PDF is empty", "fares.PDF is empty."),
        ("iPad sales.xlsx is empty.", "iPad sales.xlsx is empty."),
        ("next_page failed", "next_page failed."),
        ("", "."),
    ],
)
def test_a_reason_becomes_a_sentence_and_a_name_keeps_its_spelling(reason: str, sentence: str) -> None:
    assert as_sentence(reason) == sentence
