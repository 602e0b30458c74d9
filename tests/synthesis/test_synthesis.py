# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Made corpora: what stands in the pictures, what in the text layer, who is held out, same bytes."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from functools import cache
from itertools import combinations
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pypdfium2 import PdfDocument

from vrag.datasets.registry import read_cases
from vrag.errors import CaseError
from vrag.synthesis import COLOURS, TEMPLATES, WORDS, Corpus, SynthesisOptions, Words, synthesize, write
from vrag.synthesis.sampling import deal_names

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from vrag.geometry import Box
    from vrag.types import Case, Region

EMBLEMS = ("emblem", "emblem_pair")
REPORTS = ("key_figure", "table", "chart", "multi_hop")


@cache
def made(*templates: str, seed: int = 3, documents: int = 8, pages: int = 4) -> Corpus:
    return synthesize(
        SynthesisOptions(seed=seed, documents=documents, pages=pages, templates=templates or REPORTS)
    )


def every(corpus: Corpus) -> tuple[Case, ...]:
    return corpus.train + corpus.held_out


def pixels(corpus: Corpus, case: Case, region: Region) -> NDArray[np.uint8]:
    """What stands inside a gold box when the page is drawn."""
    pdf = PdfDocument(corpus.documents[case.file_name])
    picture = np.asarray(pdf[region.page - 1].render(scale=1, rev_byteorder=True).to_numpy())[..., :3]
    height, width = picture.shape[:2]
    x1, y1, x2, y2 = region.box.as_tuple()
    return picture[round(y1 * height) : round(y2 * height), round(x1 * width) : round(x2 * width)]


def text_within(corpus: Corpus, name: str, page: int, box: Box | None = None) -> str:
    """The text layer of a page, or of a part of it that is a point larger than `box` on each side."""
    pdf = PdfDocument(corpus.documents[name])
    opened = pdf[page - 1]
    layer = opened.get_textpage()
    if box is None:
        return layer.get_text_bounded()
    width, height = opened.get_size()
    left, right = box.x1 * width - 1, box.x2 * width + 1
    return layer.get_text_bounded(left, height - box.y2 * height - 1, right, height - box.y1 * height + 1)


@pytest.mark.parametrize("template", EMBLEMS)
def test_an_emblems_gold_boxes_are_filled_with_the_colours_of_the_answer_in_its_order(template: str) -> None:
    corpus = made(template)

    for case in every(corpus):
        named = [COLOURS[word] for word in case.reference_answer.split()]
        for region, colour in zip(case.regions, named, strict=True):
            assert (pixels(corpus, case, region) == colour).all()


@pytest.mark.parametrize("template", EMBLEMS)
def test_the_text_layer_of_an_emblem_holds_its_two_words_and_nothing_else(template: str) -> None:
    corpus = made(template)

    titles = [text_within(corpus, name, page) for name in corpus.documents for page in range(1, 5)]

    assert all(len(title.split()) == 2 and title.islower() for title in titles)
    assert len(set(titles)) == len(titles), "a pair of words stands on one page only"
    assert not any(colour in title for title in titles for colour in COLOURS)


def test_an_emblem_is_a_square_with_its_title_above_the_block() -> None:
    corpus = made("emblem")
    page = PdfDocument(corpus.documents["emblem-001.pdf"])[0]
    width, height = page.get_size()
    case = corpus.train[0]

    assert width == height
    assert case.regions[0].box.as_tuple() == (0.0, 0.15, 1.0, 1.0)
    above = np.asarray(page.render(scale=2).to_numpy())[: int(0.15 * height * 2), :, 0]
    assert 0.02 < (above < 128).mean() < 0.5


def test_the_title_of_the_longest_words_stays_on_its_page() -> None:
    words = Words((max(WORDS.first, key=len),), (max(WORDS.second, key=len),))
    corpus = synthesize(
        SynthesisOptions(documents=1, pages=1, templates=("emblem",), held_out=0, words=words)
    )

    picture = np.asarray(PdfDocument(corpus.documents["emblem-001.pdf"])[0].render(scale=1).to_numpy())

    assert (picture[:45, -4:, :3] == 255).all()


def test_an_emblem_question_and_its_answer_read_as_agreed() -> None:
    corpus = made("emblem")
    case = corpus.train[0]

    title = text_within(corpus, case.file_name, case.reference_page[0])

    assert case.query == f'colour of "{title}" ?'
    assert case.reference_answer in COLOURS
    assert (case.query_type, case.source_type) == ("Single-Hop", ("Figure",))


def test_a_pair_asks_for_two_pages_of_one_document_in_the_order_of_the_question() -> None:
    corpus = made("emblem_pair")

    for case in every(corpus):
        one, other = (text_within(corpus, case.file_name, page) for page in case.reference_page)
        assert case.query == f'colours of "{one}" and "{other}" ?'
        assert [region.page for region in case.regions] == list(case.reference_page)
        assert case.query_type == "Multi-Hop"


