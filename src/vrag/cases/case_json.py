"""Data sets of questions whose answers are known, as JSON.

The shape is that of the reference implementation: `{"examples": [case, …]}`, a bare list of cases, or a
single case:

    {"uid": "…", "query": "…", "reference_answer": "…",
     "meta_info": {"file_name": "report.pdf", "reference_page": [10, 11],
                   "source_type": "Text", "query_type": "Multi-Hop"},
     "regions": [{"page": 10, "box": [0.1, 0.2, 0.5, 0.3]}]}

`regions` is an addition and optional, as are the last three fields of `meta_info`; so are, in `meta_info`,
`doc_type` (or `document_type`), `answer_format` and `benchmark`, and beside it `alternatives`
(other right answers), `gold` (`[{"document", "page", "relevance"}]`), `facts` (`[{"text", "page"}]`) and
`spans` (seconds of a video); a region may have a `document` and an `annotator`. Other fields are ignored.
Pages count from 1. A page 0, of which MMLongBench-Doc has some, does not exist: it is left out, and a case
without another then has none. A box that reaches beyond its page by no more than `BOX_TOLERANCE`, as rounding
leaves some, is cut at the edge of the page; readers report it (`overhang_of`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, BinaryIO, cast

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from vrag.atomic_io import atomic_file
from vrag.errors import CaseError
from vrag.geometry import Box
from vrag.types import AnswerFormat, Case, GoldFact, GoldPage, Region

BOX_TOLERANCE = 0.01
"""Fraction of the width or height of a page by which a gold box may reach beyond it."""

_HINT = 'Expected {"examples": [{"uid", "query", "reference_answer", "meta_info": {"file_name", …}}, …]}.'
_ALWAYS = frozenset({"file_name", "reference_page", "source_type", "query_type"})
"""Fields of `meta_info` that are written also where they are empty, as in the reference implementation."""


def write_cases(path: Path, cases: Iterable[Case]) -> int:
    """Write a data set to a JSON file, one case a line as they come; whole or not at all.

    Returns the number of cases. Raises `CaseError` if the file cannot be written.
    """
    count = 0
    with written_whole(path) as file:
        file.write(b'{"examples": [')
        for count, case in enumerate(cases, 1):
            row = json.dumps(row_of(case), ensure_ascii=False)
            file.write(f"{',' if count > 1 else ''}\n{row}".encode())
        file.write(b"\n]}\n")
    return count


@contextmanager
def written_whole(path: Path) -> Generator[BinaryIO]:
    """Open a file to write; it takes its name at the end, and is removed if something fails.

    Raises `CaseError` if it cannot be written.
    """
    try:
        with atomic_file(path, durable=False) as file:
            yield file
    except OSError as error:
        hint = f"Make the folder {path.parent} first." if not path.parent.exists() else ""
        raise CaseError(f"{path} cannot be written: {error.strerror or error}.", hint) from error
    except UnicodeEncodeError as error:
        raise CaseError(f"{path} cannot be written: {error.object!r:.80} is not text in UTF-8.") from error


def case_of(row: Mapping[str, Any], where: str) -> Case:
    """Make a case of its JSON value.

    Raises `CaseError` if it is not a case; the message begins with `where` and names the field.

    >>> row = {"uid": 1, "query": "Who?", "reference_answer": "Me", "meta_info": {"file_name": "a.pdf"}}
    >>> case_of(row, "the row").uid
    '1'
    """
    try:
        return _CASE.validate_python(row).case()
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join([where, *map(str, first["loc"])])
        raise CaseError(f"{place}: {first['msg']}.", _HINT) from error


def overhang_of(row: Mapping[str, Any]) -> float:
    """Return how far the gold boxes of a valid row reach beyond their page, as a fraction of it.

    >>> overhang_of({"regions": [{"page": 1, "box": [0.5, 0.5, 1.0, 1.25]}]})
    0.25
    """
    regions = cast("list[dict[str, Any]]", _as_list(row.get("regions")))
    return max((max(0.0, -side, side - 1) for region in regions for side in region["box"]), default=0.0)


def row_of(case: Case) -> dict[str, Any]:
    """Return the JSON value from which `case_of` makes this case."""
    meta = {
        "file_name": case.file_name,
        "reference_page": list(case.reference_page),
        "source_type": list(case.source_type),
        "query_type": case.query_type,
        "doc_type": case.document_type,
        "answer_format": case.answer_format.value,
        "benchmark": case.benchmark,
    }
    more = {
        "gold": [asdict(gold) for gold in case.gold],
        "facts": [asdict(fact) for fact in case.facts],
        "spans": [list(span) for span in case.spans],
        "alternatives": list(case.alternatives),
    }
    return {
        "uid": case.uid,
        "query": case.query,
        "reference_answer": case.reference_answer,
        "meta_info": {name: value for name, value in meta.items() if value or name in _ALWAYS},
        "regions": [
            {"page": region.page, "box": list(region.box.as_tuple())}
            | ({"document": region.document} if region.document else {})
            | ({"annotator": region.annotator} if region.annotator else {})
            for region in case.regions
        ],
        **{name: value for name, value in more.items() if value},
    }


def _as_text(value: object) -> object:
    """Convert a number to its text, a list of texts and numbers to JSON; leave other values as they are.

    A float that is not finite, as some write what is missing, is not a text either.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)  # however large: one that no float can hold is a number too
    if isinstance(value, float) and math.isfinite(value):
        return str(value)
    if isinstance(value, list):
        parts = cast("list[object]", value)
        return (
            json.dumps(parts, ensure_ascii=False)
            if all(isinstance(part, str | int | float) for part in parts)
            else parts
        )
    return value


