"""What a run says and how it ended, for people and for machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vrag.cli.ask.graph_tree import graph_tree
from vrag.cli.terminal.console import file_uri, out, plain, say
from vrag.cli.terminal.hints import again

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vrag.agent.budget import Limits
    from vrag.agent.events import (
        Event,
        GraphChanged,
        ImageShown,
        MemoryUpdated,
        RunSettings,
        RunStarted,
        SearchReturned,
        UsageReported,
    )
    from vrag.agent.evidence import Evidence
    from vrag.agent.memory.memory_graph import Node
    from vrag.agent.runs.run_result import RunResult, RunStep, RunUsage
    from vrag.agent.runs.run_store import RunState, StoredRun
    from vrag.settings import Settings

__all__ = ["RunPrinter", "as_json", "tell_end"]

QUERY, REPLY = 400, 200
"""Characters of what a model wrote that are printed."""


class RunPrinter:
    """Prints the events of one run as they happen."""

    def __init__(self) -> None:
        self._reply = ""
        self._repairs: tuple[str, ...] = ()
        self._found: SearchReturned | None = None
        self._step = 0
        """The last step that was printed with its number."""
        self._summarised: set[str] = set()
        """Nodes whose summaries were printed."""

    def tell(self, event: Event) -> None:
        """Prints an event, as far as it says anything to people."""
        from vrag.agent import events as e

        match event:
            case e.ModelCalled():
                self._reply, self._repairs = event.reply, event.repairs
            case e.SearchReturned():
                self._found = event
                _tell_left_out(event.damaged)
            case e.ActionReturned():
                _tell_left_out(event.damaged)
            case e.ImageShown() | e.PassageShown():
                self._found = None
            case e.InvalidAction():
                self._step = event.step
                _tell_refused(event.step, event.reason, self._reply)
            case e.GraphChanged():
                self._tell_summaries(event)
            case e.UsageReported() if self._found is not None:  # the step ends, and nothing was shown
                _tell_nothing_shown(self._found)
                self._found = None
            case _:
                pass
        _tell_event(event, self._lead)
        if isinstance(event, e.UsageReported) and self._repairs:
            say("   repaired ", (plain("; ".join(self._repairs), QUERY), "yellow"))
            self._repairs = ()

    def _lead(self, step: int) -> tuple[str, str]:
        """How a line of a step begins: the first with the step's number, also without a thought."""
        if step <= self._step:
            return "   ", ""
        self._step = step
        return f"{step}. ", "bold"

    def _tell_summaries(self, event: GraphChanged) -> None:
        """Prints what was found at nodes that have just been summarised."""
        for node in event.graph.nodes:
            if node.summary and node.id not in self._summarised:
                self._summarised.add(node.id)
                say(self._lead(event.step), "summary ", plain(node.summary, 400), _of_node(node.id))


def _tell_refused(step: int, reason: str, reply: str) -> None:
    say((f"{step}. ", "bold"), ("refused ", "yellow"), plain(reason))
    say("   ", (f"“{plain(reply, REPLY)}”" if reply.strip() else "The reply was empty.", "dim"))


def _tell_left_out(reasons: Sequence[str]) -> None:
    """Prints what was found and is not shown, or not as a whole."""
    for reason in reasons:
        say("   left out ", (plain(reason, QUERY), "yellow"))


def _tell_nothing_shown(found: SearchReturned) -> None:
    hits = f"{len(found.hits)} hit{'' if len(found.hits) == 1 else 's'}, nothing new to show."
    say("   found   ", (hits, "yellow"))


