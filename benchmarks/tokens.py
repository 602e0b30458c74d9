"""How many visual tokens do questions cost: VimRAG, VRAG, and a history that keeps every picture?

    python -m benchmarks.tokens [DATASET.json] [--docs DIR] [--work DIR]

Twenty scripted questions of 2 to 12 searches (26 steps) over the documents and three short films. The script
does what a diligent model does: it asks what the data set asks of one document, finds six results of ten
useful, with priorities and moments drawn by chance, and in every third question looks closer at what it
remembers. Every picture of every call is counted by the model family's own image processor, with the
limits that its checkpoints come with: it is given the JPEG that the server would be given.

The naive agent keeps all that VimRAG's searches found in its history, pictures of at most 1,003,520 pixels
and films of at most 32 frames of 401,408, and is called once after each search. In "naive, once" what is
found again is not added again.

Growth is fitted over the questions without films, one of which holds as many tokens as ten pages.
"""

from __future__ import annotations

import argparse
import importlib
import io
import math
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from benchmarks.real_documents import DATASET, collected
from benchmarks.scripted_looks import GraphLooks, Looks
from vrag.agent.agent import Agent
from vrag.agent.budget import Limits
from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.agent.events import AnswerGiven, InvalidAction, SearchReturned, UsageReported
from vrag.agent.memory.energies import MemoryOptions
from vrag.agent.methods.vimrag import Vimrag
from vrag.agent.methods.vrag import VragMethod
from vrag.datasets.registry import read_cases
from vrag.model_profiles import PROFILES
from vrag.search.engine import Engine, Ranking
from vrag.types import ItemKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vrag.agent.events import Event
    from vrag.agent.method import Method
    from vrag.agent.policy import Picture
    from vrag.model_profiles import Profile
    from vrag.types import Case

SEARCHES = (*range(2, 13), *range(3, 12))
"""Of the twenty questions."""
STEPS, HITS = 26, 3
FILMS = {"harbour crossing": 40, "glacier timelapse": 70, "workshop tour": 25}
"""Seconds of each, by its name."""
FILMED = {2, 5, 8, 13, 17}
"""The questions, from 0, that ask for films too."""
IMAGE_PIXELS, FRAME_PIXELS, FRAMES = 1_003_520, 401_408, 32
PROCESSORS = {"qwen2.5-vl": (14, 3136, 12_845_056), "qwen3-vl": (16, 65_536, 16_777_216)}
"""Patch size and pixel limits of the checkpoints."""


class Counter:
    """Counts visual tokens as a model family's own image processor does, once for each size."""

    def __init__(self, profile: str) -> None:
        transformers: Any = importlib.import_module("transformers")
        patch, least, most = PROCESSORS[profile]
        self._kind, self._patch, self._limits = transformers.Qwen2VLImageProcessorPil, patch, (least, most)
        self._known: dict[tuple[tuple[int, int], int], int] = {}

    def shown(self, pictures: Iterable[Picture]) -> int:
        """Of the files that the model is given."""
        return sum(self._of(Image.open(io.BytesIO(picture.jpeg)), self._limits[1]) for picture in pictures)

    def at_most(self, size: tuple[int, int], pixels: int) -> int:
        """Of a picture of this size when it is given in full with a limit of pixels."""
        return self._of(Image.new("RGB", size), pixels)

    def _of(self, image: Image.Image, most: int) -> int:
        key = image.size, most
        if key not in self._known:
            processor = self._kind(
                min_pixels=self._limits[0], max_pixels=most, patch_size=self._patch, merge_size=2
            )
            made = processor(images=[image.convert("RGB")], return_tensors="np")
            self._known[key] = int(made["image_grid_thw"][0].prod()) // 4
        return self._known[key]


@dataclass(slots=True)
class Cost:
    """Visual tokens of one question."""

    searches: int
    filmed: bool
    """Whether it asks for films too."""
    totals: dict[str, int] = field(default_factory=dict[str, int])
    """By way of answering, all calls together."""
    memory: int = 0
    """The most that one call of VimRAG had of memory."""
    fresh: int = 0
    """The same of fresh results."""
    frames: int = 0
    """Of films, that VimRAG was shown."""


