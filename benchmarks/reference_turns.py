"""What the reference's two public demo agents do between two replies of a model, written again.

Everything from a reply to the JSON of the next request, with search results that stand and with the defaults
of the demos: how pictures are opened, cut, resized and encoded, and how messages are put together. Left out,
in their favour: the HTTP client's own copies of the messages, the rectangle that the VRAG demo draws for
people, and all that goes to the web page.

VimRAG's demo cuts every picture down until its JPEG has at most 38,000 bytes, whatever it shows (a page of
text then has some 450 × 600 pixels), and encodes it a second time for that. `most_bytes=None` leaves
that step out.
"""

from __future__ import annotations

import base64
import json
import math
import re
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, Any

from PIL import Image

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["VimragTurns", "VragTurns"]

VRAG_PIXELS = (256 * 28 * 28, 512 * 28 * 28)
PADDING = 56
IMAGE_PIXELS = 1_003_520
MEMORY_PIXELS = 2_007_040
MOST_BYTES = 38_000
KEPT = 5
DECAY, FEEDBACK = 0.1, 0.3
_THINK = re.compile(r"<think>(.*?)</think>", re.DOTALL)
_ACTION = re.compile(r"<(search|answer|bbox)>(.*?)</\1>", re.DOTALL)


def _body(messages: list[dict[str, Any]]) -> bytes:
    """The request as the client sends it."""
    payload = {"model": "benchmark", "messages": messages, "stream": False}
    return json.dumps(payload, separators=(",", ":"), allow_nan=False).encode()


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