def _tell_event(event: Event, lead: Callable[[int], tuple[str, str]]) -> None:
    from vrag.agent import events as e

    match event:
        case e.ThoughtGiven():
            lead(event.step)
            say((f"{event.step}. ", "bold"), (plain(event.text, 400), "dim"))
        case e.SearchRequested():
            say(lead(event.step), "search  ", (plain(event.query, QUERY), "cyan"), _of_node(event.node))
        case e.CropRequested():
            sides = ", ".join(f"{side:g}" for side in event.box)
            what = f"{event.label}" if event.label else f"image {event.image or 'shown last'}"
            say(
                lead(event.step),
                "crop    ",
                (f"[{sides}]", "cyan"),
                f" of {plain(what, QUERY)}",
                _of_node(event.node),
            )
        case e.ActionRequested():
            say(lead(event.step), f"{event.name} ", (plain(event.text, QUERY), "cyan"), _of_node(event.node))
        case e.ImageShown():
            what = "enlarged" if event.crop else "looking at"
            moment = "" if event.seconds is None else f", {event.seconds:.1f} s"
            where = f"{plain(event.document)}, page {event.page}{moment}"
            say(lead(event.step), f"{what} ", (where, "magenta"), f" ({event.width}×{event.height})")
        case e.PassageShown():
            say(lead(event.step), "reading ", (f"{plain(event.document)}, passage {event.page}", "magenta"))
        case e.MemoryUpdated():
            _tell_memory(event, lead(event.step))
        case e.ContextShortened():
            gone = plain(", ".join(event.dropped), QUERY)
            say("   ", ("shorter ", "yellow"), f"Too long for the model; asked again without {gone}.")
        case e.ModelRetried():
            say("   ", ("again   ", "yellow"), plain(event.reason), f" Next try in {event.seconds:.1f} s.")
        case _:
            return


def _of_node(node: str | None) -> str:
    return f" → {plain(node)}" if node else ""


def _tell_memory(event: MemoryUpdated, lead: tuple[str, str]) -> None:
    """Prints what is remembered now, and what there was no room for."""
    kept = ", ".join(f"{plain(one.label)} of {plain(one.node)} ({one.tokens})" for one in event.kept)
    room = f"{event.tokens} of {event.budget} visual tokens"
    say(lead, "memory  ", (kept or "nothing", "magenta"), (f", {room}", "dim"))
    for one in event.dropped:
        say("           ", (f"without {plain(one.label)} of {plain(one.node)}: {plain(one.reason)}", "dim"))
    for report in event.reports:
        say("           ", (plain(report), "dim"))


def tell_end(stored: StoredRun, state: RunState, settings: Settings | None = None) -> None:
    """Prints how a run ended, and where its answer was seen.

    Args:
        stored: The run.
        state: Whether it is over.
        settings: Of the collection it lies in, where the command line does not name it.
    """
    run, started = stored.result, stored.started
    say("")
    if run.graph is not None and len(run.graph.nodes) > 1:
        out.print(graph_tree(run.graph), soft_wrap=False)
        say("")
    if run.answer is not None:
        _tell_answer(run, started.settings)
    else:
        _tell_no_answer(run, started.settings, state, settings)
    _tell_citations(run, stored, started)
    for notice in started.notices:
        say(("Note: ", "yellow"), plain(notice))
    for fault in run.unsupported:
        say(("Left out: ", "yellow"), plain(fault))
    files = f" · pictures in {file_uri(stored.directory / 'files')}" if run.usage.visual_tokens else ""
    say((f"{_spent(stored.events)} · run {stored.id}{files}", "dim"))


def _tell_answer(run: RunResult, settings: RunSettings) -> None:
    from vrag.render.outcome import OFFLINE, QUOTED

    say(("Answer: ", "bold green"), plain(run.answer or ""))
    if not (run.evidence or run.unsupported):
        say(("No evidence: nothing was looked at.", "yellow"))
    if settings.policy == OFFLINE:
        say((QUOTED, "dim"))


