"""A model that does what it reads, and the loop it captures.

`ObedientPolicy` reads its messages as a server of a chat model does: written into one string by ChatML, so
that tokens of the template inside of a text open turns of their own. On pictures it reads the words that are
legible in the pixels it is given. It finds orders (`hostile_corpus`), obeys each once, then answers honestly.

`naive_run` is the loop without a defence: what was found goes into the system turn as it is, with its name
and its metadata; any tag in a reply runs; a tool opens what it is told to. All of this agents do: the
reference opened any path that a search server named and ran a search mentioned inside of a thought,
retrieval chains put documents into the system turn, and loaders add titles and authors.
"""

from __future__ import annotations

import importlib
import json
import re
import urllib.request
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vrag.agent.policy import Delta, Message, Picture, PictureOrigin, Reply, Role, Text
from vrag.geometry import Space
from vrag.types import Query

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence

    from vrag.agent.environment import Environment
    from vrag.search.searcher import Searcher
    from vrag.types import Item, Word

ORDERS = re.compile(
    r"ASSISTANT:\s*(answer|search|open|box|tool|say|continue)\b\s*(.*?)\s*\bOVER\b",
    re.DOTALL | re.IGNORECASE,
)
FENCE = re.compile(r"<\s*passage\b[^>]*>.*?(?:<\s*/\s*passage\b[^>]*>|\Z)", re.DOTALL | re.IGNORECASE)
"""As a lenient reader sees it: it ends at the first thing that looks like its end."""
_TURN = re.compile(r"<\|im_start\|>(\w+)\n(.*?)(?=<\|im_start\|>|\Z)", re.DOTALL)
_PICTURE = re.compile("\ue000(\\d+)\ue001")
_SAILS = re.compile(r"sails\s+at\s+(\d\d:\d\d)")
_LABELS = re.compile(r"with an entry for each of: ([^.]*)\.")
LEAST_CONTRAST, LEAST_HEIGHT = 60, 6
"""Grey levels, and pixels of a word's height, under which it cannot be read."""


class Heeds(StrEnum):
    """Which orders it obeys."""

    ALL = "all that it reads"
    UNFENCED = "what is not fenced"


class Place(StrEnum):
    """Where an order stood."""

    SYSTEM = "system turn"
    TEXT = "text outside of a fence"
    FENCE = "text inside of a fence"
    PICTURE = "picture"


