"""Errors: one tree, drawn in the docstring, and they cross process borders whole."""

from __future__ import annotations

import pickle

import pytest

from vrag import errors
from vrag.errors import MissingExtra, VragError


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_stands_in_the_drawing_and_in_the_tree(name: str) -> None:
    assert issubclass(getattr(errors, name), VragError)
    assert name in (errors.__doc__ or "")


@pytest.mark.parametrize(
    "error", [errors.ConversionTimeout("It took long.", "Wait."), MissingExtra("torch", "models")]
)
def test_an_error_keeps_its_hint_across_processes(error: VragError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (again.message, again.hint, str(again)) == (error.message, error.hint, str(error))
