"""A run as the object that `--json` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vrag.agent.events import UsageReported
    from vrag.agent.evidence import Evidence
    from vrag.agent.runs.run_result import RunStep, RunUsage
    from vrag.agent.runs.run_store import StoredRun

NODE_FIELDS = ("id", "kind", "parents", "query", "summary")
IMAGE_FIELDS = ("item", "document", "page", "label", "box", "seconds")
USAGE_FIELDS = ("prompt_tokens", "completion_tokens", "cached_tokens", "visual_tokens", "pixels")


def run_as_json(stored: StoredRun) -> dict[str, Any]:
    """Return question, answer, evidence, steps, memory graph and cost of a run."""
    from vrag.agent.runs.run_result import citations

    run = stored.result
    cited = citations(run.evidence, stored.started.settings, answered=run.answer is not None)
    return {
        "question": run.question,
        "answer": run.answer,
        "stop_reason": run.stop_reason,
        "evidence": [_evidence(evidence, stored) for evidence in cited.rests],
        "looked_at": [_evidence(evidence, stored) for evidence in cited.besides],
        "unsupported": list(run.unsupported),
        "steps": [_step(step) for step in run.steps],
        "graph": run.graph and [_fields(node, NODE_FIELDS) for node in run.graph.nodes],
        "usage": {"steps": run.calls, **_usage(run.usage), "seconds": round(run.seconds, 4)},
        "failure": run.failure,
        "notices": list(stored.started.notices),
        "run": stored.id,
    }


def _fields(record: object, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}


def _evidence(evidence: Evidence, run: StoredRun) -> dict[str, Any]:
    crop = evidence.crop_sha256
    return {
        **_fields(evidence, ("item", "document", "page", "kind", "box", "seconds", "node")),
        "crop": str(run.file(crop)) if crop else None,
        "quote": evidence.quote,
    }


def _step(step: RunStep) -> dict[str, Any]:
    return {
        "step": step.number,
        "thought": step.thought,
        "search": None if step.action else step.query,
        **_fields(step, ("crop", "action", "node", "invalid")),
        "repaired": list(step.repairs),
        "usage": step.usage
        and {**_usage(step.usage), **_fields(step.usage, ("memory_tokens", "fresh_tokens"))},
        "shown": [_fields(image, IMAGE_FIELDS) for image in step.shown],
    }


def _usage(usage: RunUsage | UsageReported) -> dict[str, Any]:
    return {
        **_fields(usage, USAGE_FIELDS),
        "seconds": round(usage.seconds, 4),
        "model_seconds": round(usage.model_seconds, 4),
        "cost": usage.cost,
    }
