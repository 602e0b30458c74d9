# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Citations in the W3C Web Annotation model: what it requires, and places that programs find again."""

from __future__ import annotations

import json
import math
import re
from typing import Any
from urllib.parse import unquote

import pytest
from annotated_pages import evidence_on, place_of
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from vrag.agent.evidence import BoxSides, Evidence, EvidenceMark
from vrag.corpus.formats.pdfium import PageFrame
from vrag.reading.answer import MarkRole
from vrag.render.annotations.cited_place import CitedPlace
from vrag.render.annotations.web_annotation import annotation_collection
from vrag.types import ItemKind

IRI: dict[str, Any] = {"type": "string", "pattern": r"^([a-z][a-z0-9+.-]*:\S+|\./\S+)$"}
MOTIVATIONS = (
    "assessing bookmarking classifying commenting describing editing highlighting identifying linking "
    "moderating questioning replying tagging"
).split()
MODEL: dict[str, Any] = {
    "type": "object",
    "required": ["@context", "id", "type", "total"],
    "properties": {
        "@context": {"const": "http://www.w3.org/ns/anno.jsonld"},
        "id": IRI,
        "type": {"const": "AnnotationCollection"},
        "label": {"type": "string"},
        "total": {"type": "integer", "minimum": 0},
        "first": {
            "type": "object",
            "required": ["id", "type", "items", "startIndex"],
            "properties": {
                "id": IRI,
                "type": {"const": "AnnotationPage"},
                "startIndex": {"const": 0},
                "items": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/annotation"}},
            },
            "additionalProperties": False,
        },
        "last": IRI,
    },
    "additionalProperties": False,
    "$defs": {
        "annotation": {
            "type": "object",
            "required": ["id", "type", "target"],
            "properties": {
                "id": IRI,
                "type": {"const": "Annotation"},
                "motivation": {"type": "array", "items": {"enum": MOTIVATIONS}},
                "created": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$"},
                "generator": {
                    "type": "object",
                    "required": ["id", "type", "name"],
                    "properties": {"id": IRI, "type": {"const": "Software"}, "name": {"type": "string"}},
                },
                "body": {"type": "array", "items": {"$ref": "#/$defs/body"}},
                "target": {
                    "anyOf": [
                        {"$ref": "#/$defs/target"},
                        {"type": "array", "minItems": 2, "items": {"$ref": "#/$defs/target"}},
                    ]
                },
            },
            "additionalProperties": False,
        },
        "body": {
            "type": "object",
            "required": ["type", "value"],
            "properties": {
                "type": {"const": "TextualBody"},
                "value": {"type": "string"},
                "format": {"const": "text/plain"},
                "purpose": {"enum": MOTIVATIONS},
            },
            "additionalProperties": False,
        },
        "target": {
            "type": "object",
            "required": ["type", "source"],
            "properties": {
                "type": {"const": "SpecificResource"},
                "source": {
                    "type": "object",
                    "required": ["id"],
                    "properties": {
                        "id": IRI,
                        "type": {"enum": ["Dataset", "Image", "Video", "Sound", "Text"]},
                        "format": {"type": "string", "pattern": r"^[\w.+-]+/[\w.+-]+$"},
                        "label": {"type": "string"},
                    },
                    "additionalProperties": False,
                },
                "selector": {
                    "anyOf": [
                        {"$ref": "#/$defs/selector"},
                        {"type": "array", "minItems": 2, "items": {"$ref": "#/$defs/selector"}},
                    ]
                },
            },
            "additionalProperties": False,
        },
        "selector": {
            "oneOf": [
                {
                    "type": "object",
                    "required": ["type", "value"],
                    "properties": {
                        "type": {"const": "FragmentSelector"},
                        "conformsTo": IRI,
                        "value": {"type": "string", "minLength": 1},
                        "refinedBy": {"$ref": "#/$defs/selector"},
                    },
                    "additionalProperties": False,
                },
                {
                    "type": "object",
                    "required": ["type", "exact"],
                    "properties": {
                        "type": {"const": "TextQuoteSelector"},
                        "exact": {"type": "string", "minLength": 1},
                    },
                    "additionalProperties": False,
                },
            ]
        },
    },
}
"""What the model says of these classes (https://www.w3.org/TR/annotation-model/, 3 and 4), as far as used."""
FRAME = PageFrame(60, 80, 460, 600, 1)


def collection_of(*places: CitedPlace, frame: PageFrame | None = None, hashed: bool = True) -> dict[str, Any]:
    made = annotation_collection(places, title="All", frame=lambda _: frame, is_hash=lambda _: hashed)
    Draft202012Validator(MODEL).validate(made)
    return json.loads(json.dumps(made))


def annotation_of(evidence: Evidence, **values: Any) -> dict[str, Any]:  # noqa: ANN401
    (found,) = collection_of(place_of(evidence), **values)["first"]["items"]
    return found


def selectors_of(evidence: Evidence, **values: Any) -> list[Any]:  # noqa: ANN401
    """The selectors of the first target."""
    target: Any = annotation_of(evidence, **values)["target"]
    first: Any = target[0] if isinstance(target, list) else target
    found: Any = first.get("selector", [])
    return list(found) if isinstance(found, list) else [found]


