# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""The evidence of runs as files: from the source where it is as it was indexed, else from stored pages."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pikepdf
import pytest
from annotated_pages import evidence_on, pdf_file, stored_run
from PIL import Image
from sample_runs import drawn_page, jpeg, vimrag_run, vrag_run

from vrag.agent.runs.run_store import RunStore, StoredRun
from vrag.corpus.converter import CorpusOptions
from vrag.errors import FileTooLargeError, RunError
from vrag.geometry import Box
from vrag.index.build import add
from vrag.index.collection import Collection
from vrag.render.annotations.evidence_export import (
    SIGNATURE_NOTE,
    EvidenceExport,
    EvidenceFormat,
    export_evidence,
)
from vrag.render.annotations.evidence_sources import EvidenceSources
from vrag.types import ABSENT, ItemKind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sample_runs import Telling

    from vrag.agent.evidence import Evidence

PDF, ANNOTATIONS, PICTURES = EvidenceFormat.PDF, EvidenceFormat.ANNOTATIONS, EvidenceFormat.PICTURES


class Desk(NamedTuple):
    """Documents, the collection made of them, and a folder for exports."""

    documents: Path
    collection: Collection
    out: Path

    def evidence(self, name: str, page: int = 1, **values: Any) -> Evidence:  # noqa: ANN401
        """Evidence on a page of one of the documents, as it was indexed."""
        document = next(each for each in self.collection.documents() if each.name == name)
        fields = {"item": f"{document.id[:16]}-{page}", "document": name, "document_id": document.id}
        return evidence_on(page, **values).model_copy(update=fields)

    def run(self, *evidence: Evidence) -> StoredRun:
        return stored_run(self.out, "It was 1.2 %.", evidence, reselect=True)

    def export(self, *runs: StoredRun, formats: Sequence[EvidenceFormat] = (PDF,)) -> EvidenceExport:
        return export_evidence(runs, EvidenceSources(runs, (self.collection,)), self.out, formats)


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("indexed")
    documents = folder / "documents"
    (documents / "other").mkdir(parents=True)
    (documents / "report.pdf").write_bytes(pdf_file(3))
    (documents / "other" / "report.pdf").write_bytes(pdf_file(2))
    locked = pikepdf.Encryption(owner="o", user="", allow=pikepdf.Permissions(modify_annotation=False))
    (documents / "locked.pdf").write_bytes(pdf_file(1, encryption=locked))
    (documents / "board.jpg").write_bytes(jpeg(drawn_page("Prices")))
    (documents / "notes.md").write_text("# Margin\n\nIt was 1.2 %.\n")
    with pikepdf.open(documents / "report.pdf") as pdf:
        pdf.Root.AcroForm = pikepdf.Dictionary(Fields=[], SigFlags=3)
        pdf.save(documents / "signed.pdf")
    collection = Collection.create(folder / "collection", CorpusOptions(ocr="never"))
    add(collection, [documents])
    return folder


@pytest.fixture
def desk(indexed: Path, tmp_path: Path) -> Desk:
    (tmp_path / "out").mkdir()
    return Desk(indexed / "documents", Collection.open(indexed / "collection"), tmp_path / "out")


def subtypes(file: Path) -> list[list[str]]:
    """The annotations of each page."""
    with pikepdf.open(file) as pdf:
        return [[str(each.Subtype) for each in page.obj.get("/Annots", [])] for page in pdf.pages]


ALL = ["/Highlight", "/Square", "/Text"]


def test_each_document_becomes_one_annotated_file(desk: Desk) -> None:
    other = next(each for each in desk.collection.documents() if "other" in each.path)
    second = desk.evidence("report.pdf").model_copy(
        update={"document_id": other.id, "item": f"{other.id[:16]}-1"}
    )
    first = next(
        each for each in desk.collection.documents() if each.name == "report.pdf" and each.id != other.id
    )
    ours = [
        evidence_on(page).model_copy(update={"document_id": first.id, "item": f"{first.id[:16]}-{page}"})
        for page in (1, 3)
    ]
    export = desk.export(desk.run(*ours, second))
    assert [(file.name, file.citations) for file in export.files] == [
        ("report-annotated.pdf", ("1", "2")),
        ("report-annotated-2.pdf", ("3",)),
    ]
    assert subtypes(desk.out / "report-annotated.pdf") == [ALL, [], ALL]
    assert subtypes(desk.out / "report-annotated-2.pdf") == [ALL, []]
    assert export.notes == ()
    assert export.summary.startswith("2 annotated PDF files, ")


