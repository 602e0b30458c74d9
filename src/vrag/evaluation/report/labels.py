"""Texts of a report: labels of measures, groups and outcomes, their values, and the settings of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from vrag.evaluation.measures.chains import CHAINS, VERIFIER
from vrag.evaluation.measures.docscope import COUNTED, PAGES, RATIOS
from vrag.evaluation.measures.run_measures import CITING, CONDUCT, COUNTS, GROUNDING, LOOKING, TRUST
from vrag.evaluation.record import CaseOutcome
from vrag.evaluation.retrieval import BLANK
from vrag.reading.verification.claim import ClaimVerdict
from vrag.render.text_format import amount, money, seconds
from vrag.text.numerals import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vrag.evaluation.prepare import PreparedPart
    from vrag.evaluation.result_store import Conditions
    from vrag.evaluation.summary import Estimate

MOODS = {
    CaseOutcome.RIGHT: "good",
    CaseOutcome.WRONG: "bad",
    CaseOutcome.ABSTAINED: "calm",
    CaseOutcome.UNJUDGED: "fair",
    CaseOutcome.FAILED: "lost",
}
"""Class of an outcome in the style sheet."""
VERDICTS = {
    ClaimVerdict.SEEN: "Seen",
    ClaimVerdict.COMPUTED: "Computed",
    ClaimVerdict.STATED: "Stated",
    ClaimVerdict.DOUBTED: "Doubted",
    ClaimVerdict.UNVERIFIED: "Unverified",
}
"""Labels of the verifier's verdicts."""
STAGE_MOODS = {
    "holds": "good",
    "not measured": "passed",
    "breaks here": "bad",
    "broke before": "before",
}
"""Class of what becomes of a chain at a stage, in the style sheet."""
CELLS = {"both": "Both right", "a": "Only A right", "b": "Only B right", "neither": "Neither right"}
"""Outcomes of a question in two runs that both have a verdict on it."""
OF_ANSWERS = (
    "accuracy",
    "em",
    "f1",
    "anls",
    "mmlongbench",
    "mmlongbench/f1",
    "hotpotqa/f1",
    "hotpotqa/precision",
    "hotpotqa/recall",
    "slidevqa/em",
    "slidevqa/f1",
    "m3docvqa/em",
    "m3docvqa/f1",
    "lvbench",
    "lvbench/official",
    "webqa/acc",
)
"""Measures of answers, in the order of the report."""
FAMILIES = {
    "Answers": OF_ANSWERS,
    "Trust": tuple(TRUST),
    "Search: pages": ("ndcg@5", "ndcg@10", "recall@1", "recall@3", "recall@5", "recall@10", "mrr"),
    "Search: documents": ("document_recall@10",),
    "Search: regions": (
        "region_recall@1",
        "region_recall@5",
        "region_recall@10",
        "region_precision@1",
        "region_precision@5",
        "region_precision@10",
    ),
    "What the agent looked at": ("seen_recall", "seen_ndcg"),
    "What the answer cites": (
        "cited_em",
        "cited_f1",
        "cited_precision",
        "cited_recall",
        "hotpotqa/joint_paragraph_em",
        "hotpotqa/joint_paragraph_f1",
    ),
    "Grounding": ("evidence_page", "centre", "iou", "box_area"),
    "Chains of evidence": (
        "chain_complete",
        "chain_complete_right",
        "chain_page",
        "cited_page_recall",
        "chain_region",
        "region_f1",
        "region_iou",
        "region_given_page",
        "chain_fact",
        "fact_given_region",
        "chain_answer",
        "answer_given_fact",
    ),
    "Verifier": (
        "claims_stated",
        "claims_verified",
        "doubted",
        "doubt_recall",
        "doubt_precision",
        "wrong_verified",
        "right_doubted",
    ),
    "DocScope": (*PAGES, *RATIOS),
    "DocScope: counts of a question": tuple(COUNTED),
    "Abstention": ("abstention_recall", "abstention_precision", "false_abstention"),
    "Conduct": ("answered", "abstained", "invalid", "repaired"),
    "Cost of a question": (
        "turns",
        "searches",
        "crops",
        "prompt_tokens",
        "completion_tokens",
        "visual_tokens",
        "pixels",
        "seconds",
        "model_seconds",
        "cost",
    ),
}
"""Measures by section of the report; all others belong to the answers."""
FURTHER = frozenset({"Search: documents", "Search: regions", "DocScope", "Conduct"})
"""Families that the headline leaves to the tables."""
_NOTES = {
    "Trust": "What became of a question: answers, right or wrong; places without an answer; or nothing. Runs "
    "that broke off are left out.",
    "Search: pages": "What a search for the question, word for word, finds of the gold pages.",
    "Search: documents": "What the same search finds of the gold documents.",
    "Search: regions": "Recall: how much of the gold boxes the regions cover that it offers; precision: how "
    "much of these regions is gold. A page offered whole has all recall: read the two together.",
    "What the agent looked at": "Gold pages among those that the model was shown.",
    "Grounding": "Of answers with an evidence box, to questions with a gold box. What covers much of the "
    "page covers centres by chance: read them together.",
    "Chains of evidence": "Of questions with gold pages and an answer, whatever became of the run. A stage "
    "without gold is passed over; n says for how many questions each was measured.",
    "Verifier": "Verdicts of the verifier on claims, beside the judge's verdict on answers.",
    "Abstention": "Recall is of questions that cannot be answered, precision of answers that were declined.",
}
FILTERS = frozenset({"benchmark", "source_type", "query_type", "document_type"})
"""Properties that the list of cases can be narrowed by."""
_DEFINITIONS = {
    **CHAINS,
    **CITING,
    **CONDUCT,
    **COUNTED,
    **GROUNDING,
    **LOOKING,
    **PAGES,
    **{name: ratio.definition for name, ratio in RATIOS.items()},
    **TRUST,
    **VERIFIER,
    "abstention_recall": "of questions that cannot be answered, the share that was declined",
    "abstention_precision": "of those declined, the share that cannot be answered",
    "false_abstention": "of questions with an answer, the share that was declined all the same",
}
_LABELS = {
    "answer_precision": "Right among answers given",
    "wrong_but_seen": "Wrong, and all claims seen",
    "places": "Places, no answer",
    "nothing": "Nothing found",
    "p50": "Half take at most",
    "p90": "90 % take at most",
    "p95": "95 % take at most",
    "p99": "99 % take at most",
    "em": "Exact match",
    "f1": "Token F1",
    "anls": "ANLS",
    "mmlongbench": "MMLongBench-Doc",
    "mmlongbench/f1": "MMLongBench-Doc F1",
    "mrr": "MRR",
    "seen_recall": "Gold pages shown",
    "seen_ndcg": "nDCG of what was shown",
    "evidence_page": "First evidence on a gold page",
    "centre": "Box covers a gold centre",
    "iou": "Overlap with gold (IoU)",
    "box_area": "Share of the page covered",
    "chain_complete": "Complete chains",
    "chain_complete_right": "Complete chains among right answers",
    "chain_page": "Page",
    "cited_page_recall": "Gold pages cited",
    "chain_region": "Region",
    "region_f1": "Region F1",
    "region_iou": "Region IoU",
    "region_given_page": "Region, given the page",
    "chain_fact": "Fact",
    "fact_given_region": "Fact, given page and region",
    "chain_answer": "Answer",
    "answer_given_fact": "Answer, given the others",
    "claims_stated": "Claims stated",
    "claims_verified": "Claims verified",
    "doubted": "Answers doubted",
    "doubt_recall": "Doubted among wrong answers",
    "doubt_precision": "Wrong among doubted answers",
    "wrong_verified": "Verified among wrong answers",
    "right_doubted": "Doubted among right answers",
    "abstention_precision": "Abstention precision",
    "abstention_recall": "Abstention recall",
    "false_abstention": "Abstained though answerable",
    "answered": "Came to its end",
    "invalid": "Invalid actions",
    "repaired": "Repaired replies",
    "hotpotqa/f1": "HotpotQA F1",
    "hotpotqa/precision": "HotpotQA precision",
    "hotpotqa/recall": "HotpotQA recall",
    "hotpotqa/joint_paragraph_em": "HotpotQA joint exact match (paragraphs)",
    "hotpotqa/joint_paragraph_f1": "HotpotQA joint F1 (paragraphs)",
    "m3docvqa/em": "M3DocVQA list exact match",
    "m3docvqa/f1": "M3DocVQA list F1",
    "cited_em": "Cited exactly the gold documents",
    "cited_f1": "Cited documents, F1",
    "slidevqa/em": "SlideVQA exact match",
    "slidevqa/f1": "SlideVQA F1",
    "docscope/page_precision": "Pages, precision",
    "docscope/page_recall": "Pages, recall",
    "docscope/page_f1": "Pages, F1",
    "docscope/page_f1_micro": "Pages, F1 of all together",
    "docscope/covered": "Gold boxes covered",
    "docscope/imprecise": "Gold boxes covered in part",
    "docscope/facts_consistent": "Gold facts stated",
    **{name: name.removeprefix("docscope/").replace("_", " ").capitalize() for name in COUNTED},
    "lvbench": "LVBench",
    "lvbench/official": "LVBench, as its script reads letters",
    "webqa/acc": "WebQA accuracy (approximation)",
}
SECONDS_TITLE = "Seconds, by rank"
STRICT = "short answers alone are right"
"""Caution about rules as a judge."""
_WITHOUT_MODEL = "extractive"
"""Name of the policy that answers without a model."""
_MAX_NAMED = 3
"""Benchmarks in a title; more are counted."""
_MAX_LISTED = 20
"""Documents in a list; more are counted."""


