"""A question finds words, answers and marks alike, however its letters are typed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_reader import page, read_best

from vrag.index.lexical.bm25 import terms
from vrag.reading.page_text import read_page_text
from vrag.reading.places.phrases import find_phrase
from vrag.reading.spans.tokens import tokenize
from vrag.server.viewer.text_search import find_matches, fold_query
from vrag.text.folding import fold
from vrag.text.terms import tokens
from vrag.types import Item

ARABIC = page(
    (0.1, 0.10, "تقرير الميناء السنوي"),
    (0.1, 0.30, "بلغ عدد الموظفين في المستشفى ٢٬٣٤٥ موظفاً"),
    (0.1, 0.50, "مديرة المَلاحة هي فاطمة الأنصارى"),
    name="mina.pdf",
)
PERSIAN = page(
    (0.1, 0.10, "گزارش سالانهٔ کشتی\u200cرانی"),
    (0.1, 0.30, "مدیر کارخانه در شهر شیراز آقای کیوان یزدانی است."),
    (0.1, 0.50, "ارتفاع برج فانوس دریایی ۴۲ متر است."),
    name="gozaresh.pdf",
)
HEBREW = page(
    (0.1, 0.10, "דּוּחַ הַנָּמָל הַשְּׁנָתִי"),
    (0.1, 0.30, "מְנַהֵל הַנָּמָל הוּא דָּוִד לֵוִי"),
    (0.1, 0.50, "גֹּבַהּ הַמִּגְדַּלּוֹר הוּא 38 מטר"),
    name="namal.pdf",
)
FRENCH = page(
    (0.1, 0.10, "Rapport annuel"),
    (0.1, 0.30, "Le directeur du café de l'hôtel est Rémi Lefèvre."),
    (0.1, 0.50, "La hauteur du phare est de 27 mètres."),
    name="rapport.pdf",
)
PHRASES = [
    (ARABIC, "مديره الملاحه", 0.50),
    (ARABIC, "المستشفي 2345", 0.30),
    (ARABIC, "فاطمه الانصاري", 0.50),
    (PERSIAN, "مدير كارخانه", 0.30),
    (PERSIAN, "كشتيراني", 0.10),
    (PERSIAN, "42 متر", 0.50),
    (HEBREW, "מנהל הנמל", 0.30),
    (HEBREW, "דוד לוי", 0.30),
    (HEBREW, "גבה המגדלור", 0.50),
    (FRENCH, "cafe de l'hotel", 0.30),
    (FRENCH, "Remi Lefevre", 0.30),
    (FRENCH, "２７ mètres", 0.50),
]


@pytest.mark.parametrize(("item", "phrase", "top"), PHRASES)
def test_a_phrase_of_other_letters_is_found_by_all(item: Item, phrase: str, top: float) -> None:
    text, typed = item.text, fold(phrase)

    assert set(terms(typed)) <= set(terms(text))
    assert {token.term for token in tokens(typed)} <= {token.term for token in tokens(text)}
    assert set(tokenize(typed).stems) <= set(tokenize(text).stems)
    words = read_page_text(item)
    places = find_phrase(phrase, words)
    assert [
        round(rect.y1, 2) for place in places for rect in words.rects_of_forms(place.first, place.last)
    ] == [top]


@pytest.mark.parametrize(("item", "phrase", "top"), [each for each in PHRASES if "2345" not in each[1]])
def test_the_viewer_marks_a_phrase_of_other_letters(item: Item, phrase: str, top: float) -> None:
    (match,) = find_matches(item, fold_query(phrase))

    assert [round(box[1], 2) for box in match.boxes] == [top]


@pytest.mark.parametrize(
    ("item", "question", "answer", "top"),
    [
        (PERSIAN, "مدیر کارخانه در شهر شیراز کیست؟", "آقای کیوان یزدانی", 0.30),
        (PERSIAN, "مدير كارخانه در شهر شيراز كيست؟", "آقای کیوان یزدانی", 0.30),
        (PERSIAN, "ارتفاع برج فانوس دریایی چقدر است؟", "۴۲ متر", 0.50),
        (PERSIAN, "ارتفاع برج فانوس دريايي چقدر است؟", "۴۲ متر", 0.50),
        (FRENCH, "Qui est le directeur du café de l'hôtel ?", "Rémi Lefèvre", 0.30),
        (FRENCH, "Qui est le directeur du cafe de l'hotel ?", "Rémi Lefèvre", 0.30),
        (FRENCH, "Quelle est la hauteur du phare en ｍｅｔｒｅｓ ?", "27 mètres", 0.50),
    ],
)
def test_the_reader_answers_alike(item: Item, question: str, answer: str, top: float) -> None:
    reading = read_best(question, item)

    assert reading.text == answer
    assert round(reading.marks[0].box.y1, 2) == top


@pytest.mark.parametrize(
    ("item", "written", "typed"),
    [
        (ARABIC, "من هي مديرة المَلاحة؟", "من هی مدیره الملاحه؟"),
        (HEBREW, "מִי הוּא מְנַהֵל הַנָּמָל?", "מי הוא מנהל הנמל?"),
        (HEBREW, "מַה גֹּבַהּ הַמִּגְדַּלּוֹר?", "מה גבה המגדלור?"),
    ],
)
def test_a_question_with_and_without_points_is_read_alike(item: Item, written: str, typed: str) -> None:
    one, other = read_best(written, item), read_best(typed, item)

    assert replace(one, probability=0) == replace(other, probability=0)
    assert one.probability == pytest.approx(other.probability, abs=0.1)


def test_a_foreign_word_is_no_stop_word_without_its_accents() -> None:
    assert [token.term for token in tokens("do đo the thé")] == ["do", "đo", "the", "thé"]
