"""A part drawn from a file lies exactly where it lies on the stored page, with more detail."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from corpus.pdf_files import PdfPage, endless, pdf_bytes, text_at, with_owner_password
from vrag.corpus import drawing
from vrag.corpus.drawing import BytesNeeded, DrawTask, OpenPdfFiles, PartDrawn, factor_of
from vrag.corpus.formats.pdfium import Pdf
from vrag.corpus.workers import drawing_pool
from vrag.corpus.workers.drawing_pool import DrawingPool
from vrag.errors import CollectionError, CorpusError
from vrag.geometry import Box, Size, Space, View, draw_part, draw_view
from vrag.index.source_file import MAX_SOURCE_BYTES

if TYPE_CHECKING:
    from collections.abc import Generator

    from numpy.typing import NDArray

SCALE = 2.0
CONTENT = (
    text_at(60, 600, "Passengers 2024", 30)
    + text_at(75.3, 411.7, "small print of five points", 5)
    + "1 0 0 rg 90 120 200 80 re f 0 0 1 rg 333.3 333.3 71.7 9.1 re f\n"
)
ENTRIES = {
    "upright": "/MediaBox [0 0 612 792]",
    "turned 90": "/MediaBox [0 0 612 792] /Rotate 90",
    "turned 180": "/MediaBox [0 0 612 792] /Rotate 180",
    "turned 270": "/MediaBox [0 0 612 792] /Rotate 270",
    "cropped": "/MediaBox [0 0 612 792] /CropBox [50.5 100.25 500.75 700]",
    "cropped and turned": "/MediaBox [0 0 612 792] /CropBox [50.5 100.25 500.75 700] /Rotate 270",
    "odd sides": "/MediaBox [-10.3 -20.7 601.9 655.55]",
}
FORM = (
    "<< /Type /Annot /Subtype /Widget /FT /Tx /T (name) /V (filled in) /Rect [72 300 300 340] "
    "/DA (/F1 24 Tf 0 g) /F 4 /MK << /BG [1 1 0] >> >>"
)


@pytest.fixture(scope="module", autouse=True)
def closing_files() -> Generator[None]:
    """Tasks that run in this process, and not in one of their own, leave files open."""
    yield
    drawing._open_files.close()  # pyright: ignore[reportPrivateUsage]


def pdf_of(entries: str) -> bytes:
    return pdf_bytes(PdfPage(CONTENT, entries))


@lru_cache(maxsize=16)
def stored(data: bytes) -> Image.Image:
    """The picture of the first page, as indexing renders it, before it is compressed."""
    with closing(Pdf(data)) as pdf, pdf.page(1) as page:
        return page.render(SCALE).convert("RGB")


def part_of(data: bytes, region: Box, factor: int) -> Image.Image:
    with closing(Pdf(data)) as pdf, pdf.page(1) as page:
        return page.render_part(Size(*stored(data).size), region, factor)


def task_of(data: bytes, view: View, ordinal: int = 1, document: str = "") -> DrawTask:
    return DrawTask(document or str(hash(data)), ordinal, view, 10.0, data)


def view_of(size: Size, box: tuple[int, int, int, int], shown: tuple[int, int]) -> View:
    return View(size, Box(*box, Space.ITEM), Size(*shown))


def grey(image: Image.Image) -> NDArray[np.float64]:
    return np.asarray(image.convert("L"), np.float64)


class TestGeometry:
    @given(data=st.data(), entries=st.sampled_from(sorted(ENTRIES)))
    @settings(max_examples=60)
    def test_at_its_own_size_a_part_has_the_pixels_of_the_page(
        self, data: st.DataObject, entries: str
    ) -> None:
        pdf = pdf_of(ENTRIES[entries])
        page = stored(pdf)
        x1 = data.draw(st.integers(0, page.width - 9))
        y1 = data.draw(st.integers(0, page.height - 9))
        x2, y2 = data.draw(st.integers(x1 + 8, page.width)), data.draw(st.integers(y1 + 8, page.height))

        part = part_of(pdf, Box(x1, y1, x2, y2, Space.ITEM), 1)

        difference = np.abs(grey(part) - grey(page.crop((x1, y1, x2, y2))))
        assert (difference > 2).sum() <= 150, (
            entries
        )  # PDFium rounds places: a letter may stand a pixel aside

    @pytest.mark.parametrize("entries", ENTRIES.values(), ids=ENTRIES)
    @pytest.mark.parametrize("factor", [2, 3, 5])
    def test_enlarged_it_is_aligned_to_the_pixel(self, entries: str, factor: int) -> None:
        pdf = pdf_of(entries)
        page = grey(stored(pdf))
        rows, columns = np.nonzero(page < 200)
        x1, y1 = max(0, columns.min() - 10), max(0, rows.min() - 10)
        x2, y2 = min(page.shape[1], columns.max() + 10), min(page.shape[0], rows.max() + 10)

        part = part_of(pdf, Box(int(x1), int(y1), int(x2), int(y2), Space.ITEM), factor)

        reduced = grey(part.reduce(factor))
        inner = reduced[4:-4, 4:-4]
        differences = {
            (down, right): np.abs(
                page[y1 + 4 + down : y2 - 4 + down, x1 + 4 + right : x2 - 4 + right] - inner
            ).mean()
            for down in (-1, 0, 1)
            for right in (-1, 0, 1)
        }
        best, second = sorted(differences, key=lambda shift: differences[shift])[:2]
        assert best == (0, 0)
        assert differences[best] < differences[second] / 2

    @pytest.mark.parametrize("factor", [2, 4])
    def test_a_part_of_the_enlarged_page_is_drawn_like_all_of_it(self, factor: int) -> None:
        pdf = pdf_of(ENTRIES["cropped and turned"])
        size = stored(pdf).size
        whole = part_of(pdf, Box(0, 0, *size, Space.ITEM), factor)
        part = part_of(pdf, Box(101, 203, 444, 555, Space.ITEM), factor)
        same = whole.crop((101 * factor, 203 * factor, 444 * factor, 555 * factor))
        assert (np.abs(grey(part) - grey(same)) > 2).sum() <= 150 * factor**2

    def test_fields_of_forms_are_drawn(self) -> None:
        extra = (FORM, "<< /Fields [6 0 R] /DR << /Font << /F1 3 0 R >> >> /DA (/F1 12 Tf 0 g) >>")
        data = pdf_bytes(PdfPage("", "/MediaBox [0 0 612 792] /Annots [6 0 R]"), extra=extra)
        data = data.replace(b"/Type /Catalog", b"/AcroForm 7 0 R /Type /Catalog")
        assert grey(stored(data)).min() < 255, "the stored page shows the field"
        field = grey(part_of(data, Box(150, 910, 590, 980, Space.ITEM), 2).reduce(2))
        assert np.abs(field - grey(stored(data))[910:980, 150:590]).mean() < 6


class TestFactor:
    @given(st.integers(8, 5000), st.integers(8, 5000), st.integers(8, 3000), st.integers(8, 3000), st.data())
    def test_it_is_enough_within_its_limits(
        self, width: int, height: int, wide: int, high: int, data: st.DataObject
    ) -> None:
        x2, y2 = data.draw(st.integers(8, width)), data.draw(st.integers(8, height))
        view = view_of(Size(width, height), (0, 0, x2, y2), (wide, high))
        factor = factor_of(view)
        limits = (
            factor >= drawing.MAX_FACTOR,
            (factor + 1) * max(width, height) > drawing.MAX_SIDE,
            (factor + 1) ** 2 * x2 * y2 > drawing.MAX_PIXELS,
        )
        assert factor >= 1
        assert (factor * x2 >= wide and factor * y2 >= high) or any(limits)
        assert factor == 1 or factor**2 * x2 * y2 <= drawing.MAX_PIXELS


class TestTask:
    DATA = pdf_of(ENTRIES["upright"])
    VIEW = view_of(Size(1224, 1584), (140, 740, 400, 790), (616, 112))

    def test_it_asks_for_the_bytes_once(self) -> None:
        without = DrawTask("asks", 1, self.VIEW, 10.0)
        assert without.run() == BytesNeeded()
        drawn = task_of(self.DATA, self.VIEW, document="asks").run()
        assert isinstance(drawn, PartDrawn)
        assert drawn.size == (616, 112)
        assert without.run() == drawn

    def test_it_draws_what_the_page_shows_with_more_detail(self) -> None:
        drawn = task_of(self.DATA, self.VIEW).run()
        assert isinstance(drawn, PartDrawn)
        part = Image.frombytes("RGB", drawn.size, drawn.pixels)
        enlarged = draw_view(stored(self.DATA), self.VIEW)
        assert np.abs(grey(part) - grey(enlarged)).mean() < 20
        assert np.abs(np.diff(grey(part))).mean() > 1.2 * np.abs(np.diff(grey(enlarged))).mean()

    def test_margins_are_white(self) -> None:
        view = View(self.VIEW.item, self.VIEW.region, Size(300, 60), Size(20, 40))
        drawn = task_of(self.DATA, view).run()
        assert isinstance(drawn, PartDrawn)
        assert drawn.size == view.canvas
        assert grey(Image.frombytes("RGB", drawn.size, drawn.pixels))[60:].min() == 255

    def test_a_file_that_anyone_may_open_is_drawn_though_it_is_encrypted(self) -> None:
        data = with_owner_password("open to all")
        drawn = task_of(data, view_of(Size(1224, 1584), (100, 100, 500, 200), (800, 200))).run()
        assert isinstance(drawn, PartDrawn)
        part = grey(Image.frombytes("RGB", drawn.size, drawn.pixels))
        assert part.min() < 50

    def test_the_last_of_500_pages(self) -> None:
        numbers = [PdfPage(text_at(72, 700, f"{number}" * 5)) for number in range(1, 501)]
        data = pdf_bytes(*numbers)
        view = view_of(Size(1224, 1584), (100, 100, 500, 200), (800, 200))
        with closing(Pdf(data)) as pdf, pdf.page(500) as page:
            expected = draw_part(page.render_part(view.item, view.region, 2), view)
        drawn = task_of(data, view, 500).run()
        assert drawn == PartDrawn(Size(800, 200), expected.tobytes())
        assert drawn != task_of(data, view, 499).run()

    def test_another_page_than_the_stored_one_is_not_drawn(self) -> None:
        turned = view_of(Size(1584, 1224), (100, 100, 500, 200), (800, 200))
        with pytest.raises(CorpusError, match="proportions"):
            task_of(self.DATA, turned).run()
        for ordinal in (0, 2):
            with pytest.raises(CorpusError, match="no page"):
                task_of(self.DATA, self.VIEW, ordinal).run()

    def test_every_file_that_is_read_can_be_kept_open(self) -> None:
        files = OpenPdfFiles()
        files.add("small", Pdf(self.DATA), 1000)
        files.add("large", Pdf(self.DATA), MAX_SOURCE_BYTES)
        assert files.get("large") is not None
        assert files.get("small") is None
        files.close()

    def test_the_files_used_longest_ago_are_closed(self) -> None:
        files, opened = OpenPdfFiles(), {f"{n}": Pdf(self.DATA) for n in range(40)}
        for name, pdf in opened.items():
            files.add(name, pdf, len(self.DATA))
            assert files.get("0") is not None, "it is in use"
        kept = [name for name in opened if files.get(name) is not None]
        assert kept == ["0", *map(str, range(40 - len(kept) + 1, 40))]
        assert 10 < len(kept) < 20
        files.close()
        assert not [name for name in opened if files.get(name) is not None]


@pytest.fixture(scope="module")
def pool() -> Generator[DrawingPool]:
    pool = DrawingPool(seconds=1.0)
    yield pool
    pool.close()


@pytest.fixture
def process_pool() -> Generator[DrawingPool]:
    """A pool whose workers are processes, since a thread cannot be stopped inside a page."""
    pool = DrawingPool(seconds=1.0)
    yield pool
    pool.close()


class TestPool:
    DATA = TestTask.DATA
    VIEW = TestTask.VIEW

    def test_it_draws_what_a_task_draws_and_reads_once(self, pool: DrawingPool) -> None:
        reads: list[str] = []

        def read() -> bytes:
            reads.append("read")
            return self.DATA

        for _ in range(3):
            drawn = pool.draw("reads once", 1, self.VIEW, read)
            assert drawn is not None
            assert PartDrawn(Size(*drawn.size), drawn.tobytes()) == task_of(self.DATA, self.VIEW).run()
        assert len(reads) == 1

    def test_without_bytes_nothing_is_drawn_and_later_all(self, pool: DrawingPool) -> None:
        assert pool.draw("later", 1, self.VIEW, lambda: None) is None
        assert pool.draw("later", 1, self.VIEW, lambda: self.DATA) is not None

    @pytest.mark.slow
    def test_a_page_that_hangs_costs_its_time_once(
        self, process_pool: DrawingPool, caplog: pytest.LogCaptureFixture
    ) -> None:
        data, reads = endless(), list[int]()

        def read() -> bytes:
            reads.append(1)
            return data

        assert process_pool.draw("endless", 2, self.VIEW, read) is None
        assert "time limit" in caplog.text
        assert process_pool.draw("endless", 1, self.VIEW, read) is not None, "other pages are drawn"
        before = len(reads)
        assert process_pool.draw("endless", 2, self.VIEW, read) is None
        assert len(reads) == before, "it is not tried again"

    def test_damaged_files_are_not_tried_again(self, pool: DrawingPool) -> None:
        reads: list[int] = []

        def read() -> bytes:
            reads.append(1)
            return b"%PDF-1.7 and nothing else"

        assert pool.draw("damaged", 1, self.VIEW, read) is None
        assert pool.draw("damaged", 1, self.VIEW, read) is None
        assert len(reads) == 1

    @pytest.mark.slow
    def test_a_process_that_was_killed_while_it_waited_is_replaced(self, process_pool: DrawingPool) -> None:
        assert process_pool.draw("killed", 1, self.VIEW, lambda: self.DATA) is not None
        for process in process_pool._idle:  # pyright: ignore[reportPrivateUsage]
            process._worker._process.kill()  # pyright: ignore[reportPrivateUsage]
            process._worker._process.wait()  # pyright: ignore[reportPrivateUsage]
        assert process_pool.draw("killed", 1, self.VIEW, lambda: self.DATA) is not None

    def test_a_fault_of_reading_is_raised_and_the_next_part_drawn(self, pool: DrawingPool) -> None:
        def fail() -> bytes:
            raise CollectionError("The collection is gone.")

        with pytest.raises(CollectionError):
            pool.draw("fault", 1, self.VIEW, fail)
        assert pool.draw("fault", 1, self.VIEW, lambda: self.DATA) is not None

    def test_without_a_process_nothing_is_drawn(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def refuse(_: object) -> None:
            raise OSError("Resource temporarily unavailable")

        monkeypatch.setattr(drawing_pool, "Worker", refuse)
        assert DrawingPool().draw("none", 1, self.VIEW, lambda: self.DATA) is None
        assert "temporarily unavailable" in caplog.text

    @pytest.mark.slow
    def test_many_threads_get_what_one_gets(self, pool: DrawingPool) -> None:
        documents = {f"thread {n}": pdf_bytes(PdfPage(text_at(72, 700, f"{n}" * 9))) for n in range(4)}
        view = view_of(Size(1224, 1584), (100, 100, 500, 200), (800, 200))
        alone = {name: task_of(data, view).run() for name, data in documents.items()}
        begin = threading.Barrier(8)

        def draw(number: int) -> bool:
            begin.wait(20)
            results: list[bool] = []
            for step in range(6):
                name = f"thread {(number + step) % 4}"
                drawn = pool.draw(name, 1, view, lambda name=name: documents[name])
                results.append(
                    drawn is not None and PartDrawn(Size(*drawn.size), drawn.tobytes()) == alone[name]
                )
            return all(results)

        with ThreadPoolExecutor(8) as threads:
            assert all(threads.map(draw, range(8)))