@pytest.mark.parametrize("template", ["key_figure", "table"])
def test_the_gold_box_of_a_written_value_holds_that_value(template: str) -> None:
    corpus = made(template)

    for case in every(corpus):
        (region,) = case.regions
        assert case.reference_answer in text_within(corpus, case.file_name, region.page, region.box)
        assert (pixels(corpus, case, region) < 128).any(), "there is ink in the picture as well"


def test_the_gold_box_of_a_table_holds_one_cell_only() -> None:
    corpus = made("table")

    for case in every(corpus):
        (region,) = case.regions
        assert text_within(corpus, case.file_name, region.page, region.box).strip() == case.reference_answer


def test_a_bar_is_as_high_as_the_answer_says_and_filled() -> None:
    corpus = made("chart")
    asked = [case for case in every(corpus) if case.reference_answer.isdigit()]

    for case in asked:
        (region,) = case.regions
        bar = pixels(corpus, case, region)[3:-3, 3:-3]
        assert (bar == bar[0, 0]).all()
        assert not (bar == bar[0, 0, 0]).all(), "it is of a colour, which the paper is not"
        assert region.box.height * 842 == pytest.approx(int(case.reference_answer) * 4, abs=0.2)


def test_the_highest_bar_is_that_of_the_month_in_the_answer() -> None:
    corpus = made("chart")

    for case in every(corpus):
        if not case.reference_answer.isdigit():
            (region,) = case.regions
            others = [
                other.regions[0].box.y1
                for other in every(corpus)
                if (other.file_name, other.reference_page) == (case.file_name, case.reference_page)
            ]
            assert region.box.y1 == min(others)


def test_a_multi_hop_question_leads_from_the_named_page_to_the_number_of_its_partner() -> None:
    corpus = made("multi_hop")

    for case in every(corpus):
        named, told = case.regions
        partner = text_within(corpus, case.file_name, named.page, named.box)
        title = text_within(corpus, case.file_name, told.page).splitlines()[0].strip()
        assert title in partner
        assert title not in case.query
        assert case.reference_answer in text_within(corpus, case.file_name, told.page, told.box)


def test_a_question_is_asked_once_in_a_corpus() -> None:
    corpus = made(*TEMPLATES, documents=24)

    questions = [case.query for case in every(corpus)]

    assert len(set(questions)) == len(questions)
    assert len({case.uid for case in every(corpus)}) == len(questions)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), documents=st.integers(4, 16), pages=st.integers(2, 6))
def test_held_out_cases_are_of_other_documents_and_made_of_words_and_colours_seen(
    seed: int, documents: int, pages: int
) -> None:
    corpus = synthesize(SynthesisOptions(seed=seed, documents=documents, pages=pages, templates=("emblem",)))

    seen = {word for case in corpus.train for word in (*case.query.split(), case.reference_answer)}
    assert {case.file_name for case in corpus.train}.isdisjoint(case.file_name for case in corpus.held_out)
    assert {case.query for case in corpus.train}.isdisjoint(case.query for case in corpus.held_out)
    words = {word.strip('"') for word in seen}
    for case in corpus.held_out:
        assert {word.strip('"') for word in case.query.split()} <= words
        assert case.reference_answer in words


def test_reports_ask_for_nothing_that_training_does_not_name() -> None:
    corpus = made(*REPORTS, documents=16)

    def words(cases: tuple[Case, ...]) -> set[str]:
        return {
            word
            for case in cases
            for word in re.findall("[a-zA-Z]+", f"{case.query} {case.reference_answer}")
        }

    assert words(corpus.held_out) <= words(corpus.train)


@given(train=st.integers(2, 200), held=st.integers(0, 50), seed=st.integers(0, 99))
def test_each_name_shares_one_word_with_another(train: int, held: int, seed: int) -> None:
    try:
        shown, known = deal_names(WORDS, train, held, Random(seed))
    except CaseError:
        assert train + held > train * train / 4
        return

    names = shown + known
    assert len(set(names)) == len(names) == train + held
    for name in names:
        assert any(
            (name.first == other.first) != (name.second == other.second) for other in shown if other != name
        )


def test_every_template_has_documents_on_both_sides() -> None:
    corpus = made(*TEMPLATES, documents=24)

    for part in (corpus.train, corpus.held_out):
        assert {case.file_name.rsplit("-", 1)[0] for case in part} == set(TEMPLATES)


def test_colours_come_in_equal_shares_so_that_chance_is_known() -> None:
    corpus = made("emblem", documents=16)

    answers = [case.reference_answer for case in corpus.train]
    counts = [answers.count(colour) for colour in COLOURS]

    assert max(counts) - min(counts) <= 1


