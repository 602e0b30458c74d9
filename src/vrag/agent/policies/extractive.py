"""The policies without a model: search, crop to the words that answer, answer with them, or abstain.

They speak the same grammars through the same environment as a model would. `vrag.reading` finds the answer;
colours, drawings and charts without words are beyond it, and it abstains rather than guesses. The same
history gives the same reply.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeGuard

from vrag.agent.actions import ABSTENTION, TAG, Action, Answer, Crop, Search, parse, render
from vrag.agent.memory.memory_graph import ROOT
from vrag.agent.page_reading import open_page
from vrag.agent.policy import (
    MAX_PLACES,
    WITHOUT_MODEL,
    WORDS_SOUGHT,
    Delta,
    Message,
    Part,
    Picture,
    Reply,
    Role,
    Shown,
    Text,
)
from vrag.agent.prompts import prompt
from vrag.agent.replies.tool_calls import AnswerNode, Call, CropNode, Memorize, Note, SearchNode, render_call
from vrag.geometry import Box, Space
from vrag.model_profiles import Profile
from vrag.reading import completed, search_query
from vrag.reading.answer import FULL_READING, Reading, ReadingOptions
from vrag.reading.page_faults import UnreadPart, read_part
from vrag.reading.page_text import PageText, read_page_text
from vrag.reading.places.evidence_region import RankedRegion, ranked_regions, region_around
from vrag.reading.questions.descriptions import find_description
from vrag.reading.questions.overview import asks_for_overview, names_nothing
from vrag.reading.reader import THRESHOLD, read
from vrag.reading.table_answers.ratios import name_lines
from vrag.reading.text_reader import TextReader
from vrag.search.searcher import Searcher

_WORD = re.compile(r"\w+")
FIRST_PAGES = "first page"
"""The query that finds the first page of each document."""
_CLOSEST_PREFIX = "Closest, without a certain answer: "
_QUOTE = re.compile(r"^(?P<label>(?:Text|Picture|Video) [0-9]+) says: “(?P<words>.*)”$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PolicyWithoutModel(ABC):
    """The base of the policies without a model, one for each grammar."""

    searcher: Searcher
    """The source of the words of the pages shown."""
    profile: Profile
    """The profile of the environment, which says how boxes are written."""
    text_reader: TextReader | None = field(default=None, kw_only=True)
    """The reader of running text; None for the reader of the package."""
    reading: ReadingOptions = field(default=FULL_READING, kw_only=True)
    """The sources of answers."""
    threshold: float = field(default=THRESHOLD, kw_only=True)
    """The probability from which a reading is looked at closely, and may be given as an answer."""
    certain: bool = field(default=True, kw_only=True)
    """True if only readings of kinds that are right often enough are given as answers."""

    @property
    def name(self) -> str:
        """The name in run files and on the command line."""
        return WITHOUT_MODEL

    @property
    def sampling(self) -> Mapping[str, float | int | str | bool]:
        """The reader of running text, unless it is that of the package. It does not sample."""
        return {"reader": self.text_reader.name} if self.text_reader else {}

    async def reply(
        self,
        history: Sequence[Message],
        turn: int = 1,  # noqa: ARG002 - the history tells all
    ) -> AsyncGenerator[Delta | Reply, None]:
        """Decide from what was shown so far; the same history gives the same reply."""
        thought, action = self._decide(history)
        written = render(action) if isinstance(action, Action) else render_call(action)
        text = f"<think>{without_tags(thought)}</think>\n{written}"
        yield Delta(text)
        yield Reply(text)

    def _read(self, question: str, items: Iterable[str]) -> Reading | None:
        """Return the likeliest answer on some items, given best first."""
        pages = [open_page(self.searcher, self.searcher.item(id)) for id in dict.fromkeys(items)]
        readings = read(question, pages, text_reader=self.text_reader, options=self.reading)
        return next(iter(readings), None)

    def _may_answer(self, reading: Reading | None) -> TypeGuard[Reading]:
        """Return whether a reading may be given as an answer."""
        if reading is None or reading.probability < self.threshold:
            return False
        return reading.is_certain or not self.certain

    def _answer(self, reading: Reading | None) -> tuple[str, Answer]:
        """Return a thought and the answer of the reader, or an abstention: places are shown then."""
        if not self._may_answer(reading):
            return "No answer is certain enough: places that may answer are shown.", Answer(ABSTENTION)
        thought = f"{reading.arithmetic or reading.context} ({reading.probability:.0%} likely)"
        return without_tags(thought), Answer(without_tags(reading.answer) or ABSTENTION)

    def _region(self, reading: Reading, frame: Box, picture: Picture) -> tuple[float, float, float, float]:
        """Return the region around a reading, as a model would write it for a picture."""
        around = region_around(read_page_text(self.searcher.item(reading.item)), frame)
        return written_box(around, picture, self.profile)

    @abstractmethod
    def _decide(self, history: Sequence[Message]) -> tuple[str, Action | Call]:
        """Return the thought and the action."""

    async def aclose(self) -> None:  # noqa: B027 - optional: none of them holds resources
        """Do nothing: no resources are held."""


@dataclass(frozen=True, slots=True)
class ResolvedQuestion:
    """A question as the policies without a model take it."""

    text: str
    """The question, completed from earlier questions; earlier answers are not used."""
    remark: str
    """Remark for the first thought about the completion and about ignored images; empty, or sentences that
    end with a space."""

    @classmethod
    def of(cls, history: Sequence[Message]) -> ResolvedQuestion:
        """Find the question of a history, which stands in the first message of the user."""
        parts = (part for message in history for part in message.parts)
        asked = next(part.asked for part in parts if isinstance(part, Text) and part.asked is not None)
        whole = completed(asked.text, [previous_turn.question for previous_turn in asked.history])
        remarks = [f"As it follows on the question before, it means: {whole} "] if whole != asked.text else []
        if asked.images:
            remarks.append("The pictures that came with the question cannot be looked at without a model. ")
        return cls(whole, "".join(remarks))


@dataclass(frozen=True, slots=True)
class ExtractivePolicy(PolicyWithoutModel):
    """A policy that looks at the best few pages and answers with words or cells of them.

    Before it abstains, it crops to where most words of the question are: people see where it looked.
    """

    looks: int = MAX_PLACES
    """Pages to look at before deciding."""
    show: int = 1
    """Pages that a search shows."""
    crops: bool = True
    """True if it may look closer; ReAct may not."""

    def _decide(self, history: Sequence[Message]) -> tuple[str, Action]:
        summary = _RunSummary.of(history)
        query = _first_query(summary.question)
        if not summary.queries:
            return f"{summary.remark}{WORDS_SOUGHT}{query}", Search(query)
        may_look = not summary.crops and not summary.must_answer
        is_first_query = len(set(summary.queries)) == 1
        if may_look and is_first_query and self._has_more(summary):
            return "One page may not be enough: the next hits of the search.", Search(query)
        if may_look and is_first_query and (second := self._search_named(summary)):
            return second
        nearest = self._read(summary.question, summary.items)
        crop = self._crop(summary, nearest) if self.crops and may_look else None
        return crop or self._answer(nearest)

    def _has_more(self, summary: _RunSummary) -> bool:
        """Return whether another search with the same words may show pages that are worth reading."""
        return summary.shown_last >= self.show and len(summary.items) < self.looks

    def _search_named(self, summary: _RunSummary) -> tuple[str, Search] | None:
        """Search for a thing that the question describes, if the pages shown tell its name."""
        description = find_description(summary.question)
        named = self._read(description.inner, summary.items) if description else None
        if description is None or named is None or named.probability < self.threshold:
            return None
        query = without_tags(search_query(description.with_name(named.text)))
        thought = f"{description.text}: {named.text}. What do other pages say about it?"
        return thought, Search(query)

    def _crop(self, summary: _RunSummary, nearest: Reading | None) -> tuple[str, Crop] | None:
        """Look closer at the place of the answer, or of most words of the question where none is likely."""
        pictures = {picture.item: picture for picture in summary.pictures if not picture.crop}
        if nearest is not None and nearest.probability >= self.threshold:
            if nearest.frame is None:
                return None
            picture = pictures[nearest.item]
            thought = f"Image {picture.number} comes nearest here: {nearest.context[:200]}"
            return thought, Crop(self._region(nearest, nearest.frame, picture), picture.number)
        texts = [
            read_page_text(self.searcher.item(item))
            for item in dict.fromkeys(summary.items)
            if item in pictures
        ]
        for region in self._rank_regions(summary.question, texts):
            picture = pictures[region.item]
            thought = f"Image {picture.number} has most words of the question here."
            return thought, Crop(written_box(region.box, picture, self.profile), picture.number)
        return None

    @staticmethod
    def _rank_regions(question: str, texts: Sequence[PageText]) -> list[RankedRegion]:
        """Return the part of the pages with most words of the question; none if there is no page."""
        if not texts:
            return []
        search = partial(ranked_regions, question, texts, most=1)
        return read_part(UnreadPart.EVIDENCE, texts[0].item, search, [])


@dataclass(frozen=True, slots=True)
class ExtractiveReader(PolicyWithoutModel):
    """A policy for RAG that quotes the words that answer from the pages shown with the question."""

    def _decide(self, history: Sequence[Message]) -> tuple[str, Action]:
        resolved = ResolvedQuestion.of(history)
        shown = _items_shown([part for message in history for part in message.parts])
        thought, answer = self._answer(self._read(resolved.text, shown))
        return resolved.remark + thought, answer


@dataclass(frozen=True, slots=True)
class _RunSummary:
    """The state of a run, as its history tells."""

    question: str
    remark: str
    queries: tuple[str, ...]
    """The queries of its searches, in order."""
    crops: int
    items: tuple[str, ...]
    pictures: tuple[Picture, ...]
    shown_last: int
    """The number of pages and passages that the last turn showed."""
    must_answer: bool

    @classmethod
    def of(cls, history: Sequence[Message]) -> _RunSummary:
        actions = [parse(message.text).action for message in history if message.role is Role.ASSISTANT]
        observations = [message for message in history[1:] if message.role is Role.USER]
        parts = [part for message in observations for part in message.parts]
        resolved = ResolvedQuestion.of(history)
        return cls(
            question=resolved.text,
            remark=resolved.remark,
            queries=tuple(action.query for action in actions if isinstance(action, Search)),
            crops=sum(isinstance(action, Crop) for action in actions),
            items=tuple(_items_shown(parts)),
            pictures=tuple(part for part in parts if isinstance(part, Picture)),
            shown_last=len(_items_shown(observations[-1].parts)) if observations else 0,
            must_answer=bool(observations) and Text(prompt("answer_now.md")) in observations[-1].parts,
        )


@dataclass(frozen=True, slots=True)
class ExtractiveGraphPolicy(PolicyWithoutModel):
    """A policy for VimRAG that searches once or twice, memorises what answers, and quotes it.

    It reads its own summaries back from the graph.
    """

    crops: bool = True
    """True if it may look closer at what is remembered."""

    def _decide(self, history: Sequence[Message]) -> tuple[str, Call]:
        summary = _GraphSummary.of(history)
        if summary.results is not None and not summary.must_answer:
            return self._summarise(summary, summary.results)
        for node in summary.nodes:
            if quote := _QUOTE.match(node.get("summary") or ""):
                return self._conclude(node, quote, summary)
        query = _next_query(summary)
        if query is None or summary.must_answer:
            parents = (summary.closest or (summary.nodes[-1]["id"] if summary.nodes else ROOT),)
            return "No text found answers the question well enough to quote.", AnswerNode(parents, ABSTENTION)
        number = 1 + sum(node["kind"] == "search" for node in summary.nodes)
        thought = f"{'' if summary.nodes else summary.remark}{WORDS_SOUGHT}{query}"
        return thought, SearchNode(f"search_{number}", (ROOT,), query)

    def _summarise(self, summary: _GraphSummary, results: Mapping[str, Sequence[Shown]]) -> tuple[str, Call]:
        """Memorise the result that answers, or those that come closest.

        Of a video all frames are memorised, as words do not tell the moment.
        """
        items = {label: parts[0].item for label, parts in results.items() if parts}
        reading = self._read(summary.question, filter(None, items.values()))
        likely = reading if self._may_answer(reading) else None
        words = without_tags(likely.answer) if likely else ""
        answering = likely.item if likely and words else None
        found = next((label for label, item in items.items() if item == answering), None)
        closest = [] if summary.closest else list(items)[:MAX_PLACES]
        useful = [found] if found else closest
        notes: list[Note] = []
        for label, parts in results.items():
            moments = (part.seconds for part in parts if isinstance(part, Picture))
            times = tuple(moment for moment in moments if moment is not None)
            priority = 5 if found else 3
            is_useful = label in useful
            notes.append(Note(label, True, priority, times) if is_useful else Note(label, useful=False))
        if found is None:
            kept = f"{_CLOSEST_PREFIX}{', '.join(closest)}." if closest else "Nothing was relevant."
            return "No answer here is certain enough.", Memorize(kept, tuple(notes))
        quote = f"{found} says: “{' '.join(words.split())}”"
        return f"{found} answers it best.", Memorize(quote, tuple(notes))

    def _conclude(
        self, node: Mapping[str, Any], quote: re.Match[str], summary: _GraphSummary
    ) -> tuple[str, Call]:
        """Look closer at the picture that answers, once and where that is allowed, or answer."""
        crops = [other["id"] for other in summary.nodes if other["kind"] == "crop"]
        picture = summary.memory.get((node["id"], quote["label"]))
        if self.crops and not summary.must_answer and not crops and picture is not None:
            nearest = self._read(summary.question, [picture.item])
            if nearest is not None and nearest.frame is not None:
                box = self._region(nearest, nearest.frame, picture)
                crop = CropNode("closer", (node["id"],), quote["label"], box)
                return "A closer look at where it stands.", crop
        return "These words answer it best.", AnswerNode((node["id"], *crops), quote["words"])


@dataclass(frozen=True, slots=True)
class _GraphSummary:
    """The state of a run, as its history tells."""

    question: str
    remark: str
    nodes: tuple[dict[str, Any], ...]
    """The nodes as the graph lists them, without the root."""
    memory: Mapping[tuple[str, str], Picture]
    """The pictures that memory shows, by node and label."""
    results: Mapping[str, Sequence[Shown]] | None
    """The results of the newest node, by label; None when it has been summarised."""
    must_answer: bool

    @property
    def closest(self) -> str | None:
        """The id of the node that keeps what comes closest; None where none does."""
        kept = (node for node in self.nodes if (node.get("summary") or "").startswith(_CLOSEST_PREFIX))
        return next((node["id"] for node in kept), None)

    @classmethod
    def of(cls, history: Sequence[Message]) -> _GraphSummary:
        state, *since = [message for message in history if message.role is Role.USER]
        at = next(n for n, part in enumerate(state.parts) if isinstance(part, Text) and part.asked)
        state_text, *shown = state.parts[at + 1 :]
        assert isinstance(state_text, Text)
        graph: list[dict[str, Any]] = json.loads(state_text.text[state_text.text.index("[") :])
        parts = [part for message in since for part in message.parts]
        texts = {part.text for message in history for part in message.parts if isinstance(part, Text)}
        resolved = ResolvedQuestion.of(history)
        return cls(
            question=resolved.text,
            remark=resolved.remark,
            nodes=tuple(node for node in graph if node["id"] != ROOT),
            memory={(node, label): p for node, label, p in _remembered(shown)},
            results=_labelled(parts) if parts else None,
            must_answer=prompt("graph_answer_now.md") in texts,
        )


def _remembered(parts: Sequence[Part]) -> Iterator[tuple[str, str, Picture]]:
    """Yield node, label and picture of what memory shows; of a video the first frame."""
    node = label = ""
    for part in parts:
        if isinstance(part, Text):
            if part.node:
                node, label = part.node, part.label
        elif label and isinstance(part, Picture):
            yield node, label, part
            label = ""


def _labelled(parts: Sequence[Part]) -> dict[str, list[Shown]]:
    """Return the results by label: a text, a picture, or the frames of a video."""
    results: dict[str, list[Shown]] = {}
    label = ""
    for part in parts:
        if isinstance(part, Text) and part.label:
            label = part.label
            results[label] = [part] if part.item else []
        elif isinstance(part, Picture) and label in results:
            results[label].append(part)
    return results


def _first_query(question: str) -> str:
    """Return the words to search for; for an overview that names nothing, the first page of each document.

    For a financial ratio the lines of the statements that it needs are searched, too.
    """
    lines = name_lines(question)
    query = without_tags(" ".join((search_query(question), *lines))) or question
    return FIRST_PAGES if asks_for_overview(question) and names_nothing(query) else query


def _next_query(summary: _GraphSummary) -> str | None:
    """Return another way to ask, that differs from those before; None when there is none."""
    words = _first_query(summary.question)
    longest = " ".join(sorted(_WORD.findall(words), key=len, reverse=True)[:3])
    earlier = {frozenset(_WORD.findall(node.get("query", "").casefold())) for node in summary.nodes}
    for query in (words, longest, summary.question):
        if query and frozenset(_WORD.findall(query.casefold())) not in earlier:
            return query
    return None


def written_box(box: Box, picture: Picture, profile: Profile) -> tuple[float, float, float, float]:
    """Return a box in unit coordinates, as a model of that family would write it for a picture."""
    written = picture.view.convert(box, profile.boxes)
    if profile.boxes is not Space.RELATIVE:  # in whole numbers, as models write them
        written = written.round_out()
    return profile.sides(written)


def _items_shown(parts: Iterable[Part]) -> list[str]:
    shown = (part for part in parts if isinstance(part, Text | Picture))
    whole = (part for part in shown if isinstance(part, Text) or not part.crop)
    return [part.item for part in whole if part.item is not None]


def without_tags(text: str) -> str:
    """Replace the brackets of grammar tags, so that no page can write in the grammar."""
    return TAG.sub(lambda tag: f"‹{tag[0][1:-1]}›", text).strip()