def _tell_no_answer(run: RunResult, settings: RunSettings, state: RunState, place: Settings | None) -> None:
    """Prints why there is no answer: none was found, the run failed, or it has no end."""
    from vrag.agent.events import StopReason
    from vrag.agent.runs.run_store import RunState
    from vrag.render.outcome import A_MODEL, OFFLINE, UNQUOTED

    nearest = " The nearest:" if run.evidence else ""
    if run.stop_reason is StopReason.ABSTAINED and settings.policy == OFFLINE:
        say(("No answer: ", "bold yellow"), f"{UNQUOTED} {A_MODEL}{nearest}")
    elif run.stop_reason is StopReason.ABSTAINED:
        found = "nothing found answers this well enough to stand behind."
        say(("No answer: ", "bold yellow"), f"{found}{nearest}")
    elif run.stop_reason is not None:
        say(("Failed:", "bold red"))
        say("  ", plain(run.failure or again(_ended(run, settings.limits), place)))
    elif state is RunState.RUNNING:
        say(("Running: ", "bold yellow"), "it has not come to its end yet.")
    else:
        say(("Interrupted: ", "bold yellow"), "its process ended before it did.")


def _tell_citations(run: RunResult, recording: StoredRun, started: RunStarted) -> None:
    """Prints what the answer rests on, and what was looked at besides."""
    from vrag.agent.citations import citations

    cited = citations(run.evidence, started.settings, answered=run.answer is not None)
    numbered = list(enumerate(cited.rests + cited.besides, 1))
    for number, evidence in numbered[: len(cited.rests)]:
        _tell_evidence(number, evidence, recording)
    if cited.besides:
        say(("Also looked at:", "dim"))
    for number, evidence in numbered[len(cited.rests) :]:
        _tell_evidence(number, evidence, recording)


def _ended(run: RunResult, limits: Limits) -> str:
    """Why there is no answer, and which setting gives a run more room."""
    from vrag.agent.events import StopReason

    match run.stop_reason:
        case StopReason.OUT_OF_STEPS:
            return _out_of_steps(run, limits)
        case StopReason.OUT_OF_BUDGET:
            return f"The budget was spent before there was an answer: {_budget(limits)}."
        case StopReason.OUT_OF_TOKENS:
            return "The model's reply was cut off before it came to an action. Longer ones: VRAG_MAX_TOKENS."
        case StopReason.CANCELLED:
            return "It was stopped before there was an answer."
        case _:
            return f"It ended with {run.stop_reason}."


def _out_of_steps(run: RunResult, limits: Limits) -> str:
    if run.steps and all(step.invalid for step in run.steps):
        return (
            f"None of {len(run.steps)} replies was an action that could be taken: `vrag runs show` has them. "
            "Can the model follow instructions, and is its profile the right one? See `vrag doctor`."
        )
    return f"There was no answer after {limits.steps} model calls. More: --max-steps or VRAG_MAX_STEPS."


def _budget(limits: Limits) -> str:
    """The limits that are set, with the setting of each."""
    named = {
        f"{limits.tokens} tokens (VRAG_BUDGET_TOKENS)": limits.tokens,
        f"{limits.visual_tokens} visual tokens (VRAG_BUDGET_VISUAL_TOKENS)": limits.visual_tokens,
        f"{limits.seconds} seconds (VRAG_BUDGET_SECONDS)": limits.seconds,
        f"a cost of {limits.cost} (VRAG_BUDGET_COST)": limits.cost,
    }
    return " or ".join(text for text, limit in named.items() if limit is not None)


def _spent(events: Sequence[Event]) -> str:
    """What it cost, in a line. A call that failed took its time too."""
    from vrag.agent.events import ModelCalled
    from vrag.agent.runs.run_result import RunResult
    from vrag.render.text_format import count

    outline = RunResult.of(events)
    usage = outline.usage
    parts = [count(outline.calls, "step")]
    if repaired := sum(isinstance(event, ModelCalled) and bool(event.repairs) for event in events):
        parts.append(f"{repaired} repaired")
    if usage.prompt_tokens is not None:
        parts.append(f"{usage.prompt_tokens} + {usage.completion_tokens or 0} tokens")
    parts.append(f"{usage.visual_tokens} visual tokens")
    if usage.cost is not None:
        parts.append(f"cost {usage.cost:.4g}")
    return ", ".join([*parts, f"{outline.seconds:.1f} s"])


