"""The evidence that a draft of an answer rests on, found sentence by sentence while the model writes it.

Evidence is checked before it is claimed, as that of the answer is, and numbered as the answer's would be. A
sentence is looked at once it is over, in a thread, and the result is given out when a certain number of
further characters has come: a run has the same events however fast its replies come, and no text waits for a
search that is done by then.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vrag.agent.answers.citation import Citation
from vrag.agent.answers.draft import AnswerDraft
from vrag.agent.answers.markers import ModelMarker
from vrag.agent.answers.review import CitedMarkers, distinct_places, find_cited
from vrag.agent.environment import Environment
from vrag.agent.evidence import Evidence, EvidenceCandidate, check_evidence, place_of
from vrag.agent.method import AgentEpisode
from vrag.agent.policy import Picture
from vrag.agent.question import Question
from vrag.background import run_in_thread
from vrag.errors import VragError
from vrag.reading.page_faults import UnreadPart, report_fault

if TYPE_CHECKING:
    from vrag.agent.answers.support import EvidenceListing

CITED_AFTER_CHARS = 24
"""Characters after a sentence with which its citations are given out: the time to find them."""
_SENTENCE_END = re.compile(r"[.!?](?=\s)|[。！？]|\n")


@dataclass(frozen=True, slots=True)
class CitedDraft:
    """The beginning of a draft, and what it rests on."""

    text: str
    markers: tuple[ModelMarker, ...] = ()
    citations: tuple[Citation, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    """The cited evidence, by its numbers."""
    pictures: tuple[Picture, ...] = ()
    """Pictures of evidence that are not among those shown."""


@dataclass(slots=True)
class _DraftSearch:
    """The state of the search, from one sentence to the next. It belongs to one thread at a time."""

    question: Question
    environment: Environment
    verify: bool
    listing: EvidenceListing | None = None
    """None before the first search."""
    found: int = 0
    """Characters of the draft whose parts were looked for."""

    def find(
        self, begun: CitedDraft, candidates: Sequence[EvidenceCandidate], cited: CitedMarkers
    ) -> CitedDraft:
        """Find what the beginning of a draft rests on; nothing where a page cannot be opened. May block.

        Args:
            begun: The beginning of the draft, with its markers.
            candidates: What it may rest on; used by the first search.
            cited: What the markers refer to.
        """
        from vrag.agent.answers.answer_place import end_between_lines
        from vrag.agent.answers.support import all_parts, cited_parts  # the reader takes time to load
        from vrag.reading.verification.claims import read_sentences

        try:
            listing = self._list(candidates, cited)
            text = begun.text
            marked = cited_parts(text, begun.markers, cited.limited_to(listing.entries))
            for part in all_parts(read_sentences(text), marked):
                if part.start >= self.found and listing.entries:
                    listing.cite(self.question, text, part)
                    if self.verify and (part.start, part.end) in listing.cited:
                        self._correct(text, listing)
            self.found = len(text)
        except VragError:
            return begun
        except Exception as error:  # noqa: BLE001 - the final answer is checked as a whole again
            report_fault(UnreadPart.EVIDENCE, "What the draft rests on could not be found", error)
            return begun
        evidence, citations = listing.numbered()
        count = max((max(citation.numbers) for citation in citations), default=0)
        shown, pictures = end_between_lines(evidence[:count], self.environment)
        pictures = (*listing.pictures, *pictures)
        return replace(begun, citations=citations, evidence=shown, pictures=pictures)

    def _list(self, candidates: Sequence[EvidenceCandidate], cited: CitedMarkers) -> EvidenceListing:
        """Return the listing with all evidence that agrees with the collection."""
        from vrag.agent.answers.support import EvidenceListing

        if self.listing is None:
            evidence, _ = check_evidence([*candidates, *cited.candidates], self.environment)
            self.listing = EvidenceListing(list(distinct_places(evidence)), self.environment)
            return self.listing
        known = {place_of(entry) for entry in self.listing.entries}
        new = [candidate for candidate in cited.candidates if place_of(candidate.evidence) not in known]
        evidence, _ = check_evidence(new, self.environment)
        self.listing.entries.extend(distinct_places(evidence))
        return self.listing

    def _correct(self, text: str, listing: EvidenceListing) -> None:
        """Move the last citation to the evidence that says what it cites, where that does not."""
        from vrag.agent.answers.claim_check import correct_citation

        evidence, citations = listing.numbered()
        last = citations[-1]
        if (better := correct_citation(self.question, text, last, evidence, self.environment)) is not None:
            listing.move(last, better)


@dataclass(slots=True)
class DraftCitations:
    """The search for what the draft of one reply rests on, at most one at a time. For one event loop."""

    episode: AgentEpisode
    search: _DraftSearch
    _length: int = 0
    """Characters of the draft that were looked at, or are being looked at."""
    _coming: asyncio.Future[CitedDraft] | None = None

    @classmethod
    def of(cls, question: Question, episode: AgentEpisode, *, verify: bool) -> DraftCitations:
        """Return the search for the next reply of a run; `verify` is true if citations are corrected."""
        return cls(episode, _DraftSearch(question, episode.environment, verify))

    def follow(self, draft: AnswerDraft) -> None:
        """Look at the draft up to the last sentence that is over, unless a search is in progress."""
        if self._coming is not None:
            return
        ends = [match.end() for match in _SENTENCE_END.finditer(draft.text, self._length)]
        end = next((at for at in reversed(ends) if draft.text[at:].strip()), 0)
        text = draft.text[:end].rstrip()
        if not any(character.isalnum() for character in text[self._length :]):
            return
        self._length = len(text)
        begun = CitedDraft(text, tuple(marker for marker in draft.markers if marker.at <= len(text)))
        candidates = () if self.search.found else self.episode.draft_evidence(draft.reader.parents)
        cited = find_cited(self.episode, begun.markers)
        self._coming = asyncio.ensure_future(
            run_in_thread(lambda: self.search.find(begun, candidates, cited))
        )

    def take_due(self, draft: AnswerDraft) -> asyncio.Future[CitedDraft] | None:
        """Return the search whose result is to be given out now; None where there is none."""
        if self._coming is None or len(draft.text) < self._length + CITED_AFTER_CHARS:
            return None
        coming, self._coming = self._coming, None
        return coming

    def cancel(self) -> None:
        """Wait for no search any more."""
        if self._coming is not None:
            self._coming.cancel()
            self._coming = None