def test_a_rectangle_of_a_pdf_page_is_given_in_points_and_in_percent() -> None:
    in_points, in_percent, quote = selectors_of(evidence_on(3, marks=()), frame=FRAME)
    assert in_points["value"] == "page=3&viewrect=104,120,260,80", "a rotated page is 520 points wide"
    assert in_points["conformsTo"] == in_percent["conformsTo"] == "http://tools.ietf.org/rfc/rfc3778"
    assert in_percent["value"] == "page=3"
    assert in_percent["refinedBy"]["value"] == "xywh=percent:20,30,50,20"
    assert quote == {"type": "TextQuoteSelector", "exact": "1.2 %"}


def test_without_the_file_percent_remain() -> None:
    in_percent, _ = selectors_of(evidence_on(3, marks=()))
    assert in_percent["refinedBy"]["value"] == "xywh=percent:20,30,50,20"


def test_words_of_the_answer_are_targets_of_their_own_and_heads_are_none() -> None:
    head = EvidenceMark(role=MarkRole.HEAD, box=(0.2, 0.3, 0.3, 0.32))
    marked = evidence_on()
    marked = marked.model_copy(update={"marks": (*marked.marks, head)})
    _, words = annotation_of(marked)["target"]
    assert words["selector"]["refinedBy"]["value"] == "xywh=percent:25,35,15,3"


@pytest.mark.parametrize(
    ("evidence", "values"),
    [
        (evidence_on(1, document="board.jpg", quote="", marks=()), ["xywh=percent:20,30,50,20"]),
        (evidence_on(1, (0, 0, 1, 1), (), document="board.jpg", quote=""), []),
        (evidence_on(2, (0, 0, 1, 1), (), quote=""), ["page=2"]),
        (evidence_on(2, (0, 0, 1, 1), (), document="talk.pptx", quote=""), ["page=2"]),
        (
            evidence_on(
                2, (0, 0, 1, 1), (), document="a.mp4", quote="", kind=ItemKind.CLIP, seconds=(64, 70.5)
            ),
            ["t=64,70.5"],
        ),
        (
            evidence_on(2, marks=(), document="a.mp4", quote="", kind=ItemKind.CLIP, seconds=(64.0, 70.0)),
            ["t=64,70&xywh=percent:20,30,50,20"],
        ),
        (evidence_on(2, None, (), document="notes.md", quote="", kind=ItemKind.PASSAGE), []),
    ],
)
def test_each_kind_of_evidence_has_its_own_fragments(evidence: Evidence, values: list[str]) -> None:
    assert [selector["value"] for selector in selectors_of(evidence, frame=None)] == values


def test_a_document_is_named_by_its_hash_or_by_its_file_name() -> None:
    def source(evidence: Evidence, *, hashed: bool) -> dict[str, Any]:
        return annotation_of(evidence, hashed=hashed)["target"]["source"]

    evidence = evidence_on(marks=(), document="年报 2024/ü.pdf")
    assert source(evidence, hashed=True) == {
        "id": f"urn:sha256:{'ab' * 32}",
        "type": "Text",
        "format": "application/pdf",
        "label": "年报 2024/ü.pdf",
    }
    id = source(evidence, hashed=False)["id"]
    assert unquote(id) == "./年报 2024/ü.pdf"
    assert source(evidence_on(marks=(), document="x.unknown"), hashed=False).keys() == {"id", "label"}


def test_bodies_tell_number_question_answer_and_verdict() -> None:
    verdict = ("Supported [2.1]: “1.2 %”.",)
    place = place_of(evidence_on(), "2.1", parts=("It was 1.2 %",), verdict_lines=verdict)
    (annotation,) = collection_of(place)["first"]["items"]
    assert {body["purpose"]: body["value"] for body in annotation["body"]} == {
        "identifying": "[2.1]",
        "questioning": "What was the margin?",
        "commenting": "It was 1.2 %",
        "assessing": "Supported [2.1]: “1.2 %”.",
    }
    assert annotation["created"] == "2026-03-01T10:15:00Z"


def test_ids_are_unique_and_an_empty_collection_has_no_page() -> None:
    made = collection_of(*(place_of(evidence_on(page), f"{page}") for page in range(1, 5)))
    assert made["total"] == len({each["id"] for each in made["first"]["items"]}) == 4
    assert made["last"] == made["first"]["id"]
    assert "first" not in collection_of()


sides = st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted).filter(lambda pair: pair[1] - pair[0] > 1e-3)


@given(x=sides, y=sides, turn=st.integers(0, 3))
def test_fragments_lead_back_to_the_rectangle(x: list[float], y: list[float], turn: int) -> None:
    box: BoxSides = (x[0], y[0], x[1], y[1])
    if min(x[1] - x[0], y[1] - y[0]) >= 0.99:
        return
    frame = PageFrame(10, 20, 400, 620, turn)
    points, percent, *_ = selectors_of(evidence_on(1, box, ()), frame=frame)
    width, height = frame.shown_size
    for value, across, down in (
        (percent["refinedBy"]["value"], 100, 100),
        (points["value"], width, height),
    ):
        found = re.search(r"(?:percent:|viewrect=)([\d.]+),([\d.]+),([\d.]+),([\d.]+)$", value)
        assert found, value
        left, top, wide, high = map(float, found.groups())
        back = (left / across, top / down, (left + wide) / across, (top + high) / down)
        assert all(math.isclose(a, b, abs_tol=1e-5) for a, b in zip(back, box, strict=True))
