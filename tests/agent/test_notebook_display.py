"""Results and evidence as HTML for notebooks: the text of documents and models is never markup."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from IPython.core.formatters import HTMLFormatter
from selectolax.lexbor import LexborHTMLParser

from vrag.agent.answers.citation import Citation
from vrag.agent.budget import StopReason
from vrag.agent.evidence import Evidence
from vrag.agent.runs.run_result import RunResult
from vrag.types import ItemKind

ELEMENTS = {"html", "head", "body", "div", "p", "strong", "bdi", "ol", "li", "br", "small"}
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1) | st.sampled_from(
    [
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "</bdi></div><b>",
        "&lt;b&gt;",
        "$x$ and $y$",
    ]
)
EVIDENCE = Evidence(
    item="i", document="report.pdf", document_id="d", page=3, kind=ItemKind.PAGE, box=(0, 0, 0.5, 0.5)
)


def parse(html: str) -> LexborHTMLParser:
    page = LexborHTMLParser(html)
    assert {node.tag for node in page.css("*")} <= ELEMENTS
    return page


def shown(value: RunResult | Evidence) -> str:
    """The text that a notebook shows, after the checks that hold for all of it."""
    page = parse(HTMLFormatter()(value) or "")
    assert all(node.attributes.keys() <= {"class", "style", "value"} for node in page.css("*"))
    assert page.css("div.mathjax_ignore"), "amounts in $ are no formulas"
    return page.body.text() if page.body else ""


@given(TEXTS, TEXTS, TEXTS, TEXTS)
def test_every_text_is_shown_as_it_is(question: str, answer: str, name: str, quote: str) -> None:
    evidence = EVIDENCE.model_copy(update={"document": name, "quote": quote})
    result = RunResult(question=question, answer=answer, evidence=(evidence,), cited=1)
    assert shown(evidence).endswith(quote)
    text = shown(result)
    for part in (question, answer, name, quote):
        assert part in text


def test_an_answer_has_its_markers_and_the_evidence_it_rests_on() -> None:
    looked_at = EVIDENCE.model_copy(update={"document": "other.pdf"})
    result = RunResult(
        question="Which?",
        answer="This one.",
        evidence=(EVIDENCE, looked_at),
        cited=1,
        citations=(Citation(start=0, end=9, numbers=(1,), source="model"),),
    )
    text = shown(result)
    assert "This one [1]." in text
    assert "report.pdf, page 3" in text
    assert "other.pdf" not in text


def test_a_run_without_an_answer_says_why() -> None:
    run = RunResult(question="Which?")
    assert "This run is still running." in shown(run)
    assert "found no answer in the documents" in shown(replace(run, stop_reason=StopReason.ABSTAINED))
    assert "no server" in shown(replace(run, failure="no server"))
    assert "The evidence does not support this answer: 7" in shown(replace(run, withdrawn="7"))
