# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Annotated copies of PDF files, as PDFium and Poppler draw them: pixel by pixel where they must be."""

from __future__ import annotations

import contextlib
import io
import itertools
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pikepdf
import pytest
from annotated_pages import (
    RENDERERS,
    TOLERANCE,
    annotate,
    changed,
    draw,
    evidence_on,
    expected,
    pdf_file,
    place_of,
    rectangle,
)
from hypothesis import given
from hypothesis import strategies as st

from vrag.corpus.formats.pdfium import PageFrame, Pdf
from vrag.errors import CorpusError, EncryptedFileError
from vrag.geometry import Box, Size
from vrag.reading.verification.claim import ClaimVerdict
from vrag.render.annotations.pdf_copy import StoredPage, annotate_pdf, page_frames, write_stored_pages
from vrag.samples import corpus_dir

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.render.annotations.cited_place import CitedPlace

PAGES: dict[str, dict[str, Any]] = {
    "plain": {},
    "rotated by 90": {"Rotate": 90},
    "rotated by 180": {"Rotate": 180},
    "rotated by 270": {"Rotate": 270},
    "rotated by -90": {"Rotate": -90},
    "media box with an origin": {"media": (-120, 50, 280, 650)},
    "cropped": {"media": (0, 0, 500, 700), "CropBox": (60, 80, 460, 600)},
    "cropped and rotated": {"media": (10, 20, 500, 700), "CropBox": (60, 80, 460, 600), "Rotate": 90},
    "cropped beyond the media box": {"CropBox": (100, 100, 450, 640), "Rotate": 270},
    "in units of its own": {"UserUnit": 2.5},
}


def badge_of(data: bytes) -> tuple[float, float, float, float]:
    """The box of the note, in fractions of the page: upright from the upper left corner of its rectangle."""
    with pikepdf.open(io.BytesIO(data)) as pdf:
        (note,) = (each for each in pdf.pages[0].obj.Annots if each.get("/Subtype") == "/Text")
        left, bottom, right, top = (float(side) for side in note.Rect)
    frame = page_frames(data, {1})[1]
    corner = frame.to_unit(left, top, left, top)
    width, height = frame.shown_size
    return corner.x1, corner.y1, corner.x1 + (right - left) / width, corner.y1 + (top - bottom) / height


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("page", PAGES)
def test_frames_and_words_are_drawn_where_they_are_cited(page: str, renderer: str, tmp_path: Path) -> None:
    source = pdf_file(**PAGES[page])
    place = place_of(evidence_on())
    copy = annotate(source, place)
    before, after = (draw(data, 1, renderer, tmp_path) for data in (source, copy))
    assert before.shape == after.shape
    found = changed(before, after)
    must, may = expected(found.shape, place, page_frames(source, {1})[1].shown_size)
    badge = rectangle(found.shape, badge_of(copy), TOLERANCE)
    assert not (found & ~may & ~badge).any(), "something is drawn elsewhere"
    assert not (must & ~found).any(), "a part of the frame is missing"
    mark = place.evidence.marks[0].box
    white = rectangle(found.shape, mark, -2) & (before.min(axis=2) > 200)
    assert found[white].all(), "the words are not highlighted"
    assert found[badge].mean() > 0.5, "the number is missing"
    assert (after[rectangle(found.shape, mark)].min() - before[rectangle(found.shape, mark)].min()) < 20, (
        "what is written under the highlight stays readable"
    )


@pytest.mark.parametrize("renderer", RENDERERS)
def test_a_sample_document_is_annotated(renderer: str, tmp_path: Path) -> None:
    source = (corpus_dir() / "annual-report-2024.pdf").read_bytes()
    place = place_of(evidence_on(2))
    before, after = (draw(data, 2, renderer, tmp_path) for data in (source, annotate(source, place)))
    found = changed(before, after)
    must, _ = expected(found.shape, place, page_frames(source, {2})[2].shown_size)
    teal = np.abs(after - np.array([15, 118, 110])).max(axis=2) < 40
    assert teal[must].mean() > 0.98


ENCRYPTIONS = [
    pikepdf.Encryption(owner="secret", user="", R=6),
    pikepdf.Encryption(owner="secret", user="", R=4),
    pikepdf.Encryption(owner="secret", user="", R=3, aes=False, metadata=False),
    pikepdf.Encryption(owner="", user="", R=6, allow=pikepdf.Permissions(modify_annotation=False)),
]


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("encryption", ENCRYPTIONS)
def test_a_file_encrypted_by_its_owner_stays_so(
    encryption: pikepdf.Encryption, renderer: str, tmp_path: Path
) -> None:
    source = pdf_file(encryption=encryption)
    place = place_of(evidence_on())
    copy = annotate(source, place)
    with pikepdf.open(io.BytesIO(source)) as before, pikepdf.open(io.BytesIO(copy)) as after:
        assert after.is_encrypted
        assert after.encryption.R == before.encryption.R
        assert after.allow == before.allow
    found = changed(draw(source, 1, renderer, tmp_path), draw(copy, 1, renderer, tmp_path))
    must, _ = expected(found.shape, place, (400, 600))
    assert found[must].all()


