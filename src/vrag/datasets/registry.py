"""The data sets by name, and the cases of any file in a format of one of them."""

from __future__ import annotations

import logging
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from vrag.cases.case_json import case_of, overhang_of
from vrag.cases.parquet import TrainingParquet
from vrag.cases.rows import object_of, read_rows
from vrag.datasets import hotpotqa, lvbench, m3docvqa, mmlongbench, protocols, slidevqa, squad, webqa
from vrag.datasets.docscope import DocScope
from vrag.datasets.mmdocir import MMDocIR
from vrag.datasets.own import DatasetJson
from vrag.datasets.vidore import ViDoReV2, ViDoReV3
from vrag.datasets.vidoseek import ViDoSeek
from vrag.errors import CaseError, SettingsError
from vrag.types import AnswerFormat

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from vrag.cases.rows import CaseFormat
    from vrag.datasets.protocols import Benchmark, Rule
    from vrag.types import Case

log = logging.getLogger("vrag.cases")

_FORMATS: tuple[CaseFormat, ...] = (
    DatasetJson(),
    ViDoSeek(),
    TrainingParquet(),
    slidevqa.SlideVQA(),
    mmlongbench.MMLongBench(),
    MMDocIR(),
    DocScope(),
    hotpotqa.HotpotQA(),
    squad.SQuAD(),
)
SOURCES: Mapping[str, CaseFormat] = {source.name: source for source in _FORMATS}
"""Row formats by name; a row is compared with each in this order."""

_BENCHMARKS: tuple[Benchmark, ...] = (
    slidevqa.SlideVQA(),
    ViDoSeek(),
    mmlongbench.MMLongBench(),
    MMDocIR(),
    DocScope(),
    ViDoReV2(),
    ViDoReV3(),
    lvbench.LVBench(),
    hotpotqa.HotpotQA(),
    squad.SQuAD(),
    webqa.WebQA(),
    m3docvqa.M3DocVQA(),
    DatasetJson(),
)
BENCHMARKS: Mapping[str, Benchmark] = {benchmark.name: benchmark for benchmark in _BENCHMARKS}

RULES: Mapping[str, Rule] = {
    "squad": squad.score,
    "hotpotqa": hotpotqa.score,
    "anls": protocols.score_anls,
    "mmlongbench": mmlongbench.score,
    "slidevqa": slidevqa.score,
    "lvbench": lvbench.score,
    "webqa": webqa.score,
    "m3docvqa": m3docvqa.score,
}
"""Scorers by name; their docstrings define the measures."""

_CASE_FIELDS = {"query", "meta_info", "reference_answer"}
"""Fields that make a row one of the dataset JSON that lacks something, when no format fits."""


def benchmark_named(name: str) -> Benchmark:
    """Return a benchmark by its name. Raises `SettingsError` if there is none."""
    if name not in BENCHMARKS:
        raise SettingsError(f"There is no benchmark {name!r}.", f"Known: {', '.join(BENCHMARKS)}.")
    return BENCHMARKS[name]


def published_measures(case: Case, answer: str | None) -> dict[str, float]:
    """Score an answer by the rules that fit any answer, and by the rule of its benchmark.

    MMLongBench-Doc's rule goes by formats of answers, so it measures other questions with a format as well;
    but none of a benchmark with a rule of its own, of which only some questions have a format. The answer is
    None where there was none.
    """
    formatted = case.answer_format is not AnswerFormat.UNKNOWN and case.benchmark not in RULES
    names = dict.fromkeys(("squad", "anls", "mmlongbench" if formatted else "", case.benchmark))
    measures: dict[str, float] = {}
    for name in names:
        if name in RULES:
            measures |= RULES[name](case, answer)
    return measures


def read_cases(path: Path, source: str | None = None) -> list[Case]:
    """Read all cases of a file, or raise the error of the first row that is not one; see `open_cases`."""
    return list(open_cases(path, source)[1])


def open_cases(path: Path, source: str | None = None) -> tuple[CaseFormat, Iterator[Case]]:
    """Open a file of cases; its format is named, or recognised by its first row.

    The file is JSON, JSON lines or parquet. Cases are read while they are taken, and reading them raises
    `CaseError` as well, with the row in the message. Gold boxes that were cut at the edge of their page are
    logged at the end. Raises `CaseError` if the file cannot be read, is empty, or no format fits its rows,
    and `SettingsError` if there is no such source.
    """
    if source and source not in SOURCES:
        raise SettingsError(f"There is no data set {source!r}.", f"Known: {', '.join(SOURCES)}.")
    named = SOURCES[source] if source else None
    rows = read_rows(path)
    first = next(rows, None)
    if first is None:
        raise CaseError(f"{path} holds no questions.")
    if named is None:
        fields = _fields(first, f"{path}, row 1")
        named = next((known for known in SOURCES.values() if known.fits(fields)), None)
        if named is None and _CASE_FIELDS & fields.keys():
            named = SOURCES["dataset"]  # its error names the missing field
        if named is None:
            columns = ", ".join(list(fields)[:8]) or "none"
            raise CaseError(
                f"The rows of {path} have no known format; their columns: {columns}.",
                f"Known: {', '.join(SOURCES)}. Name one: vrag data convert --from.",
            )
    return named, _read(chain([first], rows), named, path)


def _read(rows: Iterator[object], source: CaseFormat, path: Path) -> Iterator[Case]:
    known: dict[str, int] = {}
    overhangs: dict[str, float] = {}
    for number, row in enumerate(rows, 1):
        place = f"{path}, row {number}"
        fields = _fields(row, place)
        try:
            values = list(source.cases(fields, number - 1))
        except CaseError as error:
            raise CaseError(f"{place}: {error.message}", error.hint) from error
        cases = [case_of(value, place) for value in values]  # all of a row, or an error
        for case, value in zip(cases, values, strict=True):
            if overhang := overhang_of(value):
                overhangs[case.uid] = overhang
            if case.uid in known:
                raise CaseError(
                    f"{place}: The uid {case.uid!r} is that of row {known[case.uid]} too.",
                    "Remove one of them, or rename it.",
                )
            known[case.uid] = number
            yield case
    if overhangs:
        log.warning(
            "%s: gold boxes reach beyond their page, by %.4f of it at most, and were cut at its edge. "
            "Questions: %d; the first is %r.",
            path,
            max(overhangs.values()),
            len(overhangs),
            next(iter(overhangs)),
        )


def _fields(row: object, place: str) -> dict[str, Any]:
    try:
        return object_of(row, place)
    except CaseError as error:
        hint = "A row is one JSON object: a question, or a document with its questions."
        raise CaseError(error.message, hint) from error


def with_distinct_ids(cases: Iterable[tuple[str, Case]]) -> Iterator[tuple[str, Case]]:
    """Pass on the cases of several files, each with the name of its data source, under distinct uids.

    A uid that came before, as in files that number their questions, gets its data source in front:
    `mmlongdoc-7`. Raises `CaseError` if that came before as well.
    """
    known: set[str] = set()
    for data_source, case in cases:
        uid = case.uid if case.uid not in known else f"{data_source}-{case.uid}"
        if uid in known:
            raise CaseError(
                f"The uid {case.uid!r} occurs more than once in {data_source}.",
                "Name each file once, or give the files different names: --data-source.",
            )
        known.add(uid)
        yield data_source, case if uid == case.uid else replace(case, uid=uid)
