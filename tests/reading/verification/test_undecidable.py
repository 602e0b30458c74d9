"""What the words of a page cannot decide is not doubted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.reading.answer import ReadPage
from vrag.reading.verification.claim import ClaimVerdict
from vrag.reading.verification.undecidable import is_other_language
from vrag.reading.verification.verifier import ClaimSource, check_claims
from vrag.testing import page

TEXT = (
    "Passengers in 2024\nThe ferry carried 48,200 passengers in 2024.\nCars: 3,100\n"
    "A return ticket costs 12 crowns. The ferry does not run in January because of the ice, "
    "and that is why it was not on time."
)
FERRY = ClaimSource(ReadPage(page("ferry.pdf", 2, TEXT)))
GERMAN = ClaimSource(
    ReadPage(
        page(
            "faehre.pdf",
            1,
            "Fahrgäste im Jahr 2024\nDie Fähre wurde im Jahr 2024 von vielen und mit dem Rad genutzt.",
        )
    )
)


def verdicts(answer: str, source: ClaimSource = FERRY) -> dict[str, ClaimVerdict]:
    checks = check_claims("How many passengers were there?", answer, [source])
    return {check.claim.text: check.verdict for check in checks}


@pytest.mark.parametrize(
    ("answer", "source"),
    [
        ("Die Fähre wurde im Jahr 2024 von sehr vielen Menschen genutzt.", FERRY),
        ("The ferry was used by a great many of the passengers in 2024.", GERMAN),
        ("渡轮在2024年运送了许多乘客。", FERRY),
    ],
)
def test_an_answer_in_another_language_is_not_doubted_for_its_words(answer: str, source: ClaimSource) -> None:
    assert set(verdicts(answer, source).values()) <= {ClaimVerdict.STATED, ClaimVerdict.UNVERIFIED}


def test_a_bound_of_a_computed_number_is_not_contradicted_by_another_number() -> None:
    found = verdicts("Passengers outnumber cars by more than 45,000.")
    assert ClaimVerdict.DOUBTED not in found.values()


@pytest.mark.parametrize("place", ["page 1", "Figure 3", "Table 2"])
def test_names_of_places_are_no_claims(place: str) -> None:
    found = verdicts(f"There were 48,200 passengers in 2024 ({place}).")
    assert place not in found
    assert found["48,200"] is ClaimVerdict.STATED


def test_a_wrong_number_stays_contradicted() -> None:
    assert verdicts("The ferry carried 48,900 passengers in 2024.")["48,900"] is ClaimVerdict.DOUBTED


def test_an_invented_sentence_in_the_same_language_is_not_taken_for_another() -> None:
    assert not is_other_language("The captain of the ferry likes to play the trombone.", [TEXT])


@given(st.text(max_size=80), st.lists(st.text(max_size=40), max_size=3))
def test_any_text_has_an_answer(answer: str, texts: list[str]) -> None:
    assert is_other_language(answer, texts) in {True, False}
    assert not is_other_language(answer, [answer])
