"""A fault of a part that reads pages costs what it would have found there, is counted and told."""

from __future__ import annotations

import logging
import threading
from contextvars import copy_context
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

import pytest

from vrag.errors import ModelError
from vrag.reading import page_text
from vrag.reading.answer import ReadPage
from vrag.reading.page_faults import FAULT_COUNTS, UnreadPart, collect_page_faults, read_part
from vrag.reading.reader import load_text_reader, read
from vrag.testing import page

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from vrag.reading.spans.reader import ScoredSpan
    from vrag.reading.text_reader import Segments

GOOD = page("ferries.pdf", 1, "The Petrel was launched in 1987 at Orla by its first captain.")
BAD = page("ferries.pdf", 2, "The Fulmar has a hidden fault.")
QUESTION = "When was the Petrel launched?"


def fail(*_: object, **__: object) -> NoReturn:
    """A finder with a fault; its message repeats the document."""
    raise IndexError("a secret of the document")


class FailingOnOnePage:
    """A reader of running text that fails on the text of `BAD`, or with an error of its own on any."""

    name = "failing"

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    def read(
        self, question: str, texts: Sequence[str], segments: Sequence[Segments] = ()
    ) -> tuple[tuple[ScoredSpan, ...], ...]:
        if self.error is not None:
            raise self.error
        if BAD.text in texts:
            fail()
        return load_text_reader().read(question, texts, segments)


@pytest.mark.parametrize(
    ("module", "finder", "part"),
    [
        (page_text, "find_tables", UnreadPart.TABLES),
        (page_text, "find_labelled_values", UnreadPart.VALUES),
        (page_text, "_place_words", UnreadPart.TEXT),
    ],
)
def test_a_finder_that_fails_is_told_and_the_reader_goes_on(
    module: ModuleType, finder: str, part: UnreadPart, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, finder, fail)
    before = FAULT_COUNTS[part]

    with collect_page_faults() as faults:
        read(QUESTION, [ReadPage(replace(GOOD, id=finder))])  # not read before

    assert list(faults) == [f"ferries.pdf, page 1: its {part} could not be read."]
    assert FAULT_COUNTS[part] > before


def test_the_other_pages_are_read_where_one_fails() -> None:
    with collect_page_faults() as faults:
        found = read(QUESTION, [ReadPage(BAD), ReadPage(GOOD)], text_reader=FailingOnOnePage())

    assert found[0].text == "1987"
    assert list(faults) == ["ferries.pdf, page 2: its answers could not be read."]


def test_an_error_that_a_user_can_act_on_is_no_fault() -> None:
    with collect_page_faults() as faults, pytest.raises(ModelError):
        read(QUESTION, [ReadPage(GOOD)], text_reader=FailingOnOnePage(ModelError("The model is gone.")))

    assert not faults


def test_faults_in_threads_are_collected() -> None:
    with collect_page_faults() as faults:
        thread = threading.Thread(
            target=copy_context().run, args=(read_part, UnreadPart.TEXT, BAD, fail, None)
        )
        thread.start()
        thread.join()

    assert len(faults) == 1


def test_the_log_names_the_place_in_the_program_and_nothing_of_the_document(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert read_part(UnreadPart.TABLES, BAD, fail, ()) == ()

    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith(
        "ferries.pdf, page 2: its tables could not be read (IndexError in test_page_faults.py, line "
    )
    assert "secret" not in caplog.text
