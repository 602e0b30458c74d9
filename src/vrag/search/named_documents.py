"""The document that a query means: the only one, or the one whose file name or title it names.

A question names a document by the words of its file name ("the harbour log"), or by a name that stands in the
file name or the title of one document alone ("Best Buy" for BESTBUY_2023_10K.pdf). Wrong guesses would hide
the right pages behind others: a name of one word counts only where the document is among the hits anyway, or
is called a document ("the Starbucks report"), and no other document is named by the question.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from cachetools import LRUCache

from vrag.errors import VragError
from vrag.search.named_pages import MAX_LOOKED_AT, Pointers, order_hits, put_named_pages_first, read_texts
from vrag.text.terms import STOP_WORDS, stem, tokens
from vrag.types import item_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from vrag.index.catalog import Catalog
    from vrag.search.named_pages import PageSource
    from vrag.search.searcher import ItemStore
    from vrag.types import Hit, Query

KINDS_OF_DOCUMENTS = frozenset(
    stem(word)
    for word in """agreement article book booklet brochure catalog contract deck document filing form guide
    guideline handbook handout instruction leaflet letter log manual memo minutes note notice opinion paper
    policy poster presentation publication report slide slides specification statement study summary
    survey thesis tutorial whitepaper 10k 10-k bericht handbuch anleitung studie präsentation vertrag rapport
    manuel informe libro""".split()
)
"""Words that say what kind of document is meant, and not which."""
PAGE_WORDS = frozenset(token.term for token in tokens("page document print file scan"))
"""Words that name no document: questions for a page have them."""
COMMON_NAMES = (
    KINDS_OF_DOCUMENTS
    | PAGE_WORDS
    | {
        token.term
        for token in tokens(
            "figure table chart annual quarterly release final version draft copy english united states "
            "january february march april may june july august september october november december"
        )
    }
)
"""Words of which none names a document alone."""
MIN_NAME_CHARS = 3
"""Letters of a word by which a document is named: "2.pdf" is not named by "page 2"."""
MAX_NAMES = 100_000
"""Names of files whose terms are remembered."""
MAX_TITLED = 8
"""Documents whose titles are read for a name; a name on the first pages of more says little."""
TITLE_CHARS = 300
"""Characters at the beginning of a first page that are its title."""

MAX_CANDIDATES = 5
"""Documents of which people are asked which one they mean."""
VAGUE_SCORE, VAGUE_SHARE = 0.65, 0.95
"""Where a question speaks of a document without its name: the part of the best score that the best hit of
another document has at least, and the share of the hits, weighed by rank, that the best one has at most."""
OTHER_SCORE, OTHER_SHARE = 0.95, 0.65
"""The same for other questions."""
MIN_WORD_SCORE = 1.0
"""Best score of a ranking by words; those of fused rankings are lower, and do not tell how well a page fits.
"""

_TITLES: LRUCache[tuple[str, str, int], frozenset[str]] = LRUCache(MAX_NAMES)
"""Words of titles, by the address of a collection, the key of its catalog and the row of the page."""
_NAME = re.compile(r"[^\W_]+(?:[-'’&.][^\W_]+)*")
_KIND_BEFORE = re.compile(
    r"\b(?:paper|report|guide|manual|handbook|article|study|presentation|deck|contract|book|brochure|10-?K)\s+"
    r"(?:on|about|by|for|from|of|titled|called|named)\s+(?:the\s+)?(?P<name>\w[\w'’&.-]*)",
    re.IGNORECASE,
)
"""A kind of document before a name: "the paper on STEPBACK prompting"."""

_DOCUMENT = (
    r"documents?|reports?|papers?|slides?|presentations?|deck|pdf|file|manual|guide|handbook|book|brochure"
    r"|contract|agreement|article|company"
)
_VAGUE = re.compile(
    rf"\b(?:(?:this|these|the)\s+(?:(?-i:[a-z]+)\s+)?(?:{_DOCUMENT})\b"
    r"(?!\s+(?:of|by|on|about|from|for|titled|called)\b)"
    r"|(?:dieses?|diese[mnr]|das|de[mnr]|die)\s+(?:dokument|bericht|handbuch|vertrag|präsentation|anleitung)"
    r"|(?:ce|cette|le|la)\s+(?:document|rapport|présentation|manuel|contrat)\b"
    r"|(?:este|esta|el|la)\s+(?:documento|informe|presentación|manual|contrato)\b)"
    r"|[这這该該本][份篇个個]?(?:文件|文档|文檔|报告|報告|论文|論文|手册|手冊|合同|幻灯片|公司)|本文"
    r"|この(?:文書|資料|報告書|論文)",
    re.IGNORECASE,
)
"""Words for a document that do not say which."""


class FileNameIndex:
    """The names of the files of a version of a collection, by their words."""

    def __init__(self, catalog: Catalog) -> None:
        self.documents = catalog.documents.values
        """Ids of the documents."""
        self._codes = catalog.documents.codes
        _, first = np.unique(self._codes, return_index=True)
        self._names = [catalog.document_names[row] for row in first.tolist()]

    @classmethod
    def of(cls, catalog: Catalog) -> FileNameIndex:
        """Return the names of a catalog, which are kept as long as that is."""
        if (known := _FILE_NAMES.get(catalog)) is None:
            known = _FILE_NAMES[catalog] = cls(catalog)
        return known

    def present(self, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which documents have items in a mask (items,), (documents,)."""
        present = np.zeros(len(self.documents), np.bool_)
        present[self._codes[mask]] = True
        return present

    def named_in(self, asked: NamesAsked, present: NDArray[np.bool_]) -> list[tuple[str, int]]:
        """Return those of some documents, (documents,), of whose names all terms are asked, and how many."""
        by_term, sizes = self._terms
        counts = np.zeros(len(self.documents), np.int32)
        for term in by_term.keys() & asked.terms:
            counts[by_term[term]] += 1
        found = np.flatnonzero(present & (sizes > 0) & (counts == sizes))
        return [(self.documents[at], int(sizes[at])) for at in found.tolist()]

    def with_word(self, name: str, present: NDArray[np.bool_]) -> list[str]:
        """Return the documents of some, (documents,), whose files may be named by a name; two of several."""
        if (places := self._words.get(name)) is None:
            return []
        return [self.documents[at] for at in places[present[places]][:2].tolist()]

    @cached_property
    def _terms(self) -> tuple[dict[str, NDArray[np.int32]], NDArray[np.int32]]:
        """The documents with each term in their names, and the number of terms of each name."""
        terms = [_name_terms(name) for name in self._names]
        return _invert(terms), np.fromiter(map(len, terms), np.int32, len(terms))

    @cached_property
    def _words(self) -> dict[str, NDArray[np.int32]]:
        return _invert(map(_file_words, self._names))