def main() -> int:
    """Prints the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dataset", nargs="?", type=Path, default=DATASET)
    parser.add_argument("--docs", type=Path, help="folder of the documents; pdf/ beside the data set")
    parser.add_argument("--work", type=Path, help="where the collection is kept; a temporary folder")
    arguments = parser.parse_args()
    if not arguments.dataset.exists():
        print(f"Nothing measured: there is no {arguments.dataset}.")
        return 0
    docs = arguments.docs or arguments.dataset.with_name("pdf")
    with tempfile.TemporaryDirectory() as scratch:
        work = arguments.work or Path(scratch)
        collection = collected(work / "films and pages", [docs, *films(work / "films")])
        engine = Engine(collection, rankings=[Ranking.LEXICAL])
        asked = questions(read_cases(arguments.dataset))
        for name in PROCESSORS:
            show(name, [cost(engine, PROFILES[name], number, qs) for number, qs in enumerate(asked)])
    return 0


def films(folder: Path) -> list[Path]:
    """Short films, made if they are not there."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, seconds in FILMS.items():
        file = folder / f"{name}.mp4"
        if not file.exists():
            _film(file, seconds)
    return sorted(folder.glob("*.mp4"))


def _film(file: Path, seconds: int) -> None:
    """Bars that move, five pictures a second."""
    av: Any = importlib.import_module("av")
    with av.open(str(file), "w") as container:
        video = container.add_stream("libx264", rate=5)
        video.width, video.height, video.pix_fmt = 1280, 720, "yuv420p"
        video.options = {"threads": "1", "preset": "ultrafast"}
        for number in range(5 * seconds):
            picture = np.full((720, 1280, 3), 240, np.uint8)
            picture[:, number * 7 % 1280 : number * 7 % 1280 + 90] = (20, 60, number % 200)
            frame = av.VideoFrame.from_ndarray(picture, "rgb24")
            frame.pts, frame.time_base = number, Fraction(1, 5)
            container.mux(video.encode(frame))
        container.mux(video.encode(None))


def questions(cases: Sequence[Case]) -> list[list[str]]:
    """The searches of each question: what the data set asks of one document, then of the next ones."""
    by_file: defaultdict[str, list[str]] = defaultdict(list)
    for case in cases:
        by_file[case.file_name].append(" ".join(case.query.split()))
    files = list(by_file)
    made: list[list[str]] = []
    for number, count in enumerate(SEARCHES):
        start = number % len(files)
        queries = [query for file in files[start:] + files[:start] for query in by_file[file]]
        queries = list(dict.fromkeys(queries))[:count]
        if number in FILMED:
            for place, film in zip(range(1, count, 3), FILMS, strict=False):
                queries[place] = film
        made.append(queries)
    return made


def cost(engine: Engine, profile: Profile, number: int, queries: Sequence[str]) -> Cost:
    """Asks one question in each way."""
    counter = _counter(profile.name)
    environment = Environment(engine, profile, EnvironmentOptions(hits=HITS))
    crops = 4 if number % 3 == 2 and len(queries) < 11 else 0
    graph = GraphLooks(queries, profile, number, crops)
    method = Vimrag(memory=MemoryOptions(crop_nodes=crops > 0))
    run = _run(graph, environment, method)
    plain = Looks(queries, profile, number)
    _run(plain, Environment(engine, profile), VragMethod())
    memory = [counter.shown(call.memory) for call in graph.calls]
    fresh = [counter.shown(call.others) for call in graph.calls]
    _agree(run, memory, fresh)
    return Cost(
        len(queries),
        number in FILMED,
        {
            "naive": _naive(run, engine, counter, again=True),
            "naive, once": _naive(run, engine, counter, again=False),
            "VRAG": sum(counter.shown(call.others) for call in plain.calls),
            "VimRAG": sum(memory) + sum(fresh),
        },
        max(memory),
        max(fresh),
        sum(picture.seconds is not None for call in graph.calls for picture in call.others),
    )


_COUNTERS: dict[str, Counter] = {}


def _counter(profile: str) -> Counter:
    if profile not in _COUNTERS:
        _COUNTERS[profile] = Counter(profile)
    return _COUNTERS[profile]