def label_of(name: str) -> str:
    """Return the label of a measure.

    >>> label_of("ndcg@5"), label_of("prompt_tokens"), label_of("document_recall@10")
    ('nDCG@5', 'Prompt tokens', 'Document recall@10')
    """
    if name.startswith("ndcg@"):
        return f"nDCG{name[4:]}"
    words = name.replace("_", " ")
    return _LABELS.get(name, words[:1].upper() + words[1:])


def grouping_name(name: str) -> str:
    """Return the label of a property by which questions are grouped.

    >>> grouping_name("source_type")
    'Source type'
    """
    words = name.replace("_", " ")
    return words[:1].upper() + words[1:]


def is_share(name: str) -> bool:
    """Return whether a measure lies between 0 and 1."""
    return name not in COUNTS


def described(name: str) -> str:
    """Return the definition of a measure in a few words; empty where its name is enough."""
    text = _DEFINITIONS.get(name, "")
    return text[:1].upper() + text[1:]


def families(names: Iterable[str]) -> dict[str, list[str]]:
    """Group measures by family, in the order of the report; a family without one is left out."""
    given = list(names)
    known = {name for family in FAMILIES.values() for name in family}
    found = {family: [name for name in members if name in given] for family, members in FAMILIES.items()}
    found["Answers"] += [name for name in given if name not in known]
    return {family: members for family, members in found.items() if members}