_FILE_NAMES: WeakKeyDictionary[Catalog, FileNameIndex] = WeakKeyDictionary()


class NamesAsked(NamedTuple):
    """The names in a question that may be those of documents."""

    terms: frozenset[str]
    """All its words."""
    names: dict[str, str]
    """Words that are written as names, and pairs of them, as they are written; by them as one word."""
    documents: frozenset[str]
    """Those of the names that a word for a kind of document follows or precedes: "the Starbucks report"."""


def find_named_document(query: Query, sources: Sequence[PageSource], hits: Sequence[Hit]) -> str | None:
    """Return the document that a query means; None where that is not clear.

    Args:
        query: The query.
        sources: The collections that it searches.
        hits: What was found for it, best first.
    """
    files = [(FileNameIndex.of(source.catalog), source.catalog.mask(query)) for source in sources]
    names = [(known, known.present(mask)) for known, mask in files]
    if sum(int(np.count_nonzero(present)) for _, present in names) <= len(names):
        found = {known.documents[at] for known, present in names for at in np.flatnonzero(present).tolist()}
        if len(found) == 1:
            return found.pop()
    asked = read_names(query.text)
    named = {
        document: terms for known, present in names for document, terms in known.named_in(asked, present)
    }
    most = max(named.values(), default=0)
    best = [document for document, count in named.items() if count == most]
    if best:
        return best[0] if len(best) == 1 else None
    return _find_by_single_names(query, sources, hits, asked, names)


