"""Letters that people type differently are one, and those that differ in meaning stay apart."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.search.searcher import excerpt
from vrag.text.folding import fold, fold_case, fold_with_places

ASCII = st.text(st.characters(max_codepoint=127))


@pytest.mark.parametrize(
    ("written", "typed"),
    [
        ("Résumé ÉTÉ", "resume ete"),
        ("Re\u0301sume\u0301", "resume"),
        ("Ｃａｆé １２％", "cafe 12%"),
        ("ﬁrst oﬃce", "first office"),
        ("Łódź, Ærø, đô, ısı", "lodz, aero, do, isi"),
        ("STRASSE Straße", "strasse strasse"),
        ("soft\u00adhyphen zero\u200bwidth", "softhyphen zerowidth"),
        ("מְנַהֵל הַנָּמָל", "מנהל הנמל"),
        ("שׁלוֹם", "שלום"),
        ("مُحَمَّد مـحـمـد", "محمد محمد"),
        ("أحمد إسلام آب", "احمد اسلام اب"),
        ("ﻻﻋﺐ", "لاعب"),
        ("المصرى", "المصري"),
        ("كتاب كبير", "کتاب کبیر"),
        ("المدرسة", "المدرسه"),
        ("خانهٔ", "خانه"),
        ("کشتی\u200cرانی", "کشتیرانی"),
        ("١٩٨٧ ۱۹۸۷ १९८७ ๑๙๘๗", "1987 1987 1987 1987"),
        ("٢٬٣٤٥٫٥", "2,345.5"),
        ("ｶﾞｽ", "ガス"),
    ],
)
def test_what_is_typed_otherwise_is_the_same(written: str, typed: str) -> None:
    assert fold(written) == fold(typed)


@pytest.mark.parametrize(
    ("one", "other"),
    [("ガス", "カス"), ("كلب", "قلب"), ("گل", "کل"), ("כתב", "קתב"), ("한", "하"), ("不", "木")],
)
def test_other_letters_stay_apart(one: str, other: str) -> None:
    assert fold(one) != fold(other)


@given(ASCII)
def test_plain_text_loses_its_case_and_nothing_else(text: str) -> None:
    assert fold(text) == fold_case(text) == text.lower()


@given(st.text())
def test_folding_twice_changes_nothing_more(text: str) -> None:
    assert fold(fold(text)) == fold(text)


@given(st.text(st.characters(max_codepoint=0x24F)))
def test_a_text_in_decomposed_form_folds_alike(text: str) -> None:
    assert fold(unicodedata.normalize("NFD", text)) == fold(text)


@given(st.text())
def test_each_folded_letter_comes_from_its_place(text: str) -> None:
    folded, places = fold_with_places(text)

    assert len(folded) == len(places)
    assert all(letter in fold_with_places(text[at])[0] for letter, at in zip(folded, places, strict=True))
    assert unicodedata.normalize("NFC", folded) == fold(text)


def test_an_excerpt_begins_at_a_word_that_is_typed_otherwise() -> None:
    assert excerpt("Straße und Straße zum Café am Hafen", "cafe", 13, 0) == "…Café am Hafen"
    assert excerpt("تقرير الميناء رئيس الشركة", "الشركه", 10, 0) == "…الشركة"
