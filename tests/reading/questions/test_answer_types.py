"""The kinds of answers that questions ask for."""

from __future__ import annotations

import pytest

from vrag.reading.questions.answer_types import AnswerKind, find_focus


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("Who built the lighthouse?", AnswerKind.PERSON),
        ("In what year did the line open?", AnswerKind.YEAR),
        ("When was the ferry launched?", AnswerKind.DATE),
        ("How much higher is the fare of Orla compared to Saltby?", AnswerKind.COMPUTE),
        ("How large is the difference between 2023 and 2024?", AnswerKind.COMPUTE),
        ("How large is the harbour?", AnswerKind.NUMBER),
        ("What does Tern Sound pay per kilowatt hour?", AnswerKind.MONEY),
        ("What percentage of trips was late?", AnswerKind.PERCENT),
        ("How many pages contain tables?", AnswerKind.COUNT),
        ("How many passengers travelled in 2024?", AnswerKind.NUMBER),
        ("What colour is the bar of 2023?", AnswerKind.COLOR),
        ("What's the color of the line?", AnswerKind.COLOR),
        ("What is the harbour's logo color?", AnswerKind.COLOR),
        ("What temperature does the green color stand for?", AnswerKind.NUMBER),
        ("What is the e-mail of the office?", AnswerKind.EMAIL),
        ("Is the museum open on Sunday?", AnswerKind.YES_NO),
        ("How long does the crossing take?", AnswerKind.DURATION),
        ("谁建造了公园？", AnswerKind.PERSON),
        ("公园的面积是多少？", AnswerKind.NUMBER),
        ("公园位于什么地方？", AnswerKind.PLACE),
        ("手塚治虫の出身地はどこですか?", AnswerKind.PLACE),
        ("会社はいつ設立されましたか?", AnswerKind.DATE),
        ("Was ist die Hauptstadt?", AnswerKind.THING),
        ("", AnswerKind.TEXT),
    ],
)
def test_kind_of_answer(question: str, kind: AnswerKind) -> None:
    assert find_focus(question).kind is kind


def test_focus_marks_the_words_that_ask() -> None:
    question = "生命数耗完即算为什么？"
    focus = find_focus("公园是谁建造的？")

    assert "公园是谁建造的？"[focus.start : focus.end] == "谁"
    assert find_focus(question).end <= len(question)