def _find_by_single_names(
    query: Query,
    sources: Sequence[PageSource],
    hits: Sequence[Hit],
    asked: NamesAsked,
    files: Sequence[tuple[FileNameIndex, NDArray[np.bool_]]],
) -> str | None:
    """Return the only document with a name of the query in its file name or title.

    `files` are the names of the files of each source, and which of them the query may find.
    """
    owners: dict[str, set[str]] = defaultdict(set)
    for name, written in asked.names.items():
        for known, present in files:
            owners[name].update(known.with_word(name, present))
        owners[name].update(_list_titled(written, query, sources))
    only = {name: next(iter(found)) for name, found in owners.items() if len(found) == 1}
    if len(set(only.values())) != 1:
        return None
    document = next(iter(only.values()))
    is_called = not asked.documents.isdisjoint(only) or any(" " in asked.names[name] for name in only)
    return document if is_called or any(hit.document == document for hit in hits[:MAX_LOOKED_AT]) else None


def put_meant_first(
    hits: list[Hit],
    query: Query,
    top_k: int,
    sources: Sequence[PageSource],
    search: Callable[[Query], list[Hit]],
) -> list[Hit]:
    """Return `top_k` hits or fewer, with those first that the query means by a document or a place in it.

    Args:
        hits: What was found for the query, best first.
        query: The query.
        top_k: Number of hits at most.
        sources: The collections that it searches.
        search: Finds the best `top_k` items of the query in other documents.
    """
    document = find_named_document(query, sources, hits)
    if document is None and (query.documents is None or query.preferred in query.documents):
        document = query.preferred
    if document is not None and any(hit.document != document for hit in hits):
        own = search(replace(query, documents=frozenset({document})))
        hits = order_hits([*own[: (top_k + 1) // 2], *hits], top_k)  # a wrong guess hides nothing
    return put_named_pages_first(hits, query, top_k, sources, document)


def read_names(text: str) -> NamesAsked:
    """Return the names in a question.

    >>> names = read_names("What does the Best Buy report say of Acme?")
    >>> sorted(names.names), sorted(names.documents)
    (['acm', 'best', 'bestbuy', 'buy'], ['best', 'bestbuy', 'buy'])
    """
    words = [(match[0], match.start()) for match in _NAME.finditer(text)]
    is_name = [_is_name(word, start, text) for word, start in words]
    names: dict[str, str] = {}
    documents: set[str] = set()
    for at, (word, _) in enumerate(words):
        if is_name[at] and (own := _join(word)) not in COMMON_NAMES:
            names[own] = word
            after = next((n for n in range(at + 1, len(words)) if not is_name[n]), len(words))
            kinds = [stem(other) in KINDS_OF_DOCUMENTS for other, _ in words[at + 1 : after + 1]]
            documents |= {own} if any(kinds) else set()
        if is_name[at] and at + 1 < len(words) and is_name[at + 1]:
            pair = f"{word} {words[at + 1][0]}"
            names[_join(pair)] = pair
            documents |= {_join(pair)} & ({_join(pair)} if _join(word) in documents else set())
    for match in _KIND_BEFORE.finditer(text):
        documents.update(_join(name) for name in _NAME.findall(match["name"]))
    return NamesAsked(frozenset(token.term for token in tokens(text)), names, frozenset(documents))


def _is_name(word: str, start: int, text: str) -> bool:
    """Return whether a word of a question is written as a name: in capitals that no sentence begins with."""
    if len(word) < MIN_NAME_CHARS or word.casefold() in STOP_WORDS or text.isupper():
        return False
    begins = not text[:start].strip() or text[:start].rstrip()[-1] in ".?!:"
    return word[1:] != word[1:].lower() or (word[0].isupper() and not begins)


def _join(word: str) -> str:
    """Return the letters and digits of a word, folded.

    >>> _join("Step-Back")
    'stepback'
    """
    return "".join(token.term for token in tokens(word))


def _invert(words: Iterable[frozenset[str]]) -> dict[str, NDArray[np.int32]]:
    """Return the places of the sets that have each word, ascending."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, own in enumerate(words):
        for word in own:
            places[word].append(place)
    return {word: np.array(found, np.int32) for word, found in places.items()}


@lru_cache(MAX_NAMES)
def _file_words(name: str) -> frozenset[str]:
    """Return the words of a file name by which it may be named."""
    words = [word for word in re.split(r"[\W_]+", PurePath(name).stem) if word]
    pairs = [first + second for first, second in pairwise(words)]
    joined = {_join(word) for word in (*words, *pairs)}
    return (
        frozenset(word for word in joined if len(word) >= MIN_NAME_CHARS and not word.isdecimal())
        - COMMON_NAMES
    )


def _list_titled(name: str, query: Query, sources: Sequence[PageSource]) -> Iterator[str]:
    """Yield the documents whose titles have a name; two of those whose first pages do, if they are many."""
    for source in sources:
        if source.lexical is None:
            continue
        catalog = source.catalog
        rows = source.lexical.rows_with(name)
        rows = rows[(catalog.ordinals[rows] == 1) & catalog.mask(query)[rows]]
        is_common = len(rows) > MAX_TITLED
        for row in (rows[:2] if is_common else rows).tolist():
            if is_common or _join(name) in _read_title(source, row):
                yield catalog.documents[row]


def _read_title(source: PageSource, row: int) -> frozenset[str]:
    """Return the words of the title of a first page, and pairs of them as one word."""
    key = source.collection.address, source.catalog.key, row
    if (known := _TITLES.get(key)) is None:
        known = _TITLES[key] = _title_words(read_texts(source, [row])[row])
    return known


def _title_words(text: str) -> frozenset[str]:
    """Return the words of the title of a page, and pairs of them as one word."""
    words = [match[0] for match in _NAME.finditer(text[:TITLE_CHARS])]
    return frozenset(map(_join, (*words, *(first + second for first, second in pairwise(words)))))


@lru_cache(MAX_NAMES)
def _name_terms(name: str) -> frozenset[str]:
    """Return the terms of the name of a file without its ending; none if no word tells it from a number.

    >>> sorted(_name_terms("Harbour_fees-2026.pdf")), sorted(_name_terms("2.pdf"))
    (['2026', 'fee', 'harbour'], [])
    >>> sorted(_name_terms("Page 2.pdf"))
    []
    """
    terms = {token.term for token in tokens(PurePath(name).stem.replace("_", " "))} - STOP_WORDS
    is_name = any(term.isalpha() and len(term) >= MIN_NAME_CHARS for term in terms - PAGE_WORDS)
    return frozenset(terms) if is_name else frozenset()


def find_candidates(question: str, hits: Sequence[Hit], store: ItemStore) -> list[Hit]:
    """Return the best hit of each document that a question may be about; none where one is clearly meant.

    A question that speaks of "this report", or of a page, a figure or a section, is about one document. Other
    questions are only taken as such where they name nothing, and pages of several documents fit equally well.

    Args:
        question: The question.
        hits: What was found for it, best first.
        store: The items.
    """
    best: dict[str, Hit] = {}
    for hit in hits:
        best.setdefault(hit.document, hit)
    if len(best) < 2 or _is_named(question, hits[0], store):
        return []
    is_vague = is_about_one(question)
    if not is_vague and (read_names(question).names or hits[0].score < MIN_WORD_SCORE):
        return []
    score, share = (VAGUE_SCORE, VAGUE_SHARE) if is_vague else (OTHER_SCORE, OTHER_SHARE)
    weights = {hit.item: 1 / rank for rank, hit in enumerate(hits, 1)}
    own = sum(weights[hit.item] for hit in hits if hit.document == hits[0].document)
    near = [hit for hit in best.values() if hit.score >= score * hits[0].score]
    return near[:MAX_CANDIDATES] if len(near) > 1 and own <= share * sum(weights.values()) else []


def is_about_one(question: str) -> bool:
    """Return whether a question speaks of one document: "this report", or a page, a figure, a section.

    >>> is_about_one("What does this report say?"), is_about_one("When was the Fulmar built?")
    (True, False)
    """
    return bool(_VAGUE.search(question) or Pointers.of(question))


def _is_named(question: str, hit: Hit, store: ItemStore) -> bool:
    """Return whether a question names the document of a hit, by its file or its title."""
    asked = read_names(question)
    words = _name_terms(hit.document_name)
    if (words and words <= asked.terms) or asked.names.keys() & _file_words(hit.document_name):
        return True
    try:
        text = store.item(item_id(hit.document, 1)).text
    except VragError:  # of a server that has other ids
        return False
    return bool(asked.names.keys() & _title_words(text))
