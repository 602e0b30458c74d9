"""Errors: one tree, and they cross process borders whole."""

from __future__ import annotations

import pickle

import pytest

from vrag import errors
from vrag.errors import MissingExtra, VragError


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
