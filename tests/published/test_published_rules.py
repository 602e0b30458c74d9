"""The published rules but MMLongBench-Doc's, against values by hand and by their scripts."""

from __future__ import annotations

import re
import string
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.datasets.lvbench import chosen_letter, first_letter
from vrag.datasets.registry import RULES, published_measures
from vrag.datasets.slidevqa import slide_words
from vrag.datasets.webqa import web_words
from vrag.types import AnswerFormat, Case

NAMES = {
    "squad": {"em", "f1"},
    "hotpotqa": {"hotpotqa/f1", "hotpotqa/precision", "hotpotqa/recall"},
    "anls": {"anls"},
    "mmlongbench": {"mmlongbench"},
    "slidevqa": {"slidevqa/em", "slidevqa/f1"},
    "lvbench": {"lvbench", "lvbench/official"},
    "webqa": {"webqa/acc"},
    "m3docvqa": {"m3docvqa/em", "m3docvqa/f1"},
}
ANSWERS = st.text() | st.text(alphabet="aben oy(),.A5%", max_size=12)
DOGS = "Who barks?\n(A) A cat\n(B) A dog\n(C) Vitamin C\n(D) Nobody"


def case(
    *references: str, query: str = "q", kind: str = "", form: AnswerFormat = AnswerFormat.UNKNOWN
) -> Case:
    return Case(
        uid="1",
        query=query,
        reference_answer=references[0],
        alternatives=references[1:],
        file_name="f.pdf",
        query_type=kind,
        answer_format=form,
    )


def test_every_rule_is_there_by_its_name() -> None:
    assert {rule: set(RULES[rule](case("a"), "b")) for rule in RULES} == NAMES


@pytest.mark.parametrize(
    "benchmark", ["", "dataset", "slidevqa", "squad", "lvbench", "m3docvqa", "mmlongbench"]
)
@pytest.mark.parametrize("form", AnswerFormat)
def test_formats_are_compared_by_mmlongbench_only_where_a_benchmark_has_no_rule_of_its_own(
    benchmark: str, form: AnswerFormat
) -> None:
    """Else a part of the questions of SQuAD or LVBench would be told under MMLongBench-Doc's name."""
    found = published_measures(replace(case("B", form=form), benchmark=benchmark), "B")
    own = NAMES.get(benchmark, {"mmlongbench"} if form is not AnswerFormat.UNKNOWN else set())
    assert found.keys() == {"em", "f1", "anls"} | own


@given(st.lists(ANSWERS, min_size=1, max_size=3), ANSWERS, ANSWERS, st.sampled_from(["", "color", "number"]))
def test_any_answer_to_any_question_has_values_between_0_and_1(
    references: list[str], answer: str, query: str, kind: str
) -> None:
    asked = case(*references, query=query, kind=kind)
    for rule in RULES.values():
        assert all(0 <= value <= 1 for value in rule(asked, answer).values())


@given(st.lists(ANSWERS, min_size=1, max_size=3), st.sampled_from(AnswerFormat))
def test_a_run_without_an_answer_has_0_of_everything(references: list[str], form: AnswerFormat) -> None:
    for gold in (references, ["Not answerable"], [""]):
        for rule in RULES.values():
            assert set(rule(case(*gold, form=form), None).values()) == {0.0}


@given(ANSWERS, ANSWERS)
def test_the_right_text_is_right(text: str, other: str) -> None:
    asked = case(other, text, query="")
    assert RULES["anls"](asked, text) == {"anls": 1.0}
    assert RULES["mmlongbench"](asked, text) == {"mmlongbench": 1.0}
    if squad_words(text):  # else there is not an answer in it: SQuAD leaves it out, others want a shared word
        assert RULES["squad"](asked, text) == {"em": 1.0, "f1": 1.0}
        assert set(RULES["hotpotqa"](asked, text).values()) == {1.0}
    if slide_words(text, ""):
        assert RULES["slidevqa"](asked, text) == {"slidevqa/em": 1.0, "slidevqa/f1": 1.0}
    if web_words(text):
        assert RULES["webqa"](asked, text) == {"webqa/acc": 1.0}


def squad_words(text: str) -> list[str]:
    """As the evaluation script of SQuAD takes answers apart, by its description."""
    bare = "".join(sign for sign in text.lower() if sign not in set(string.punctuation))
    return re.sub(r"\b(a|an|the)\b", " ", bare).split()


def best_f1(answer: str, references: list[str]) -> float:
    """By precision and recall; right without words where no reference has any."""
    said, best = squad_words(answer), 0.0
    for words in [words for text in references if (words := squad_words(text))] or [[]]:
        shared = (Counter(said) & Counter(words)).total()
        if not said or not words:
            best = max(best, float(said == words))
        elif shared:
            precision, found = shared / len(said), shared / len(words)
            best = max(best, 2 * precision * found / (precision + found))
    return best


