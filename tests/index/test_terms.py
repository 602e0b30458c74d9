from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.index.lexical.bm25 import STOP_WORDS, is_word, terms

WORDS = (
    "report",
    "2023",
    "10.5",
    "年",
    "Ｒｅｖｅｎｕｅ",
    "营业收入",
    "売上高",
    "매출",
    "café",
    "ß",
    "İ",
    "हिन्दी",
    "ภาษาไทย",
)
TEXTS = st.text() | st.lists(st.sampled_from([*WORDS, " ", "\n", ",", "’s", "-", "・", "。"])).map("".join)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Best Buy's fees", ["best", "buy", "s", "fee"]),
        ("10,5 % of 1,874,000; 12,34 v2.18.0", ["10,5", "of", "1874000", "12,34", "v", "2.18.0"]),
        ("1,2,3", ["1,2,3"]),
        ("Q3FY2023 GS5002", ["q", "3", "fy", "2023", "gs", "5002"]),
        ("snake_case long-distance", ["snake", "case", "long", "distance"]),
        ("Straße STRASSE", ["strasse", "strasse"]),
        ("Tiếng Việt résumé", ["tieng", "viet", "resume"]),
        ("ﬁnance ｱｲ", ["finance", "ア", "アイ", "イ"]),
        ("売上高", ["売", "売上", "上", "上高", "高"]),
        ("データ・ベース", ["デ", "デー", "ー", "ータ", "タ", "ベ", "ベー", "ー", "ース", "ス"]),
        ("매출 액", ["매", "매출", "출", "출액", "액"]),
        ("营业\n收入", ["营", "营业", "业", "业收", "收", "收入", "入"]),
        ("2023年营业", ["2023", "年", "年营", "营", "营业", "业"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("МОСКВА", ["москва"]),
        ("", []),
        ("…—\x00_", []),
    ],
)
def test_terms_by_hand(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


@pytest.mark.parametrize(
    ("written", "typed"),
    [
        ("ﻻﻋﺐ", "لاعب"),
        ("مُحَمَّد مـحـمـد", "محمد محمد"),
        ("أحمد إسلام آب ٱلبيت", "احمد اسلام اب البيت"),
        ("كتاب علي مدرسة", "کتاب علی مدرسه"),
        ("می\u200cخواهم", "میخواهم"),
        ("١٬٢٣٤٫٥ ۱۲۳ १२", "1,234.5 123 12"),
        ("שָׁלוֹם", "שלום"),
        ("elec\u00adtri\u200bcity \u200e54\u200f", "electricity 54"),
        ("Łódź Ærøskøbing", "lodz aeroskobing"),
        ("480¹ 10⁶ 1½ m²", "480 1 10 6 1 1/2 m2"),
    ],
)
def test_people_find_what_they_type(written: str, typed: str) -> None:
    assert terms(written) == terms(typed)


@given(TEXTS)
def test_a_text_in_another_form_of_unicode_has_the_same_terms(text: str) -> None:
    assert terms(unicodedata.normalize("NFC", text)) == terms(unicodedata.normalize("NFD", text))


@given(st.text(st.characters(codec="ascii")))
def test_case_does_not_matter(text: str) -> None:
    assert terms(text.upper()) == terms(text.lower())


@given(TEXTS, TEXTS)
def test_a_sentence_does_not_change_the_terms_of_the_next(first: str, second: str) -> None:
    assert terms(f"{first}\n.\n{second}") == terms(first) + terms(second)


@given(TEXTS)
def test_terms_are_never_empty_and_hold_no_space(text: str) -> None:
    assert all(term and not any(map(str.isspace, term)) for term in terms(text))


@pytest.mark.parametrize(
    ("term", "expected"), [("revenue", True), ("10.5", True), ("हिन्दी", True), ("the", False), ("营", False)]
)
def test_words_are_told_from_stop_words_and_pieces_of_unspaced_runs(term: str, *, expected: bool) -> None:
    assert is_word(term) == expected


def test_stop_words_are_terms_themselves() -> None:
    """Otherwise one of them would never meet a term."""
    assert all(terms(word) == [word] for word in STOP_WORDS)
