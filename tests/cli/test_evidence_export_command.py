"""`vrag runs export --pdf`, `--annotations`, `--pictures`, and the same of `vrag report`."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pikepdf
import pytest
from command_line import Done, run_vrag

from vrag.samples import corpus_dir

if TYPE_CHECKING:
    from collections.abc import Generator

SURPLUS = "How many passengers travelled on the line from Orla to Saltby in 2024?"
UNKNOWN = "Who won the chess championship of Mars?"


class Home(NamedTuple):
    path: Path

    def vrag(self, *arguments: str) -> Done:
        return run_vrag(
            *arguments,
            cwd=self.path,
            VRAG_COLLECTION=str(self.path / "collection"),
            VRAG_OCR="false",
            COLUMNS="200",
        )

    def files(self, folder: str) -> list[str]:
        return sorted(each.name for each in (self.path / folder).iterdir())


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    path = tmp_path_factory.mktemp("person")
    (path / "docs").mkdir()
    shutil.copy(corpus_dir() / "annual-report-2024.pdf", path / "docs")
    home = Home(path)
    assert home.vrag("ask", "docs", SURPLUS).status == 0
    return home


@pytest.fixture
def source(home: Home) -> Generator[Path]:
    """The source, which is put back."""
    file = home.path / "docs" / "annual-report-2024.pdf"
    data = file.read_bytes()
    yield file
    file.write_bytes(data)


def test_a_run_becomes_annotated_files_annotations_and_pictures(home: Home) -> None:
    done = home.vrag("runs", "export", "last", "--pdf", "--annotations", "--pictures", "-o", "all")
    assert done.status == 0, done
    files = home.files("all")
    assert {"annotations.jsonld", "annual-report-2024-annotated.pdf"} < set(files)
    assert any(name.startswith("1-annual-report-2024-p") for name in files)
    assert "Written to all: 1 annotated PDF file, 1 file of annotations, " in done.out
    assert "annual-report-2024-annotated.pdf  [1]" in done.out
    with pikepdf.open(home.path / "all" / "annual-report-2024-annotated.pdf") as pdf:
        notes = [
            str(each.Contents)
            for page in pdf.pages
            for each in page.obj.get("/Annots", [])
            if "/IRT" not in each
        ]
    assert any(f"Question: {SURPLUS}" in note for note in notes)
    annotations = json.loads((home.path / "all" / "annotations.jsonld").read_text(encoding="utf-8"))
    assert annotations["label"] == SURPLUS
    assert "viewrect=" in json.dumps(annotations)


def test_the_folder_has_the_name_of_the_run_and_is_not_overwritten_unasked(home: Home) -> None:
    first = home.vrag("runs", "export", "last", "--annotations", "--json")
    assert first.status == 0, first
    folder = f"{first.json['run']}-evidence"
    assert first.json["folder"] == folder
    assert [file["name"] for file in first.json["files"]] == home.files(folder) == ["annotations.jsonld"]
    again = home.vrag("runs", "export", "last", "--annotations")
    assert again.status == 1
    assert "holds files already" in again.err
    assert "--overwrite" in again.err
    assert home.vrag("runs", "export", "last", "--annotations", "--overwrite").status == 0


def test_a_source_that_is_gone_or_changed_is_told(home: Home, source: Path) -> None:
    source.unlink()
    done = home.vrag("runs", "export", "last", "--pdf", "-o", "gone")
    assert done.status == 0
    assert home.files("gone") == ["annual-report-2024-cited-pages.pdf"]
    assert "no longer where it was indexed" in done.err


@pytest.mark.parametrize(
    ("arguments", "status", "hint"),
    [
        (["--pdf", "--html"], 2, "leave out"),
        (["--pdf", "--format", "json"], 2, "leave out"),
        (["--pictures", "-o", "-"], 2, "folder"),
        (["--pdf", "-o", ""], 2, "empty"),
        (["--pdf", "-o", "absent/folder"], 1, "cannot be written"),
        (["--pdf", "-o", "docs/annual-report-2024.pdf"], 1, "cannot be written"),
    ],
)
def test_wrong_use_is_explained(home: Home, arguments: list[str], status: int, hint: str) -> None:
    done = home.vrag("runs", "export", "last", *arguments)
    assert done.status == status, done
    assert hint in " ".join(done.err.split())


def test_a_run_without_an_answer_has_nothing_to_export(home: Home) -> None:
    run = home.vrag("ask", UNKNOWN, "--json").json["run"]
    done = home.vrag("runs", "export", run, "--pdf", "-o", "nothing")
    assert done.status == 1
    assert "nothing to export" in done.err
    assert not (home.path / "nothing").exists()


def test_a_report_has_the_evidence_of_all_answers_next_to_it(home: Home) -> None:
    asked = ["-q", UNKNOWN, "-q", SURPLUS, "-o", "report.html", "--pdf", "--annotations"]
    done = home.vrag("report", *asked, "--json")
    assert done.status == 0, done
    assert done.json["evidence"]["folder"] == "report_evidence"
    assert home.files("report_evidence") == ["annotations.jsonld", "annual-report-2024-annotated.pdf"]
    (pdf, annotations) = done.json["evidence"]["files"]
    assert pdf["citations"] == annotations["citations"]
    assert {number.split(".")[0] for number in pdf["citations"]} == {"2"}, "the number of the question"
    refused = home.vrag("report", *asked)
    assert refused.status == 1
    assert "holds files already" in refused.err
    printed = home.vrag("report", *asked, "--overwrite")
    assert "Written to report_evidence: 1 annotated PDF file" in printed.out


def hrefs(home: Home, name: str) -> set[str]:
    """Addresses of a page that are none of its own parts."""
    found = re.findall(r'href="([^"#][^"]*)"', (home.path / name).read_text(encoding="utf-8"))
    return {address for address in found if not address.startswith("data:")}


def test_links_open_the_cited_page_in_the_file_beside_the_document(home: Home, source: Path) -> None:
    page = r"\./docs/annual-report-2024\.pdf#page=\d"
    assert home.vrag("runs", "export", "last", "-o", "run.html").status == 0
    assert all(re.fullmatch(page, address) for address in hrefs(home, "run.html"))
    assert hrefs(home, "run.html")
    assert home.vrag("runs", "export", "last", "-o", "run.md").status == 0
    assert re.search(rf"– \[Open the PDF file\]\({page}\)", (home.path / "run.md").read_text())
    assert home.vrag("report", "--run", "last", "-o", "r.html", "--pdf", "--overwrite").status == 0
    (copy,) = {address.partition("#")[0] for address in hrefs(home, "r.html")}
    assert copy == "./r_evidence/annual-report-2024-annotated.pdf"
    assert (home.path / copy).is_file()
    (home.path / "elsewhere").mkdir()
    assert home.vrag("runs", "export", "last", "-o", "elsewhere/run.html").status == 0
    assert hrefs(home, "elsewhere/run.html") == set(), "the file is not beside it"
    source.write_bytes(b"%PDF-1.4 other")
    assert home.vrag("runs", "export", "last", "-o", "run.html").status == 0
    assert hrefs(home, "run.html") == set(), "the file is another one now"


def test_links_open_the_cited_place_at_a_server(home: Home) -> None:
    server = "http://127.0.0.1:8000/vrag/"
    done = home.vrag("runs", "export", "last", "-o", "-", "--server", server)
    run = re.search(
        r"http://127\.0\.0\.1:8000/vrag/#/runs/([0-9a-f-]+)\?cite=1&#34;|/#/runs/([0-9a-f-]+)\?cite=1\"",
        done.out,
    )
    assert run is not None, done
    wrong = home.vrag("report", "--run", "last", "-o", "-", "--server", "javascript:alert(1)")
    assert wrong.status == 2
    assert "not an address" in wrong.err


def test_a_report_without_evidence_is_written_all_the_same(home: Home) -> None:
    done = home.vrag("report", "-q", UNKNOWN, "-o", "none.html", "--pdf")
    assert done.status == 0, done
    assert "No answer has evidence" in done.err
    assert (home.path / "none.html").exists()
    assert not (home.path / "none_evidence").exists()
    refused = home.vrag("report", "-q", UNKNOWN, "-o", "-", "--pdf")
    assert refused.status == 2
    assert "give it a file" in " ".join(refused.err.split())