@pytest.mark.parametrize(
    ("encryption", "message"),
    [
        (pikepdf.Encryption(owner="o", user="u"), "protected by a password"),
        (
            pikepdf.Encryption(owner="o", user="", allow=pikepdf.Permissions(modify_annotation=False)),
            "does not allow annotations",
        ),
    ],
)
def test_a_locked_file_is_refused(encryption: pikepdf.Encryption, message: str) -> None:
    with pytest.raises(EncryptedFileError, match=message):
        annotate(pdf_file(encryption=encryption), place_of(evidence_on()))


def test_a_damaged_file_and_a_page_that_is_not_there_are_refused() -> None:
    with pytest.raises(CorpusError, match="damaged"):
        annotate(b"%PDF-1.7\nnothing", place_of(evidence_on()))
    with pytest.raises(CorpusError, match="has 1 pages, and no page 2"):
        annotate(pdf_file(), place_of(evidence_on(2)))
    with pytest.raises(CorpusError, match="had 3 when it was indexed"):
        page_frames(pdf_file(), {1}, 3)


SOUND = pdf_file(2)


@given(st.lists(st.tuples(st.integers(0, len(SOUND) - 1), st.integers(0, 255)), min_size=1, max_size=12))
def test_damage_of_any_kind_is_refused_or_overcome(changes: list[tuple[int, int]]) -> None:
    damaged = bytearray(SOUND)
    for at, value in changes:
        damaged[at] = value
    with contextlib.suppress(CorpusError):
        assert annotate(bytes(damaged), place_of(evidence_on())).startswith(b"%PDF-")


def test_a_note_tells_number_question_answer_verdict_and_quote() -> None:
    place = place_of(
        evidence_on(),
        "2.1",
        answer="Marge: 1,2 %\x00 利润",
        verdict=ClaimVerdict.DOUBTED,
        verdict_lines=("The evidence says “1.3 %” [2.1], not “1,2 %”.",),
    )
    with pikepdf.open(io.BytesIO(annotate(pdf_file(), place))) as pdf:
        notes = {str(each.Subtype): each for each in pdf.pages[0].obj.Annots}
        assert notes.keys() == {"/Text", "/Square", "/Highlight"}
        note = notes["/Text"]
        text = str(note.Contents)
        assert text.startswith("[2.1] report.pdf, page 1, 20–70 % across")
        for part in ("What was the margin?", "利润", "says “1.3 %” [2.1]", "Quote: 1.2 %"):
            assert part in text
        assert "\x00" not in text
        for each in notes.values():
            assert each.P.objgen == pdf.pages[0].obj.objgen
            assert str(each.T) == "vrag"
            assert str(each.M) == "D:20260301101500Z"
            assert "/N" in each.AP
            assert int(each.F) & 4, "it is printed"
        assert note.Popup.Parent.objgen == note.objgen
        assert notes["/Square"].IRT.objgen == notes["/Highlight"].IRT.objgen == note.objgen
        assert len({str(each.NM) for each in notes.values()}) == 3
        assert len(notes["/Highlight"].QuadPoints) == 8


def test_the_same_export_gives_the_same_bytes() -> None:
    source, place = pdf_file(), place_of(evidence_on())
    assert annotate(source, place) == annotate(source, place)


def test_what_was_in_the_file_stays() -> None:
    with pikepdf.open(io.BytesIO(pdf_file(3))) as pdf:
        link = pikepdf.Dictionary(Type=pikepdf.Name.Annot, Subtype=pikepdf.Name.Link, Rect=[0, 0, 9, 9])
        shared = pdf.make_indirect(pikepdf.Array([pdf.make_indirect(link)]))
        pdf.pages[0].obj.Annots = pdf.pages[1].obj.Annots = shared
        pdf.docinfo["/Title"] = "The report"
        saved = io.BytesIO()
        pdf.save(saved)
    with pikepdf.open(io.BytesIO(annotate(saved.getvalue(), place_of(evidence_on())))) as pdf:
        assert [len(page.obj.get("/Annots", [])) for page in pdf.pages] == [4, 1, 0]
        assert str(pdf.docinfo["/Title"]) == "The report"


def test_numbers_of_one_place_stand_below_each_other_and_its_words_are_highlighted_once() -> None:
    places = [place_of(evidence_on(), str(number)) for number in (1, 2, 13)]
    with pikepdf.open(io.BytesIO(annotate(pdf_file(), *places))) as pdf:
        annotations = list(pdf.pages[0].obj.Annots)
    notes = [[float(side) for side in each.Rect] for each in annotations if each.Subtype == "/Text"]
    assert len(notes) == 3
    for above, below in itertools.pairwise(notes):
        assert below[3] <= above[1] + 0.01
    assert sum(each.Subtype == "/Highlight" for each in annotations) == 1


@given(
    left=st.floats(0, 0.9), top=st.floats(0, 0.9), number=st.integers(1, 9999), turn=st.sampled_from([0, 90])
)
def test_numbers_stay_on_the_page(left: float, top: float, number: int, turn: int) -> None:
    box = (left, top, left + 0.1, top + 0.1)
    copy = annotate(pdf_file(Rotate=turn), place_of(evidence_on(box=box, marks=()), str(number)))
    x1, y1, x2, y2 = badge_of(copy)
    assert -1e-5 < x1 < x2 < 1 + 1e-5
    assert -1e-5 < y1 < y2 < 1 + 1e-5


