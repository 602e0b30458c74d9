"""A small corpus with questions, made from templates: documents, training cases, held-out cases.

In a folder it is documents/*.pdf, train.json, held_out.json, and synthesis.json, which lists its documents.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from vrag.cases import write_cases
from vrag.errors import CaseError
from vrag.parsing import parse_json
from vrag.synthesis.canvas import Colour, print_pdf
from vrag.synthesis.sampling import COLOURS, WORDS, Name, Words, check_vocabulary, deal_names
from vrag.synthesis.templates import (
    ChartTemplate,
    DocumentTemplate,
    Emblem,
    EmblemPair,
    KeyFigure,
    MultiHop,
    Supply,
    TableTemplate,
)
from vrag.types import Case

_ALL: tuple[DocumentTemplate, ...] = (
    Emblem(),
    EmblemPair(),
    KeyFigure(),
    TableTemplate(),
    ChartTemplate(),
    MultiHop(),
)
TEMPLATES: Mapping[str, DocumentTemplate] = {template.name: template for template in _ALL}
MANIFEST = "synthesis.json"
"""Written first: it says that the documents in the folder were made here and may be replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesisOptions:
    """The options of a corpus; the same options make the same bytes."""

    seed: int = 0
    documents: int = 16
    pages: int = 4
    """Of each document."""
    templates: tuple[str, ...] = ("key_figure", "table", "chart", "multi_hop")
    """Names out of `TEMPLATES`; documents take turns."""
    held_out: float = 0.25
    """Share of the documents, of each template, whose cases are not to be trained on."""
    colours: Mapping[str, Colour] = field(default_factory=lambda: COLOURS)
    """Colours by name."""
    words: Words = WORDS
    """To make names of; a page's name is unique in the corpus."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Documents and cases."""

    documents: Mapping[str, bytes]
    """PDF files by name."""
    train: tuple[Case, ...]
    held_out: tuple[Case, ...]
    """Cases about other documents than those of `train`, made of words and colours that occur there."""


@dataclass(frozen=True, slots=True)
class _PlannedDocument:
    stem: str
    template: str
    held_out: bool


def synthesize(options: SynthesisOptions) -> Corpus:
    """Make documents with a text layer, questions, gold pages and gold boxes.

    Raises `CaseError` if the options contradict each other, or there are too few words for so many pages.
    """
    _check(options)
    plan = _plan(options)
    chance = random.Random(options.seed)
    sizes = Counter(document.held_out for document in plan)
    shown, known = deal_names(
        options.words, sizes[False] * options.pages, sizes[True] * options.pages, chance
    )
    supply = Supply(chance, options.colours)
    documents: dict[str, bytes] = {}
    train = _make([document for document in plan if not document.held_out], shown, supply, documents)
    supply.keep_to_dealt()
    held_out = _make([document for document in plan if document.held_out], known, supply, documents)
    return Corpus(documents=MappingProxyType(dict(sorted(documents.items()))), train=train, held_out=held_out)


def _plan(options: SynthesisOptions) -> list[_PlannedDocument]:
    """Plan the documents; the last of each template are held out."""
    turns = [options.templates[number % len(options.templates)] for number in range(options.documents)]
    plan: list[_PlannedDocument] = []
    for template, count in Counter(turns).items():
        held_out = 0
        if options.held_out and count > 1:  # at least one on each side
            held_out = min(max(round(count * options.held_out), 1), count - 1)
        plan += [
            _PlannedDocument(f"{template}-{number:03}", template, number > count - held_out)
            for number in range(1, count + 1)
        ]
    return plan


def _make(
    plan: Sequence[_PlannedDocument], names: Sequence[Name], supply: Supply, documents: dict[str, bytes]
) -> tuple[Case, ...]:
    """Print the documents of a part; return its cases."""
    pages = len(names) // max(len(plan), 1)
    cases: list[Case] = []
    for position, document in enumerate(plan):
        own = names[position * pages : (position + 1) * pages]
        draft = TEMPLATES[document.template].draft(own, supply)
        file_name = f"{document.stem}.pdf"
        documents[file_name] = print_pdf(draft.canvases)
        for number, question in enumerate(draft.questions, 1):
            cases.append(question.case(f"{document.stem}-{number}", file_name))
    return tuple(cases)


def _check(options: SynthesisOptions) -> None:
    check_vocabulary(options.words, options.colours)
    unknown = [name for name in options.templates if name not in TEMPLATES]
    if unknown or not options.templates:
        reason = f"There is no template {unknown[0]!r}." if unknown else "No template is named."
        raise CaseError(reason, f"Templates: {', '.join(TEMPLATES)}.")
    if not 0 <= options.held_out < 1:
        raise CaseError("The share held out must be at least 0 and less than 1.")
    least = max(options.templates, key=lambda name: TEMPLATES[name].least_pages)
    if options.pages < TEMPLATES[least].least_pages:
        raise CaseError(f"A document of {least} has {TEMPLATES[least].least_pages} pages or more.")
    if options.documents < (kinds := len(set(options.templates))):
        raise CaseError(f"{kinds} templates need as many documents or more.", "Name fewer templates.")


def write(corpus: Corpus, folder: Path) -> None:
    """Write a corpus; the documents of an earlier one are removed.

    Raises `CaseError` if the folder was not made here and is not empty, foreign documents are among its own,
    or it cannot be written.
    """
    documents = folder / "documents"
    try:
        former = _former_documents(folder)
        documents.mkdir(parents=True, exist_ok=True)
        _write_manifest(folder, former | corpus.documents.keys())
        for name in former - corpus.documents.keys():
            (documents / name).unlink(missing_ok=True)
        for name, data in corpus.documents.items():
            (documents / name).write_bytes(data)
        _write_manifest(folder, corpus.documents.keys())
    except OSError as error:
        raise CaseError(f"{folder} cannot be written: {error.strerror or error}.") from error
    write_cases(folder / "train.json", corpus.train)
    write_cases(folder / "held_out.json", corpus.held_out)


def _write_manifest(folder: Path, documents: AbstractSet[str]) -> None:
    """Write down which documents were made here, or are about to be."""
    text = json.dumps({"documents": sorted(documents)}, indent=1)
    (folder / MANIFEST).write_text(f"{text}\n", encoding="utf-8")


def _former_documents(folder: Path) -> set[str]:
    """List the documents of an earlier corpus in the folder; none where it is new.

    Raises `CaseError` if the folder was not made here, its manifest is damaged, or it has foreign documents.
    """
    if not folder.exists() or not any(folder.iterdir()):
        return set()
    if not (folder / MANIFEST).is_file():
        raise CaseError(f"{folder} is not empty.", "Use a new folder.")
    try:
        manifest = parse_json((folder / MANIFEST).read_bytes())
        written = set(map(str, manifest["documents"]))
    except (ValueError, KeyError, TypeError) as error:
        raise CaseError(f"{folder / MANIFEST} is damaged.", "Use a new folder.") from error
    existing = {path.name for path in (folder / "documents").glob("*")}
    if foreign := sorted(existing - written):
        path = folder / "documents" / foreign[0]
        raise CaseError(f"{path} was not made by `vrag data synthesize`.", "Use a new folder.")
    return existing