def _tell_evidence(number: int, evidence: Evidence, recording: StoredRun) -> None:
    """Prints a piece of evidence: document, page, box; of the first also the picture and its words."""
    where = "" if evidence.box is None else f", box [{', '.join(f'{side:.3f}' for side in evidence.box)}]"
    if evidence.seconds is not None:
        where = f", {evidence.seconds[0]:.1f}–{evidence.seconds[1]:.1f} s{where}"
    unit = "passage" if evidence.box is None else "page" if evidence.seconds is None else "clip"
    say(f"  [{number}] ", (plain(evidence.document, 100), "magenta"), f", {unit} {evidence.page}{where}")
    if number > 1:
        return
    if evidence.crop_sha256:
        say("      ", (file_uri(recording.file(evidence.crop_sha256)), "dim"))
    if evidence.quote:
        say("      ", (f"“{plain(evidence.quote, 400)}”", "dim"))


def as_json(stored: StoredRun) -> dict[str, Any]:
    """The object that `--json` prints."""
    from vrag.agent.citations import citations
    from vrag.agent.runs.run_result import RunResult

    run, outline = stored.result, RunResult.of(stored.events)
    cited = citations(run.evidence, stored.started.settings, answered=run.answer is not None)
    return {
        "question": run.question,
        "answer": run.answer,
        "stop_reason": run.stop_reason,
        "evidence": [_evidence(one, stored) for one in cited.rests],
        "looked_at": [_evidence(one, stored) for one in cited.besides],
        "unsupported": list(run.unsupported),
        "steps": [_step(step) for step in run.steps],
        "graph": run.graph and [_node(node) for node in run.graph.nodes],
        "usage": {"steps": outline.calls, **_usage(run.usage), "seconds": round(outline.seconds, 4)},
        "failure": run.failure,
        "notices": list(stored.started.notices),
        "run": stored.id,
    }


def _evidence(evidence: Evidence, recording: StoredRun) -> dict[str, Any]:
    return {
        "item": evidence.item,
        "document": evidence.document,
        "page": evidence.page,
        "kind": evidence.kind,
        "box": None if evidence.box is None else list(evidence.box),
        "seconds": None if evidence.seconds is None else list(evidence.seconds),
        "node": evidence.node,
        "crop": str(recording.file(evidence.crop_sha256)) if evidence.crop_sha256 else None,
        "quote": evidence.quote,
    }


def _step(step: RunStep) -> dict[str, Any]:
    return {
        "step": step.number,
        "thought": step.thought,
        "search": None if step.action else step.query,
        "crop": step.crop,
        "action": step.action,
        "node": step.node,
        "invalid": step.invalid,
        "repaired": list(step.repairs),
        "usage": step.usage and _step_usage(step.usage),
        "shown": [_shown(shown) for shown in step.shown],
    }


def _shown(shown: ImageShown) -> dict[str, Any]:
    return {
        "item": shown.item,
        "document": shown.document,
        "page": shown.page,
        "label": shown.label,
        "box": list(shown.box),
        "seconds": shown.seconds,
    }


def _node(node: Node) -> dict[str, Any]:
    return {
        "id": node.id,
        "kind": node.kind,
        "parents": list(node.parents),
        "query": node.query,
        "summary": node.summary,
    }


def _step_usage(usage: UsageReported) -> dict[str, Any]:
    return {**_usage(usage), "memory_tokens": usage.memory_tokens, "fresh_tokens": usage.fresh_tokens}


def _usage(usage: RunUsage | UsageReported) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "cached_tokens": usage.cached_tokens,
        "visual_tokens": usage.visual_tokens,
        "pixels": usage.pixels,
        "seconds": round(usage.seconds, 4),
        "model_seconds": round(usage.model_seconds, 4),
        "cost": usage.cost,
    }
