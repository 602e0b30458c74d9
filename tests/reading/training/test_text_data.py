"""Readers of question sets over running text."""

from __future__ import annotations

from vrag.reading.training.text_data import TextQuestion, answer_f1, answer_words, cut_around_answer


def test_f1_compares_words_without_articles_and_punctuation() -> None:
    assert answer_f1(answer_words("The Denver Broncos."), answer_words("denver broncos")) == 1
    assert answer_f1(answer_words("Broncos"), answer_words("Panthers")) == 0
    assert answer_f1(answer_words("泰国曼谷"), answer_words("曼谷")) == 2 / 3


def test_a_long_text_is_cut_around_its_answer() -> None:
    text = "One sentence of many words. " * 200 + "Ada Holm built it. " + "And more words. " * 200
    start = text.index("Ada Holm")

    cut = cut_around_answer(TextQuestion("covid", 0, text, "Who built it?", ((start, "Ada Holm"),)))

    (offset, answer) = cut.answers[0]
    assert len(cut.text) <= 1500
    assert cut.text[offset : offset + len(answer)] == "Ada Holm"
