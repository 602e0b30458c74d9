"""Values are read whole: no date, amount, power, code, telephone number or address is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.reading.questions.answer_types import AnswerKind
from vrag.reading.spans.whole_values import complete_value


@pytest.mark.parametrize(
    ("text", "cut", "kind", "whole"),
    [
        ("First crossing on 3 May 2027 from Orla", "2027", AnswerKind.DATE, "3 May 2027"),
        ("Signed on March 4, 1974.", "March 4", AnswerKind.DATE, "March 4, 1974"),
        ("First crossing on 3 May 2027 from Orla", "2027", AnswerKind.YEAR, "2027"),
        ("渡轮于2024年5月3日首航", "2024", AnswerKind.DATE, "2024年5月3日"),
        (
            "write to office@lindholm.example now",
            "office@lindholm",
            AnswerKind.EMAIL,
            "office@lindholm.example",
        ),
        ("See www.example.org/fares.", "example.org", AnswerKind.LINK, "www.example.org/fares"),
        ("at 11.8 cents per kWh", "11.8", AnswerKind.MONEY, "11.8 cents"),
        ("a ticket costs 12 crowns", "12", AnswerKind.MONEY, "12 crowns"),
        ("they keep to six knots there", "six", AnswerKind.NUMBER, "six knots"),
        ("sales of $ 1,874 million", "1,874", AnswerKind.NUMBER, "$ 1,874 million"),
        ("It burns 3.2 × 10 ⁶ litres", "3.2 × 10", AnswerKind.NUMBER, "3.2 × 10 ⁶"),
        ("It burns 4.7·10⁻³ litres", "4.7·10", AnswerKind.NUMBER, "4.7·10⁻³"),
        ("A plank is 5 3/8 inches wide", "3/8 inches wide", AnswerKind.NUMBER, "5 3/8 inches wide"),
        ("A plank is 5 3/8 inches wide", "5", AnswerKind.NUMBER, "5 3/8 inches"),
        ("a width of 3½ m", "3", AnswerKind.NUMBER, "3½"),
        ("open on 3/8 and 4/8", "4/8", AnswerKind.NUMBER, "4/8"),
        ("about 10⁴ cells", "10", AnswerKind.NUMBER, "10⁴"),
        ("The net has 2 ¹⁶ addresses", "2", AnswerKind.COUNT, "2 ¹⁶"),
        ("The boats have 2 ¹ masts", "2", AnswerKind.COUNT, "2"),
        ("at 14 b, near the quay", "14", AnswerKind.NUMBER, "14 b"),
        ("EUR 14 a day", "14", AnswerKind.NUMBER, "14"),
        ("The berth is 17-C.", "17", AnswerKind.NUMBER, "17-C"),
        ("policy HM-552-9071 covers it", "552", AnswerKind.NUMBER, "HM-552-9071"),
        ("order 55-12-7 is late", "55-12", AnswerKind.NUMBER, "55-12-7"),
        ("part 77-B-2024 fits", "77", AnswerKind.NUMBER, "77-B-2024"),
        ("call 0800 5512 at night", "5512", AnswerKind.NUMBER, "0800 5512"),
        ("call 0800 55-12-7 at night", "55-12-7", AnswerKind.NUMBER, "0800 55-12-7"),
        ("call +49 40 123456 at night", "123456", AnswerKind.NUMBER, "+49 40 123456"),
        ("in Q3-2024 it rose", "2024", AnswerKind.YEAR, "2024"),
        ("from 2019-2021 it rose", "2019", AnswerKind.NUMBER, "2019"),
        ("a 17-year-old boat", "17", AnswerKind.NUMBER, "17"),
        ("5 m² of sail", "5", AnswerKind.NUMBER, "5"),
        ("pages 5-7 show it", "5", AnswerKind.NUMBER, "5"),
        ("at 08:00 12 boats sail", "12", AnswerKind.NUMBER, "12"),
        ("12 ships sail", "12", AnswerKind.NUMBER, "12"),
        ("Ada Holm, 1962", "Ada Holm", AnswerKind.PERSON, "Ada Holm"),
    ],
)
def test_a_cut_value_is_completed(text: str, cut: str, kind: AnswerKind, whole: str) -> None:
    start = text.index(cut)
    assert text[slice(*complete_value(text, start, start + len(cut), kind))] == whole


pieces = st.lists(
    st.sampled_from(["3 May", " 2027", "$", "12", ".", "5", " cents", "a@b", ".c", "年", " ", "x"])
)


@given(pieces.map("".join), st.data(), st.sampled_from(AnswerKind))
def test_a_range_only_grows(text: str, data: st.DataObject, kind: AnswerKind) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    first, last = complete_value(text, start, end, kind)
    assert 0 <= first <= start <= end <= last <= len(text)