def test_all_questions_of_a_report_are_in_one_file_per_document(desk: Desk) -> None:
    evidence = desk.evidence("locked.pdf"), desk.evidence("signed.pdf", 2)
    export = desk.export(desk.run(evidence[1]), desk.run(*evidence), formats=(PDF, ANNOTATIONS))
    assert {file.name: file.citations for file in export.files} == {
        "signed-annotated.pdf": ("1.1", "2.2"),
        "locked-cited-pages.pdf": ("2.1",),
        "annotations.jsonld": ("1.1", "2.1", "2.2"),
    }


def test_documents_that_are_no_pdf_files_become_their_cited_pages(desk: Desk) -> None:
    export = desk.export(desk.run(desk.evidence("board.jpg")))
    assert [file.name for file in export.files] == ["board-cited-pages.pdf"]
    assert subtypes(desk.out / "board-cited-pages.pdf") == [ALL]
    assert "not the file itself. The document is not a PDF file." in export.notes[0]


def test_a_protected_file_is_drawn_from_its_stored_pages(desk: Desk) -> None:
    export = desk.export(desk.run(desk.evidence("locked.pdf")))
    assert [file.name for file in export.files] == ["locked-cited-pages.pdf"]
    assert "The owner of the file does not allow annotations in it." in export.notes[0]


def test_a_signature_that_does_not_hold_in_the_copy_is_told(desk: Desk) -> None:
    export = desk.export(desk.run(desk.evidence("signed.pdf")))
    assert export.notes == (f"signed-annotated.pdf: {SIGNATURE_NOTE}",)


def test_a_passage_has_no_page_and_is_told(desk: Desk) -> None:
    passage = desk.evidence("notes.md", kind=ItemKind.PASSAGE, box=None, marks=())
    with pytest.raises(RunError, match=r"\[1\] notes.md: A passage of text has no page."):
        desk.export(desk.run(passage))
    export = desk.export(desk.run(desk.evidence("board.jpg"), passage), formats=(PDF, PICTURES, ANNOTATIONS))
    assert [place.citation for place in export.omitted] == ["2"]
    assert json.loads((desk.out / "annotations.jsonld").read_text())["total"] == 2


@pytest.mark.parametrize(
    ("change", "reason"),
    [("remove", "no longer where it was indexed"), ("edit", "has changed since it was indexed")],
)
def test_a_file_that_is_gone_or_changed_is_drawn_from_its_stored_pages(
    indexed: Path, tmp_path: Path, change: str, reason: str
) -> None:
    documents = tmp_path / "documents"
    documents.mkdir()
    file = documents / "report.pdf"
    file.write_bytes(pdf_file(4))
    collection = Collection.create(tmp_path / "collection", CorpusOptions(ocr="never"))
    add(collection, [documents])
    desk = Desk(documents, collection, tmp_path / "out")
    desk.out.mkdir()
    evidence = desk.evidence("report.pdf", 2), desk.evidence("report.pdf", 4)
    file.unlink() if change == "remove" else file.write_bytes(pdf_file(4, Rotate=90))
    export = desk.export(desk.run(*evidence), formats=(PDF, ANNOTATIONS))
    assert subtypes(desk.out / "report-cited-pages.pdf") == [ALL, ALL]
    assert reason in export.notes[0]
    text = (desk.out / "annotations.jsonld").read_text()
    assert "viewrect" not in text, "points are of a file that is not at hand"
    assert f"urn:sha256:{evidence[0].document_id}" in text


def test_a_file_larger_than_allowed_is_not_read(desk: Desk) -> None:
    run = desk.run(desk.evidence("signed.pdf"))
    sources = EvidenceSources([run], (desk.collection,), max_bytes=100)
    export = export_evidence([run], sources, desk.out, [PDF])
    assert "too large" in export.notes[0]
    with pytest.raises(FileTooLargeError):
        export_evidence([run], sources, desk.out, [PICTURES], max_bytes=100)


