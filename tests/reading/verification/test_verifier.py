"""Verdicts on the claims of answers: what supports a claim, what contradicts it, and what tells nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thread_time import at_most

from vrag.geometry import Box
from vrag.reading.answer import ReadPage
from vrag.reading.training.table_data import make_table
from vrag.reading.training.typeset_pages import typeset_page
from vrag.reading.verification.claim import ClaimDoubt, ClaimVerdict
from vrag.reading.verification.verifier import ClaimCheck, ClaimSource, check_claims
from vrag.testing import page, passage
from vrag.types import Item

STATED, DOUBTED = ClaimVerdict.STATED, ClaimVerdict.DOUBTED
UNSAID = {ClaimVerdict.DOUBTED, ClaimVerdict.UNVERIFIED}

REPORT = (
    "In May 2027, sales in Oslo fell by 2.1 % to $3.2 million. The harbour of Sandvik handled 1,150 t of "
    "timber on 3 May 2027. The ferry Guillemot, built by the Saltby Yard, sails at 21:15 and takes 12 "
    "kilometres."
)


def check(answer: str, text: str = REPORT, question: str = "") -> tuple[ClaimCheck, ...]:
    return check_claims(question, answer, [ClaimSource(ReadPage(passage("report.txt", 1, text)))])


def verdicts(answer: str, text: str = REPORT, question: str = "") -> set[ClaimVerdict]:
    return {one.verdict for one in check(answer, text, question)}


@pytest.mark.parametrize(
    "answer",
    [
        "In May 2027, sales in Oslo fell by 2.1 % to $3.2 million.",
        "Sales in Oslo fell to 3.2 million dollars in May 2027, a change of −2.1 percent.",
        "The harbour of Sandvik handled 1150 tonnes of timber on 2027-05-03.",
        "On May 3, 2027, Sandvik's harbour handled about 1,200 t of timber.",
        "The Guillemot sails at 9:15 pm.",
        "The ferry takes 12 km.",
        "- **Sales in Oslo**: $3,200,000 [1]",
        "The ferry was built by the Saltby Yard.",
    ],
)
def test_other_forms_and_words_are_supported(answer: str) -> None:
    assert verdicts(answer) == {STATED}


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        ("In May 2027, sales in Oslo fell by 2.7 %.", "2.7 %"),
        ("In May 2027, sales in Oslo fell by 2.1 km.", "2.1 km"),
        ("Sales in Oslo fell to $3.2 billion.", "$3.2 billion"),
        ("Sales in Oslo fell to €3.2 million.", "€3.2 million"),
        ("In June 2027, sales in Oslo fell by 2.1 %.", "June 2027"),
        ("The harbour of Sandvik handled 1,150 t of timber on 4 May 2027.", "4 May 2027"),
        ("The harbour of Sandvik handled −1,150 t of timber.", "−1,150 t"),
        ("The ferry Guillemot sails at 20:15.", "20:15"),
        (
            "The ferry Guillemot was built by the Lindholm Yard.",
            "The ferry Guillemot was built by the Lindholm Yard.",
        ),
        ("Sales in Oslo rose by 2.1 %.", "Sales in Oslo rose by 2.1 %."),
        ("Sales in Oslo did not fall by 2.1 %.", "Sales in Oslo did not fall by 2.1 %."),
    ],
)
def test_one_thing_altered_is_doubted(answer: str, wrong: str) -> None:
    doubted = [one.claim.text for one in check(answer) if one.verdict in UNSAID]
    assert wrong in doubted
    assert answer in doubted


@pytest.mark.parametrize("answer", ["1,150 t", "21:15", "12 kilometres", "Guillemot"])
def test_without_words_around_a_value_that_stands_there_is_supported(answer: str) -> None:
    assert verdicts(answer) == {STATED}


GUIDE = "The lagoon of Saltby is popular with kayakers in summer. It was dug by hand for a mill by the quay."


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ("It is popular with kayakers.", ClaimVerdict.STATED),
        ("The lagoon is popular with kayakers.", ClaimVerdict.STATED),
        ("It is popular with tourists.", ClaimVerdict.UNVERIFIED),
        ("It is popular among rich families.", ClaimVerdict.UNVERIFIED),
        ("The mill is popular with children in winter.", ClaimVerdict.UNVERIFIED),
    ],
)
def test_a_sentence_is_stated_by_a_statement_with_most_of_its_words(
    answer: str, verdict: ClaimVerdict
) -> None:
    assert verdicts(answer, GUIDE) == {verdict}


def test_a_quote_over_two_statements_is_stated() -> None:
    page = "Boiler:\n\nover-temperature\n\nSwitch the machine off.\n\nThe temperature of the cellar"
    assert verdicts("Boiler: over-temperature", page) == {ClaimVerdict.STATED}
    assert verdicts("Boiler: low-temperature", page) == {ClaimVerdict.UNVERIFIED}


def test_a_chinese_sentence_in_other_words_is_stated() -> None:
    text = "布朗案之后，学院的学生大多数是白人。其他学校的学生来自许多国家。"
    assert verdicts("在布朗案之后，就读该学院的学生的主要种族是白人。", text) == {ClaimVerdict.STATED}


def test_a_contradiction_names_what_stands_there() -> None:
    (number, *_) = check("The harbour of Sandvik handled 1,160 t of timber.")[1:]
    assert (number.verdict, number.found) == (DOUBTED, "1,150 t")


@given(st.integers(100, 9_999_999), st.data())
@settings(max_examples=60, deadline=None)
def test_a_changed_digit_is_never_supported_by_the_only_number(number: int, data: st.DataObject) -> None:
    digits = str(number)
    at = data.draw(st.integers(0, len(digits) - 1))
    other = data.draw(st.sampled_from([digit for digit in "123456789" if digit != digits[at]]))
    changed = f"{digits[:at]}{other}{digits[at + 1 :]}"
    text = f"The harbour of Sandvik handled {number:,} tonnes of timber and many other goods in that year."
    asked = "How much timber did the harbour of Sandvik handle?"
    assert verdicts(f"{number:,}", text, asked) == {STATED}
    assert verdicts(f"{number} t", text, asked) == {STATED}
    assert verdicts(f"The harbour handled {number} tonnes.", text, asked) == {STATED}
    assert STATED not in verdicts(changed, text, asked)
    assert STATED not in verdicts(f"{int(changed):,} tonnes", text, asked)


@given(st.text(max_size=120), st.text(max_size=120), st.text(max_size=400))
@settings(max_examples=60, deadline=None)
def test_no_text_raises(question: str, answer: str, text: str) -> None:
    for one in check(answer, text, question):
        assert one.claim.text == answer[one.claim.start : one.claim.end]


TABLE = typeset_page(
    "table",
    1,
    [
        "Freight of the harbours in 2027 and 2026, as the office of Lindholm has counted it.",
        make_table(
            [
                ["Harbour", "2027", "2026"],
                ["Sandvik", "1,150", "1,090"],
                ["Saltby", "2,340", "2,210"],
                ["Orla", "980", "1,020"],
            ],
            header_rows=1,
            header_columns=1,
            caption="in tonnes",
        ),
    ],
)


def check_table(answer: str, question: str = "") -> tuple[ClaimCheck, ...]:
    return check_claims(question, answer, [ClaimSource(ReadPage(TABLE.item))])


@pytest.mark.parametrize(
    "answer", ["Saltby 2026: 2,210 t", "Orla handled 980 t in 2027.", "In 2026, Sandvik had 1090."]
)
def test_a_cell_of_the_named_row_and_column_is_supported(answer: str) -> None:
    assert {one.verdict for one in check_table(answer)} == {STATED}


@pytest.mark.parametrize("answer", ["Saltby 2026: 1,150 t", "Orla handled 2,340 t in 2027."])
def test_the_number_of_another_row_is_no_support(answer: str) -> None:
    number = next(one for one in check_table(answer) if one.claim.text.endswith(" t"))
    assert (number.verdict, number.doubt) == (ClaimVerdict.UNVERIFIED, ClaimDoubt.SUBJECT)


def test_a_computed_number_is_supported_where_the_question_asks_for_it() -> None:
    asked = "What is the difference of Saltby between 2027 and 2026?"
    assert [one.verdict for one in check_table("130", asked)] == [STATED]
    assert [one.verdict for one in check_table("170", asked)] != [STATED]


def test_a_count_that_no_text_states_can_only_be_seen() -> None:
    (one,) = check("3", question="How many cranes are shown beside the harbour of Sandvik?")
    assert (one.verdict, one.needs_picture) == (ClaimVerdict.UNVERIFIED, True)
    text = REPORT.replace("1,150 t of timber", "3 cranes")
    (stated,) = check("4", text, "How many cranes did the harbour of Sandvik handle?")
    assert (stated.verdict, stated.needs_picture) == (ClaimVerdict.UNVERIFIED, False)


@pytest.mark.parametrize(
    ("answer", "question"),
    [
        ("8", "How many cranes does the harbour of Sandvik have?"),
        ("0.263", "What is the return of the harbour of Sandvik on timber?"),
        ("The return of the harbour of Sandvik on timber was 0.263 in that year.", ""),
    ],
)
def test_what_may_have_been_computed_or_counted_is_not_doubted_for_other_numbers(
    answer: str, question: str
) -> None:
    assert DOUBTED not in verdicts(answer, question=question)


def test_what_a_doubt_is_about_is_told() -> None:
    doubts = {
        "In May 2027, sales in Oslo fell by 2.7 %.": ClaimDoubt.VALUE,
        "In May 2027, sales in Oslo fell by 2.1 km.": ClaimDoubt.UNIT,
        "In June 2027, sales in Oslo fell by 2.1 %.": ClaimDoubt.DATE,
        "Sales in Oslo rose by 2.1 %.": ClaimDoubt.OPPOSITE,
        "The ferry Guillemot was built by the Lindholm Yard.": ClaimDoubt.SUBJECT,
    }
    for answer, doubt in doubts.items():
        assert check(answer)[-1].doubt is doubt, answer


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Did sales in Oslo fall?", "Yes"),
        ("What color is the ferry?", "red"),
        ("What is the peak of the chart?", "4,711"),
    ],
)
def test_what_rules_cannot_tell_is_left_to_the_eye(question: str, answer: str) -> None:
    assert verdicts(answer, question=question) == {ClaimVerdict.UNVERIFIED}


def test_too_little_text_tells_nothing() -> None:
    (one,) = check("1,150 t", "Chart")
    assert (one.verdict, one.sources) == (ClaimVerdict.UNVERIFIED, ())


def source(item: Item, *sides: float) -> ClaimSource:
    return ClaimSource(ReadPage(item), Box.unit(*sides) if sides else None)


LETTER = page(
    "letter.pdf",
    1,
    "\n".join(
        (
            "Sandvik handled 1,150 t",
            "of timber in that long year.",
            *["Other words."] * 12,
            "Orla handled 980 t of salt.",
        )
    ),
)


def test_the_place_is_told_and_whether_it_lies_outside_of_the_rectangle() -> None:
    top, bottom = (0, 0, 1, 0.1), (0, 0.3, 1, 1)
    (inside,) = check_claims("How much timber?", "1,150 t", [source(LETTER, *top)])
    (outside,) = check_claims("How much timber?", "1,150 t", [source(LETTER, *bottom)])
    assert (inside.sources, inside.outside, outside.sources, outside.outside) == ((0,), False, (0,), True)
    assert inside.boxes == outside.boxes
    assert inside.boxes
    assert all(box.y2 < 0.1 for box in inside.boxes)


def test_the_source_that_says_it_is_told() -> None:
    other = passage(
        "other.txt", 1, "This text has nothing to do with the matter, though it has many words in it."
    )
    sources = [source(other), source(LETTER), source(LETTER, 0, 0, 1, 0.1)]
    (found,) = check_claims("How much timber?", "1,150 t", sources)
    assert found.sources == (1, 2)


def test_lines_and_hyphens_do_not_part_what_belongs_together() -> None:
    item = page(
        "split.pdf",
        1,
        "The harbour of Sand-\nvik handled timber of\n1,150 tonnes for the govern-\nment in Oslo.",
    )
    answer = "The harbour of Sandvik handled 1,150 tonnes of timber for the government."
    assert {one.verdict for one in check_claims("", answer, [source(item)])} == {STATED}


def test_an_error_of_recognition_in_a_long_word_is_forgiven_but_not_in_a_number() -> None:
    text = REPORT.replace("Guillemot", "Guillemat").replace("1,150", "1,l50")
    assert verdicts("The ferry Guillemot sails at 21:15.", text) == {STATED}
    assert STATED not in verdicts("1,150 t", text, "How much timber did Sandvik handle?")


def test_chinese_answers() -> None:
    text = (
        "1791年，程伟元在苏州首次印刷出版了《红楼梦》，全书共一百二十回，约七十三万字。"
        "这座城市的人口为三百二十万。"
    )
    assert verdicts("《红楼梦》于1791年在苏州出版，共120回。", text) == {STATED}
    assert STATED not in verdicts("1792年", text, "《红楼梦》是哪一年出版的？")
    assert STATED not in verdicts("《水浒传》", text, "1791年首次印刷出版了什么？")


def test_an_answer_is_checked_quickly() -> None:
    sources = [source(TABLE.item), source(LETTER), source(passage("report.txt", 1, REPORT))]
    answer = "In 2027, Saltby handled 2,340 t and Orla 980 t. The Guillemot sails at 21:15."
    check_claims("", answer, sources)
    with at_most(0.5):
        check_claims("", answer, sources)


EXPENSES = typeset_page(
    "expenses",
    1,
    [
        "Expenses of the ferries, as the office of Orla has counted them for both years.",
        make_table(
            [["Kind", "2024", "2023"], ["Wages", "(5,325)", "(4,990)"], ["Fuel", "(3,870)", "(2,655)"]],
            header_rows=1,
            header_columns=1,
        ),
    ],
)


@pytest.mark.parametrize(
    ("answer", "is_right"),
    [
        ("Fuel costs rose by 45.8 % from 2023 to 2024.", True),
        ("Fuel costs rose by 1,215 from 2023 to 2024.", True),
        ("Fuel costs rose by 31.4 % from 2023 to 2024.", False),
    ],
)
def test_a_rise_of_costs_in_brackets_is_a_rise(answer: str, is_right: bool) -> None:
    question = "By how much did fuel costs change from 2023 to 2024?"
    (number,) = [
        one
        for one in check_claims(question, answer, [ClaimSource(ReadPage(EXPENSES.item))])
        if one.claim.text in {"45.8 %", "1,215", "31.4 %"}
    ]

    assert (number.verdict in {STATED, ClaimVerdict.COMPUTED}) is is_right
