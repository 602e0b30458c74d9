"""Facts about a run in words: the settings in a report, to run it again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from vrag.evaluation.blank_searcher import BLANK
from vrag.render.text_format import count, seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.evaluation.prepare import PreparedPart
    from vrag.evaluation.result_store import Conditions, Searched

STRICT = "short answers alone are right"
"""Caution about rules as a judge."""
_OFFLINE = "extractive"
"""Name of the policy that answers without a model."""
_MAX_NAMED = 3
"""Benchmarks in a title; more are counted."""
_MAX_LISTED = 20
"""Documents in a list; more are counted."""


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
    facts: dict[str, object] = {
        "benchmarks": "; ".join(benchmarks) if len(parts) > 1 else "",
        "agent": made.get("agent"),
        "model": "none: the offline policy, whatever the agent" if policy == _OFFLINE else policy,
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
        "documents": _searched(conditions.searched),
        "pages shown": shown,
        "collection": collection,
        "questions": _digest(conditions.cases),
        "licence": "; ".join(dict.fromkeys(part.licence for part in parts)),
        "vrag": conditions.version,
        "whole": "no: it was stopped before all questions were asked" if conditions.stopped else "yes",
    }
    return {name: str(value) for name, value in facts.items() if value not in (None, "")}


def unfinished_of(conditions: Conditions, runs: int) -> str:
    """Return in a sentence how far a stopped run came; empty if it was finished.

    Args:
        conditions: Its conditions; former versions did not keep the number of questions.
        runs: Number of records.
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


def _searched(searched: Searched | None) -> str:
    """Return how many documents were searched, and which gold documents were not."""
    if searched is None:
        return ""
    documents = f"{searched.documents:,} searched"
    if not searched.absent:
        return documents
    are, more = "is" if len(searched.absent) == 1 else "are", len(searched.absent) - _MAX_LISTED
    names = ", ".join(searched.absent[:_MAX_LISTED]) + (f" and {more:,} more" if more > 0 else "")
    return f"{documents}; {count(len(searched.absent), 'gold document')} {are} not: {names}"


def _digest(value: object) -> str:
    return f"SHA-256 {value[:16]}…" if isinstance(value, str) and value else ""


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items() if value is not None)


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
