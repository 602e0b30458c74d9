"""Evidence against gold regions; every expected number is worked out beside it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from shown_runs import FERRY, HARBOUR, case, document, evidence, region, run

from vrag.agent.events import StopReason
from vrag.evaluation.measures.run_measures import GROUNDING, grounding
from vrag.evaluation.relevance import DocumentNames
from vrag.types import GoldPage, ItemKind, Region

NAMES = DocumentNames.of([*document(FERRY, "ferry.pdf", "copy.pdf"), *document(HARBOUR, "harbour.pdf")])
QUARTER = region(3, 0.0, 0.0, 0.5, 0.5)


def measured(
    *cites: tuple[int, tuple[float, float, float, float]], gold: tuple[Region, ...] = (QUARTER,)
) -> dict[str, float]:
    return grounding(case(3, regions=gold), run(cites=tuple(evidence(*one) for one in cites)), NAMES)


def test_the_gold_box_itself() -> None:
    assert measured((3, (0.0, 0.0, 0.5, 0.5))) == {
        "evidence_page": 1.0,
        "centre": 1.0,
        "iou": 1.0,
        "box_area": 0.25,
    }


def test_every_measure_has_words() -> None:
    assert GROUNDING.keys() == measured((3, (0, 0, 1, 1))).keys()


@pytest.mark.parametrize(
    ("box", "centre", "iou"),
    [
        ((0.0, 0.0, 1.0, 1.0), 1.0, 0.25),  # the whole page covers every centre: 0.25 / 1
        ((0.2, 0.2, 0.6, 0.6), 1.0, 0.09 / 0.32),  # 0.3² in common, 0.25 + 0.16 - 0.09 together
        ((0.3, 0.0, 0.5, 0.5), 0.0, 0.1 / 0.25),  # inside, but beside the centre (0.25, 0.25)
        ((0.5, 0.5, 1.0, 1.0), 0.0, 0.0),  # touches at a corner
    ],
)
def test_one_box_on_the_page(box: tuple[float, float, float, float], centre: float, iou: float) -> None:
    found = measured((3, box))
    assert found["centre"] == centre
    assert found["iou"] == pytest.approx(iou)
    assert found["evidence_page"] == 1


def test_boxes_of_other_pages_are_never_compared() -> None:
    found = measured((2, (0.0, 0.0, 0.5, 0.5)), (3, (0.5, 0.5, 1.0, 1.0)))
    assert found == {"evidence_page": 0.0, "centre": 0.0, "iou": 0.0, "box_area": 0.25}


def test_boxes_of_other_documents_are_never_compared() -> None:
    cited = evidence(3, (0.0, 0.0, 0.5, 0.5), id=HARBOUR, name="harbour.pdf")
    found = grounding(case(3, regions=(QUARTER,)), run(cites=(cited,)), NAMES)
    assert (found["evidence_page"], found["centre"], found["iou"]) == (0, 0, 0)


def test_the_same_bytes_count_whatever_they_are_called() -> None:
    cited = evidence(3, (0.0, 0.0, 0.5, 0.5), name="copy.pdf")
    assert grounding(case(3, regions=(QUARTER,)), run(cites=(cited,)), NAMES)["iou"] == 1
    unknown = grounding(case(3, regions=(QUARTER,)), run(cites=(cited,)), DocumentNames())
    assert unknown["iou"] == unknown["evidence_page"] == 0


def test_a_region_may_be_in_another_document_than_that_of_the_case() -> None:
    gold = (region(1, 0.0, 0.0, 0.5, 0.5, "harbour.pdf"),)
    cited = evidence(1, (0.0, 0.0, 0.5, 0.5), id=HARBOUR, name="harbour.pdf")
    found = grounding(case(3, regions=gold), run(cites=(cited,)), NAMES)
    assert (found["evidence_page"], found["iou"]) == (1, 1)


def test_one_box_around_the_rows_of_a_table_is_compared_with_all_of_them() -> None:
    rows = (region(3, 0.0, 0.0, 1.0, 0.25), region(3, 0.0, 0.25, 1.0, 0.5))
    assert measured((3, (0.0, 0.0, 1.0, 0.5)), gold=rows)["iou"] == 1


def test_several_boxes_are_compared_with_one_gold_box_together() -> None:
    halves = ((3, (0.0, 0.0, 0.25, 0.5)), (3, (0.25, 0.0, 0.5, 0.5)))
    found = measured(*halves)
    assert found["iou"] == 1
    assert found["box_area"] == 0.25


@pytest.mark.parametrize(
    ("cites", "area"),
    [
        # Two columns of 0.5 by 1 that overlap by 0.25: 0.75 of the page, not 1.
        (((3, (0.0, 0.0, 0.5, 1.0)), (3, (0.25, 0.0, 0.75, 1.0))), 0.75),
        # Four quarters, of which the first alone is a quarter, cover the page and every centre.
        (((3, (0, 0, 0.5, 0.5)), (3, (0.5, 0, 1, 0.5)), (3, (0, 0.5, 0.5, 1)), (3, (0.5, 0.5, 1, 1))), 1.0),
        # What is on other pages is not compared: small boxes there make no large one smaller.
        (((2, (0.0, 0.0, 0.1, 0.1)), (3, (0.0, 0.0, 1.0, 1.0)), (4, (0.0, 0.0, 0.1, 0.1))), 1.0),
        # Nothing is compared: the mean over the pages of the evidence, (0.25 + 0.75) / 2.
        (((2, (0.0, 0.0, 0.5, 0.5)), (4, (0.0, 0.0, 1.0, 0.75))), 0.5),
        # What lies beyond the page is none of it.
        (((3, (0.5, 0.5, 1.5, 1.5)),), 0.25),
    ],
)
def test_the_area_is_what_all_boxes_cover_of_the_pages_that_are_compared(
    cites: tuple[tuple[int, tuple[float, float, float, float]], ...], area: float
) -> None:
    assert measured(*cites)["box_area"] == pytest.approx(area)


def test_the_area_is_the_mean_of_the_pages_that_are_compared() -> None:
    """A half of page 3 and a quarter of page 4."""
    gold = (QUARTER, region(4, 0.0, 0.0, 0.5, 0.5))
    found = measured((3, (0.0, 0.0, 1.0, 0.5)), (4, (0.0, 0.0, 0.5, 0.5)), gold=gold)
    assert found["box_area"] == 0.375


def test_a_page_beside_a_part_of_it_counts_as_the_part() -> None:
    right = measured((3, (0.0, 0.0, 1.0, 1.0)), (3, (0.0, 0.0, 0.5, 0.5)))
    assert (right["centre"], right["iou"], right["box_area"]) == (1, 1, 0.25)
    wrong = measured((3, (0.5, 0.5, 1.0, 1.0)), (3, (0.0, 0.0, 0.999, 0.998)))
    assert (wrong["centre"], wrong["iou"], wrong["box_area"]) == (0, 0, 0.25)
    elsewhere = measured((2, (0.5, 0.5, 1.0, 1.0)), (3, (0.0, 0.0, 1.0, 1.0)))
    assert (elsewhere["centre"], elsewhere["iou"], elsewhere["box_area"]) == (1, 0.25, 1)


def test_the_centre_of_any_gold_box_counts() -> None:
    gold = (QUARTER, region(3, 0.8, 0.8, 1.0, 1.0))
    assert measured((3, (0.85, 0.85, 0.95, 0.95)), gold=gold)["centre"] == 1


def test_a_gold_box_without_an_area_has_a_centre() -> None:
    line = (region(3, 0.2, 0.1, 0.2, 0.3),)
    found = measured((3, (0.0, 0.0, 0.5, 0.5)), gold=line)
    assert (found["centre"], found["iou"]) == (1, 0)


def test_without_gold_boxes_only_the_page_is_measured() -> None:
    assert measured((3, (0.0, 0.0, 0.5, 0.5)), gold=()) == {"evidence_page": 1.0}


def test_without_gold_nothing_is_measured() -> None:
    assert grounding(case(), run(cites=(evidence(3),)), NAMES) == {}


@pytest.mark.parametrize(("kind", "box"), [(ItemKind.PASSAGE, None), (ItemKind.CLIP, (0.0, 0.0, 1.0, 1.0))])
def test_what_is_no_page_is_not_measured(
    kind: ItemKind, box: tuple[float, float, float, float] | None
) -> None:
    cited = evidence(3, box, kind=kind)
    assert grounding(case(3, regions=(QUARTER,)), run(cites=(cited,)), NAMES) == {}


def test_a_page_of_a_document_of_text_is_cited_by_any_passage_of_it() -> None:
    asked = case(1, file="notes.md")
    notes = evidence(4, None, id="a" * 64, name="notes.md", kind=ItemKind.PASSAGE)
    other = evidence(1, None, id="b" * 64, name="other.md", kind=ItemKind.PASSAGE)
    page = evidence(1)
    for cites, right in (((notes, page), 1.0), ((other, notes), 0.0), ((page, notes), 0.0)):
        assert grounding(asked, run(cites=cites), DocumentNames()) == {"evidence_page": right}


def test_a_passage_beside_gold_of_text_is_no_gold_page() -> None:
    gold = (GoldPage("notes.md", 1), GoldPage("ferry.pdf", 3))
    asked = replace(case(regions=(QUARTER,)), gold=gold)
    passage = evidence(3, None, kind=ItemKind.PASSAGE)
    assert grounding(asked, run(cites=(passage,)), NAMES) == {"evidence_page": 0.0}
    found = grounding(asked, run(cites=(passage, evidence(3, (0.0, 0.0, 0.5, 0.5)))), NAMES)
    assert (found["evidence_page"], found["iou"]) == (0, 1)


def test_what_an_abstention_looked_at_is_not_measured() -> None:
    looked = run(cites=(evidence(3),), answer=None, stop=StopReason.ABSTAINED)
    assert grounding(case(3, regions=(QUARTER,)), looked, NAMES) == {}