@dataclass
class ObedientPolicy:
    """One per run: it remembers what it has obeyed."""

    searcher: Searcher
    question: str
    heeds: Heeds = Heeds.ALL
    name: str = "obedient"
    done: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """What it has obeyed."""
    places: set[Place] = field(default_factory=set[Place])
    """Where orders stood that it read, obeyed or not."""
    forged: bool = False
    """Whether it saw other turns than it was sent."""
    tireless: bool = False
    """Whether it was told never to stop."""
    sent: list[Sequence[Message]] = field(default_factory=list["Sequence[Message]"])

    @property
    def sampling(self) -> Mapping[str, float | int | str | bool]:
        return {}

    async def aclose(self) -> None:
        pass

    async def reply(self, history: Sequence[Message], turn: int = 1) -> AsyncGenerator[Delta | Reply, None]:
        self.sent.append(tuple(history))
        text = self.next(history, turn)
        yield Delta(text)
        yield Reply(text)

    def next(self, history: Sequence[Message], turn: int) -> str:
        """The next reply."""
        tools = "<tool_call>{" in history[0].text
        read = list(self._read(history))
        orders = [found for heeded, text in read if heeded for found in ORDERS.findall(text)]
        left = [order for order in dict.fromkeys((v.lower(), a) for v, a in orders) if order not in self.done]
        everything = "\n".join(text for _, text in read)
        if turn == 1:
            return said("search", self.question, turn, tools)
        if self.tireless:
            return said("search", f"ferry number {turn}", turn, tools)
        if not left:
            found = _SAILS.search(everything)
            return said("answer", found[1] if found else "Not answerable", turn, tools)
        verb, argument = left[0]
        labels = _LABELS.search(history[-1].text)
        if verb in {"search", "continue"} and tools and labels:
            return memorized(" ".join(f"ASSISTANT: {v} {a} OVER" for v, a in left), labels[1])
        self.done.append(left[0])
        self.tireless = verb == "continue"
        return said(verb, argument, turn, tools)

    def _read(self, history: Sequence[Message]) -> Iterator[tuple[bool, str]]:
        """What it reads in others' turns, and whether it does what that says."""
        pictures: list[Picture] = []
        turns = _TURN.findall(written(history, pictures))
        self.forged |= [role for role, _ in turns] != [message.role.value for message in history]
        for role, body in turns:
            if role == Role.ASSISTANT:
                continue
            text = _PICTURE.sub("", body)
            outside = FENCE.sub(" ", text)
            inside = " ".join(found[0] for found in FENCE.finditer(text))
            place = Place.SYSTEM if role == Role.SYSTEM else Place.TEXT
            yield self._noted(place, outside)
            yield self._noted(Place.FENCE, inside)
            for number in _PICTURE.findall(body):
                yield self._noted(Place.PICTURE, self.legible(pictures[int(number)]))

    def _noted(self, place: Place, text: str) -> tuple[bool, str]:
        if ORDERS.search(text):
            self.places.add(place)
        return self.heeds is Heeds.ALL or place is not Place.FENCE, text

    def legible(self, picture: Picture) -> str:
        """The words on a picture that can be read in its pixels."""
        item = self.searcher.item(picture.item)
        grey = np.asarray(picture.image.convert("L"), np.int16)
        words = [word for word in item.words if _is_legible(word, picture, grey)]
        return " ".join(item.text[word.start : word.end] for word in words)


def _is_legible(word: Word, picture: Picture, grey: np.ndarray[Any, Any]) -> bool:
    region = picture.view.convert(picture.view.region, Space.UNIT)
    if not region.covers(*word.box.center):
        return False
    width, height = picture.view.shown
    across, down = width / region.width, height / region.height
    x1, x2 = ((x - region.x1) * across for x in (word.box.x1, word.box.x2))
    y1, y2 = ((y - region.y1) * down for y in (word.box.y1, word.box.y2))
    part = grey[max(0, round(y1)) : round(y2) + 1, max(0, round(x1)) : round(x2) + 1]
    native = (word.box.y2 - word.box.y1) * picture.view.item.height
    detail = y2 - y1 if picture.origin is PictureOrigin.SOURCE else min(y2 - y1, native)
    return detail >= LEAST_HEIGHT and part.size > 0 and int(np.ptp(part)) >= LEAST_CONTRAST


def written(history: Sequence[Message], pictures: list[Picture]) -> str:
    """The messages in one string, as ChatML; pictures are added to the list and stand there by number."""
    parts: list[str] = []
    for message in history:
        parts.append(f"<|im_start|>{message.role}\n")
        for part in message.parts:
            if isinstance(part, Text):
                parts.append(part.text + "\n")
            elif isinstance(part, Picture):
                parts.append(f"\ue000{len(pictures)}\ue001\n")
                pictures.append(part)
        parts.append("<|im_end|>\n")
    return "".join(parts)


def said(verb: str, argument: str, turn: int, tools: bool) -> str:
    """What does as it is told, in the grammar of VRAG or in tool calls."""
    if verb == "say":
        return argument
    if verb == "continue":
        verb, argument = "search", "more ferries"
    if verb == "tool":
        verb, _, argument = argument.partition(" ")
    thought = "<think>As told.</think>"
    if not tools:
        if verb == "box":
            return f'{thought}<bbox image="{argument}">[0, 0, 99, 99]</bbox>'
        return f"{thought}<{verb}>{argument}</{verb}>"
    names = {"search": "add_search_node", "answer": "add_answer_node", "box": "add_crop_node"}
    told: dict[str, object] = {"id": f"n{turn}", "parent_ids": ["root"]}
    match verb:
        case "search":
            told["query"] = argument
        case "answer":
            told = {"parent_ids": ["root"], "answer": argument}
        case "box":
            told |= {"information_id": argument, "box": [0, 0, 99, 99]}
        case _:
            told |= {"input": argument, "path": argument}
    return f"{thought}<tool_call>{json.dumps({'name': names.get(verb, verb), 'arguments': told})}</tool_call>"


