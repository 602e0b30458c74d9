"""ViDoSeek (arXiv 2502.18017): questions that one page of a whole collection of PDFs answers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vrag.cases.rows import any_list
from vrag.datasets.files.clean_cases import Remarks, gold_by_document, one_split, read_questions, take_in
from vrag.datasets.files.lookup import document, filed, find_all, find_documents, missing, need_all, safe_name
from vrag.datasets.own import DatasetSource
from vrag.datasets.protocols import Benchmark, Hub, OpenBenchmark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vrag.datasets.protocols import DocumentSource
    from vrag.types import Case

SPLITS = {
    "vidoseek": (
        "vidoseek.json",
        "ViDoSeek/rag_dataset.json",
        "vidoseek/rag_dataset.json",
        "rag_dataset.json",
    ),
    "slidevqa_refined": ("slidevqa_refined.json", "SlideVQA/rag_dataset.json", "slidevqa/rag_dataset.json"),
}
"""The file on the hub, and its names in the authors' code."""
ARCHIVES = {"vidoseek": "vidoseek_pdf_document.zip", "slidevqa_refined": "slidevqa_pdf_document.zip"}
LABELS = {
    "single-hop": "Single-Hop",
    "multi-hop": "Multi-Hop",
    "text": "Text",
    "table": "Table",
    "chart": "Chart",
    "layout": "Layout",
    "2d-layout": "Layout",
}
"""Labels by their spellings in the published files, in lower case and with hyphens."""


class ViDoSeek(DatasetSource, Benchmark):
    """`vidoseek.json` or `rag_dataset.json`, with its PDFs in their archive or unpacked anywhere below.

    All PDFs that lie beside one that is asked about are documents: a question is asked of the collection.
    """

    name = "vidoseek"
    title = "ViDoSeek (arXiv 2502.18017)"
    about = "one page in a collection of PDFs: text, tables, charts, layout"
    licence = "Apache-2.0; its refined SlideVQA under NTT's agreement; the documents are their owners'"
    hub = Hub(
        repo="autumncc/ViDoSeek",
        files=("vidoseek.json", "vidoseek_pdf_document.zip"),
        splits=("vidoseek",),
        note="Its PDFs are in vidoseek_pdf_document.zip, which is read as it is, or unpacked.",
    )
    measures = ("accuracy", "recall@1", "recall@5", "recall@10", "mrr", "ndcg@5")

    def open(self, folder: Path, split: str | None = None) -> OpenBenchmark:
        """Find questions and PDFs of `vidoseek`, or of `slidevqa_refined`, which comes with it.

        The folder is the download, or a data folder of the authors' code.
        """
        wanted = one_split(split, *SPLITS)
        paths = find_all(folder, *SPLITS[wanted])
        if not paths:
            raise missing(folder, " or ".join(SPLITS[wanted][::3]), self.hub)
        remarks = Remarks()
        prefix = self.name if wanted == self.name else f"{self.name}-{wanted}"

        def read_cases() -> Iterator[Case]:
            for _, row, cases in read_questions(paths[:1], self):
                for case in cases:
                    if 0 in any_list(row["meta_info"].get("reference_page")):
                        kind = "questions had a gold page 0, which does not exist and was left out"
                        remarks.count(kind, case.uid)
                    if not case.reference_page:
                        remarks.count("questions have no gold page and count for answers only", case.uid)
                    kinds = tuple(_label(kind) for kind in case.source_type)
                    yield replace(case, source_type=kinds, query_type=_label(case.query_type))

        cases = take_in(read_cases(), prefix, self.name, remarks)
        names = list(gold_by_document(cases))
        files = find_documents(folder, names, archives=ARCHIVES[wanted])
        need_all(names, files, folder, self.hub)

        def collection() -> Iterator[DocumentSource]:
            """Yield the documents of names, and those in the same folders."""
            yield from filed(names, files)
            folders = {file.parent for name in names if (file := files.get(name))}
            for file in files.without(names):
                if file.parent in folders:
                    remarks.count("PDFs that no question names were taken as distractors", file.name)
                    yield document(safe_name(file.name), file)
                else:
                    remarks.count("PDFs in other folders were left out", file.name)

        return OpenBenchmark(cases, collection(), remarks.notes)


def _label(text: str) -> str:
    return LABELS.get(text.strip().lower().replace("_", "-").replace(" ", "-"), text)