@pytest.mark.slow
def test_the_same_options_make_the_same_bytes_in_another_process() -> None:
    script = (
        "import hashlib; from vrag.synthesis import *\n"
        f"corpus = synthesize(SynthesisOptions(seed=3, documents=24, templates={tuple(TEMPLATES)!r}))\n"
        "print(hashlib.sha256(b''.join(corpus.documents.values())).hexdigest())"
    )
    other = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    here = made(*TEMPLATES, documents=24)

    assert other.stdout.strip() == hashlib.sha256(b"".join(here.documents.values())).hexdigest()


def test_another_seed_makes_another_corpus() -> None:
    assert made("emblem").documents != made("emblem", seed=4).documents


def test_a_file_says_nothing_of_when_it_was_made() -> None:
    for data in made(*TEMPLATES, documents=24).documents.values():
        assert b"Date" not in data


def test_colours_are_far_apart() -> None:
    for one, other in combinations(COLOURS.values(), 2):
        assert max(abs(a - b) for a, b in zip(one, other, strict=True)) >= 110


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (SynthesisOptions(templates=("emblem", "poem")), "no template 'poem'"),
        (SynthesisOptions(templates=()), "No template"),
        (SynthesisOptions(held_out=1.0), "held out"),
        (SynthesisOptions(held_out=float("nan")), "held out"),
        (SynthesisOptions(pages=1, templates=("emblem_pair",)), "2 pages"),
        (SynthesisOptions(pages=0, templates=("emblem",)), "1 pages"),
        (SynthesisOptions(documents=3), "as many documents"),
        (SynthesisOptions(documents=100), "256"),
        (SynthesisOptions(documents=2, pages=2, templates=("emblem",)), "too few words"),
        (SynthesisOptions(words=Words((), ("b",))), "no words"),
        (SynthesisOptions(words=Words(("a", "a"), ("b",))), "occurs twice"),
        (SynthesisOptions(words=Words(("Amber",), ("b",))), "'Amber'"),
        (SynthesisOptions(words=Words(("reddish",), ("b",))), "'red'"),
        (SynthesisOptions(colours={"red": (256, 0, 0)}), "0 to 255"),
    ],
)
def test_options_that_cannot_be_met_are_refused(options: SynthesisOptions, why: str) -> None:
    with pytest.raises(CaseError, match=why):
        synthesize(options)


def test_a_corpus_is_written_and_read_back(tmp_path: Path) -> None:
    corpus = made("emblem")

    write(corpus, tmp_path / "deep" / "corpus")

    folder = tmp_path / "deep" / "corpus"
    assert tuple(read_cases(folder / "train.json")) == corpus.train
    assert tuple(read_cases(folder / "held_out.json")) == corpus.held_out
    assert {path.name: path.read_bytes() for path in (folder / "documents").iterdir()} == corpus.documents


def test_a_corpus_is_made_anew_where_a_former_one_stands(tmp_path: Path) -> None:
    write(made("emblem"), tmp_path)
    other = made("emblem_pair")

    write(other, tmp_path)

    assert {path.name for path in (tmp_path / "documents").iterdir()} == set(other.documents)


def test_a_folder_with_files_of_others_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")

    with pytest.raises(CaseError, match="not empty"):
        write(made("emblem"), tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_strange_document_among_those_made_is_left_alone(tmp_path: Path) -> None:
    write(made("emblem"), tmp_path)
    (tmp_path / "documents" / "thesis.pdf").write_bytes(b"years of work")

    with pytest.raises(CaseError, match=r"thesis\.pdf"):
        write(made("emblem"), tmp_path)

    assert (tmp_path / "documents" / "thesis.pdf").read_bytes() == b"years of work"


@pytest.mark.parametrize("mark", ["{", "[]", '{"documents": 3}', "\x00"])
def test_a_damaged_mark_is_no_leave_to_overwrite(tmp_path: Path, mark: str) -> None:
    (tmp_path / "synthesis.json").write_text(mark)

    with pytest.raises(CaseError, match="damaged"):
        write(made("emblem"), tmp_path)


def test_a_place_that_is_a_file_is_named_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(CaseError, match="cannot be written"):
        write(made("emblem"), tmp_path / "file")


@pytest.mark.parametrize("step", ["unlink", "write_bytes"])
def test_a_write_that_was_cut_short_can_be_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    write(made("emblem"), tmp_path)
    other = made("emblem_pair")

    def killed(path: Path, *_: object, **__: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(tmp_path), step, killed)
        with pytest.raises(KeyboardInterrupt):
            write(other, tmp_path)
    write(other, tmp_path)

    assert {path.name for path in (tmp_path / "documents").iterdir()} == set(other.documents)