def note_of(family: str) -> str:
    """Return an explanation of a family of measures; empty where its names are enough."""
    return _NOTES.get(family, "")


def value_text(name: str, value: float | None) -> str:
    """Format a value of a measure.

    >>> value_text("ndcg@5", 0.61234), value_text("pixels", 1e6), value_text("f1", None)
    ('0.612', '1,000,000', '–')
    """
    if value is None:
        return "–"
    if name in {"seconds", "model_seconds"}:
        return seconds(value)
    if name == "cost":
        return money(value)
    if name in COUNTS:
        return amount(value) if value >= 100 else f"{value:.1f}"
    return f"{value:.3f}"


def interval_text(name: str, estimate: Estimate) -> str:
    """Format the interval of an estimate, with a star where documents were few; empty without one.

    >>> from vrag.evaluation.summary import Estimate
    >>> interval_text("em", Estimate(0.5, 90, 0.41, 0.6))
    '0.410–0.600'
    """
    if estimate.low is None or estimate.high is None:
        return ""
    return f"{value_text(name, estimate.low)}–{value_text(name, estimate.high)}{'*' if estimate.few else ''}"


def estimate_text(name: str, estimate: Estimate | None) -> str:
    """Format the mean of an estimate, with its interval in brackets if it has one; a dash for None.

    >>> from vrag.evaluation.summary import Estimate
    >>> estimate_text("em", Estimate(0.5, 90, 0.41, 0.6)), estimate_text("em", None)
    ('0.500 (0.410–0.600)', '–')
    """
    mean = value_text(name, estimate and estimate.mean)
    interval = "" if estimate is None else interval_text(name, estimate)
    return f"{mean} ({interval})" if interval else mean