def _as_list(value: object) -> object:
    """Convert one element, null, and text such as "[3, 5]" to a list."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        with suppress(ValueError, RecursionError):
            value = json.loads(value)
    if value is None:
        return []
    return cast("list[object]", value) if isinstance(value, list) else [value]


_Name = Annotated[str, Field(min_length=1)]
_Side = Annotated[float, Field(ge=-BOX_TOLERANCE, le=1 + BOX_TOLERANCE)]
_Page = Annotated[int, Field(ge=0, le=2**31 - 1)]
_Second = Annotated[float, Field(ge=0)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", allow_inf_nan=False)


class _RegionRow(_Strict):
    page: _Page
    box: Annotated[list[_Side], Field(min_length=4, max_length=4)]
    document: str = ""
    annotator: str = ""

    def region(self) -> Region:
        x1, y1, x2, y2 = (min(max(side, 0.0), 1.0) for side in self.box)
        box = Box.unit(min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2))
        return Region(self.page, box, self.document, self.annotator)


class _GoldRow(_Strict):
    document: _Name
    page: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    relevance: Annotated[int, Field(ge=1, le=100)] = 1


class _FactRow(_Strict):
    text: _Name
    page: Annotated[int, Field(ge=1, le=2**31 - 1)]


class _Meta(_Strict):
    file_name: _Name
    reference_page: Annotated[list[_Page], BeforeValidator(_as_list)] = []
    source_type: Annotated[list[str], BeforeValidator(_as_list)] = []
    query_type: str | None = None
    document_type: str | None = Field(
        default=None, validation_alias=AliasChoices("doc_type", "document_type")
    )
    answer_format: str | None = None
    benchmark: str = ""


class _CaseRow(_Strict):
    uid: Annotated[_Name, BeforeValidator(_as_text)]
    query: _Name
    reference_answer: Annotated[str, BeforeValidator(_as_text)]
    meta_info: _Meta
    regions: Annotated[list[_RegionRow], BeforeValidator(_as_list)] = []
    gold: list[_GoldRow] = []
    facts: list[_FactRow] = []
    spans: list[Annotated[list[_Second], Field(min_length=2, max_length=2)]] = []
    alternatives: list[str] = []

    def case(self) -> Case:
        meta = self.meta_info
        formats = {known.value: known for known in AnswerFormat}
        return Case(
            uid=self.uid,
            query=self.query,
            reference_answer=self.reference_answer,
            file_name=meta.file_name,
            reference_page=tuple(dict.fromkeys(page for page in meta.reference_page if page > 0)),
            source_type=tuple(meta.source_type),
            query_type=meta.query_type or "",
            regions=tuple(row.region() for row in self.regions if row.page > 0),
            gold=tuple(GoldPage(row.document, row.page, row.relevance) for row in self.gold),
            facts=tuple(GoldFact(row.text, row.page) for row in self.facts),
            spans=tuple((min(span), max(span)) for span in self.spans),
            alternatives=tuple(self.alternatives),
            answer_format=formats.get(meta.answer_format or "", AnswerFormat.UNKNOWN),
            document_type=meta.document_type or "",
            benchmark=meta.benchmark,
        )


_CASE = TypeAdapter(_CaseRow)
