"""A small corpus with questions, made from templates: documents, training cases, held-out cases."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from vrag.errors import CaseError
from vrag.synthesis.pdf import print_pdf
from vrag.synthesis.sampling import deal_names
from vrag.synthesis.template import Supply
from vrag.synthesis.templates import TEMPLATES
from vrag.synthesis.vocabulary import COLOURS, WORDS, check_vocabulary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vrag.synthesis.canvas import Colour
    from vrag.synthesis.sampling import Name
    from vrag.synthesis.vocabulary import Words
    from vrag.types import Case

__all__ = ["Corpus", "SynthesisOptions", "synthesize"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesisOptions:
    """What to make; the same options make the same bytes."""

    seed: int = 0
    documents: int = 16
    pages: int = 4
    """Of each document."""
    templates: tuple[str, ...] = ("key_figure", "table", "chart", "multi_hop")
    """Names out of `TEMPLATES`; documents take turns."""
    held_out: float = 0.25
    """Share of the documents, of each template, whose cases are not to be trained on."""
    colours: Mapping[str, Colour] = field(default_factory=lambda: COLOURS)
    """Colours by the word that names them."""
    words: Words = WORDS
    """To make names of; a page's name is unique in the corpus."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """What was made."""

    documents: Mapping[str, bytes]
    """PDF files by name."""
    train: tuple[Case, ...]
    held_out: tuple[Case, ...]
    """Cases about other documents than those of `train`, made of words and colours that occur there."""


def synthesize(options: SynthesisOptions) -> Corpus:
    """Makes documents with a text layer, questions, gold pages and gold boxes.

    Raises:
        CaseError: If the options contradict each other, or there are too few words for so many pages.
    """
    _check(options)
    plan = _plan(options)
    chance = random.Random(options.seed)
    sizes = Counter(held for _, _, held in plan)
    shown, known = deal_names(
        options.words, sizes[False] * options.pages, sizes[True] * options.pages, chance
    )
    supply = Supply(chance, options.colours)
    documents: dict[str, bytes] = {}
    train = _make([stem for stem in plan if not stem[2]], shown, supply, documents)
    supply.keep_to_dealt()
    held_out = _make([stem for stem in plan if stem[2]], known, supply, documents)
    return Corpus(documents=MappingProxyType(dict(sorted(documents.items()))), train=train, held_out=held_out)


def _plan(options: SynthesisOptions) -> list[tuple[str, str, bool]]:
    """Stem, template and whether it is held out, of each document; the last of each template are."""
    turns = [options.templates[at % len(options.templates)] for at in range(options.documents)]
    plan: list[tuple[str, str, bool]] = []
    for template in dict.fromkeys(turns):
        whole = turns.count(template)
        train = whole - _held(whole, options.held_out)
        plan += [(f"{template}-{at:03}", template, at > train) for at in range(1, whole + 1)]
    return plan


def _held(documents: int, share: float) -> int:
    """How many are held out: where any are and two remain, at least one on each side."""
    if not share or documents < 2:
        return 0
    return min(max(round(documents * share), 1), documents - 1)


def _make(
    plan: Sequence[tuple[str, str, bool]], names: Sequence[Name], supply: Supply, documents: dict[str, bytes]
) -> tuple[Case, ...]:
    """Prints the documents of a part; its cases."""
    pages = len(names) // max(len(plan), 1)
    cases: list[Case] = []
    for at, (stem, template, _) in enumerate(plan):
        draft = TEMPLATES[template].draft(names[at * pages : (at + 1) * pages], supply)
        documents[f"{stem}.pdf"] = print_pdf(
            (canvas.width, canvas.height, canvas.marks) for canvas in draft.canvases
        )
        cases += [
            question.case(f"{stem}-{number}", f"{stem}.pdf")
            for number, question in enumerate(draft.questions, 1)
        ]
    return tuple(cases)


def _check(options: SynthesisOptions) -> None:
    check_vocabulary(options.words, options.colours)
    unknown = [name for name in options.templates if name not in TEMPLATES]
    if unknown or not options.templates:
        what = f"There is no template {unknown[0]!r}." if unknown else "No template is named."
        raise CaseError(what, f"Templates: {', '.join(TEMPLATES)}.")
    if not 0 <= options.held_out < 1:
        raise CaseError("The share held out is from 0 up to, but not, 1.")
    least = max(options.templates, key=lambda name: TEMPLATES[name].least_pages)
    if options.pages < TEMPLATES[least].least_pages:
        raise CaseError(f"A document of {least} has {TEMPLATES[least].least_pages} pages or more.")
    if options.documents < (kinds := len(set(options.templates))):
        raise CaseError(f"{kinds} templates need as many documents or more.", "Name fewer templates.")