def signed_text(name: str, value: float) -> str:
    """Format a difference of a measure, with its sign.

    >>> signed_text("f1", 0.0831), signed_text("seconds", -3), signed_text("em", -0.0001)
    ('+0.083', '−3.0 s', '0.000')
    """
    text = value_text(name, abs(value))
    sign = "+" if value > 0 else "−"
    return f"{sign}{text}" if any(digit in text for digit in "123456789") else text


def p_text(p: float | None) -> str:
    """Format a p value; never 0.

    >>> p_text(0.04231), p_text(0.00001), p_text(None)
    ('0.042', '< 0.001', '–')
    """
    if p is None:
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def title_of(parts: Sequence[PreparedPart]) -> str:
    """Return the title of benchmarks that were asked together."""
    if len(parts) == 1:
        return parts[0].title
    names = [part.title.partition(" (")[0] for part in parts]
    if len(names) > _MAX_NAMED:
        return f"{count(len(names), 'benchmark')}: {', '.join(names)}"
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:]))) or "Evaluation"


def facts_of(conditions: Conditions) -> dict[str, str]:
    """Return the settings of a run by name, without those that are not set.

    Conditions of former versions have fewer; values that are not as expected are left out.
    """
    made = conditions.made_with
    limits, environment = (_mapping(made.get(name)) for name in ("limits", "environment"))
    collection, deadline, policy = made.get("collection"), made.get("deadline"), made.get("policy")
    has_deadline = isinstance(deadline, int | float) and not isinstance(deadline, bool)
    shown = "white images, to tell looking from guessing" if str(collection).endswith(BLANK) else ""
    judge = conditions.judge_identity or conditions.judge
    parts = conditions.benchmarks
    benchmarks = (
        f"{part.name}{f':{part.split}' if part.split else ''}, {count(part.cases, 'question')}"
        for part in parts
    )
    documents, searched = "", conditions.searched
    if searched is not None:
        documents = f"{searched.documents:,} searched"
        if searched.absent:  # gold documents that were not searched
            are, more = "is" if len(searched.absent) == 1 else "are", len(searched.absent) - _MAX_LISTED
            names = ", ".join(searched.absent[:_MAX_LISTED]) + (f" and {more:,} more" if more > 0 else "")
            documents += f"; {count(len(searched.absent), 'gold document')} {are} not: {names}"
    facts: dict[str, object] = {
        "benchmarks": "; ".join(benchmarks) if len(parts) > 1 else "",
        "agent": made.get("agent"),
        "model": "none" if policy == _WITHOUT_MODEL else policy,
        "checkpoint": _digest(made.get("checkpoint")),
        "profile": made.get("profile"),
        "sampling": _listed(_mapping(made.get("sampling"))),
        "judge": f"{judge} ({STRICT})" if judged_by_rules(conditions) else judge,
        "short answers": conditions.extractor and f"extracted by {conditions.extractor}",
        "runs of a question": conditions.samples,
        "steps at most": limits.get("steps"),
        "other limits": _listed({name: value for name, value in limits.items() if name != "steps"}),
        "embedder": made.get("embedder"),
        "ranking": made.get("ranking"),
        "hits of a search": environment.get("hits"),
        "deadline of a run": seconds(float(deadline or 0)) if has_deadline else "",
        "documents": documents,
        "pages shown": shown,
        "collection": collection,
        "questions": _digest(conditions.cases),
        "licence": "; ".join(dict.fromkeys(part.licence for part in parts)),
        "vrag": conditions.version,
        "whole": "no: it was stopped before all questions were asked" if conditions.stopped else "yes",
    }
    return {name: str(value) for name, value in facts.items() if value not in (None, "")}


def unfinished_of(conditions: Conditions, runs: int) -> str:
    """Return in a sentence how far a stopped run came with its records; empty if it was finished.

    Former versions did not keep the number of questions.
    """
    if not conditions.stopped:
        return ""
    if not conditions.asked:
        return "Stopped before all questions were asked."
    noun = "question" if conditions.samples == 1 else "run"
    done = f"{runs:,} of {count(conditions.asked * conditions.samples, noun)}"
    return f"{done}: it was stopped before the others were asked."


def judged_by_rules(conditions: Conditions) -> bool:
    """Return whether rules decided which answers are right, not a model."""
    return (conditions.judge_identity or conditions.judge).startswith("rules")


def _digest(value: object) -> str:
    return f"SHA-256 {value[:16]}…" if isinstance(value, str) and value else ""


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items() if value is not None)


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
