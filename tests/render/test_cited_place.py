"""The places that answers cite: their numbers, and what is written beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from annotated_pages import evidence_on, place_of, stored_run

from vrag.agent.answers.citation import CheckedClaim, Citation
from vrag.agent.evidence import BoxSides
from vrag.reading.verification.claim import ClaimKind, ClaimVerdict
from vrag.render.annotations.cited_place import MAX_ANSWER_CHARS, cited_places

if TYPE_CHECKING:
    from pathlib import Path

TEXT = "Sales rose by 4 %. The margin fell to 1.2 %. Nobody knows why."


def part(text: str, *numbers: int) -> Citation:
    start = TEXT.index(text)
    return Citation(start=start, end=start + len(text), numbers=numbers, source="model")


def claim(text: str, verdict: ClaimVerdict, *numbers: int) -> CheckedClaim:
    start = TEXT.index(text)
    return CheckedClaim(
        kind=ClaimKind.NUMBER, start=start, end=start + len(text), verdict=verdict, numbers=numbers
    )


def test_a_place_has_the_parts_and_the_verdicts_that_are_about_it(tmp_path: Path) -> None:
    other: BoxSides = (0.1, 0.6, 0.5, 0.7)
    run = stored_run(
        tmp_path,
        TEXT,
        (evidence_on(), evidence_on(2, other)),
        citations=(part("Sales rose by 4 %.", 1), part("The margin fell to 1.2 %.", 1, 2)),
        claims=(
            claim("4 %", ClaimVerdict.STATED, 1),
            claim("1.2 %", ClaimVerdict.DOUBTED, 2),
            claim("fell", ClaimVerdict.UNVERIFIED),
            claim("Nobody", ClaimVerdict.UNVERIFIED),
            claim("Sales rose by 4 %.", ClaimVerdict.DOUBTED, 1).model_copy(
                update={"kind": ClaimKind.SENTENCE}
            ),
        ),
    )
    first, second = cited_places([run])
    assert (first.number, second.number) == ("1", "2")
    assert first.parts == ("Sales rose by 4 %.", "The margin fell to 1.2 %.")
    assert second.parts == ("The margin fell to 1.2 %.",)
    assert first.verdict_lines == ("Stated in the text [1]: “4 %”.", "Not found in the evidence: “fell”.")
    assert second.verdict_lines[0] == "The evidence [2] contradicts “1.2 %”."
    assert (first.verdict, second.verdict) == (ClaimVerdict.UNVERIFIED, ClaimVerdict.DOUBTED)
    assert "Cited for: The margin fell to 1.2 %." in second.note
    assert "The evidence [2] contradicts “1.2 %”." in second.note
    assert second.summary == "[2] The margin fell to 1.2 %."


def test_places_of_several_questions_have_the_number_of_the_question_before_their_own(tmp_path: Path) -> None:
    answered = stored_run(tmp_path / "a", TEXT, (evidence_on(), evidence_on(2, (0.1, 0.1, 0.4, 0.4))))
    silent = stored_run(tmp_path / "b", None, (evidence_on(),))
    places = cited_places([answered, silent, answered])
    assert [place.number for place in places] == ["1.1", "1.2", "3.1", "3.2"]
    assert cited_places([silent]) == ()


def test_a_run_without_citations_cites_what_its_answer_rests_on(tmp_path: Path) -> None:
    whole = evidence_on(2, (0.0, 0.0, 1.0, 1.0), ())
    (place,) = cited_places([stored_run(tmp_path, TEXT, (evidence_on(), whole))])
    assert place.evidence == evidence_on()
    assert place.parts == (TEXT,)
    assert (place.verdict, place.verdict_lines) == (None, ())
    assert "Cited for" not in place.note


def test_a_withdrawn_answer_is_called_so(tmp_path: Path) -> None:
    run = stored_run(tmp_path, None, (evidence_on(),), withdrawn=TEXT)
    (place,) = cited_places([run])
    assert "Withdrawn answer: Sales rose" in place.note


def test_a_note_is_bounded_and_has_no_control_characters() -> None:
    place = place_of(evidence_on(document="a\x00b\n.pdf"), answer="1\x1b[31m" * MAX_ANSWER_CHARS)
    assert len(place.note) < MAX_ANSWER_CHARS + 300
    assert not any(ord(character) < 32 and character != "\n" for character in place.note)
    assert place.title.startswith("[1] a\ufffdb .pdf, page 1")


@pytest.mark.parametrize(
    ("verdicts", "worst"),
    [
        ("seen", "seen"),
        ("seen computed", "computed"),
        ("stated seen", "stated"),
        ("stated unverified seen", "unverified"),
        ("unverified doubted", "doubted"),
    ],
)
def test_the_worst_verdict_counts(tmp_path: Path, verdicts: str, worst: str) -> None:
    claims = [claim("4 %", ClaimVerdict(name), 1) for name in verdicts.split()]
    (place,) = cited_places([stored_run(tmp_path, TEXT, (evidence_on(),), claims=claims)])
    assert place.verdict == worst
