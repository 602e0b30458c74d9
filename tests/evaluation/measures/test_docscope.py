"""DocScope's measures of runs; every expected number is worked out beside it, as its scripts count."""

from __future__ import annotations

from dataclasses import replace

import pytest
from shown_runs import FERRY, HARBOUR, case, document, evidence, region, run

from vrag.agent.answers.citation import Citation
from vrag.agent.events import StopReason
from vrag.evaluation.measures.docscope import (
    COUNTED,
    PAGES,
    RATIOS,
    PageFacts,
    cited_facts,
    docscope,
)
from vrag.evaluation.relevance import DocumentNames
from vrag.types import GoldFact

NAMES = DocumentNames.of([*document(FERRY, "ferry.pdf"), *document(HARBOUR, "harbour.pdf")])
LEFT, RIGHT = (0.0, 0.0, 0.5, 1.0), (0.5, 0.0, 1.0, 1.0)
CASE = replace(
    case(2, 3, regions=(region(2, *LEFT), region(2, *RIGHT), region(3, *LEFT))),
    benchmark="docscope",
    facts=(GoldFact("Two ferries sail.", 2), GoldFact("One is red.", 2), GoldFact("It snows.", 3)),
)
ANSWER = "Two ferries sail. It snows there. So nine."
SAIL, SNOW = (0, 17), (18, 33)


def test_pages_boxes_and_facts_are_counted_where_gold_and_cited_pages_meet() -> None:
    """Page 2 of the two gold pages is cited, and a page of another document."""
    cited = run(cites=(evidence(2, LEFT), evidence(2, (0.5, 0, 0.7, 1)), evidence(2, LEFT, id=HARBOUR)))
    found = docscope(CASE, cited, NAMES, facts=(True, False))
    assert found == {
        "docscope/page_precision": 0.5,
        "docscope/page_recall": 0.5,
        "docscope/page_f1": 0.5,
        "docscope/cited_pages": 2,
        "docscope/gold_pages": 2,
        "docscope/true_pages": 1,
        "docscope/boxes": 2,  # those of page 2
        "docscope/boxes_covered": 1,
        "docscope/boxes_imprecise": 1,  # 40 % of the right half
        "docscope/facts": 2,
        "docscope/facts_stated": 1,
    }
    assert found.keys() == PAGES.keys() | COUNTED.keys()


def test_facts_without_verdicts_are_not_counted() -> None:
    assert "docscope/facts" not in docscope(CASE, run(cites=(evidence(2, LEFT),)), NAMES)


@pytest.mark.parametrize(
    "ended", [run(), run(answer=None, stop=StopReason.FAULT, cites=(evidence(2, LEFT),))]
)
def test_a_run_that_cites_nothing_has_the_precision_of_the_published_script(ended: object) -> None:
    found = docscope(CASE, run() if ended is None else ended, NAMES)  # pyright: ignore[reportArgumentType]
    assert [found[name] for name in PAGES] == [1, 0, 0]
    assert found["docscope/boxes"] == 0


def test_other_data_sets_are_not_measured() -> None:
    assert docscope(replace(CASE, benchmark="mmdocir"), run(cites=(evidence(2, LEFT),)), NAMES) == {}


class TestCitedFacts:
    def test_have_what_the_answer_says_before_a_citation_of_their_page(self) -> None:
        cited = replace(
            run(answer=ANSWER, cites=(evidence(2, LEFT), evidence(3, LEFT), evidence(2, RIGHT))),
            citations=(
                Citation(start=SAIL[0], end=SAIL[1], numbers=(1, 3), source="model"),
                Citation(start=SNOW[0], end=SNOW[1], numbers=(2,), source="model"),
            ),
        )
        assert list(cited_facts(CASE, cited, NAMES)) == [
            PageFacts(2, CASE.facts[:2], ("Two ferries sail.",)),
            PageFacts(3, CASE.facts[2:], ("It snows there.",)),
        ]

    def test_are_those_of_pages_that_are_cited(self) -> None:
        cited = run(answer=ANSWER, cites=(evidence(3, LEFT), evidence(2, LEFT, id=HARBOUR)))
        assert [found.page for found in cited_facts(CASE, cited, NAMES)] == [3]

    def test_of_an_answer_without_citations_are_compared_with_all_of_it(self) -> None:
        (found,) = cited_facts(CASE, run(answer=ANSWER, cites=(evidence(3, LEFT),)), NAMES)
        assert found.statements == (ANSWER,)


def test_ratios_are_made_of_counts() -> None:
    parts = {part for ratio in RATIOS.values() for part, _ in ratio.above}
    assert parts | {part for ratio in RATIOS.values() for part in ratio.below} == COUNTED.keys()