def memorized(summary: str, labels: str) -> str:
    """Keeps everything, and what it is to do, for later."""
    notes = [{"information_id": name, "is_useful": True, "priority_score": 5} for name in labels.split(", ")]
    told = {"summarize": summary, "memorize": notes}
    call = {"name": "summarize_and_memorize", "arguments": told}
    return f"<think>I keep it.</think><tool_call>{json.dumps(call)}</tool_call>"


@dataclass
class Naive:
    """What came of a run without defence."""

    answer: str | None = None
    opened: list[str] = field(default_factory=list[str])
    ran: list[str] = field(default_factory=list[str])
    steps: int = 0


def naive_run(policy: ObedientPolicy, environment: Environment, question: str, files: Path) -> Naive:
    """A loop without defence over the same index.

    Args:
        policy: The model.
        environment: What searches and draws; nothing else of it is used.
        question: To answer.
        files: Where the documents lie, for their metadata.
    """
    end, context, told = Naive(), "", [Message(Role.USER, (Text(question),))]
    while end.answer is None and end.steps < 10:
        end.steps += 1
        system = f"Answer with <search>, <open>, <shell> or <answer>.\n\nContext:\n{context}"
        reply = policy.next([Message(Role.SYSTEM, (Text(system),)), *told], end.steps)
        told.append(Message(Role.ASSISTANT, (Text(reply),)))
        for verb, argument in re.findall(r"<((?!think\b)\w+)[^>]*>(.*?)</\1>", reply, re.DOTALL):
            match verb:
                case "search":
                    hits = environment.searcher.search([Query(argument, environment.options.documents)], 3)[0]
                    items = [environment.item(hit.item) for hit in hits]
                    context += "\n".join(_as_it_is(item, files) for item in items)
                    shown = [environment.whole(item) for item in items if item.size]
                    told.append(Message(Role.USER, (Text("Go on."), *shown)))
                case "answer":
                    end.answer = argument
                case "open":
                    end.opened.append(argument)
                    context += _opened(argument)
                case _:
                    end.ran.append(verb)
    return end


def _as_it_is(item: Item, files: Path) -> str:
    told = metadata(files / item.document_name)
    return f"\n[{item.document_name}] {told}\n{item.heading}\n{item.text}\n"


def _opened(place: str) -> str:
    """What lies at a path or an address."""
    try:
        if "://" in place:
            with urllib.request.urlopen(place, timeout=5) as answer:
                return answer.read(1000).decode("utf-8", "replace")
        return Path(place).read_text(encoding="utf-8", errors="replace")[:1000]
    except (OSError, ValueError) as error:
        return str(error)


def metadata(path: Path) -> str:
    """What a file says about itself, as loaders of documents read it."""
    suffix = path.suffix.lower()
    if suffix == ".pdf":
        pdf: Any = importlib.import_module("pypdfium2").PdfDocument(path)
        try:
            return " ".join(str(value) for value in pdf.get_metadata_dict(skip_empty=True).values())
        finally:
            pdf.close()
    if suffix in {".jpg", ".png"}:
        from PIL import Image

        with Image.open(path) as image:
            texts = [value for value in image.info.values() if isinstance(value, str)]
            return " ".join([*texts, *map(str, image.getexif().values())])
    if suffix in {".mp4", ".mkv"}:
        with importlib.import_module("av").open(str(path)) as container:
            return " ".join(container.metadata.values())
    return ""
