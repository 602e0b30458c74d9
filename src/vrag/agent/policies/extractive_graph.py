"""The policy without a model, for VimRAG: search, memorise what answers, look closer, quote, or abstain.

It reads its own summaries back from the graph: the same history gives the same reply.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vrag.agent.actions import ABSTENTION
from vrag.agent.extractive import SelectedAnswer, best_quote, search_query
from vrag.agent.memory.memory_graph import ROOT
from vrag.agent.policies.extractive import OfflinePolicy, ResolvedQuestion, without_tags, written_box
from vrag.agent.policy import Message, Part, Picture, Role, Shown, Text
from vrag.agent.prompts import prompt
from vrag.agent.replies.tool_calls import AnswerNode, Call, CropNode, Memorize, Note, SearchNode, render_call

__all__ = ["ExtractiveGraphPolicy"]

_WORD = re.compile(r"\w+")
_QUOTE = re.compile(r"^(?P<label>(?:Text|Picture|Video) [0-9]+) says: “(?P<words>.*)”$", re.DOTALL)
_NOTHING = "Nothing was relevant."


@dataclass(frozen=True, slots=True)
class ExtractiveGraphPolicy(OfflinePolicy):
    """A policy that searches once or twice and quotes the words that answer."""

    crops: bool = False
    """True if it may look closer at what is remembered."""

    def _decide(self, history: Sequence[Message]) -> tuple[str, str]:
        thought, call = self._next_call(_GraphSummary.of(history))
        return thought, render_call(call)

    def _next_call(self, summary: _GraphSummary) -> tuple[str, Call]:
        if summary.results is not None and not summary.must_answer:
            return self._summarise(summary)
        found = next((node for node in summary.nodes if _QUOTE.match(node.get("summary") or "")), None)
        if found is not None:
            return self._conclude(found, summary)
        query = _next_query(summary)
        if query is None or summary.must_answer:
            parents = (summary.nodes[-1]["id"],) if summary.nodes else (ROOT,)
            return "No text found answers the question well enough to quote.", AnswerNode(parents, ABSTENTION)
        number = 1 + sum(node["kind"] == "search" for node in summary.nodes)
        thought = f"{'' if summary.nodes else summary.remark}The words worth looking for: {query}"
        return thought, SearchNode(f"search_{number}", (ROOT,), query)

    def _summarise(self, summary: _GraphSummary) -> tuple[str, Call]:
        assert summary.results is not None
        items = {label: parts[0].item for label, parts in summary.results.items() if parts}
        quote = best_quote(summary.question, [self.searcher.item(item) for item in items.values() if item])
        label = next((label for label, item in items.items() if quote and item == quote.item), None)
        words = without_tags(quote.text) if quote and quote.literal else ""
        notes = tuple(
            Note(name, useful=True, priority=5, timestamps=_moments(parts))
            if name == label and words
            else Note(name, useful=False)
            for name, parts in summary.results.items()
        )
        if not words or label is None:
            return "Nothing here answers the question.", Memorize(_NOTHING, notes)
        return f"{label} answers it best.", Memorize(f"{label} says: “{' '.join(words.split())}”", notes)

    def _conclude(self, node: Mapping[str, Any], summary: _GraphSummary) -> tuple[str, Call]:
        quote = _QUOTE.match(node["summary"])
        assert quote is not None
        crop = self._crop(node, quote["label"], summary) if self.crops and not summary.must_answer else None
        if crop is not None:
            return "A closer look at where it stands.", crop
        parents = [node["id"], *(other["id"] for other in summary.nodes if other["kind"] == "crop")]
        return "These words answer it best.", AnswerNode(tuple(parents), quote["words"])

    def _crop(self, node: Mapping[str, Any], label: str, summary: _GraphSummary) -> CropNode | None:
        picture = summary.memory.get((node["id"], label))
        if picture is None or any(other["kind"] == "crop" for other in summary.nodes):
            return None
        quote: SelectedAnswer | None = best_quote(summary.question, [self.searcher.item(picture.item)])
        if quote is None or quote.box is None:
            return None
        return CropNode("closer", (node["id"],), label, written_box(quote.box, picture, self.profile))


@dataclass(frozen=True, slots=True)
class _GraphSummary:
    """The state of a run, as its history tells."""

    question: str
    remark: str
    nodes: tuple[dict[str, Any], ...]
    """As the graph lists them, without the root."""
    memory: Mapping[tuple[str, str], Picture]
    """By node and label."""
    results: Mapping[str, Sequence[Shown]] | None
    """By label, what the newest node found; None when it has been summarised."""
    must_answer: bool

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
    """Node, label and picture of what memory shows; of a video the first frame."""
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
    found: dict[str, list[Shown]] = {}
    label = ""
    for part in parts:
        if isinstance(part, Text) and part.label:
            label = part.label
            found[label] = [part] if part.item else []
        elif isinstance(part, Picture) and label in found:
            found[label].append(part)
    return found


def _moments(parts: Sequence[Shown]) -> tuple[float, ...]:
    """Of a video all that was shown: words do not tell the moment."""
    return tuple(p.seconds for p in parts if isinstance(p, Picture) and p.seconds is not None)


def _next_query(summary: _GraphSummary) -> str | None:
    """Another way to ask, that differs from those before; None when there is none."""
    words = without_tags(search_query(summary.question)) or summary.question
    asked = {frozenset(_WORD.findall(node.get("query", "").casefold())) for node in summary.nodes}
    rare = " ".join(sorted(_WORD.findall(words), key=len, reverse=True)[:3])
    tries = [words, rare, summary.question]
    return next(
        (query for query in tries if query and frozenset(_WORD.findall(query.casefold())) not in asked), None
    )
