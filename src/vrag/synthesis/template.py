"""What a template is: it makes one document and the questions about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from vrag.cases.case_format import hops
from vrag.synthesis.sampling import BalancedSampler
from vrag.types import Case, Region

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping, Sequence

    from vrag.geometry import Box
    from vrag.synthesis.canvas import Canvas, Colour
    from vrag.synthesis.sampling import Name

__all__ = ["DocumentDraft", "DocumentTemplate", "Supply", "TemplateQuestion"]


@dataclass(frozen=True, slots=True)
class TemplateQuestion:
    """A question about a document, before the document has a file name."""

    query: str
    answer: str
    evidence: tuple[tuple[int, Box], ...]
    """Pages from 1, and what on them holds the answer, in fractions of the page; in the order of reading."""
    source: str
    """What the answer is read from: `Text`, `Table`, `Chart` or `Figure`."""

    def case(self, uid: str, file_name: str) -> Case:
        """The question as a case of a data set."""
        pages = tuple(dict.fromkeys(page for page, _ in self.evidence))
        return Case(
            uid=uid,
            query=self.query,
            reference_answer=self.answer,
            file_name=file_name,
            reference_page=pages,
            source_type=(self.source,),
            query_type=hops(pages),
            regions=tuple(Region(page, box) for page, box in self.evidence),
        )


@dataclass(frozen=True, slots=True)
class DocumentDraft:
    """A document that is not printed yet."""

    canvases: Sequence[Canvas]
    questions: Sequence[TemplateQuestion]


@dataclass(slots=True)
class Supply:
    """What templates draw on; one for the whole corpus, so that nothing is dealt twice by accident."""

    chance: random.Random
    colours: Mapping[str, Colour]
    _decks: dict[str, BalancedSampler[str]] = field(default_factory=dict[str, BalancedSampler[str]])

    def deal(self, kind: str, values: Sequence[str]) -> str:
        """A value out of those of its kind, in equal shares over the corpus."""
        if kind not in self._decks:
            self._decks[kind] = BalancedSampler(tuple(values), self.chance)
        return self._decks[kind].deal()

    def colour(self) -> str:
        """The name of a colour, in equal shares."""
        return self.deal("colour", tuple(self.colours))

    def keep_to_dealt(self) -> None:
        """From here on, only values that were dealt already."""
        for sampler in self._decks.values():
            sampler.keep_to_dealt()


class DocumentTemplate(Protocol):
    """A kind of document."""

    @property
    def name(self) -> str:
        """What it is called on the command line."""
        ...

    @property
    def least_pages(self) -> int:
        """Pages that a document needs for one question."""
        ...

    def draft(self, names: Sequence[Name], supply: Supply) -> DocumentDraft:
        """Makes a document of one page for each name, and the questions about it."""
        ...
