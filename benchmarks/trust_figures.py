"""The figures of trust: of what was asked, what was right, wrong, shown as places, or not found.

They are computed from the records of questions alone, so that a run that was kept can be counted again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from vrag.evaluation.intervals import wilson

SEEN = frozenset({"seen", "computed"})
"""Verdicts that say the claim stands on the page."""
DOUBTED = frozenset({"doubted"})
MAX_PLACES = 10
"""Places of a run without an answer that are looked through for a gold page."""
MAX_NAMED_PAGES = 5
"""Pages that are looked at first, among which a page that a question names should be."""
THRESHOLDS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Probabilities from which answers are given, for the curve."""
BINS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0001)
"""Edges of the bins of the reliability table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustRecord:
    """One question and what became of it."""

    source: str
    """Name of the set of questions."""
    uid: str
    document: str
    question: str
    kind: str
    """Kind of the question."""
    expected: tuple[str, ...]
    """Accepted answers; empty where there is none."""
    result: str
    """Kind of the result of the run: `answer`, `places` or `none`."""
    answer: str | None
    is_right: bool
    """False without an answer."""
    lacks_scale: bool = False
    """True if the answer leaves out a scale that the expected answer writes."""
    verdicts: tuple[str, ...] = ()
    """Those on the claims of the answer."""
    candidate: str | None = None
    """The likeliest reading of the pages that were looked at, given or not."""
    candidate_kind: str = ""
    probability: float = 0.0
    is_certain: bool = False
    """True if the reader holds the candidate's kind for right often enough."""
    candidate_is_right: bool = False
    gold: tuple[int, ...] = ()
    places: tuple[tuple[str, int], ...] = ()
    """Documents and pages of the evidence, in order."""
    looked_at: tuple[tuple[str, int], ...] = ()
    """Documents and pages that were looked at, in order."""
    area: float | None = None
    """Area of the first rectangle as a share of its page; None without one."""
    names_page: bool = False
    """True if the question points at a page, figure, table or section by its number or place."""
    seconds: float = 0.0

    @property
    def outcome(self) -> str:
        """`right`, `wrong`, `places` or `nothing`."""
        if self.result == "answer":
            return "right" if self.is_right else "wrong"
        return "nothing" if self.result == "none" else "places"

    @property
    def is_all_seen(self) -> bool:
        """Whether every claim of the answer is said to stand on the page."""
        return bool(self.verdicts) and SEEN.issuperset(self.verdicts)

    @property
    def is_doubted(self) -> bool:
        """Whether a claim of the answer is doubted."""
        return not DOUBTED.isdisjoint(self.verdicts)

    def gold_rank(self, pages: Sequence[tuple[str, int]]) -> int | None:
        """Return the place of the first gold page among distinct pages, from 0; None if it is not there."""
        distinct = list(dict.fromkeys(pages))
        gold = (
            (self.document, page) in distinct and distinct.index((self.document, page)) for page in self.gold
        )
        return min((rank for rank in gold if rank is not False), default=None)


@dataclass(frozen=True, slots=True)
class Share:
    """A share of cases with its 95 % interval."""

    count: int
    total: int

    @property
    def value(self) -> float:
        """The share; 0 of none."""
        return self.count / self.total if self.total else 0.0

    def __str__(self) -> str:
        """Return count, total, share and interval."""
        if not self.total:
            return "–"
        low, high = wilson(self.value, self.total)
        return f"{self.count} of {self.total} ({100 * self.value:.1f} %, {100 * low:.0f}–{100 * high:.0f})"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustFigures:
    """The figures of some questions."""

    questions: int
    right: int
    wrong: int
    places: int
    nothing: int
    silent_unanswerable: Share
    """Of questions without an answer, those without one given."""
    precision: Share
    """Right ones of the answers given."""
    lacking_scale: int
    wrong_but_seen: Share
    """Wrong answers whose claims are all seen or computed, of the questions."""
    right_but_doubted: Share
    """Right answers with a doubted claim, of the right ones."""
    gold_among_places: Share
    """Runs without an answer, of questions with gold pages, that show one of them among the first places."""
    gold_looked_at: Share
    """Questions with gold pages of which one was among those looked at."""
    named_looked_at: Share
    """Questions that name a page, figure, table or section, with gold among the first pages looked at."""
    median_area: float
    """Of the first rectangles."""
    seconds: float
    """Median of a question."""