@dataclass(slots=True)
class VragTurns:
    """The VRAG demo: pictures of 256 to 512 visual tokens, all of them in every request."""

    instruction: str
    found: Sequence[Sequence[str]]
    """Paths that each search finds, best first."""

    def requests(self, question: str, replies: Sequence[str]) -> Iterator[bytes]:
        """The body of each request; after each, the reply is acted upon."""
        messages = [{"role": "user", "content": [_text(f"{self.instruction}\n{question}")]}]
        searches = iter(self.found)
        shown: list[str] = []
        pictures: list[tuple[Image.Image, Image.Image]] = []
        for reply in replies:
            yield _body(messages)
            messages.append({"role": "assistant", "content": [_text(reply)]})
            _THINK.search(reply)
            action = _ACTION.search(reply)
            assert action is not None
            if action.group(1) == "answer":
                return
            if action.group(1) == "search":
                path = next(path for path in next(searches) if path not in shown)
                shown.append(path)
                raw = Image.open(path)
            else:
                raw = _cut(*pictures[-1], json.loads(action.group(2)))
            given, url = _vrag_picture(raw)
            pictures.append((raw, given))
            messages.append({"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]})


def _cut(raw: Image.Image, given: Image.Image, box: list[float]) -> Image.Image:
    across, down = raw.width / given.width, raw.height / given.height
    return raw.crop(
        (
            max(box[0] * across - PADDING, 0),  # pyright: ignore[reportArgumentType] - Pillow rounds
            max(box[1] * down - PADDING, 0),
            min(box[2] * across + PADDING, raw.width),
            min(box[3] * down + PADDING, raw.height),
        )
    )


def _vrag_picture(raw: Image.Image) -> tuple[Image.Image, str]:
    """What the model is given of a picture, and its data URL."""
    least, most = VRAG_PIXELS
    image = raw
    area = image.width * image.height
    if not least <= area <= most:
        by = math.sqrt((most if area > most else least) / area)
        image = image.resize((int(image.width * by), int(image.height * by)))
    if image.mode != "RGB":
        image = image.convert("RGB")
    buffer = BytesIO()
    image.save(buffer, format="JPEG")
    return image, f"data:image;base64,{base64.b64encode(buffer.getvalue()).decode()}"


@dataclass(slots=True)
class VimragTurns:
    """The VimRAG demo: a graph, and five remembered pictures whose pixels are only a hint beside them."""

    instruction: str
    request: str
    """What is asked after a search."""
    found: Sequence[Sequence[str]]
    """Paths that each search finds, best first."""
    most_bytes: int | None = MOST_BYTES
    graph: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    memory: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, "list[dict[str, Any]]"])

    def requests(self, question: str, replies: Sequence[str]) -> Iterator[bytes]:
        """The body of each request; after each, the reply is acted upon."""
        self.graph = [{"id": "root", "name": "Initial Node", "content": question}]
        self.memory = {}
        searches = iter(self.found)
        paths: Sequence[str] = ()
        messages = self._rebuilt(question)
        for reply in replies:
            yield _body(self._ready(messages))
            call = json.loads(reply.split("<tool_call>")[1].split("</tool_call>")[0])
            arguments = call["arguments"]
            if call["name"] == "add_answer_node":
                return
            if call["name"] == "add_search_node":
                self.graph.append(arguments)
                paths = next(searches)
                messages.append({"role": "assistant", "content": reply})
                messages.append({"role": "user", "content": _listed(paths)})
                messages.append({"role": "user", "content": self.request})
            else:
                self.graph[-1]["summary"] = arguments["summarize"]
                self._memorize(arguments["memorize"], paths)
                messages = self._rebuilt(question)

    def _rebuilt(self, question: str) -> list[dict[str, Any]]:
        text = f"{question}\n{json.dumps(self.graph, ensure_ascii=False)}"
        content = [_text(text)]
        if self.memory:
            content += [_text("### Multimodal Memory\n"), *self._remembered()]
        return [
            {"role": "system", "content": self.instruction},
            {"role": "user", "content": content},
        ]

    def _ready(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The messages with every picture as a data URL: those in memory are that already."""
        made: list[dict[str, Any]] = []
        for message in messages:
            content: str | list[dict[str, Any]] = message["content"]
            if not isinstance(content, str):
                content = [self._part(part) for part in content]
            made.append({"role": message["role"], "content": content})
        return made

    def _part(self, part: dict[str, Any]) -> dict[str, Any]:
        if part["type"] != "image":
            return part
        picture = part["image"]
        url = picture if picture.startswith("data:") else self._encoded(picture)
        return {"type": "image_url", "image_url": {"url": url}, "max_pixels": part["max_pixels"]}

    def _memorize(self, notes: list[dict[str, Any]], paths: Sequence[str]) -> None:
        kept = [
            {
                "url": self._encoded(paths[int(note["information_id"].split()[1]) - 1]),
                "priority": note["priority_score"],
            }
            for note in notes
            if note["is_useful"]
        ]
        if kept:
            self.memory[self.graph[-1]["id"]] = kept

    def _encoded(self, path: str) -> str:
        image = Image.open(path).convert("RGB")
        area = image.width * image.height
        if area > IMAGE_PIXELS:
            image = _shrunk(image, math.sqrt(IMAGE_PIXELS / area))
        buffer = BytesIO()
        image.save(buffer, format="JPEG", quality=75)
        if self.most_bytes is not None and buffer.tell() > self.most_bytes:
            image = _shrunk(image, math.sqrt(self.most_bytes * 0.95 / buffer.tell()))
            buffer = BytesIO()
            image.save(buffer, format="JPEG", quality=75)
        return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}"

    def _remembered(self) -> list[dict[str, Any]]:
        """The five pictures of highest energy, node by node."""
        ranked = sorted(self._energies(), key=lambda one: -one[0])[:KEPT]
        total = sum(energy for energy, _, _ in ranked)
        parts: list[dict[str, Any]] = []
        for node in self.graph:
            mine = [(energy, item) for energy, id, item in ranked if id == node["id"]]
            if mine:
                parts.append(_text(f"Node: {node['id']}"))
            for energy, item in mine:
                pixels = int(MEMORY_PIXELS * energy / total)
                parts.append({"type": "image", "image": item["url"], "max_pixels": pixels})
        return parts

    def _energies(self) -> Iterator[tuple[float, str, dict[str, Any]]]:
        """Energy, node and picture, for every one that is remembered."""
        ids = [node["id"] for node in self.graph]
        children = {id: [node["id"] for node in self.graph if id in node.get("parent_ids", ())] for id in ids}
        worth: dict[str, list[float]] = {}
        for at in reversed(range(len(ids))):
            below = [worth[child] for child in children[ids[at]] if worth[child]]
            feedback = FEEDBACK * sum(sum(values) / len(values) for values in below)
            grown = (1 + len(children[ids[at]])) * math.exp(-DECAY * (len(ids) - 1 - at))
            items = self.memory.get(ids[at], ())
            worth[ids[at]] = [item["priority"] / 5 * grown + feedback for item in items]
        for id in ids:
            for energy, item in zip(worth[id], self.memory.get(id, ()), strict=True):
                yield energy, id, item


def _shrunk(image: Image.Image, by: float) -> Image.Image:
    size = (int(image.width * by), int(image.height * by))
    return image.resize(size, resample=Image.Resampling.LANCZOS)


def _listed(paths: Sequence[str]) -> list[dict[str, Any]]:
    parts = [_text("Here is what was found:")]
    for number, path in enumerate(paths, 1):
        parts.append(_text(f"Picture {number}:"))
        parts.append({"type": "image", "image": path, "max_pixels": IMAGE_PIXELS})
    return parts
