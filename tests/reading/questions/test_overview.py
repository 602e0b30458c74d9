"""Questions that no short answer fits are told from those that have one."""

from __future__ import annotations

import pytest

from vrag.reading.questions.overview import asks_for_overview, asks_to_compare, fits_no_answer


@pytest.mark.parametrize(
    "question",
    [
        "What is this collection about?",
        "What are these documents about?",
        "What's this about?",
        "What does the manual describe?",
        "What is this spreadsheet about?",
        "What is the workbook about?",
        "Please summarise the report.",
        "Give me an overview of the handbook",
        "What is the main topic of the paper?",
        "Worum geht es in dem Dokument?",
        "这份文件讲什么",
    ],
)
def test_a_question_for_the_whole_asks_for_an_overview(question: str) -> None:
    assert asks_for_overview(question)
    assert fits_no_answer(question)


@pytest.mark.parametrize(
    "question",
    [
        "Compare the revenue of 2022 and 2023",
        "Revenue of 2022 and 2023 compared",
        "What are the main differences between A and B?",
        "How do the two harbours differ?",
        "比较两个港口",
    ],
)
def test_a_comparison_is_told(question: str) -> None:
    assert asks_to_compare(question)
    assert fits_no_answer(question)


@pytest.mark.parametrize(
    "question",
    [
        "What is the single fare for a kayak?",
        "What is the difference between the fee in 2022 and 2023?",
        "By what percentage did revenue change compared to 2022?",
        "How many documents are there about cats?",
        "What is this report's ISBN?",
        "Which line carries more passengers, Orla or Saltby?",
        "What does error 88 mean?",
    ],
)
def test_a_question_for_one_thing_is_neither(question: str) -> None:
    assert not fits_no_answer(question)