def count(records: Sequence[TrustRecord]) -> TrustFigures:
    """Count the outcomes of some questions."""
    outcomes = [record.outcome for record in records]
    void = [record for record in records if not record.expected]
    given = [record for record in records if record.result == "answer"]
    right = [record for record in given if record.is_right]
    silent = [record for record in records if record.result != "answer" and record.gold and record.expected]
    located = [record for record in records if record.gold and record.expected]
    return TrustFigures(
        questions=len(records),
        right=len(right),
        wrong=outcomes.count("wrong"),
        places=outcomes.count("places"),
        nothing=outcomes.count("nothing"),
        silent_unanswerable=_share(void, lambda record: record.result != "answer"),
        precision=Share(len(right), len(given)),
        lacking_scale=sum(record.lacks_scale for record in right),
        wrong_but_seen=_share(records, lambda record: record.outcome == "wrong" and record.is_all_seen),
        right_but_doubted=_share(right, lambda record: record.is_doubted),
        gold_among_places=_share(
            silent, lambda record: _is_within(record.gold_rank(record.places), MAX_PLACES)
        ),
        gold_looked_at=_share(located, lambda record: record.gold_rank(record.looked_at) is not None),
        named_looked_at=_share(
            [record for record in located if record.names_page],
            lambda record: _is_within(record.gold_rank(record.looked_at), MAX_NAMED_PAGES),
        ),
        median_area=median([record.area for record in records if record.area is not None] or [0.0]),
        seconds=median([record.seconds for record in records] or [0.0]),
    )


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The answers given from a probability on."""

    threshold: float
    precision: Share


def curve(records: Iterable[TrustRecord], *, certain: bool = False) -> list[CurvePoint]:
    """Return the precision of the likeliest readings by the probability from which they would be given.

    With `certain`, only of kinds that the reader holds for right often enough.
    """
    read = [record for record in records if record.candidate is not None]
    read = [record for record in read if record.is_certain or not certain]
    points: list[CurvePoint] = []
    for threshold in THRESHOLDS:
        given = [record for record in read if record.probability >= threshold]
        points.append(CurvePoint(threshold, _share(given, lambda record: record.candidate_is_right)))
    return points


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """The readings of a kind whose probability lies in a range."""

    kind: str
    low: float
    high: float
    mean: float
    """Mean probability."""
    right: Share


def reliability(records: Iterable[TrustRecord], kind: str = "") -> list[ReliabilityBin]:
    """Return by ranges of probability how often the likeliest readings of a kind are right; "" for all."""
    read = [record for record in records if record.candidate is not None]
    read = [record for record in read if kind in {"", record.candidate_kind}]
    bins: list[ReliabilityBin] = []
    for low, high in pairwise(BINS):
        inside = [record for record in read if low <= record.probability < high]
        if inside:
            mean = sum(record.probability for record in inside) / len(inside)
            right = _share(inside, lambda record: record.candidate_is_right)
            bins.append(ReliabilityBin(kind or "all", low, min(high, 1.0), mean, right))
    return bins


@dataclass(frozen=True, slots=True)
class TrustReport:
    """All records of a run, and the figures of the search."""

    records: Sequence[TrustRecord]
    search: dict[str, float] = field(default_factory=dict[str, float])
    """Figures of the search by name."""

    def lines(self) -> list[str]:
        """Return the report as lines of Markdown."""
        sources = list(dict.fromkeys(record.source for record in self.records))
        groups = [
            (source, [record for record in self.records if record.source == source]) for source in sources
        ]
        if len(groups) > 1:
            groups.append(("all", list(self.records)))
        lines: list[str] = []
        for name, records in groups:
            lines += ["", f"## {name}", *_figure_lines(count(records)), "", *_kind_lines(records)]
            lines += ["", *_given_lines(records)]
            lines += ["", *_curve_lines(records)]
        lines += ["", "## Reliability of the likeliest reading, by its kind", *self._reliability_lines()]
        if self.search:
            lines += ["", "## Search", *(f"- {name}: {value:.3f}" for name, value in self.search.items())]
        return lines

    def _reliability_lines(self) -> list[str]:
        kinds = sorted({record.candidate_kind for record in self.records if record.candidate is not None})
        bins = [row for kind in ["", *kinds] for row in reliability(self.records, kind)]
        head = ["| kind | probability | mean | right |", "|---|---|---|---|"]
        return head + [
            f"| {row.kind} | {row.low:.2f}–{row.high:.2f} | {row.mean:.2f} | {row.right} |" for row in bins
        ]


def _figure_lines(figures: TrustFigures) -> list[str]:
    outcomes = (
        f"right {figures.right}, wrong {figures.wrong}, places {figures.places}, nothing {figures.nothing}"
    )
    return [
        f"- questions: {figures.questions}; {outcomes}",
        f"- right of the answers given: {figures.precision}",
        f"- right answers that leave out a scale: {figures.lacking_scale}",
        f"- wrong answers all seen or computed, of the questions: {figures.wrong_but_seen}",
        f"- right answers doubted: {figures.right_but_doubted}",
        f"- no answer where there is none: {figures.silent_unanswerable}",
        f"- gold page among the first {MAX_PLACES} places, without an answer: {figures.gold_among_places}",
        f"- gold page among the pages looked at: {figures.gold_looked_at}",
        f"- the same among the first {MAX_NAMED_PAGES}, where one is named: {figures.named_looked_at}",
        f"- median area of the first rectangle: {100 * figures.median_area:.1f} %",
        f"- median seconds of a question: {figures.seconds:.2f}",
    ]


def _kind_lines(records: Sequence[TrustRecord]) -> list[str]:
    lines = [
        "| kind of question | questions | right | wrong | places | nothing | likeliest reading right |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind in sorted({record.kind for record in records}):
        chosen = [record for record in records if record.kind == kind]
        figures = count(chosen)
        read = [record for record in chosen if record.candidate is not None]
        likeliest = _share(read, lambda record: record.candidate_is_right)
        lines.append(
            f"| {kind} | {figures.questions} | {figures.right} | {figures.wrong} | {figures.places} "
            f"| {figures.nothing} | {likeliest} |"
        )
    return lines


def _given_lines(records: Sequence[TrustRecord]) -> list[str]:
    """Return a table of the answers given, by the kind of what was read."""
    given = [record for record in records if record.result == "answer"]
    lines = ["| kind of answer given | right | all seen or computed | doubted |", "|---|---|---|---|"]
    for kind in sorted({record.candidate_kind for record in given}):
        own = [record for record in given if record.candidate_kind == kind]
        right = _share(own, lambda record: record.is_right)
        seen = sum(record.is_all_seen for record in own)
        doubted = sum(record.is_doubted for record in own)
        lines.append(f"| {kind or 'not read'} | {right} | {seen} | {doubted} |")
    return lines


def _curve_lines(records: Sequence[TrustRecord]) -> list[str]:
    lines = ["| from probability | all kinds: right | certain kinds: right |", "|---|---|---|"]
    for every, certain in zip(curve(records), curve(records, certain=True), strict=True):
        lines.append(f"| {every.threshold:.2f} | {every.precision} | {certain.precision} |")
    return lines


def _is_within(rank: int | None, limit: int) -> bool:
    return rank is not None and rank < limit


def _share(records: Sequence[TrustRecord], holds: Callable[[TrustRecord], bool]) -> Share:
    return Share(sum(map(holds, records)), len(records))
