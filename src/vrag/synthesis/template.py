"""The `DocumentTemplate` protocol: a document and the questions about it."""

from __future__ import annotations

from abc import ABC, abstractmethod
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


@dataclass(frozen=True, slots=True)
class TemplateQuestion:
    """A question about a document, before the document has a file name."""

    query: str
    answer: str
    evidence: tuple[tuple[int, Box], ...]
    """Pages from 1, and the boxes on them that hold the answer, in fractions of the page; in order."""
    source: str
    """The place of the answer: `Text`, `Table`, `Chart` or `Figure`."""

    def case(self, uid: str, file_name: str) -> Case:
        """Return the question as a case of a data set."""
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
    """The values that templates draw; one for the whole corpus, so that values are drawn in equal shares."""

    random: random.Random
    colours: Mapping[str, Colour]
    _samplers: dict[str, BalancedSampler[str]] = field(default_factory=dict[str, BalancedSampler[str]])

    def deal(self, kind: str, values: Sequence[str]) -> str:
        """Draw a value of a kind, in equal shares over the corpus."""
        if kind not in self._samplers:
            self._samplers[kind] = BalancedSampler(tuple(values), self.random)
        return self._samplers[kind].deal()

    def colour(self) -> str:
        """Draw the name of a colour, in equal shares."""
        return self.deal("colour", tuple(self.colours))

    def keep_to_dealt(self) -> None:
        """From here on, draw only values that were drawn before."""
        for sampler in self._samplers.values():
            sampler.keep_to_dealt()


class DocumentTemplate(Protocol):
    """A kind of document."""

    @property
    def name(self) -> str:
        """Its name on the command line."""
        ...

    @property
    def least_pages(self) -> int:
        """Pages that a document needs for one question."""
        ...

    def draft(self, names: Sequence[Name], supply: Supply) -> DocumentDraft:
        """Make a document of one page for each name, and the questions about it."""
        ...


class PageTemplate(ABC):
    """A template whose pages have their own questions."""

    name: str
    least_pages = 1

    @abstractmethod
    def draw(self, page: int, name: Name, supply: Supply) -> tuple[Canvas, list[TemplateQuestion]]:
        """Draw a page, counted from 1, with the questions about it."""

    def draft(self, names: Sequence[Name], supply: Supply) -> DocumentDraft:
        """Make a document of one page for each name, and the questions about it."""
        pages = [self.draw(number, name, supply) for number, name in enumerate(names, 1)]
        questions = [question for _, found in pages for question in found]
        return DocumentDraft([canvas for canvas, _ in pages], questions)
