"""How many of the conflicts that are known between documents `vrag conflicts` finds, and what else it tells.

    python -m benchmarks.conflicts COLLECTIONS [--by-hand FILE ...] [--out REPORT.json]
    python -m benchmarks.conflicts COLLECTIONS --questions REPOSITORIES [--dataset DATASET.json --docs DIR]

COLLECTIONS is what `python -m benchmarks.planted_conflicts` wrote; those of `--by-hand` (by default
`tests/data/conflicts/by_hand.txt`) are written beside them. Each is indexed, then read by `vrag conflicts
FOLDER --json`.

A conflict is found if both documents and both values are named. One that is told of the values of a known
conflict but of two other documents that state them is an echo, and counts for nothing; all else is false,
and listed: what the real documents themselves contradict is for a person to see. A rectangle is right if
the words of the value stand in it and it is at most 12 % of the page; passages have none.

With `--questions`, ordinary questions are put to the real documents as they are, and to those of a data set:
no answer should show a conflict.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

from pydantic import BaseModel, TypeAdapter

import vrag
from benchmarks.conflict_documents import PAGED
from benchmarks.conflict_matching import find_run, is_stated, share_words
from benchmarks.conflict_questions import ask_questions
from benchmarks.conflict_truth import Planted, Side, load_truth, read_by_hand
from benchmarks.planted_conflicts import DATA
from vrag.geometry import Box
from vrag.index.collection import Collection
from vrag.types import Item, ItemKind

MAX_AREA = 0.12
"""Part of the page that a rectangle may take."""
_SLACK = 0.01
"""Part of a page's width and height by which a word may stand out of its rectangle."""
NEAR_WORDING = 0.5
"""Share of the words of the shorter statement that both have, from which they are called near."""


class FoundSide(BaseModel):
    """One side of a conflict, as the command prints it."""

    document: str
    page: int | None = None
    box: tuple[float, float, float, float] | None = None
    value: str
    quote: str = ""
    marks: list[tuple[float, float, float, float]] = []


class FoundConflict(BaseModel):
    """A conflict, as the command prints it."""

    kind: str
    subject: str = ""
    attribute: str = ""
    sides: list[FoundSide]
    newer: int | None = None


_FOUND = TypeAdapter(list[FoundConflict])


@dataclass(frozen=True, slots=True)
class Judged:
    """What one told conflict is."""

    collection: str
    found: FoundConflict
    verdict: str
    """hit, again, echo, trap or other."""
    planted: Planted | None = None
    placed: tuple[bool, ...] = ()
    """Of a hit: whether the rectangle is right, for each side that has a page."""
    marked: tuple[bool, ...] = ()
    """Likewise, whether its marks cover the value."""


