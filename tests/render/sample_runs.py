"""Two runs told by their events alone, with real pictures: one of VRAG and one of VimRAG.

They are written by hand so that a page is tested against what a run says, not against what the agents
happen to do: refusals, a retry, a crop, a clip, items that memory had no room for.
"""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass, field
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from vrag.agent.budget import Limits, Prices
from vrag.agent.events import (
    AnswerGiven,
    CropRequested,
    Event,
    GraphChanged,
    ImageShown,
    InvalidAction,
    MemoryEntry,
    MemoryUpdated,
    ModelCalled,
    ModelRetried,
    PassageShown,
    RunSettings,
    RunStarted,
    SearchRequested,
    SearchReturned,
    StopReason,
    ThoughtDelta,
    ThoughtGiven,
    UsageReported,
)
from vrag.agent.evidence import Evidence
from vrag.agent.memory.energies import MemoryOptions
from vrag.agent.memory.memory_graph import Graph, Node, NodeKind, RememberedItem
from vrag.agent.policy import FinishReason
from vrag.types import Hit, ItemKind

REPORT, SLIDES, VIDEO = "annual-report-2024.pdf", "guillemot-slides.pdf", "harbour-tour.mp4"
DOCUMENT = "ab" * 32


def drawn_page(title: str, width: int = 420, height: int = 560, *, bars: int = 6) -> Image.Image:
    """A page with a heading, lines of text and a bar chart."""
    page = Image.new("RGB", (width, height), "#fffdf8")
    pen = ImageDraw.Draw(page)
    pen.rectangle((0, 0, width, height // 9), fill="#12414a")
    pen.text((width // 16, height // 32), title, fill="white", font=ImageFont.load_default(height // 22))
    for line in range(6):
        y = height // 6 + line * height // 28
        pen.rectangle((width // 16, y, width * (14 - line % 3) // 16, y + height // 90), fill="#c9c4b8")
    for bar in range(bars):
        x, tall = width // 12 + bar * width * 10 // (12 * bars), height * (3 + (bar * 5) % 7) // 26
        pen.rectangle(
            (x, height * 15 // 16 - tall, x + width // (2 * bars), height * 15 // 16), fill="#d97a2b"
        )
    return page


def jpeg(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=85)
    return buffer.getvalue()


@dataclass
class Telling:
    """Writes the events of a run, and keeps the pictures that they name."""

    run_id: str = "20260301-101500-000000-beef"
    events: list[Event] = field(default_factory=list[Event])
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    step: int = 0

    def say(self, kind: Any, **values: Any) -> Any:  # noqa: ANN401 - any event
        seq = len(self.events)
        event = kind(run_id=self.run_id, seq=seq, ts=1_772_360_100 + seq * 0.9, step=self.step, **values)
        self.events.append(event)
        return event

    def think(self, thought: str, reply: str = "", flags: tuple[str, ...] = ()) -> None:
        """A step begins: a thought and a reply."""
        self.step += 1
        self.say(ThoughtDelta, text=thought[:10])
        self.say(ThoughtGiven, text=thought)
        whole = f"<think>{thought}</think>{reply}"
        self.say(
            ModelCalled,
            messages=("0" * 64,),
            reply=whole + (" and more" if flags else ""),
            executed=len(whole),
            chunks=(len(whole),),
            finish=FinishReason.STOP,
            flags=flags,
        )

    def keep(self, image: Image.Image) -> str:
        data = jpeg(image)
        sha256 = hashlib.sha256(data).hexdigest()
        self.files[sha256] = data
        return sha256

    def show(self, image: Image.Image, label: str, document: str, page: int, **values: Any) -> ImageShown:  # noqa: ANN401
        """A picture of a whole item, unless a box says otherwise."""
        box = values.pop("box", (0.0, 0.0, 1.0, 1.0))
        return self.say(
            ImageShown,
            **{
                "number": 0,
                "label": label,
                "item": f"{document[:4]}-{page}",
                "document": document,
                "page": page,
                "region": tuple(side * length for side, length in zip(box, (840, 1120) * 2, strict=True)),
                "box": box,
                "width": image.width,
                "height": image.height,
                "visual_tokens": image.width * image.height // 784,
                "sha256": self.keep(image),
                "crop": False,
                **values,
            },
        )

    def hits(self, *documents: str) -> None:
        found = [
            Hit(f"{name[:4]}-{rank}", 12.5 / rank, rank, DOCUMENT, name, rank, ItemKind.PAGE)
            for rank, name in enumerate(documents, 1)
        ]
        self.say(SearchReturned, hits=tuple(found))

    def cost(self, **values: Any) -> None:  # noqa: ANN401
        prompt = values.pop("prompt", 700 + 600 * self.step)
        reply = 60 + self.step
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": reply,
            "visual_tokens": 380 * self.step,
            "seconds": 2.4,
            "model_seconds": 2.1,
            "cost": Prices(prompt=0.4, completion=1.2).cost(prompt, reply),
        }
        self.say(UsageReported, **(usage | values))


def evidence(document: str, page: int, **values: Any) -> Evidence:  # noqa: ANN401
    """A place in a document; the whole page, unless a box says otherwise."""
    usual: dict[str, Any] = {"kind": ItemKind.PAGE, "box": (0.0, 0.0, 1.0, 1.0)}
    usual |= {"item": f"{document[:4]}-{page}", "document": document, "document_id": DOCUMENT, "page": page}
    return Evidence(**(usual | values))


def vrag_run() -> Telling:
    """Two searches, a refusal, a retry, a crop, an answer."""
    told = Telling()
    settings = RunSettings(
        agent="vrag",
        policy="chat:Qwen/Qwen2.5-VL-7B-Instruct",
        profile="qwen2.5-vl",
        limits=Limits(steps=10),
        prices=Prices(prompt=0.4, completion=1.2),
        sampling={"temperature": 0.0, "max_tokens": 1024},
    )
    told.say(
        RunStarted,
        question="How many passengers did the Lantern Ferry carry in 2024, and in which month most?",
        settings=settings,
        collection="v12",
    )
    report = drawn_page("Passengers 2024")
    told.think(
        "The question asks for a yearly figure and for the month with most passengers. The annual report "
        "should have both; I will look for its table of passengers.",
        "<search>passengers 2024 by month</search>",
    )
    told.say(SearchRequested, query="passengers 2024 by month")
    told.hits(REPORT, SLIDES, REPORT)
    told.show(report, "Image 1", REPORT, 3, number=1)
    told.cost()
    told.think("Let me see the chart.", "<bbox>[10, 20, 5]</bbox>", ("trailing_text",))
    told.say(InvalidAction, reason="A box is four numbers: <bbox>[x1, y1, x2, y2]</bbox>.")
    told.cost()
    told.step += 1
    told.say(ThoughtDelta, text="The bars are too small to")
    told.say(
        ModelRetried,
        reason="The server answered 503.",
        seconds=2.0,
        partial="<think>The bars are too",
        chunks=(23,),
    )
    told.step -= 1
    told.think(
        "The bars are too small to read. I look closer at the chart.", "<bbox>[30, 330, 400, 540]</bbox>"
    )
    told.say(CropRequested, image=None, box=(30.0, 330.0, 400.0, 540.0))
    box = (30 / 420, 330 / 560, 400 / 420, 540 / 560)
    closer = report.crop((30, 330, 400, 540)).resize((740, 420))
    crop = told.show(closer, "Image 2", REPORT, 3, number=2, box=box, crop=True)
    told.cost()
    told.think("Slides may confirm the month.", "<search>busiest month ferry</search>")
    told.say(SearchRequested, query="busiest month ferry")
    told.hits(SLIDES, REPORT)
    slide = told.show(drawn_page("Our year at sea", 560, 336, bars=9), "Image 3", SLIDES, 2, number=3)
    told.say(PassageShown, item="note-1", document="notes-for-crews.md", page=1)
    told.cost()
    told.think("Both agree: 48,200 passengers, most of them in July.", "<answer>…</answer>")
    told.cost()
    told.say(
        AnswerGiven,
        text="48,200 passengers, most of them in July (7,900).",
        evidence=(
            evidence(REPORT, 3, box=box, crop_sha256=crop.sha256, quote="Passengers by month: July 7,900"),
            evidence(SLIDES, 2, crop_sha256=slide.sha256),
            evidence(
                "notes-for-crews.md", 1, kind=ItemKind.PASSAGE, box=None, quote="July is our busiest month."
            ),
        ),
        unsupported=("Image 4 (old-report.pdf, 2): it is no longer in the collection",),
        stop_reason=StopReason.ANSWERED,
    )
    return told


def vimrag_run() -> Telling:
    """A graph of seven nodes with a clip, a crop, and a memory that has no room for all."""
    return _Vimrag().told


class _Vimrag:
    def __init__(self) -> None:
        self.told = Telling(run_id="20260301-111500-000000-cafe")
        settings = RunSettings(
            agent="vimrag",
            policy="chat:qwen3-vl-plus",
            profile="qwen3-vl",
            limits=Limits(steps=20, cost=0.5),
            prices=Prices(prompt=0.4, completion=1.2),
            memory=MemoryOptions(),
        )
        question = (
            "Which of the two harbours had the steeper rise in passengers, and who opened its new quay?"
        )
        self.nodes = [Node(id="root", kind=NodeKind.ROOT, query=question, summary="", order=0)]
        self.told.say(RunStarted, question=question, settings=settings, collection="v12")
        self.kept: tuple[MemoryEntry, ...] = ()
        self._searches()
        self._end()

    def _searches(self) -> None:
        pages = [drawn_page(f"Harbour {n}", 420 + 40 * n, 420, bars=5 + n) for n in range(3)]
        self._search(
            "passengers_north",
            ("root",),
            "passengers at the north harbour by year",
            pages[:2],
            "North harbour grew from 21,000 to 29,400 passengers between 2021 and 2024.",
        )
        self._search(
            "passengers_south",
            ("root",),
            "passengers at the south harbour by year",
            pages[1:],
            "South harbour grew from 12,500 to 18,800 passengers, half as much again.",
        )
        self._crop("chart_closer", "passengers_south", pages[1])
        self._search(
            "quay_opening",
            ("root",),
            "who opened the new quay",
            [],
            "A clip shows Mayor Ida Brandt cutting the ribbon.",
            clip=True,
        )
        self._search(
            "mayor_name",
            ("quay_opening", "passengers_south"),
            "mayor who opened the south quay 2023",
            pages[:1],
            "The report names Mayor Ida Brandt as the guest of honour.",
        )

    def _search(
        self,
        name: str,
        parents: tuple[str, ...],
        query: str,
        pages: list[Image.Image],
        summary: str,
        *,
        clip: bool = False,
    ) -> None:
        told = self.told
        told.think(f"I still need to know: {query}.", "<tool_call>…</tool_call>")
        told.say(SearchRequested, query=query, node=name)
        told.hits(REPORT, SLIDES, VIDEO)
        node = Node(id=name, kind=NodeKind.SEARCH, parents=parents, query=query, order=len(self.nodes))
        told.say(GraphChanged, graph=Graph((*self.nodes, node)))
        for n, page in enumerate(pages, 1):
            told.show(page, f"Picture {n}", REPORT, 3 + n + len(self.nodes), node=name)
        if clip:
            for second in range(0, 24, 2):
                frame = drawn_page(f"Quay {second} s", 320, 180, bars=3 + second // 4)
                told.show(frame, "Video 1", VIDEO, 2, node=name, seconds=60.0 + second)
        told.cost(visual_tokens=1900, memory_tokens=min(1200, 300 * len(self.nodes)), fresh_tokens=700)
        self._complete(node, pages, summary, clip=clip)

    def _complete(self, node: Node, pages: list[Image.Image], summary: str, *, clip: bool) -> None:
        told = self.told
        told.think("One of them is worth keeping.", "<tool_call>…</tool_call>")
        memos = [
            RememberedItem(
                label=f"Picture {n}",
                item=f"{REPORT[:4]}-{3 + n + node.order}",
                position=n,
                useful=n == 1,
                priority=4 if n == 1 else 0,
            )
            for n, _ in enumerate(pages, 1)
        ]
        if clip:
            memos.append(
                RememberedItem(
                    label="Video 1", item=f"{VIDEO[:4]}-2", position=0, priority=5, seconds=(64.0, 70.0)
                )
            )
        self.nodes.append(
            Node(
                id=node.id,
                kind=node.kind,
                parents=node.parents,
                query=node.query,
                summary=summary,
                memory=tuple(memos),
                order=node.order,
            )
        )
        told.say(GraphChanged, graph=Graph(tuple(self.nodes)))
        fresh = [
            MemoryEntry(
                node=node.id,
                label=memo.label,
                item=memo.item,
                energy=memo.priority / 5 * 1.7,
                seconds=memo.seconds,
                width=320,
                height=288,
                tokens=90 * (1 + len(memo.seconds)),
            )
            for memo in memos
            if memo.useful
        ]
        self.kept, dropped = (*fresh, *self.kept)[:3], (*fresh, *self.kept)[3:]
        gone = tuple(
            entry.model_copy(
                update={"width": 0, "height": 0, "tokens": 0, "reason": "less energy than 3 others"}
            )
            for entry in dropped
        )
        tokens = sum(entry.tokens for entry in self.kept)
        told.say(
            MemoryUpdated,
            node=node.id,
            kept=self.kept,
            dropped=gone,
            tokens=tokens,
            pixels=tokens * 1024,
            budget=1280,
        )
        told.cost(visual_tokens=1500, memory_tokens=300, fresh_tokens=900)

    def _crop(self, name: str, parent: str, page: Image.Image) -> None:
        told = self.told
        told.think("The axis is hard to read.", "<tool_call>…</tool_call>")
        told.say(CropRequested, image=None, box=(100.0, 500.0, 900.0, 980.0), node=name, label="Picture 1")
        node = Node(id=name, kind=NodeKind.CROP, parents=(parent,), query="Picture 1", order=len(self.nodes))
        w, h = page.size
        box = (0.1, 0.5, 0.9, 0.98)
        cut = page.crop((w // 10, h // 2, w * 9 // 10, h * 98 // 100))
        told.show(
            cut.resize((cut.width * 2, cut.height * 2)), "Picture 1", REPORT, 6, node=name, crop=True, box=box
        )
        told.cost(visual_tokens=1100, memory_tokens=600, fresh_tokens=400)
        self._complete(node, [page], "The south harbour's bars rise by half from 2021 to 2024.", clip=False)

    def _end(self) -> None:
        told = self.told
        told.think("I know enough.", "<tool_call>…</tool_call>")
        answer = "The south harbour: up 50 % since 2021. Its new quay was opened by Mayor Ida Brandt."
        parents = ("passengers_north", "chart_closer", "mayor_name")
        self.nodes.append(
            Node(
                id="answer",
                kind=NodeKind.ANSWER,
                parents=parents,
                query=answer,
                summary="",
                order=len(self.nodes),
            )
        )
        told.say(GraphChanged, graph=Graph(tuple(self.nodes)))
        told.cost(visual_tokens=1150, memory_tokens=1150)
        told.say(
            AnswerGiven,
            text=answer,
            evidence=(
                evidence(REPORT, 6, box=(0.1, 0.5, 0.9, 0.98), node="chart_closer"),
                evidence(REPORT, 5, node="passengers_north"),
                evidence(VIDEO, 2, kind=ItemKind.CLIP, seconds=(64.0, 70.0), node="quay_opening"),
            ),
            stop_reason=StopReason.ANSWERED,
        )
