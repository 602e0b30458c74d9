"""What was run, in words: the settings that a report tells, so that others can run it again."""

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
"""What is to be known of rules as a judge."""
_OFFLINE = "extractive"
"""Name of the policy that answers without a model."""
_NAMED = 3
"""Benchmarks that a title names; more are counted."""
_LISTED = 20
"""Documents that are named; more are counted."""


def title_of(parts: Sequence[PreparedPart]) -> str:
    """What was evaluated: the benchmark, or several.

    Args:
        parts: Those that were asked together.
    """
    if len(parts) == 1:
        return parts[0].title
    names = [part.title.partition(" (")[0] for part in parts]
    if len(names) > _NAMED:
        return f"{count(len(names), 'benchmark')}: {', '.join(names)}"
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:]))) or "Evaluation"


def facts_of(conditions: Conditions) -> dict[str, str]:
    """What was run, by name; what nobody set is left out.

    Args:
        conditions: Also those of former versions, which had fewer; what is not as expected is left out.
    """
    made = conditions.made_with
    limits, environment = (_mapping(made.get(name)) for name in ("limits", "environment"))
    told: dict[str, object] = {
        "benchmarks": _benchmarks(conditions.benchmarks),
        "agent": made.get("agent"),
        "model": _model(made.get("policy")),
        "checkpoint": _digest(made.get("checkpoint")),
        "profile": made.get("profile"),
        "sampling": _named(_mapping(made.get("sampling"))),
        "judge": _judge(conditions),
        "short answers": conditions.extractor and f"extracted by {conditions.extractor}",
        "runs of a question": conditions.samples,
        "steps at most": limits.get("steps"),
        "other limits": _named({name: value for name, value in limits.items() if name != "steps"}),
        "embedder": made.get("embedder"),
        "ranking": made.get("ranking"),
        "hits of a search": environment.get("hits"),
        "deadline of a run": _seconds(made.get("deadline")),
        "documents": _searched(conditions.searched),
        "pages shown": _shown(made.get("collection")),
        "collection": made.get("collection"),
        "questions": _digest(conditions.cases),
        "licence": "; ".join(dict.fromkeys(part.licence for part in conditions.benchmarks)),
        "vrag": conditions.version,
        "whole": "no: it was stopped before all questions were asked" if conditions.stopped else "yes",
    }
    return {name: str(value) for name, value in told.items() if value not in (None, "")}


def _benchmarks(parts: Sequence[PreparedPart]) -> str:
    """Where they are several: each with its split and how many questions it has."""
    if len(parts) < 2:
        return ""
    return "; ".join(
        f"{part.name}{f':{part.split}' if part.split else ''}, {count(part.cases, 'question')}"
        for part in parts
    )


def unfinished_of(conditions: Conditions, runs: int) -> str:
    """In a sentence, how far a run came that was stopped; empty where it came to its end.

    Args:
        conditions: Also those of former versions, which did not keep how much was to be asked.
        runs: How many records there are.
    """
    if not conditions.stopped:
        return ""
    if not conditions.asked:
        return "Stopped before all questions were asked."
    noun = "question" if conditions.samples == 1 else "run"
    told = f"{runs:,} of {count(conditions.asked * conditions.samples, noun)}"
    return f"{told}: it was stopped before the others were asked."


def _model(policy: object) -> object:
    return "none: the offline policy, whatever the agent" if policy == _OFFLINE else policy


def _judge(conditions: Conditions) -> str:
    told = conditions.judge_identity or conditions.judge
    return f"{told} ({STRICT})" if judged_by_rules(conditions) else told


def judged_by_rules(conditions: Conditions) -> bool:
    """Whether rules said what is right, and no model."""
    return (conditions.judge_identity or conditions.judge).startswith("rules")


def _searched(searched: Searched | None) -> str:
    """How many; and by name those that are not, though questions are about them."""
    if searched is None:
        return ""
    told = f"{searched.documents:,} searched"
    if not searched.absent:
        return told
    are, more = "is" if len(searched.absent) == 1 else "are", len(searched.absent) - _LISTED
    names = ", ".join(searched.absent[:_LISTED]) + (f" and {more:,} more" if more > 0 else "")
    return f"{told}; {count(len(searched.absent), 'gold document')} {are} not: {names}"


def _shown(collection: object) -> str:
    return "white pictures, to tell looking from guessing" if str(collection).endswith(BLANK) else ""


def _seconds(value: object) -> str:
    return seconds(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""


def _digest(value: object) -> str:
    return f"SHA-256 {value[:16]}…" if isinstance(value, str) and value else ""


def _named(values: Mapping[str, Any]) -> str:
    """Settings beside each other; those that are not set are left out."""
    return ", ".join(f"{name} {value}" for name, value in values.items() if value is not None)


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