def _run(policy: Looks | GraphLooks, environment: Environment, method: Method) -> list[Event]:
    events = list(Agent(policy, environment, method, Limits(steps=STEPS)).stream("What is asked?"))
    end = events[-1]
    if not isinstance(end, AnswerGiven) or end.text is None:
        raise RuntimeError(f"A scripted run ended without an answer: {end}.")
    if refused := [event.reason for event in events if isinstance(event, InvalidAction)]:
        raise RuntimeError(f"A scripted action was refused: {refused[0]}")
    return events


def _agree(run: Sequence[Event], memory: list[int], fresh: list[int]) -> None:
    """What the run says of itself is what the processor counts."""
    said = [event for event in run if isinstance(event, UsageReported)]
    if [(one.memory_tokens, one.fresh_tokens) for one in said] != list(zip(memory, fresh, strict=True)):
        raise RuntimeError("The events of a run count visual tokens otherwise than the processor.")


def _naive(run: Sequence[Event], engine: Engine, counter: Counter, *, again: bool) -> int:
    """All that was found so far, in every call: before the first search, and after each."""
    total = history = 0
    seen: set[str] = set()
    for event in run:
        if isinstance(event, SearchReturned):
            for hit in event.hits:
                if again or hit.item not in seen:
                    history += _whole(hit.item, engine, counter)
                seen.add(hit.item)
            total += history
    return total


_WHOLE: dict[tuple[str, int], int] = {}


def _whole(id: str, engine: Engine, counter: Counter) -> int:
    """Of an item as a naive agent gives it."""
    key = id, hash(counter)
    if key not in _WHOLE:
        item = engine.item(id)
        if item.kind is ItemKind.CLIP:
            frames = engine.frames(id, fps=1.0, most=FRAMES)
            _WHOLE[key] = sum(counter.at_most(frame.image.size, FRAME_PIXELS) for frame in frames)
        else:
            _WHOLE[key] = counter.at_most(item.size, IMAGE_PIXELS) if item.size else 0
    return _WHOLE[key]


def show(profile: str, costs: Sequence[Cost]) -> None:
    """Prints the table of one model family."""
    ways = list(costs[0].totals)
    print(f"\n{profile}: {len(costs)} questions; visual tokens of a question, mean of those of equal length")
    print(f"{'searches':>8} {'questions':>9}" + "".join(f"{way:>13}" for way in ways) + "   memory   fresh")
    for count in sorted({one.searches for one in costs}):
        same = [one for one in costs if one.searches == count]
        means = "".join(f"{sum(one.totals[way] for one in same) / len(same):13,.0f}" for way in ways)
        most = f"{max(one.memory for one in same):9,}{max(one.fresh for one in same):8,}"
        print(f"{count:8} {len(same):9}{means}{most}")
    memory, fresh = max(one.memory for one in costs), max(one.fresh for one in costs)
    print(f"the most in one call: memory {memory:,} of 1,280, fresh results {fresh:,} of 4,096")
    print(f"frames of films shown: {sum(one.frames for one in costs)}")
    pages = [one for one in costs if not one.filmed]
    print(f"tokens of a question against searches n, over the {len(pages)} questions without films:")
    for way in ways:
        print(f"  {way}: {_growth(pages, way)}")


def _growth(costs: Sequence[Cost], way: str) -> str:
    """How tokens grow with searches: the exponent, and how well a line and a parabola fit."""
    counts = np.array([one.searches for one in costs], float)
    totals = np.array([one.totals[way] for one in costs], float)
    exponent = np.polyfit(np.log(counts), np.log(totals), 1)[0]
    parts: list[str] = []
    for degree in (1, 2):
        fit = np.polyfit(counts, totals, degree)
        left = totals - np.polyval(fit, counts)
        explained = 1 - float(left @ left) / float(((totals - totals.mean()) ** 2).sum())
        parts.append(f"{' '.join(f'{number:+,.0f}' for number in fit)} (R² {explained:.3f})")
    ratio = math.fsum(one.totals["naive"] for one in costs) / math.fsum(totals)
    return f"n^{exponent:.2f}; line {parts[0]}, parabola {parts[1]}; naive is {ratio:.2f} times as much"


if __name__ == "__main__":
    sys.exit(main())
