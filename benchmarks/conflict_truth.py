"""What is known of a folder of documents: which statements of it are in conflict, and which only look so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from pydantic import TypeAdapter

from benchmarks.conflict_documents import Block, Heading, Paragraph, Table, write_document
from benchmarks.conflict_sources import Source


@dataclass(frozen=True, slots=True)
class Side:
    """What one document states."""

    document: str
    """Name of its file."""
    value: str
    statement: str = ""
    page: int | None = None
    """From 1; None where it is not known."""


@dataclass(frozen=True, slots=True)
class Planted:
    """Two statements of two documents, in conflict or not."""

    kind: str
    """Number, date, name, unit or negation: what differs, or is the same."""
    style: str
    """How the second document states it; of a trap also why it is none."""
    conflict: bool
    sides: tuple[Side, Side]
    newer: int | None = None
    """The side that says of itself that it replaces the other."""

    @property
    def documents(self) -> frozenset[str]:
        """The names of both documents."""
        return frozenset(side.document for side in self.sides)


_TRUTH = TypeAdapter(list[Planted])


@dataclass(slots=True)
class Collection:
    """A folder of documents, and what was planted in them."""

    name: str
    documents: dict[str, Source | tuple[Block, ...]] = field(
        default_factory=dict[str, "Source | tuple[Block, ...]"]
    )
    """By file name: a real document as it is, or blocks to be written."""
    planted: list[Planted] = field(default_factory=list[Planted])

    def save(self, folder: Path) -> None:
        """Write the documents to `NAME/documents` and the truth to `NAME/truth.json`."""
        documents = folder / self.name / "documents"
        documents.mkdir(parents=True, exist_ok=True)
        for name, content in self.documents.items():
            if isinstance(content, Source):
                (documents / name).write_bytes(content.content)
            else:
                write_document(documents / name, content)
        truth = _TRUTH.dump_json(self.planted, indent=1)
        (folder / self.name / "truth.json").write_bytes(truth + b"\n")


def load_truth(folder: Path) -> list[Planted]:
    """Read what was planted in a collection."""
    return _TRUTH.validate_json((folder / "truth.json").read_bytes())


def read_by_hand(file: Path) -> Iterator[Collection]:
    """Read collections made by hand; the first lines of `tests/data/conflicts/by_hand.txt` tell the form."""
    for part in file.read_text(encoding="utf-8").split("\n=== ")[1:]:
        name, _, rest = part.partition("\n")
        collection = Collection(name.replace(" ", "-"))
        lines = rest.splitlines()
        truths = [line for line in lines if line[:2] in {"! ", "~ "}]
        texts = "\n".join(line for line in lines if line not in truths)
        for document in re.split(r"^--- ", texts, flags=re.MULTILINE)[1:]:
            head, _, body = document.partition("\n")
            collection.documents[head] = tuple(_read_blocks(body.splitlines()))
        collection.planted = [_read_truth(line) for line in truths]
        yield collection


def _read_blocks(lines: list[str]) -> Iterator[Block]:
    for is_table, group in groupby(lines, lambda line: line.startswith("|")):
        if is_table:
            rows = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in group]
            yield Table((rows[0], *rows[2:]))
            continue
        for line in filter(None, group):
            yield Heading(line[2:]) if line.startswith("# ") else Paragraph(line)


_TRUTH_LINE = re.compile(r'([!~]) (.+?): (> )?(\S+) "(.+?)" / (> )?(\S+) "(.+?)"')


def _read_truth(line: str) -> Planted:
    match = _TRUTH_LINE.fullmatch(line)
    if match is None:
        raise ValueError(f"not a conflict: {line}")
    mark, name, first_newer, first, one, second_newer, second, other = match.groups()
    conflict = mark == "!"
    newer = 0 if first_newer else 1 if second_newer else None
    kind = name.removeprefix("edition ") if conflict else "trap"
    style = ("edition" if name.startswith("edition") else "by hand") if conflict else f"by hand, {name}"
    return Planted(kind, style, conflict, (Side(first, one), Side(second, other)), newer)
