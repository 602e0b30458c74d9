"""Conflicts planted in real documents, and statements beside them that only look like conflicts.

    python -m benchmarks.planted_conflicts REPOSITORIES OUT [--pdfs DIR] [--seed N] [--count N]

REPOSITORIES holds clones of the repositories that `tests/data/conflicts/facts.txt` names, as OWNER/NAME
(or bare, as OWNER+NAME/repo); `--pdfs` is a folder of more PDF files. Each fact that is named there is stated
again in a second document, with another value or with the same one: in an edition of the real text, in a
letter or minutes, in a table, as question and answer; in half of the cases in another format. What is stated
of another time, another subject, a part, or as a proposal is no conflict.

OUT gets a folder per collection: `documents/`, and `truth.json` with what was planted. The same seed gives
the same bytes.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.conflict_documents import Block, Heading, Paragraph, flatten, plain
from benchmarks.conflict_sources import Source, Spot, mine_facts, read_blob
from benchmarks.conflict_truth import Collection, Planted, Side
from benchmarks.conflict_wording import EDITIONS, FRAMES, SENTENCES

DATA = Path(__file__).resolve().parents[1] / "tests" / "data" / "conflicts"
PDFS = (
    "Unstructured-IO/unstructured 3e5482bfcd example-docs/pdf/multi-column.pdf",
    "Unstructured-IO/unstructured 3e5482bfcd example-docs/pdf/reliance.pdf",
    "docling-project/docling e1cb2b234c tests/data/pdf/sources/redp5110_sampled.pdf",
    "jsvine/pdfplumber 147f2c4c07 tests/pdfs/federal-register-2020-17221.pdf",
    "apache/tika 2b70202aae tika-grpc/src/test/resources/test-files/018367.docx",
)
"""Documents whose sentences are changed as they stand: repository, commit, path."""
MAX_PAGES = 20
"""Pages of a PDF file that is taken from `--pdfs`."""
STYLES = ("edition", "letter", "table", "questions")
TRAPS = ("same", "past", "other subject", "proposal", "part", "denial", "forecast", "average")
_ORGANISATIONS = frozenset("37signals Clef GSA TTS 18F GitHub".split()) | {
    "GitHub Marketplace",
    "GitHub Sponsors",
}
_OTHERS = {
    "the typewriter": "the stenotype machine",
    "the IBM MT/ST": "the Friden Flexowriter",
    "WordStar": "Electric Pencil",
    "Google Docs": "Etherpad",
    "the relief delivery": "the delivery to Port Ellery",
    "the Lion Air accident": "the accident at Halden airfield",
}


@dataclass(frozen=True, slots=True)
class Fact:
    """What a sentence of a real document states."""

    near: str
    value: str
    kind: str
    owner: str
    topic: str
    others: tuple[tuple[str, str], ...]
    """Kinds and values that disagree."""
    same: tuple[str, ...]
    """The value in other forms."""
    opposite: tuple[str, str] = ("", "")
    """Of a rule: its opposite in the same words and told otherwise; its topic is the rule itself."""

    @property
    def words(self) -> tuple[str, ...]:
        """What its sentence holds."""
        return (self.near,) if self.kind == "negation" else (self.value, self.near)


def load_facts(read: Callable[[str], Source], data: Path = DATA) -> list[tuple[Source, list[Fact]]]:
    """Read the facts and the rules, and the documents that state them: by repository, commit and path."""
    found: dict[str, tuple[Source, list[Fact]]] = {}
    for name in ("facts.txt", "rules.txt"):
        source = ""
        for line in (data / name).read_text(encoding="utf-8").splitlines():
            if line.startswith("@"):
                source = line[2:]
                found.setdefault(source, (read(source), []))
            elif line and not line.startswith("#"):
                cells = [cell.strip() for cell in line.split("|")]
                found[source][1].append(_fact(cells) if name == "facts.txt" else _rule(cells))
    return list(found.values())


def _fact(cells: Sequence[str]) -> Fact:
    value, near, kind, owner, topic, others, same = cells
    pairs = [("unit", one[2:]) if one.startswith("u:") else (kind, one) for one in others.split("; ")]
    return Fact(near, value, kind, owner, topic, tuple(pairs), tuple(same.split("; ")))


def _rule(cells: Sequence[str]) -> Fact:
    near, meant, opposite, otherwise = cells
    return Fact(
        near, meant, "negation", "", meant, (("negation", opposite),), (meant,), (opposite, otherwise)
    )


def read_source(repositories: Path, line: str) -> Source:
    """Read a document by its repository, commit and path."""
    repository, commit, path = line.split(" ", 2)
    name = Path(path)
    return Source(
        name.stem.replace(" ", "-").lower(),
        name.suffix[1:],
        read_blob(repositories, repository, commit, path),
    )


@dataclass(slots=True)
class Planter:
    """Plants facts in collections until there are enough conflicts and enough traps."""

    chance: random.Random
    count: int
    planted: Counter[bool] = field(default_factory=Counter[bool])
    formats: Counter[bool] = field(default_factory=Counter[bool])
    """Second documents by whether they are in the format of the first."""

    def wants(self, conflict: bool) -> bool:
        """Whether more of these are to be planted."""
        return self.planted[conflict] < self.count

    def plant(self, collection: Collection, source: Source, facts: Sequence[Fact], turn: int) -> None:
        """Put a document into a collection, and beside it documents that state its facts again."""
        original = self._place_original(collection, source, turn)
        by_style: dict[str, list[tuple[Fact, Spot, bool]]] = {}
        spots = {fact: spot for fact in facts if (spot := source.find(*fact.words))}
        for number, (fact, spot) in enumerate(spots.items()):
            conflict = (number + turn) % 2 == 0
            if not self.wants(conflict):
                continue
            self.planted[conflict] += 1
            styles = STYLES if fact.topic and fact.kind != "negation" else STYLES[: 1 + bool(fact.topic)]
            style = styles[(number // 2 + turn) % len(styles)]
            by_style.setdefault(style, []).append((fact, spot, conflict))
        for style, entries in by_style.items():
            parts = (
                [entries] if style == "edition" else [entries[i : i + 5] for i in range(0, len(entries), 5)]
            )
            for chosen in parts:
                suffix = self._choose_format(Path(original).suffix[1:], style)
                part = sum(name.startswith(f"{source.name[:24]}-{style}") for name in collection.documents)
                name = f"{source.name[:24]}-{style}{part + 1 if part else ''}.{suffix}"
                if style == "edition":
                    written, planted = self._edit(source, original, name, chosen, list(spots.values()))
                else:
                    written, planted = self._restate(source, original, name, style, chosen)
                collection.documents[name] = written
                collection.planted += planted

    def _place_original(self, collection: Collection, source: Source, turn: int) -> str:
        """Add the real document: as it is, or if it is Markdown in some rounds printed in another format."""
        suffix = ("md", "pdf", "docx", "html")[turn % 4] if source.suffix == "md" else source.suffix
        name = f"{source.name[:40]}.{suffix}"
        printed = source.suffix == "md" and suffix != "md"
        collection.documents[name] = (Heading(source.title), *source.blocks) if printed else source
        return name

    def _choose_format(self, first: str, style: str) -> str:
        """Choose the format of a second document so that half of all are in that of the first."""
        same = self.formats[True] <= self.formats[False]
        others = ["docx", "html", "txt", "md", "pdf"] + ["xlsx"] * 2 * (style == "table")
        suffix = first if same else self.chance.choice([one for one in others if one != first])
        self.formats[suffix == first] += 1
        return suffix

    def _edit(
        self,
        source: Source,
        original: str,
        name: str,
        entries: Sequence[tuple[Fact, Spot, bool]],
        spots: Sequence[Spot],
    ) -> tuple[tuple[Block, ...], list[Planted]]:
        """Write an edition of the parts of a document that state facts, and change those in conflict."""
        label, remark, replaces = self.chance.choice(EDITIONS)
        changes = {spot.sentence: spot.sentence for _, spot, _ in entries}
        values: list[tuple[str, str]] = []
        for fact, spot, conflict in entries:
            kind, value = self._other(fact) if conflict else (fact.kind, fact.value)
            values.append((kind, value))
            if conflict:
                before = changes[spot.sentence]
                is_rule = fact.kind == "negation"
                changes[spot.sentence] = value if is_rule else before.replace(plain(fact.value), value, 1)
        planted = [
            Planted(
                kind,
                "edition",
                conflict,
                (
                    Side(original, fact.value, spot.sentence, spot.page),
                    Side(name, value, changes[spot.sentence]),
                ),
                1 if conflict and replaces else None,
            )
            for (fact, spot, conflict), (kind, value) in zip(entries, values, strict=True)
        ]
        others = {spot.sentence for spot in spots} - changes.keys()
        near = sorted({n for _, spot, _ in entries for n in range(spot.block - 1, spot.block + 2)})
        body = [
            edited
            for number in near
            if 0 <= number < len(source.blocks)
            and (edited := _edit_block(source.blocks[number], changes, others))
        ]
        return (Heading(f"{source.title}: {label}"), Paragraph(remark), *body), planted

    def _other(self, fact: Fact) -> tuple[str, str]:
        """Draw a value that disagrees: another unit if there is one and few were drawn."""
        units = [pair for pair in fact.others if pair[0] == "unit"]
        return self.chance.choice(units if units and self.chance.random() < 0.6 else fact.others)

    def _restate(
        self,
        source: Source,
        original: str,
        name: str,
        style: str,
        entries: Sequence[tuple[Fact, Spot, bool]],
    ) -> tuple[tuple[Block, ...], list[Planted]]:
        """Write a letter, a table or questions that state facts in other words."""
        told: list[tuple[str, str, str]] = []
        planted: list[Planted] = []
        for fact, spot, conflict in entries:
            kind, trap, value = fact.kind, style, self.chance.choice(fact.same)
            if conflict:
                kind, value = self._other(fact)
            elif fact.kind != "negation":
                trap = f"{style}, {self._draw_trap(fact, style)}"
                value = value if trap.endswith("same") else self.chance.choice(fact.others)[1]
            else:
                trap = f"{style}, same"
            topic, statement = self._state(fact, style, trap.rpartition(", ")[2], value, conflict=conflict)
            told.append((topic, value, statement))
            said = statement if fact.kind == "negation" else value
            statement = statement if style == "letter" else f"{topic}: {value}"
            sides = Side(original, fact.value, spot.sentence, spot.page), Side(name, said, statement)
            planted.append(Planted(kind, trap, conflict, sides))
        return FRAMES[style](source.title, told, self.chance), planted

    def _draw_trap(self, fact: Fact, style: str) -> str:
        fitting = [trap for trap in TRAPS if _fits(trap, fact) and (style == "letter" or trap != "denial")]
        return self.chance.choice(fitting)

    def _state(self, fact: Fact, style: str, trap: str, value: str, *, conflict: bool) -> tuple[str, str]:
        """Return the topic as a table names it, and the sentence that states a fact."""
        if fact.kind == "negation":
            return fact.topic, fact.opposite[1] if conflict else fact.topic
        where = f"{'at' if fact.owner in _ORGANISATIONS else 'for'} {fact.owner}"
        topic, other = f"{fact.topic} {where}", self._other_owner(fact)
        if conflict or trap == "same":
            sentence = self.chance.choice(SENTENCES).format(topic=topic, value=value)
            return topic, sentence if style == "letter" else f"It is {value}."
        named = {
            "past": f"{topic} until the end of 2019",
            "other subject": f"{fact.topic} {other}",
            "proposal": f"{topic}, as proposed for 2031 and not decided",
            "part": f"{topic}, for the Lisbon branch alone",
            "denial": f"{topic}",
            "forecast": f"{topic}, forecast for 2031",
            "average": f"{fact.topic} in the industry, on average",
        }[trap]
        sentence = {
            "past": f"until the end of 2019, {topic} was {value}.",
            "other subject": f"{fact.topic} {other} is {value}.",
            "proposal": f"it was proposed to make {value} {topic} from 2031 on; nothing has been decided.",
            "part": f"for the Lisbon branch alone, {topic} is {value}.",
            "denial": f"{topic} is not {value}, as some have said.",
            "forecast": f"the forecast for 2031 puts {topic} at {value}.",
            "average": f"in the industry, {fact.topic} is {value} on average.",
        }[trap]
        if style == "questions":
            sentence = f"It was {value}." if trap == "past" else f"It is {value}."
        return named, sentence

    def _other_owner(self, fact: Fact) -> str:
        if fact.owner in _ORGANISATIONS:
            return f"at {self.chance.choice(('Norwood Textiles', 'Halden Freight', 'the Ostrava Institute'))}"
        return f"for {_OTHERS.get(fact.owner, 'the Halden programme')}"


def _fits(trap: str, fact: Fact) -> bool:
    if trap in {"forecast", "average"}:
        return fact.kind == "number" and fact.owner in _ORGANISATIONS
    if trap in {"past", "proposal"}:
        return fact.kind != "date" and fact.owner in _ORGANISATIONS
    return trap != "part" or fact.owner in _ORGANISATIONS


def _edit_block(block: Block, changes: dict[str, str], others: set[str]) -> Block | None:
    """Return a block with its sentences changed, and without the sentences that state other facts."""
    text = plain(flatten(block))
    for sentence in others:
        text = text.replace(sentence, "")
    stated = [sentence for sentence in changes if sentence in text]
    if len(text) > 900:
        if not stated:
            return None
        start = max(min(map(text.index, stated)) - 300, 0)
        end = max(text.index(sentence) + len(sentence) for sentence in stated) + 300
        end = text.find(" ", end) if " " in text[end:] else len(text)
        text = text[start:end].partition(" ")[2] if start else text[:end]
    for sentence in stated:
        text = text.replace(sentence, changes[sentence])
    text = " ".join(text.split())
    if len(text) < 4:
        return None
    return Heading(text) if isinstance(block, Heading) else Paragraph(text)


def generate(
    named: Sequence[tuple[Source, Sequence[Fact]]], mined: Sequence[Source], seed: int, count: int
) -> Iterator[Collection]:
    """Yield collections until as many conflicts and as many traps as asked for are planted."""
    planter = Planter(random.Random(seed), count)
    shares = [
        *named,
        *((source, [_mined(*found) for found in mine_facts(source, planter.chance)]) for source in mined),
    ]
    for turn in range(12):
        order = planter.chance.sample(shares, len(shares))
        for start in range(0, len(order), 4):
            if not planter.wants(conflict=True) and not planter.wants(conflict=False):
                return
            collection = Collection(f"{turn + 1}-{start // 4 + 1}")
            for source, facts in order[start : start + 4]:
                chosen = facts[turn % 2 :: 2] if source in mined else facts
                if turn < 2 or source not in mined:
                    planter.plant(collection, source, chosen, turn)
            if collection.planted:
                yield collection


def _mined(near: str, value: str, kind: str, others: Sequence[str]) -> Fact:
    return Fact(near, value, kind, "", "", tuple((kind, other) for other in others), ())


def find_pdfs(folder: Path | None) -> list[Source]:
    """Read the PDF files of a folder that have running text and few pages."""
    sources = [
        Source(path.stem.lower(), "pdf", path.read_bytes())
        for path in sorted(folder.glob("*.pdf") if folder else [])
    ]
    return [source for source in sources if 0 < max(filter(None, source.pages), default=0) <= MAX_PAGES]


def main() -> None:
    """Write the collections and print how many conflicts of which kind they hold."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planted_conflicts", description=__doc__)
    parser.add_argument("repositories", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--pdfs", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200, help="conflicts, and as many traps (default: 200)")
    options = parser.parse_args()
    read = partial(read_source, options.repositories)
    mined = [*map(read, PDFS), *find_pdfs(options.pdfs)]
    counts: Counter[tuple[str, str]] = Counter()
    for collection in generate(load_facts(read), mined, options.seed, options.count):
        collection.save(options.out)
        for planted in collection.planted:
            counts["conflict" if planted.conflict else "trap", planted.kind] += 1
            counts["conflict" if planted.conflict else "trap", planted.style] += 1
    for (what, name), number in sorted(counts.items()):
        print(f"{what:9} {name:28} {number:4}")


if __name__ == "__main__":
    main()
