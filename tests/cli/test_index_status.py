"""`vrag index status` says of each document what was left out, where, and what would read it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from corpus.annotated_pdfs import ATTACHED_PLAN, annotated_page
from corpus.pdf_files import PdfPage, pdf_bytes, text_at
from PIL import Image, ImageDraw
from typer.testing import CliRunner

from vrag.cli.root import create_app

if TYPE_CHECKING:
    from pathlib import Path

WHITE = "1 1 1 rg " + text_at(72, 600, "three hidden words")

pytestmark = pytest.mark.slow


def scanned_page() -> Image.Image:
    page = Image.new("L", (620, 877), 255)
    for line in range(12):
        ImageDraw.Draw(page).text(
            (60, 80 + 40 * line), "The crane lifted 14 boats in March.", 0, font_size=24
        )
    return page


def run(folder: Path, *arguments: str) -> str:
    done = CliRunner().invoke(create_app(), [*arguments, "--collection", str(folder / "collection")])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def read_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a collection of documents that are read in part, not at all, and with hidden words."""
    folder = tmp_path_factory.mktemp("status")
    files = folder / "files"
    files.mkdir()
    (files / "hidden.pdf").write_bytes(pdf_bytes(PdfPage(text_at(72, 700, "Seen") + WHITE)))
    empty, scan = Image.new("L", (620, 877), 255), scanned_page()
    empty.save(files / "pictures.pdf", save_all=True, append_images=[scan, scan])
    (files / "attached.pdf").write_bytes(annotated_page(catalog=ATTACHED_PLAN))
    (files / "torn.pdf").write_bytes(b"%PDF-1.7 and no more")
    (files / "mail.msg").write_bytes(b"\0")
    added = run(folder, "index", "add", str(files), "--ocr", "never")
    assert "Of 2 files, a part is not read." in added
    assert "Files of type .msg are not supported. Save mail of Outlook as .eml." in " ".join(added.split())
    return folder


def test_documents_read_in_part_and_not_at_all_are_listed_apart_with_reasons(read_folder: Path) -> None:
    status = run(read_folder, "index", "status")
    in_part, _, rest = status.partition("Read in part:")[2].partition("Not read:")
    not_read = rest.partition("To read them again")[0]
    assert "attached.pdf: The document has an attached file (plan.dwg)" in " ".join(in_part.split())
    assert "pictures.pdf: Pages 2–3: A picture on the page is not read" in " ".join(in_part.split())
    assert "--ocr auto" in in_part
    assert "torn.pdf: The PDF file is damaged" in " ".join(not_read.split())
    assert "--retry-failed" in rest


def test_hidden_words_are_counted_by_document(read_folder: Path) -> None:
    assert "hidden.pdf: 3 words" in run(read_folder, "index", "status")
    assert json.loads(run(read_folder, "index", "status", "--json"))["hidden_words"] == {"hidden.pdf": 3}