def test_pictures_are_named_by_citation_document_and_page(desk: Desk) -> None:
    whole = desk.evidence("board.jpg", box=(0.0, 0.0, 1.0, 1.0), marks=(), quote="")
    export = desk.export(desk.run(desk.evidence("signed.pdf", 3), whole), formats=(PICTURES,))
    names = [file.name for file in export.files]
    assert names[:2] == ["1-signed-p3.png", "1-signed-p3-part.png"]
    for name in names:
        with Image.open(desk.out / name) as image:
            assert image.format == "PNG"


@pytest.mark.parametrize("told", [vrag_run(), vimrag_run()], ids=["vrag", "vimrag"])
def test_without_a_collection_the_pictures_of_the_run_stand_for_the_pages(
    told: Telling, tmp_path: Path
) -> None:
    """As for a run of a search server that is gone."""
    store = RunStore(tmp_path / "runs")
    store.add(told.run_id, told.events, {f"{sha256}.jpg": data for sha256, data in told.files.items()})
    run = store.read(told.run_id)
    out = tmp_path / "out"
    out.mkdir()
    export = export_evidence([run], EvidenceSources([run]), out, list(EvidenceFormat))
    assert [place.reason for place in export.omitted] in ([], ["A passage of text has no page."])
    annotated = [file for file in export.files if file.format is PDF]
    assert annotated
    assert all("-cited-pages" in file.name for file in annotated)
    shutil.rmtree(tmp_path / "runs" / "blobs")
    gone = export_evidence([run], EvidenceSources([run]), out, [ANNOTATIONS])
    assert [file.name for file in gone.files] == ["annotations.jsonld"]
    with pytest.raises(RunError, match="picture of its page is missing"):
        export_evidence([run], EvidenceSources([run]), out, [PDF])


def test_parts_are_drawn_from_the_source_and_cut_from_the_stored_page_where_it_is_gone(desk: Desk) -> None:
    sources = EvidenceSources([], (desk.collection,))
    box = Box.unit(0.2, 0.3, 0.7, 0.5)
    drawn = sources.part(desk.evidence("signed.pdf"), box)
    assert drawn is not None
    assert drawn.image.size == (1600, 960), "400 × 240 pixels of the stored page, four times as large"
    assert drawn.area.as_tuple() == pytest.approx(box.as_tuple(), abs=0.003)
    stored = sources.part(desk.evidence("board.jpg"), box)
    assert stored is not None
    assert stored.image.size == (2 * 210, 2 * 112)
    assert sources.part(desk.evidence("notes.md", kind=ItemKind.PASSAGE), box) is None


def test_the_id_of_a_document_that_was_imported_is_no_hash(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    report, *others = desk.collection.documents()
    imported = [replace(report, mtime_ns=ABSENT), *others]
    monkeypatch.setattr(desk.collection, "documents", lambda: imported)
    sources = EvidenceSources([], (desk.collection,))
    assert not sources.is_hash(report.id)
    assert sources.is_hash(others[0].id)
    assert sources.is_hash("ab" * 32), "of a document that is gone since"
    assert not EvidenceSources([]).is_hash(others[0].id), "another server may number documents"


def test_a_run_without_an_answer_has_nothing_to_export(desk: Desk) -> None:
    run = stored_run(desk.out, None, (desk.evidence("board.jpg"),))
    with pytest.raises(RunError, match="nothing to export"):
        desk.export(run)


def test_the_source_is_not_changed_and_the_same_export_gives_the_same_bytes(desk: Desk) -> None:
    before = hashlib.sha256((desk.documents / "signed.pdf").read_bytes()).hexdigest()
    run = desk.run(desk.evidence("signed.pdf"), desk.evidence("board.jpg"))

    def written() -> dict[str, bytes]:
        export = desk.export(run, formats=list(EvidenceFormat))
        return {file.name: (desk.out / file.name).read_bytes() for file in export.files}

    assert written() == written()
    assert hashlib.sha256((desk.documents / "signed.pdf").read_bytes()).hexdigest() == before
