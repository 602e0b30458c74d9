"""The second reading: what the picture shows is seen, another number is doubted, the rest stays stated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.reading.answer import ReadPage
from vrag.reading.verification.claim import ClaimDoubt, ClaimVerdict
from vrag.reading.verification.claim_evidence import ClaimCheck
from vrag.reading.verification.second_reading import (
    MAX_RUNS,
    MIN_SCORE,
    Strip,
    StripText,
    can_read,
    has_words,
    is_other_number,
    is_same,
    read_again,
)
from vrag.reading.verification.verifier import ClaimSource, check_claims
from vrag.testing import page, passage
from vrag.types import Item, TextSource

TEXT = "\n".join(
    (
        "Report of the harbour of Sandvik",
        "The ferry carried 48,217 passengers in 2024.",
        "The ferry carried 39,604 passengers in 2023.",
        "A return ticket costs 12.50 crowns in summer.",
        *["Other words stand here for the length of the page."] * 3,
    )
)
PAGE = page("report.pdf", 1, TEXT)
RIGHT = "The ferry carried 48,217 passengers in 2024."


@dataclass
class DrawnPage:
    """Reads the words whose boxes a strip covers, from the text that is drawn: OCR that never errs."""

    drawn: str = TEXT
    misread: Callable[[str, int], str] = lambda text, height: text  # noqa: ARG005
    """Changes what is read, by the height of the line."""
    score: float = 0.99
    strips: list[tuple[Strip, int]] = field(default_factory=list["tuple[Strip, int]"])
    """What was read, in order."""

    def read(self, item: Item, strips: Sequence[Strip], height: int) -> list[StripText | None]:
        self.strips += [(strip, height) for strip in strips]
        return [StripText(self.misread(self._text(item, strip), height), self.score) for strip in strips]

    def _text(self, item: Item, strip: Strip) -> str:
        inside = (word for word in item.words if strip.box.covers(*word.box.center))
        return " ".join(self.drawn[word.start : word.end] for word in inside)


def read(answer: str, reader: DrawnPage, item: Item = PAGE, question: str = "") -> dict[str, ClaimCheck]:
    checks = check_claims(question, answer, [ClaimSource(ReadPage(item))])
    return {check.claim.text: check for check in read_again(checks, {item.id: item}, reader)}


def verdicts(answer: str, reader: DrawnPage, item: Item = PAGE, question: str = "") -> set[ClaimVerdict]:
    return {check.verdict for check in read(answer, reader, item, question).values()}


def test_what_the_picture_shows_too_is_seen() -> None:
    assert verdicts(RIGHT, DrawnPage()) == {ClaimVerdict.SEEN}


def test_another_drawn_number_is_doubted_with_what_is_read() -> None:
    found = read(RIGHT, DrawnPage(TEXT.replace("48,217", "48,271")))
    for claim in ("48,217", RIGHT):
        check = found[claim]
        assert (check.verdict, check.doubt) == (ClaimVerdict.DOUBTED, ClaimDoubt.READING)
        assert "48,271" in check.found
    assert found["2024"].verdict is ClaimVerdict.SEEN


@given(st.integers(10_000, 99_999), st.data())
def test_any_other_digit_is_doubted(number: int, data: st.DataObject) -> None:
    stored = f"{number:,}"
    at = data.draw(st.sampled_from([at for at, sign in enumerate(stored) if sign.isdigit()]))
    digit = data.draw(st.sampled_from([digit for digit in "123456789" if digit != stored[at]]))
    item = replace(PAGE, text=TEXT.replace("48,217", stored))
    drawn = item.text.replace(stored, f"{stored[:at]}{digit}{stored[at + 1 :]}")
    answer = f"The ferry carried {stored} passengers."
    assert verdicts(answer, DrawnPage(drawn), item) == {ClaimVerdict.DOUBTED}
    assert verdicts(answer, DrawnPage(item.text), item) == {ClaimVerdict.SEEN}


def test_a_rounded_number_is_seen_where_the_exact_one_is_drawn() -> None:
    assert verdicts("The ferry carried about 48,000 passengers in 2024.", DrawnPage()) == {ClaimVerdict.SEEN}


def _replace_number(other: str) -> Callable[[str, int], str]:
    return lambda text, _: text.replace("48,217", other)


@pytest.mark.parametrize(
    "reader",
    [
        DrawnPage(TEXT.replace("48,217", "48,271"), score=MIN_SCORE - 0.1),
        DrawnPage(TEXT.replace("48,217", "48,Z17")),
        DrawnPage(TEXT.replace("48,217", "8,217")),
        DrawnPage(misread=_replace_number("48,2170")),
        DrawnPage(misread=_replace_number("148,217")),
        DrawnPage(TEXT.replace("48,217", "      ")),
        DrawnPage(misread=lambda text, height: text.replace("48,217", f"48,{200 + height}")),
    ],
    ids=[
        "unsure",
        "a letter",
        "fewer digits",
        "a digit behind",
        "a digit before",
        "nothing",
        "readings that differ",
    ],
)
def test_what_ocr_is_unsure_of_stays_stated(reader: DrawnPage) -> None:
    found = read(RIGHT, reader)
    assert found["48,217"].verdict is ClaimVerdict.STATED
    assert found[RIGHT].verdict is ClaimVerdict.STATED


def test_one_of_several_readings_that_agrees_is_enough() -> None:
    reader = DrawnPage(misread=lambda text, height: text.replace("7", "1") if height < 64 else text)
    assert read("48,217", reader)["48,217"].verdict is ClaimVerdict.SEEN


def test_a_sentence_is_seen_only_with_nearly_all_of_its_words() -> None:
    other = DrawnPage(TEXT.replace("ferry", "xxxxx").replace("passengers", "yyyyyyyyyy"))
    found = read(RIGHT, other)
    assert found["48,217"].verdict is ClaimVerdict.SEEN
    assert found[RIGHT].verdict is ClaimVerdict.STATED
    loose = "In the whole year of 2024, the ferry carried 48,217 cheerful, mostly local passengers."
    assert read(loose, DrawnPage())[loose].verdict is ClaimVerdict.STATED


@pytest.mark.parametrize(
    "item",
    [
        replace(PAGE, text_source=TextSource.OCR),
        replace(PAGE, size=None, image=None),
        passage("report.txt", 1, TEXT),
    ],
    ids=["its text is OCR", "no picture", "a passage"],
)
def test_what_has_no_second_source_stays_stated_and_is_not_read(item: Item) -> None:
    reader = DrawnPage()
    assert not can_read(item)
    assert verdicts(RIGHT, reader, item) == {ClaimVerdict.STATED}
    assert reader.strips == []


def test_what_the_text_does_not_say_is_not_read() -> None:
    reader = DrawnPage()
    assert verdicts("99,999", reader, question="How many crowns?") == {ClaimVerdict.UNVERIFIED}
    assert reader.strips == []


QUESTION = "What is the difference in passengers between 2024 and 2023?"


def test_a_computed_number_is_computed_where_all_its_operands_are_seen() -> None:
    found = read("8,613", DrawnPage(), question=QUESTION)["8,613"]
    assert found.verdict is ClaimVerdict.COMPUTED
    assert "48,217" in found.found
    assert "39,604" in found.found


def test_a_computed_number_rests_on_each_of_its_operands() -> None:
    unsure = DrawnPage(TEXT.replace("39,604", "?9,6?4"))
    assert read("8,613", unsure, question=QUESTION)["8,613"].verdict is ClaimVerdict.STATED
    other = DrawnPage(TEXT.replace("39,604", "39,684"))
    doubted = read("8,613", other, question=QUESTION)["8,613"]
    assert (doubted.verdict, doubted.doubt) == (ClaimVerdict.DOUBTED, ClaimDoubt.READING)


def test_each_run_of_words_is_read_once_and_not_without_end() -> None:
    reader = DrawnPage()
    read(f"{RIGHT} {RIGHT}", reader)
    assert len(reader.strips) == len(set(reader.strips))
    text = "\n".join(f"Ship {number} carried {number + 1000} people in May." for number in range(100))
    item = page("ships.pdf", 1, text)
    many = DrawnPage(text)
    read(text, many, item)
    assert len(many.strips) <= MAX_RUNS


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [
        ("84,210", "84.210"),
        ("84 210", "84,210"),
        ("1,150", "1,l5O"),
        ("4.6 %", "4,6%"),
        ("(1,150)", "-1,150"),
        ("3 May 2027", "3 May 2027"),
        ("twelve", "Twelve"),
        ("１２％", "12%"),
    ],
)
def test_the_same_number_in_another_form_is_the_same(wanted: str, shown: str) -> None:
    assert is_same(wanted, shown)
    assert not is_other_number(wanted, shown)


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [
        ("84,210", "84,270"),
        ("4.6", "46"),
        ("-4.6", "4.6"),
        ("3 May 2027", "3 June 2027"),
        ("2021", "20211"),
        ("12", ""),
        ("twelve", "eleven"),
        ("", ""),
    ],
)
def test_others_are_not(wanted: str, shown: str) -> None:
    assert not is_same(wanted, shown)


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_texts_are_compared(wanted: str, shown: str) -> None:
    assert not (is_same(wanted, shown) and is_other_number(wanted, shown))
    has_words(wanted, shown)