@dataclass(frozen=True, slots=True)
class CollectionResult:
    """One collection, as it was read."""

    name: str
    planted: Sequence[Planted]
    judged: Sequence[Judged]
    documents: int
    seconds: float
    """Of the command, with the documents indexed before."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.conflicts", description=__doc__)
    parser.add_argument("collections", type=Path)
    parser.add_argument("--by-hand", type=Path, nargs="*", default=[DATA / "by_hand.txt"])
    parser.add_argument("--only", nargs="*", default=[], help="names of collections")
    parser.add_argument("--out", type=Path, help="write all that was told here, as JSON")
    parser.add_argument("--questions", type=Path, metavar="REPOSITORIES")
    parser.add_argument("--dataset", type=Path)
    parser.add_argument("--docs", type=Path)
    parser.add_argument("--count", type=int, default=500, help="questions of all (default: 500)")
    options = parser.parse_args()
    if options.questions:
        ask_questions(options.collections, options.questions, options.dataset, options.docs, options.count)
        return
    for file in options.by_hand:
        for collection in read_by_hand(file):
            collection.save(options.collections)
    folders = sorted(path.parent for path in options.collections.glob("*/truth.json"))
    chosen = [folder for folder in folders if not options.only or folder.name in options.only]
    results: list[CollectionResult] = []
    for folder in chosen:
        results.append(measure(folder))
        print(f"{folder.name}: {_in_short(results[-1])}", file=sys.stderr, flush=True)
    print(report(results))
    if options.out:
        judged = TypeAdapter(list[Judged]).dump_json([one for r in results for one in r.judged], indent=1)
        options.out.write_bytes(judged + b"\n")


def measure(folder: Path) -> CollectionResult:
    """Index a collection, let the command read it, and judge what it tells."""
    documents, index = folder / "documents", folder / "index"
    vrag.open(documents, collection=str(index), show_progress=False)
    begun = time.monotonic()
    found = run_command(documents, index)
    seconds = time.monotonic() - begun
    items = read_items(index)
    planted = load_truth(folder)
    judged = judge(folder.name, found, planted, items)
    return CollectionResult(folder.name, planted, judged, len({name for name, _ in items}), seconds)


def run_command(documents: Path, index: Path) -> list[FoundConflict]:
    """Return what `vrag conflicts FOLDER --json` prints.

    Raises `RuntimeError` if it fails.
    """
    command = [sys.executable, "-m", "vrag", "conflicts", str(documents), "--json"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "VRAG_COLLECTION": str(index)},
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-2000:]}")
    return _FOUND.validate_python(json.loads(done.stdout)["conflicts"])


def read_items(index: Path) -> dict[tuple[str, int], Item]:
    """Return the items of a collection by file name and page."""
    collection = Collection.open(index)
    ids = collection.store.read_items(["id"]).column("id")
    return {(Path(item.document_name).name, item.ordinal): item for item in collection.items(ids).values()}


def judge(
    name: str,
    found: Sequence[FoundConflict],
    planted: Sequence[Planted],
    items: Mapping[tuple[str, int], Item],
) -> list[Judged]:
    """Say of each told conflict what it is."""
    judged: list[Judged] = []
    hits: set[int] = set()
    for one in found:
        verdict, truth, order = _classify(one, planted)
        if truth is not None and verdict == "hit":
            place = next(n for n, other in enumerate(planted) if other is truth)
            verdict = "again" if place in hits else verdict
            hits.add(place)
        placed: list[bool] = []
        marked: list[bool] = []
        if truth is not None and verdict == "hit":
            for side, told in zip(truth.sides, order, strict=True):
                if side.document.rpartition(".")[2] in PAGED:
                    needle = told.value if truth.kind == "negation" else side.value
                    item = items.get((Path(told.document).name, told.page or 0))
                    placed.append(is_placed(told, needle, item))
                    marked.append(is_marked(told, needle, item))
        judged.append(Judged(name, one, verdict, truth, tuple(placed), tuple(marked)))
    return judged


def _classify(
    found: FoundConflict, planted: Sequence[Planted]
) -> tuple[str, Planted | None, tuple[FoundSide, ...]]:
    """Return what a told conflict is, the statements that it is about, and its sides in their order."""
    orders = [order for order in permutations(found.sides) if len(order) == 2]
    for verdict, conflict, same_documents in (
        ("hit", True, True),
        ("trap", False, True),
        ("echo", True, False),
    ):
        for one in planted:
            if one.conflict is conflict:
                for order in orders:
                    if _matches(one, order, same_documents=same_documents):
                        return verdict, one, order
    return "other", None, ()


def _matches(planted: Planted, order: Sequence[FoundSide], *, same_documents: bool) -> bool:
    pairs = list(zip(planted.sides, order, strict=True))
    if same_documents and any(Path(told.document).name != side.document for side, told in pairs):
        return False
    other = {0: planted.sides[1].value, 1: planted.sides[0].value}
    return all(
        is_stated(side.value, told.value, told.quote, planted.kind, other[number])
        for number, (side, told) in enumerate(pairs)
    )


def _value_boxes(needle: str, item: Item | None) -> Iterator[list[Box]]:
    """Yield the boxes of the words of a value, for each place of a page where it stands."""
    if item is None or item.kind is not ItemKind.PAGE:
        return
    words = [item.text[word.start : word.end] for word in item.words]
    for start, end in find_run(needle, words):
        yield [word.box for word in item.words[start:end]]


def _covers(rectangle: Sequence[float], box: Box) -> bool:
    """Whether the middle of a word stands in a rectangle."""
    x, y = (box.x1 + box.x2) / 2, (box.y1 + box.y2) / 2
    x1, y1, x2, y2 = rectangle
    return x1 - _SLACK <= x <= x2 + _SLACK and y1 - _SLACK <= y <= y2 + _SLACK


def is_placed(told: FoundSide, needle: str, item: Item | None) -> bool:
    """Whether the rectangle of a side shows the value and not much else."""
    if told.box is None:
        return False
    x1, y1, x2, y2 = box = told.box
    shown = any(all(_covers(box, word) for word in words) for words in _value_boxes(needle, item))
    return shown and (x2 - x1) * (y2 - y1) <= MAX_AREA


def is_marked(told: FoundSide, needle: str, item: Item | None) -> bool:
    """Whether each word of the value is covered by a mark."""
    return any(
        all(any(_covers(mark, word) for mark in told.marks) for word in words)
        for words in _value_boxes(needle, item)
    )


def report(results: Sequence[CollectionResult]) -> str:
    """Return all figures, and what was told wrongly."""
    planted = [(result.name, one) for result in results for one in result.planted if one.conflict]
    judged = [one for result in results for one in result.judged]
    hits = {id(one.planted) for one in judged if one.verdict == "hit"}
    counts = Counter(one.verdict for one in judged)
    right = counts["hit"]
    lines = [
        f"found                {_share(counts['hit'], len(planted))}",
        f"told again           {counts['again']}, and of other documents {counts['echo']}",
        f"false                {counts['trap']} traps, {counts['other']} others",
        f"precision            {_share(right, right + counts['trap'] + counts['other'])}",
        f"  without the others {_share(right, right + counts['trap'])}",
        "",
    ]
    groups: dict[str, Callable[[Planted], str]] = {
        "kind": lambda one: one.kind,
        "style": lambda one: one.style,
        "formats": lambda one: "two formats" if _suffixes(one) > 1 else "one format",
        "wording": _wording,
    }
    for title, group in groups.items():
        lines += [f"recall by {title}", *_recall(planted, hits, group), ""]
    placed = [one for one in judged if one.placed]
    lines += [
        f"all rectangles right {_share(sum(all(one.placed) for one in placed), len(placed))}",
        f"all marks right      {_share(sum(all(one.marked) for one in placed), len(placed))}",
    ]
    named = [one for one in judged if one.verdict == "hit" and one.planted and one.planted.newer is not None]
    lines += [f"newer side named     {_share(sum(map(_names_newer, named), 0), len(named))}"]
    documents = sum(result.documents for result in results)
    lines += [f"seconds a document   {sum(r.seconds for r in results) / max(documents, 1):.2f}", ""]
    return "\n".join([*lines, *_list_false(judged), *_list_missed(planted, hits)])


def _share(part: int, whole: int) -> str:
    return f"{part}/{whole} = {part / whole:.3f}" if whole else "0/0"


def _suffixes(planted: Planted) -> int:
    return len({Path(side.document).suffix for side in planted.sides})


def _wording(planted: Planted) -> str:
    """Say whether both statements are in much the same words."""
    one, other = (side.statement for side in planted.sides)
    if not one or not other:
        return "by hand"
    return "near" if share_words(one, other) >= NEAR_WORDING else "far"


def _recall(
    planted: Iterable[tuple[str, Planted]], hits: set[int], group: Callable[[Planted], str]
) -> Iterator[str]:
    found: dict[str, list[bool]] = defaultdict(list)
    for _, one in planted:
        found[group(one)].append(id(one) in hits)
    for name, all_found in sorted(found.items()):
        yield f"  {name:24} {_share(sum(all_found), len(all_found))}"


def _names_newer(one: Judged) -> bool:
    assert one.planted is not None
    assert one.planted.newer is not None
    if one.found.newer is None:
        return False
    newer = one.found.sides[one.found.newer].document
    return Path(newer).name == one.planted.sides[one.planted.newer].document


def _list_false(judged: Iterable[Judged]) -> Iterator[str]:
    yield "told and not known"
    for one in judged:
        if one.verdict in {"trap", "other"}:
            why = one.planted.style if one.planted else "look at it"
            sides = " / ".join(f"{side.document} p{side.page} «{side.value}»" for side in one.found.sides)
            topic = f"{one.found.subject}, {one.found.attribute}"
            yield f"  {one.collection} {one.found.kind} ({why}): {topic}: {sides}"


def _list_missed(planted: Iterable[tuple[str, Planted]], hits: set[int]) -> Iterator[str]:
    yield "known and not told"
    for name, one in planted:
        if id(one) not in hits:
            yield f"  {name} {one.kind}, {one.style}: {' / '.join(map(_side, one.sides))}"


def _side(side: Side) -> str:
    return f"{side.document} «{side.value}»"


def _in_short(result: CollectionResult) -> str:
    counts = Counter(one.verdict for one in result.judged)
    known = sum(one.conflict for one in result.planted)
    false = f"{counts['trap']} traps, {counts['other']} others"
    return f"{counts['hit']} of {known}, {false}, {result.seconds:.1f} s"


if __name__ == "__main__":
    main()
