"""Chains of evidence; every expected number is worked out beside it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shown_runs import FERRY, HARBOUR, case, document, evidence, region, run

from vrag.agent.answers.citation import CheckedClaim
from vrag.agent.events import StopReason
from vrag.cases import UNANSWERABLE
from vrag.evaluation.measures.chains import (
    CHAINS,
    STAGES,
    VERIFIER,
    AnswerWords,
    StageCounts,
    chain,
    count_stages,
    verdict_of,
    verifier,
)
from vrag.evaluation.relevance import DocumentNames
from vrag.geometry import Box
from vrag.reading.verification.claim import ClaimKind, ClaimVerdict
from vrag.types import GoldFact, GoldPage, Item, ItemKind, Word, item_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vrag.agent.evidence import BoxSides
    from vrag.agent.runs.run_result import RunResult
    from vrag.types import Case

NAMES = DocumentNames.of([*document(FERRY, "ferry.pdf", "copy.pdf"), *document(HARBOUR, "harbour.pdf")])
GOLD: BoxSides = (0.1, 0.1, 0.5, 0.3)
"""8 % of the page; its centre is (0.3, 0.2)."""
BOXED = replace(case(3, regions=(region(3, *GOLD),)), reference_answer="48,200")
SEEN, STATED, DOUBTED, UNVERIFIED = (
    ClaimVerdict.SEEN,
    ClaimVerdict.STATED,
    ClaimVerdict.DOUBTED,
    ClaimVerdict.UNVERIFIED,
)


def item(number: int, *words: tuple[str, float, float], id: str = FERRY) -> Item:
    """A page with words, each a tenth of the page wide and high, at left and top."""
    text, placed = "", list[Word]()
    for word, x, y in words:
        start = len(text)
        text += f"{word} "
        placed.append(Word(start, start + len(word), Box.unit(x, y, x + 0.1, y + 0.1)))
    return Item(
        id=item_id(id, number),
        document=id,
        document_name="ferry.pdf",
        kind=ItemKind.PAGE,
        ordinal=number,
        text=text,
        words=tuple(placed),
    )


PAGE = item(3, ("48,200", 0.25, 0.15), ("people", 0.4, 0.15), ("1974", 0.8, 0.8))
"""The answer stands in the gold box."""


def measured(
    run: RunResult, of: Case = BOXED, right: bool | None = True, page: Item = PAGE
) -> dict[str, float]:
    return chain(of, run, NAMES, {page.id: page}.get, right=right)


def cites(box: BoxSides, page: int = 3, *, id: str = FERRY, name: str = "ferry.pdf") -> RunResult:
    """A run that looked closer at a place, and cites it."""
    place = evidence(page, box, id=id, name=name)
    return run(cites=(place,), looks=(place,))


class TestAChain:
    def test_that_is_complete(self) -> None:
        assert measured(cites(GOLD)) == dict.fromkeys(CHAINS, 1.0)

    def test_that_breaks_at_the_page(self) -> None:
        found = measured(cites(GOLD, page=2))
        assert (found["chain_page"], found["chain_region"], found["chain_fact"]) == (0, 0, 0)
        assert (found["chain_answer"], found["chain_complete"], found["chain_complete_right"]) == (1, 0, 0)
        assert not {"region_given_page", "fact_given_region", "answer_given_fact"} & found.keys()

    def test_that_breaks_at_the_region(self) -> None:
        found = measured(cites((0.5, 0.5, 0.9, 0.9)))
        assert (found["chain_page"], found["region_given_page"], found["chain_complete"]) == (1, 0, 0)
        assert "fact_given_region" not in found

    def test_that_breaks_at_the_fact(self) -> None:
        """The rectangle covers the centre of the gold box, and ends before the middle of the number."""
        found = measured(cites((0.0, 0.0, 0.305, 0.5)), page=item(3, ("48,200", 0.26, 0.15)))
        assert (found["chain_region"], found["fact_given_region"], found["chain_complete"]) == (1, 0, 0)
        assert "answer_given_fact" not in found

    def test_that_breaks_at_the_answer(self) -> None:
        found = measured(cites(GOLD), right=False)
        assert (found["answer_given_fact"], found["chain_complete"]) == (0, 0)
        assert "chain_complete_right" not in found

    def test_without_a_verdict_has_no_end(self) -> None:
        found = measured(cites(GOLD), right=None)
        assert not {"chain_answer", "chain_complete", "chain_complete_right"} & found.keys()
        assert found["fact_given_region"] == 1

    @pytest.mark.parametrize(
        "ended",
        [
            run(answer=None, stop=StopReason.ABSTAINED, cites=(evidence(3, GOLD),)),
            run(answer=None, stop=StopReason.FAULT),
            run(),
        ],
    )
    def test_of_a_run_without_cited_evidence_breaks_at_the_page(self, ended: RunResult) -> None:
        found = measured(ended, right=False)
        assert (found["chain_page"], found["cited_page_recall"], found["region_f1"]) == (0, 0, 0)
        assert count_stages([found])[0].broken == 1

    def test_needs_gold_pages_and_an_answer(self) -> None:
        assert measured(cites(GOLD), case()) == {}
        assert measured(cites(GOLD), replace(BOXED, reference_answer=UNANSWERABLE)) == {}

    def test_without_gold_boxes_passes_over_the_region(self) -> None:
        found = measured(cites(GOLD), replace(BOXED, regions=()))
        assert not {"chain_region", "region_f1", "region_given_page"} & found.keys()
        assert (found["fact_given_region"], found["chain_complete"]) == (1, 1)

    def test_has_the_pages_of_other_names_of_the_same_bytes(self) -> None:
        assert measured(cites(GOLD, name="copy.pdf"))["chain_complete"] == 1
        assert measured(cites(GOLD, id=HARBOUR, name="harbour.pdf"))["chain_page"] == 0

    def test_counts_the_gold_pages_that_are_cited(self) -> None:
        two = replace(BOXED, reference_page=(3, 5))
        assert measured(cites(GOLD), two)["cited_page_recall"] == 0.5

    def test_goes_by_what_is_cited_and_not_by_what_was_looked_at(self) -> None:
        both = run(cites=(evidence(2, GOLD), evidence(3, GOLD)))
        assert measured(both)["chain_page"] == 1
        assert measured(replace(both, cited=1))["chain_page"] == 0

    def test_of_a_document_without_pages_is_met_by_any_passage(self) -> None:
        text = replace(case(), file_name="harbour.pdf", gold=(GoldPage("harbour.pdf"),))
        cited = run(cites=(evidence(7, None, id=HARBOUR, name="harbour.pdf", kind=ItemKind.PASSAGE),))
        assert measured(cited, text)["chain_page"] == 1


class TestTheRegion:
    @pytest.mark.parametrize(
        ("box", "points"),
        [
            (GOLD, True),
            ((0.0, 0.0, 0.5, 0.5), True),  # a quarter of the page, with the centre
            ((0.0, 0.0, 0.6, 0.5), False),  # 30 % of the page
            ((0.35, 0.1, 0.5, 0.3), True),  # inside, beside the centre
            ((0.4, 0.1, 0.6, 0.3), True),  # half of it is inside
            ((0.41, 0.1, 0.61, 0.3), False),
            ((0.0, 0.0, 1.0, 1.0), False),
        ],
    )
    def test_is_met_by_a_rectangle_in_a_gold_box_or_a_small_one_around_its_centre(
        self, box: BoxSides, points: bool
    ) -> None:
        assert measured(cites(box))["chain_region"] == points

    def test_is_met_by_the_page_where_the_gold_box_is_most_of_it(self) -> None:
        large = replace(BOXED, regions=(region(3, 0.0, 0.0, 1.0, 0.6),))
        assert measured(cites((0, 0, 1, 1)), large)["chain_region"] == 1

    def test_a_page_as_a_whole_beside_a_part_of_it_is_the_part(self) -> None:
        both = evidence(3, (0, 0, 1, 1)), evidence(3, GOLD)
        assert measured(run(cites=both, looks=both))["region_f1"] == 1

    def test_is_not_met_by_a_rectangle_that_was_found_by_the_words_of_the_answer(self) -> None:
        found = measured(run(cites=(evidence(3, GOLD),)))
        assert (found["chain_page"], found["chain_region"], found["region_f1"]) == (1, 0, 0)
        assert (found["chain_fact"], found["chain_complete"]) == (1, 0)

    def test_overlaps_by_areas_of_all_gold_pages(self) -> None:
        """On page 3 all of both, on page 5 nothing: the mean is a half."""
        two = replace(BOXED, reference_page=(3, 5), regions=(region(3, *GOLD), region(5, *GOLD)))
        found = measured(cites(GOLD), two)
        assert (found["region_f1"], found["region_iou"]) == (0.5, 0.5)

    def test_is_that_of_the_annotator_who_agrees_best(self) -> None:
        other = replace(region(3, 0.6, 0.6, 0.9, 0.9), annotator="2")
        shared = replace(BOXED, regions=(replace(BOXED.regions[0], annotator="1"), other))
        assert measured(cites(GOLD), shared)["region_f1"] == 1
        alone = replace(BOXED, regions=(BOXED.regions[0], replace(other, annotator="")))
        assert measured(cites(GOLD), alone)["region_f1"] == pytest.approx(2 * 0.08 / (0.08 + 0.17))


class TestTheFact:
    def test_is_not_measured_where_the_gold_box_does_not_say_the_answer(self) -> None:
        """As of an answer that is computed: it stands nowhere, or elsewhere on the page."""
        for reference in ("96,400", "1974", "Yes"):
            found = measured(cites(GOLD), replace(BOXED, reference_answer=reference))
            assert "chain_fact" not in found
            assert found["answer_given_fact"] == 1

    def test_is_said_by_any_of_the_right_answers(self) -> None:
        asked = replace(BOXED, reference_answer="forty-eight thousand", alternatives=("48200",))
        assert measured(cites(GOLD), asked)["chain_fact"] == 1

    def test_is_read_on_the_page_where_there_are_no_boxes(self) -> None:
        asked = replace(BOXED, regions=(), reference_answer="1974")
        assert measured(cites((0, 0, 1, 1)), asked)["chain_fact"] == 1
        assert measured(cites(GOLD), asked)["chain_fact"] == 0

    def test_needs_the_items_of_the_collection(self) -> None:
        found = chain(BOXED, cites(GOLD), NAMES, lambda _: None, right=True)
        assert "chain_fact" not in found
        assert found["chain_complete"] == 1


class TestGoldFacts:
    """Facts stand for the answer where a data set has them."""

    TEXT = "The island of Fennick has 97 households. In 1974 Orla had 412 households and a school for all."

    def page(self) -> Item:
        words = self.TEXT.split()
        return item(
            3, *((word, 0.02 + at % 8 * 0.11, 0.12 if at < 8 else 0.52) for at, word in enumerate(words))
        )

    def asked(self, *facts: str) -> Case:
        return replace(
            case(3, regions=(region(3, 0.0, 0.0, 1.0, 0.4),)),
            query="How many households has Fennick?",
            facts=tuple(GoldFact(fact, 3) for fact in facts),
        )

    def test_are_said_by_the_words_of_the_cited_rectangle(self) -> None:
        asked = self.asked("Fennick has 97 households.")
        assert measured(cites((0, 0, 1, 0.4)), asked, page=self.page())["chain_fact"] == 1
        assert measured(cites((0, 0.5, 1, 0.9)), asked, page=self.page())["chain_fact"] == 0

    def test_that_the_gold_boxes_do_not_say_are_passed_over(self) -> None:
        asked = self.asked("Fennick has 98 households.")
        assert "chain_fact" not in measured(cites((0, 0, 1, 0.4)), asked, page=self.page())


class TestAnswerWords:
    @pytest.mark.parametrize(
        ("text", "answer"),
        [
            ("It cost $12.50 in all.", "12.50"),
            ("48,200 passengers", "48200"),
            ("Ships: Guillemot, Sanderling.", "['Sanderling', 'Guillemot']"),
            ("应保持五十米的距离", "五十米"),
            ("THE LANTERN FERRY", "lantern ferry."),
            ("up by 45 %", "45%"),
        ],
    )
    def test_are_found_in_a_row(self, text: str, answer: str) -> None:
        assert AnswerWords.of(text).say(answer)

    @pytest.mark.parametrize(
        ("text", "answer"),
        [
            ("148,200 passengers", "48,200"),
            ("4 8 200", "48,200"),
            ("Lantern line, ferry", "lantern ferry"),
            ("no boats", "No"),
            ("Sanderling", "['Sanderling', 'Guillemot']"),
            ("12.50", "2.5"),
            ("anything", "…"),
        ],
    )
    def test_are_not_found_in_others(self, text: str, answer: str) -> None:
        assert not AnswerWords.of(text).say(answer)

    @given(st.text(max_size=30), st.text(max_size=8), st.text(max_size=30))
    def test_never_raise_and_find_what_stands_alone(self, before: str, answer: str, after: str) -> None:
        if AnswerWords.of(answer).say(answer) and not answer.startswith("["):
            assert AnswerWords.of(f"{before}\n | {answer} | \n{after}").say(answer)
        AnswerWords.of(before).say(f"[{after}")


def checked(*verdicts: ClaimVerdict, answer: str | None = "9", needs_picture: bool = False) -> RunResult:
    claims = (
        CheckedClaim(kind=ClaimKind.NUMBER, start=0, end=1, verdict=verdict, needs_picture=needs_picture)
        for verdict in verdicts
    )
    return replace(run(answer=answer), claims=tuple(claims))


class TestTheVerifier:
    def test_says_of_an_answer_what_it_says_of_its_worst_claim(self) -> None:
        assert verdict_of(checked(SEEN, STATED)) is STATED
        assert verdict_of(checked(STATED, DOUBTED, UNVERIFIED)) is DOUBTED
        assert verdict_of(checked()) is None
        assert verdict_of(checked(UNVERIFIED, answer=None)) is None

    @pytest.mark.parametrize(
        ("run", "right", "expected"),
        [
            (
                checked(STATED),
                True,
                {"doubted": 0, "claims_stated": 1, "claims_verified": 0, "right_doubted": 0},
            ),
            (
                checked(SEEN),
                False,
                {
                    "doubted": 0,
                    "claims_stated": 1,
                    "claims_verified": 1,
                    "doubt_recall": 0,
                    "wrong_verified": 1,
                },
            ),
            (
                checked(SEEN, UNVERIFIED),
                False,
                {
                    "doubted": 1,
                    "claims_stated": 0.5,
                    "claims_verified": 0.5,
                    "doubt_recall": 1,
                    "doubt_precision": 1,
                    "wrong_verified": 0,
                },
            ),
            (
                checked(DOUBTED),
                True,
                {
                    "doubted": 1,
                    "claims_stated": 0,
                    "claims_verified": 0,
                    "doubt_precision": 0,
                    "right_doubted": 1,
                },
            ),
            (checked(DOUBTED), None, {"doubted": 1, "claims_stated": 0, "claims_verified": 0}),
            (
                checked(UNVERIFIED, needs_picture=True),
                False,
                {"doubted": 0, "claims_verified": 0, "doubt_recall": 0, "wrong_verified": 0},
            ),
            (checked(), False, {}),
        ],
    )
    def test_is_compared_with_the_gold(
        self, run: RunResult, right: bool | None, expected: Mapping[str, float]
    ) -> None:
        assert verifier(run, right=right) == expected
        assert expected.keys() <= VERIFIER.keys()


class TestStages:
    def test_are_counted_from_one_to_the_next(self) -> None:
        page, region_, fact, answer = STAGES
        runs = [
            {page: 1, region_: 1, fact: 1, answer: 1},
            {page: 1, region_: 1, answer: 0},  # the fact is not measured
            {page: 1, region_: 0, fact: 1, answer: 1},
            {page: 0, region_: 0, fact: 0, answer: 1},
            {page: 1, region_: 1, fact: 1},  # no verdict
            {"em": 1.0},  # no chain
        ]
        assert count_stages(runs) == (
            StageCounts(page, held=4, unmeasured=0, broken=1, before=0),
            StageCounts(region_, held=3, unmeasured=0, broken=1, before=1),
            StageCounts(fact, held=2, unmeasured=1, broken=0, before=2),
            StageCounts(answer, held=1, unmeasured=1, broken=1, before=2),
        )

    def test_that_no_question_has_are_left_out(self) -> None:
        assert [found.stage for found in count_stages([{"chain_page": 1, "chain_answer": 0}])] == [
            "chain_page",
            "chain_answer",
        ]
        assert count_stages([]) == ()
