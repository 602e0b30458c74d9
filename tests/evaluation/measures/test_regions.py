from __future__ import annotations

import pytest
from shown_runs import region

from vrag.evaluation.measures.regions import REGIONS, region_measures, region_recall

TOP = region(1, 0.0, 0.0, 1.0, 0.5, "a.pdf")
LEFT = region(1, 0.0, 0.0, 0.5, 1.0, "a.pdf")


def test_is_the_share_of_the_gold_area_that_is_covered() -> None:
    # the left half covers half of the upper one
    assert region_recall([LEFT], [TOP], 1) == 0.5
    # two gold boxes of 0.5 and 0.02; of the second one all is covered: (0.25 + 0.02) / 0.52
    small = region(1, 0.1, 0.6, 0.2, 0.8, "a.pdf")
    assert region_recall([LEFT], [TOP, small], 1) == pytest.approx(0.27 / 0.52)


def test_only_the_first_count() -> None:
    assert region_recall([region(2, 0, 0, 1, 1, "a.pdf"), TOP], [TOP], 1) == 0
    assert region_recall([region(2, 0, 0, 1, 1, "a.pdf"), TOP], [TOP], 2) == 1


def test_other_pages_and_documents_cover_nothing() -> None:
    assert region_recall([region(2, 0, 0, 1, 1, "a.pdf"), region(1, 0, 0, 1, 1, "b.pdf")], [TOP], 5) == 0


def test_what_is_covered_twice_counts_twice_up_to_all() -> None:
    """As in the published script, but for the limit: the left half twice is all of the upper half."""
    assert region_recall([LEFT, LEFT], [TOP], 5) == 1
    assert region_recall([LEFT, LEFT, LEFT], [TOP], 5) == 1


def test_gold_without_an_area_is_not_covered() -> None:
    assert region_recall([LEFT], [region(1, 0.1, 0.1, 0.1, 0.4, "a.pdf")], 1) == 0


def test_nothing_is_measured_without_gold() -> None:
    assert region_measures([LEFT], []) == {}
    assert region_measures([], [TOP]) == dict.fromkeys(REGIONS, 0.0)
