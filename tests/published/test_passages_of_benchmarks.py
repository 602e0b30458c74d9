"""Paragraphs as documents: names that are safe and tell them apart, texts that are read as they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.corpus.formats.sections import markdown_sections
from vrag.datasets.files.documents import ParagraphDocument, as_markdown, distinct, title_in_name

texts = st.text(
    st.characters(codec="utf-8", exclude_categories=["C"]) | st.sampled_from("\n#*_`<>[]()|-+=~&1. \\!")
)


@given(title=texts, text=texts)
def test_the_name_of_a_file_stays_in_its_folder_on_any_disk(title: str, text: str) -> None:
    name = ParagraphDocument(title, text).name

    assert name.isprintable()
    assert not set(name) & set('/\\:*?"<>|')
    assert not name.startswith((".", " ", "-"))
    assert len(name.encode()) <= 200


@pytest.mark.parametrize(
    ("title", "part"),
    [
        ("../../etc/passwd", "etc passwd"),
        ("C:\\con", "C con"),
        ("a\x00\x1f\u202eb", "a b"),
        ("", "untitled"),
        ("\ud800", "untitled"),
        ("Ångström", "Ångström"),
        ("é" * 99, "é" * 50),
    ],
)
def test_a_title_in_a_name_keeps_what_is_harmless(title: str, part: str) -> None:
    assert title_in_name(title) == part


def test_other_texts_have_other_names_and_the_same_one_the_same() -> None:
    assert ParagraphDocument("Wood", "a b").name == ParagraphDocument("Wood", " a\nb ").name
    assert (
        len({ParagraphDocument(*each).name for each in [("Wood", "a"), ("Wood", "b"), ("wood!", "a")]}) == 3
    )
    assert ParagraphDocument("a", "b c").name != ParagraphDocument("a b", "c").name


def test_a_passage_is_there_once_and_one_without_words_never() -> None:
    found = distinct(
        [
            ParagraphDocument("a", "x"),
            ParagraphDocument("b", "…"),
            ParagraphDocument("a", "x "),
            ParagraphDocument("a", "y"),
        ]
    )

    assert [document.text for document in found] == ["# a\n\nx\n", "# a\n\ny\n"]


@given(text=texts)
def test_a_text_is_read_from_markdown_word_for_word(text: str) -> None:
    sections = [*markdown_sections(ParagraphDocument("Title", text).document().text)]

    assert [section.headings for section in sections if section.text.strip()] == [("Title",)]
    assert "".join(section.text for section in sections).split() == ["Title", *text.split()]


@given(title=texts)
def test_a_title_is_the_heading_word_for_word(title: str) -> None:
    sections = [*markdown_sections(ParagraphDocument(title, "words").document().text)]

    assert [" ".join(section.headings).split() for section in sections if section.text.strip()] == [
        title.split() or ["…"]
    ]


@pytest.mark.parametrize(
    "text",
    [
        "1. one\n2) two",
        "- a\n+ b\n* c",
        "# no heading",
        "no heading\n===",
        "no heading\n---",
        "    no code",
        "a | b\n- | -\n1 | 2",
        "<b>bold</b> &amp; [link](url) ![x](y) `code`",
        "[a]: b",
        "back\\slash\\",
        "a\n> quote",
        "~~~\nfence",
    ],
)
def test_what_looks_like_markup_is_text(text: str) -> None:
    (section,) = [each for each in markdown_sections(f"# T\n\n{as_markdown(text)}\n") if each.text.strip()]

    assert section.text.split() == ["T", *text.split()]


def test_signs_that_no_text_has_are_blanks() -> None:
    assert as_markdown("a\x00b\x1bc\ud800") == "a b c"
