"""Documents of the evidence against gold ones, as HotpotQA's script counts facts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shown_runs import case, document, evidence, run

from vrag.datasets.registry import RULES
from vrag.evaluation.measures.run_measures import CITING, citing, joint
from vrag.evaluation.relevance import DocumentNames
from vrag.types import Case, GoldPage, ItemKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.agent.evidence import Evidence
    from vrag.agent.runs.run_result import RunResult

FILES = "abcdef"
NAMES = DocumentNames.of([one for name in FILES for one in document(name * 64, f"{name}.md")])


def asked(*files: str, answer: str = "9") -> Case:
    """A question that these paragraphs answer together."""
    gold = tuple(GoldPage(f"{name}.md") for name in files)
    return Case(uid="c", query="How many?", reference_answer=answer, file_name=gold[0].document, gold=gold)


def passage(name: str, page: int = 1) -> Evidence:
    return evidence(page, None, id=name * 64, name=f"{name}.md", kind=ItemKind.PASSAGE)


def answered(*files: str, answer: str | None = "9") -> RunResult:
    return run(cites=tuple(map(passage, files)), answer=answer)


def numbers(found: dict[str, float]) -> tuple[float, ...]:
    return tuple(round(found[f"cited_{name}"], 3) for name in ("em", "f1", "precision", "recall"))


@pytest.mark.parametrize(
    ("gold", "cited", "expected"),
    [
        ("ab", "ab", (1, 1, 1, 1)),
        ("ab", "ba", (1, 1, 1, 1)),
        ("ab", "a", (0, 0.667, 1, 0.5)),
        ("ab", "abc", (0, 0.8, 0.667, 1)),
        ("ab", "ac", (0, 0.5, 0.5, 0.5)),
        ("ab", "cd", (0, 0, 0, 0)),
        ("ab", "", (0, 0, 0, 0)),
        ("a", "abcd", (0, 0.4, 0.25, 1)),
    ],
)
def test_by_hand(gold: str, cited: str, expected: tuple[float, ...]) -> None:
    assert numbers(citing(asked(*gold), answered(*cited), NAMES)) == expected


def published(cited: Sequence[str], gold: Sequence[str]) -> tuple[float, ...]:
    """As the script counts: hits, what is too much, what is missing."""
    hits = sum(one in gold for one in set(cited))
    extra, lacking = len(set(cited)) - hits, len(set(gold)) - hits
    precision = hits / (hits + extra) if hits + extra else 0.0
    recall = hits / (hits + lacking) if hits + lacking else 0.0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return tuple(round(one, 3) for one in (float(extra + lacking == 0), f1, precision, recall))


@given(gold=st.lists(st.sampled_from(FILES), min_size=1), cited=st.lists(st.sampled_from(FILES)))
def test_as_the_script_counts_facts(gold: list[str], cited: list[str]) -> None:
    assert numbers(citing(asked(*gold), answered(*cited), NAMES)) == published(cited, gold)


def test_passages_of_a_document_and_its_other_names_are_that_document() -> None:
    names = DocumentNames.of(document("a" * 64, "a.md", "copy.md"))
    cited = run(cites=(passage("a", 1), passage("a", 2)))
    assert numbers(citing(asked("a"), cited, names)) == (1, 1, 1, 1)
    assert numbers(citing(asked("copy"), cited, names)) == (1, 1, 1, 1)
    assert numbers(citing(asked("a", "copy"), cited, names)) == (1, 1, 1, 1)  # one document, not two


def test_without_an_answer_nothing_is_cited() -> None:
    assert numbers(citing(asked("a"), answered("a", answer=None), NAMES)) == (0, 0, 0, 0)


def test_cases_whose_gold_is_pages_are_not_measured() -> None:
    assert citing(case(3), answered("a"), NAMES) == {}
    assert citing(case(), answered("a"), NAMES) == {}
    both = Case(
        uid="c",
        query="?",
        reference_answer="9",
        file_name="a.md",
        gold=(GoldPage("a.md"), GoldPage("b.pdf", 3)),
    )
    assert citing(both, answered("a"), NAMES) == {}


@pytest.mark.parametrize(
    ("answer", "cited", "em", "f1"),
    [
        ("Orla Byrne", "ab", 1, 1),
        ("Orla Byrne", "a", 0, 0.667),
        ("Orla", "ab", 0, 0.667),
        ("Orla", "a", 0, 0.4),  # precision 1 · 1, recall .5 · .5
        ("Orla", "cd", 0, 0),
        ("Finn", "ab", 0, 0),
    ],
)
def test_joint_measures_by_hand(answer: str, cited: str, em: float, f1: float) -> None:
    asking = asked("a", "b", answer="Orla Byrne")
    measures = {
        **RULES["squad"](asking, answer),
        **RULES["hotpotqa"](asking, answer),
        **citing(asking, answered(*cited), NAMES),
    }
    found = joint(measures)
    assert {name: round(value, 3) for name, value in found.items()} == {
        "hotpotqa/joint_paragraph_em": em,
        "hotpotqa/joint_paragraph_f1": f1,
    }
    assert found.keys() | {name for name in measures if name.startswith("cited")} == CITING.keys()
    for name in measures.keys() - {"f1", "hotpotqa/f1", "cited_f1"}:
        assert joint({other: value for other, value in measures.items() if other != name}) == {}