@given(ANSWERS, st.lists(ANSWERS, min_size=1, max_size=3))
def test_f1_is_that_of_the_definition(answer: str, references: list[str]) -> None:
    assert RULES["squad"](case(*references), answer)["f1"] == pytest.approx(best_f1(answer, references))


@pytest.mark.parametrize(
    ("references", "answer", "em", "f1"),
    [
        (("red ferry boat",), "a red ferry", 0, 0.8),
        (("Denver Broncos", "Broncos"), "The Broncos.", 1, 1),
        # the best reference for each of both: "red boat" shares 2 of 2 + 3 words twice
        (("boat red", "big red boat"), "red boat", 0, 1),
        # a reference without a word is none
        (("the", "ferry"), "", 0, 0),
        (("the",), "", 1, 1),
        (("the",), "ferry", 0, 0),
        # what has no answer is answered by abstaining
        (("Not answerable",), "Not answerable", 1, 1),
        (("Not answerable",), "not answerable.", 1, 1),
        (("Not answerable",), "", 1, 1),
        (("Not answerable",), "answerable", 0, 0),
        (("answerable",), "Not answerable", 0, 0),
        # punctuation is that of ASCII; `vrag.metrics.normalised` drops all of it
        (("the–end",), "–end", 1, 1),
        (("l’eau",), "leau", 0, 0),
    ],
)
def test_squad_by_hand(references: tuple[str, ...], answer: str, em: float, f1: float) -> None:
    assert RULES["squad"](case(*references), answer) == pytest.approx({"em": em, "f1": f1})


@pytest.mark.parametrize(
    ("reference", "answer", "f1", "precision", "recall"),
    [
        ("red ferry boat", "a red ferry", 0.8, 1, 2 / 3),
        ("red", "red red ferry", 0.5, 1 / 3, 1),
        ("yes", "Yes.", 1, 1, 1),
        ("yes", "yes it is", 0, 0, 0),  # SQuAD: 0.5
        ("yes it is", "yes", 0, 0, 0),
        ("no", "yes", 0, 0, 0),
        ("no way out", "no way", 0.8, 1, 2 / 3),
        ("yes", "Not answerable", 0, 0, 0),
        ("the", "", 0, 0, 0),  # SQuAD: 1
    ],
)
def test_hotpotqa_by_hand(reference: str, answer: str, f1: float, precision: float, recall: float) -> None:
    assert RULES["hotpotqa"](case(reference), answer) == pytest.approx(
        {"hotpotqa/f1": f1, "hotpotqa/precision": precision, "hotpotqa/recall": recall}
    )


def test_hotpotqa_takes_all_three_of_the_reference_with_the_best_f1() -> None:
    found = RULES["hotpotqa"](case("red", "red ferry boat"), "red ferry")
    assert found == pytest.approx({"hotpotqa/f1": 0.8, "hotpotqa/precision": 1, "hotpotqa/recall": 2 / 3})


@pytest.mark.parametrize(
    ("references", "answer", "value"),
    [
        # 5 letters of 10 are wrong: not below one half, so 0 by the equation of ST-VQA
        (("abcdefghij",), "abcde", 0),
        (("abcdefghij",), "abcdex", 0),
        # 4 of 9, 4 of 10
        (("abcdefghi",), "abcde", 5 / 9),
        (("abcdefghij",), "abcdefXXXX", 0.6),
        (("ab",), "ax", 0),
        (("abc",), "abx", 2 / 3),
        (("Kitten",), " sitting ", 4 / 7),
        # the nearest of several
        (("ferry", "ferries"), "ferris", 6 / 7),
        (("",), "", 1),
        (("ferry",), "", 0),
    ],
)
def test_anls_by_hand(references: tuple[str, ...], answer: str, value: float) -> None:
    assert RULES["anls"](case(*references), answer)["anls"] == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "question", "words"),
    [
        ("The 50%", "", "50"),
        ("Fifty", "", "fifty"),
        ("five", "how many apples are there?", "5"),
        ("5 apples", "how many apples are there?", "5"),
        ("5 apples", "How many apples are there?", "5 apples"),
        ("It is the Sand", "q", "s"),
        ("yes, it is", "q", "yes"),
        ("No", "q", "no"),
        ("Norway", "q", "norway"),
        ("yesterday", "q", "yesterday"),
        ("no-one", "q", "noone"),
        ("10 Percent", "q", "10"),
        ("A & B", "q", "b"),
        ("2 hours", "q", "2 hrs"),
        ("1,000.50", "q", "100050"),
        ("", "q", ""),
        ("the", "q", ""),
        ("China", "which country is big?", "china"),
        ("country China", "which country is big?", "china"),
        ("Twenty", "q", "twenty"),
        ("because of rain", "q", "rain"),
        ("no", "which no x", ""),
        ("a yes man", "q", "yes man"),  # the article leaves a space in front
        ("Norway is cold", "q", "norway"),
        ("red", "red or blue, which", "red"),  # ours: the script breaks off
    ],
)
def test_words_of_slides_are_those_of_the_published_script(text: str, question: str, words: str) -> None:
    assert " ".join(slide_words(text, question)) == words