def test_a_whole_page_has_a_number_and_no_frame() -> None:
    with pikepdf.open(
        io.BytesIO(annotate(pdf_file(), place_of(evidence_on(box=(0, 0, 1, 1), marks=()))))
    ) as pdf:
        assert [str(each.Subtype) for each in pdf.pages[0].obj.Annots] == ["/Text"]


def test_a_signature_is_noticed() -> None:
    with pikepdf.open(io.BytesIO(pdf_file())) as pdf:
        pdf.Root.AcroForm = pikepdf.Dictionary(Fields=[], SigFlags=3)
        saved = io.BytesIO()
        pdf.save(saved)
    assert annotate_pdf(saved.getvalue(), [place_of(evidence_on())], io.BytesIO())
    assert not annotate_pdf(pdf_file(), [place_of(evidence_on())], io.BytesIO())


@pytest.mark.parametrize("renderer", RENDERERS)
def test_hundreds_of_pages_take_little_time(renderer: str, tmp_path: Path) -> None:
    source = pdf_file(500)
    places = [place_of(evidence_on(page), str(page)) for page in (1, 250, 500)]
    begun = time.perf_counter()
    copy = annotate(source, *places)
    assert time.perf_counter() - begun < 5
    assert len(copy) < len(source) + 50_000
    for place in places:
        page = place.evidence.page
        found = changed(draw(source, page, renderer, tmp_path), draw(copy, page, renderer, tmp_path))
        assert found[expected(found.shape, place, (400, 600))[0]].all()
    assert (draw(source, 2, renderer, tmp_path) == draw(copy, 2, renderer, tmp_path)).all()


sides = st.integers(-300, 900)
boxes = st.none() | st.lists(sides, min_size=4, max_size=4)


@given(
    media=boxes, crop=boxes, turn=st.sampled_from([None, 0, 90, -90, 180, 450, -270, 89]), above=st.booleans()
)
def test_the_visible_part_of_a_page_is_that_which_pdfium_draws(
    tmp_path_factory: pytest.TempPathFactory,
    media: list[int] | None,
    crop: list[int] | None,
    turn: int | None,
    above: bool,
) -> None:
    with pikepdf.new() as pdf:
        page = pdf.add_blank_page()
        del page.obj.MediaBox
        node: Any = pdf.Root.Pages if above else page.obj
        for name, value in (("MediaBox", media), ("CropBox", crop), ("Rotate", turn)):
            if value is not None:
                node[f"/{name}"] = pikepdf.Array(value) if isinstance(value, list) else value
        file = tmp_path_factory.getbasetemp() / "frame.pdf"
        pdf.save(file)
    data = file.read_bytes()
    drawn = Pdf(file)
    with drawn.page(1) as shown:
        frame = shown.frame
    drawn.close()
    if frame.left >= frame.right or frame.bottom >= frame.top:
        with pytest.raises(CorpusError, match="no visible part"):
            page_frames(data, {1})
    else:
        assert page_frames(data, {1})[1] == pytest.approx(frame, abs=1e-3)


@given(
    origin=st.tuples(st.floats(-500, 500), st.floats(-500, 500)),
    size=st.tuples(st.floats(1, 3000), st.floats(1, 3000)),
    turn=st.integers(0, 3),
    x=st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted),
    y=st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted),
)
def test_fractions_and_points_of_a_page_are_inverses(
    origin: tuple[float, float], size: tuple[float, float], turn: int, x: list[float], y: list[float]
) -> None:
    frame = PageFrame(*origin, origin[0] + size[0], origin[1] + size[1], turn)
    box = Box.unit(x[0], y[0], x[1], y[1])
    assert frame.to_unit(*frame.from_unit(box)).as_tuple() == pytest.approx(box.as_tuple(), abs=1e-6)


@pytest.mark.parametrize("renderer", RENDERERS)
def test_stored_pages_are_annotated_too_and_say_what_they_are(renderer: str, tmp_path: Path) -> None:
    from PIL import Image

    page = Image.new("RGB", (800, 1000), "white")
    buffer = io.BytesIO()
    page.save(buffer, "JPEG")
    place = place_of(evidence_on())
    caption = "Page 1 as stored in the collection, not the file itself."

    def drawn(places: tuple[CitedPlace, ...]) -> Any:  # noqa: ANN401
        target = io.BytesIO()
        write_stored_pages([StoredPage(buffer.getvalue(), Size(800, 1000), caption, places)], target)
        return draw(target.getvalue(), 1, renderer, tmp_path)

    before, after = drawn(()), drawn((place,))
    assert before.shape == (1032, 800, 3), "the picture in its own pixels, and a strip below"
    found = changed(before, after)[:1000]
    must, _ = expected((1000, 800), place, (400, 500))
    assert found[must].all()
    assert (before[1000:] < 128).any(), "the caption"