@pytest.mark.parametrize(
    ("reference", "answer", "question", "em", "f1"),
    [
        ("five", "5 apples", "how many apples?", 0, 2 / 3),  # "apples?" is taken out, which is not there
        ("blue red", "red blue", "q", 0, 1),
        ("red blue", "red", "q", 0, 2 / 3),
        ("five", "5", "q", 1, 1),
        ("", "", "q", 0, 0),
        ("Not specified", "Not answerable", "q", 0, 0),
    ],
)
def test_slidevqa_by_hand(reference: str, answer: str, question: str, em: float, f1: float) -> None:
    found = RULES["slidevqa"](case(reference, query=question), answer)
    assert found == pytest.approx({"slidevqa/em": em, "slidevqa/f1": f1})


@pytest.mark.parametrize(
    ("answer", "official", "ours"),
    [
        ("B", "B", "B"),
        ("(B) A dog", "B", "B"),
        ("B) A dog", "B", "B"),
        ("B. A dog", "B", "B"),
        ("b", "b", "B"),
        ("(b)", "b", "B"),
        ("**B**", "*", "B"),
        ("The answer is B", "T", "B"),
        ("The answer is (B).", "B", "B"),
        ("Option B, because it barks", "O", "B"),
        ("I think A", "I", "A"),
        ("A dog", "A", "B"),
        ("a DOG.", "a", "B"),
        ("A bird sings", "A", None),
        ("vitamin c", "v", "C"),
        ("B or C", "B", None),
        ("(B) or (C)", "B", None),
        ("", "", None),
        ("( ", "", None),
        ("Not answerable", "N", None),
        ("E", "E", None),
    ],
)
def test_letters_are_taken_as_published_and_as_people_read_them(
    answer: str, official: str, ours: str | None
) -> None:
    assert first_letter(answer) == official
    assert chosen_letter(answer, DOGS) == ours


def test_of_two_options_alike_none_is_chosen_by_its_text() -> None:
    assert chosen_letter("a dog", "?\n(A) A dog\n(B) The dog") is None


def test_lvbench_tells_both_readings() -> None:
    asked = case("B", query=DOGS, form=AnswerFormat.LETTER)
    assert RULES["lvbench"](asked, "The answer is B") == {"lvbench": 1.0, "lvbench/official": 0.0}
    assert RULES["lvbench"](asked, "(B)") == {"lvbench": 1.0, "lvbench/official": 1.0}
    assert set(RULES["lvbench"](case(""), "").values()) == {0.0}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The two dogs.", "2 dogs"),
        ("twenty-one", "twentyone"),
        ("one hundred", "1 100"),
        ("$1,000.50.", "1000.50"),
        ("The", "the"),  # alone, an article is a word
        (" ? ", "?"),
        ("?!", ""),
    ],
)
def test_words_of_webqa_by_hand(text: str, words: str) -> None:
    assert " ".join(web_words(text)) == words


@pytest.mark.parametrize(
    ("kind", "reference", "answer", "value"),
    [
        # three of four words of the reference, whatever else is said
        ("text", "the red brick house burned", "The house of red brick.", 3 / 4),
        ("Others", "two dogs", "2 dogs", 1),
        ("choose", "the left one", "right", 0),
        # colours alone count: precision 1/2, recall 1
        ("color", "The ball is red.", "red and blue", 2 / 3),
        ("color", "The ball is red.", "a ball", 0),
        ("Color", "red, white", "white red", 1),
        ("shape", "It has an oval shape", "round oval", 2 / 3),
        ("YesNo", "Yes, they do.", "yes", 1),
        ("YesNo", "Yes, they do.", "No, they do not", 0),
        ("number", "There are three towers.", "3", 1),
        ("number", "3.5", "3.5", 0),  # no whole number in it, as published
        ("text", "red house", "Not answerable", 0),
        ("text", "not red", "Not answerable", 0),
    ],
)
def test_webqa_by_hand(kind: str, reference: str, answer: str, value: float) -> None:
    assert RULES["webqa"](case(reference, kind=kind), answer)["webqa/acc"] == pytest.approx(value)
