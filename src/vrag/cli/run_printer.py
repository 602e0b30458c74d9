"""The steps of a run and its end, printed for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from rich.tree import Tree

from vrag.agent import events
from vrag.agent.budget import Limits
from vrag.agent.events import Event, MemoryUpdated, ModelCalled, RunSettings, SearchReturned, StopReason
from vrag.agent.evidence import Evidence
from vrag.agent.memory.memory_graph import Graph, Node
from vrag.agent.policy import WITHOUT_MODEL, WORDS_SOUGHT
from vrag.agent.runs.run_result import MAY_ANSWER, ResultKind, RunResult
from vrag.agent.runs.run_store import RunState, StoredRun
from vrag.cli.terminal.console import add_location, echo, out, plain
from vrag.render.answer_markdown import sign_answer, write_markdown
from vrag.render.text_format import place_name
from vrag.render.verdicts import claim_lines, describe_claim, notable_claims, trust_line
from vrag.search.searcher import excerpt
from vrag.settings import Settings
from vrag.text.numerals import count

MAX_TEXT_CHARS, MAX_REPLY_CHARS = 400, 200
"""Characters of what a model wrote that are printed."""
MAX_QUOTE_CHARS, QUOTE_CHARS_BEFORE = 240, 80
"""Characters of a quote that are printed, and those of them before the words of the answer."""
MAX_NODE_QUERY_CHARS, MAX_NODE_SUMMARY_CHARS = 200, 300


class RunPrinter:
    """The printer of one run: prints its events as they happen."""

    def __init__(self) -> None:
        self._is_without_model = False
        self._pages: list[str] = []
        """Documents of the pages that a search without a model has shown."""
        self._reply = ""
        self._repairs: tuple[str, ...] = ()
        self._search: SearchReturned | None = None
        """The latest search, until something is shown."""
        self._step = 0
        """The last step that was printed with its number."""
        self._summarised: set[str] = set()
        """Ids of the nodes whose summaries were printed."""

    def print_event(self, event: Event) -> None:
        """Print an event, if it says anything to people."""
        if isinstance(event, events.RunStarted):
            self._is_without_model = event.settings.policy == WITHOUT_MODEL
        if self._is_without_model:
            self._print_progress(event)
        else:
            self._print_step(event)

    def _print_progress(self, event: Event) -> None:
        """Print what is done without a model: no thoughts, and no sizes of pictures that nobody pays for."""
        match event:
            case events.ThoughtGiven() if WORDS_SOUGHT in event.text:
                if remark := event.text.partition(WORDS_SOUGHT)[0].strip():
                    echo((plain(remark, MAX_TEXT_CHARS), "dim"))
            case events.SearchRequested(continued=False):
                echo(("Searching: ", "dim"), (plain(event.query, MAX_TEXT_CHARS), "cyan"))
            case events.SearchReturned() | events.ActionReturned():
                self._print_left_out(event.damaged)
            case events.ImageShown(crop=False) | events.PassageShown():
                self._pages.append(event.document)
            case events.UsageReported() if self._pages:
                pages, documents = len(self._pages), len(set(self._pages))
                echo(("Reading ", "dim"), f"{count(pages, 'page')} of {count(documents, 'document')}")
                self._pages = []
            case _:
                pass

    def _print_step(self, event: Event) -> None:
        """Print an event of a run with a model."""
        match event:
            case events.ModelCalled():
                self._reply, self._repairs = event.reply, event.repairs
            case events.SearchReturned():
                self._search = event
                self._print_left_out(event.damaged)
            case events.ActionReturned():
                self._print_left_out(event.damaged)
            case events.InvalidAction():
                self._step = event.step
                reply = plain(self._reply, MAX_REPLY_CHARS)
                echo((f"{event.step}. ", "bold"), ("refused ", "yellow"), plain(event.reason))
                echo("   ", (f"“{reply}”" if reply else "The reply was empty.", "dim"))
            case events.GraphChanged():
                self._print_summaries(event)
            case events.UsageReported():
                self._print_step_end()
            case events.ContextShortened():
                dropped = plain(", ".join(event.dropped), MAX_TEXT_CHARS)
                echo("   ", ("shorter ", "yellow"), f"Too long for the model; asked again without {dropped}.")
            case events.AnswerDoubted():
                self._print_doubts(event)
            case events.ModelRetried():
                pause = f" Retrying in {event.seconds:.1f} s."
                echo("   ", ("retry   ", "yellow"), plain(event.reason), pause)
            case _:
                self._print_action(event)

    def _print_action(self, event: Event) -> None:
        """Print what the agent thought, did or was shown."""
        match event:
            case events.ThoughtGiven():
                self._step = max(self._step, event.step)
                echo((f"{event.step}. ", "bold"), (plain(event.text, MAX_TEXT_CHARS), "dim"))
            case events.SearchRequested():
                query = (plain(event.query, MAX_TEXT_CHARS), "cyan")
                verb = "next hits for " if event.continued else "search  "
                self._print_line(event.step, verb, query, event.node)
            case events.CropRequested():
                sides = ", ".join(f"{side:g}" for side in event.box)
                image = plain(event.label or f"image {event.image or 'shown last'}", MAX_TEXT_CHARS)
                self._print_line(event.step, "crop    ", (f"[{sides}]", "cyan"), event.node, f" of {image}")
            case events.ActionRequested():
                text = plain(event.text, MAX_TEXT_CHARS)
                self._print_line(event.step, f"{event.name} ", (text, "cyan"), event.node)
            case events.ImageShown():
                self._search = None
                seconds = "" if event.seconds is None else f", {event.seconds:.1f} s"
                place = f"{plain(event.document)}, page {event.page}{seconds}"
                size = f" ({event.width}×{event.height})"
                verb = "enlarged" if event.crop else "looking at"
                self._print_line(event.step, f"{verb} ", (place, "magenta"), detail=size)
            case events.PassageShown():
                self._search = None
                place = f"{plain(event.document)}, passage {event.page}"
                self._print_line(event.step, "reading ", (place, "magenta"))
            case events.MemoryUpdated():
                self._print_memory(event)
            case _:
                pass

    def _print_line(
        self, step: int, verb: str, text: tuple[str, str], node: str | None = None, detail: str = ""
    ) -> None:
        """Print a line of a step; the first one has the number of the step."""
        first = step > self._step
        self._step = max(self._step, step)
        lead = (f"{step}. ", "bold") if first else ("   ", "")
        echo(lead, verb, text, detail, f" → {plain(node)}" if node else "")

    def _print_summaries(self, event: events.GraphChanged) -> None:
        """Print the findings of nodes that have just been summarised."""
        for node in event.graph.nodes:
            if node.summary and node.id not in self._summarised:
                self._summarised.add(node.id)
                self._print_line(event.step, "summary ", (plain(node.summary, MAX_TEXT_CHARS), ""), node.id)

    def _print_doubts(self, event: events.AnswerDoubted) -> None:
        """Print an answer that the evidence or another document does not support, and why."""
        answer = plain(event.text, MAX_TEXT_CHARS)
        self._print_line(event.step, "doubted ", (answer, "yellow"), detail=". The model is asked again.")
        for conflict in event.conflicts:
            echo("           ", (plain(conflict.sentence, MAX_TEXT_CHARS), "dim"))
        for claim in notable_claims(event.claims):
            echo("           ", (plain(describe_claim(event.text, claim)), "dim"))

    def _print_left_out(self, reasons: Sequence[str]) -> None:
        for reason in reasons:
            echo("   left out ", (plain(reason, MAX_TEXT_CHARS), "yellow"))

    def _print_step_end(self) -> None:
        """Print that a search showed nothing new, and how the reply was repaired."""
        if self._search is not None:
            hits = len(self._search.hits)
            echo("   found   ", (f"{hits} hit{'' if hits == 1 else 's'}, nothing new to show.", "yellow"))
            self._search = None
        if self._repairs:
            echo("   repaired ", (plain("; ".join(self._repairs), MAX_TEXT_CHARS), "yellow"))
            self._repairs = ()

    def _print_memory(self, event: MemoryUpdated) -> None:
        kept = ", ".join(f"{plain(i.label)} of {plain(i.node)} ({i.tokens})" for i in event.kept)
        room = f"{event.tokens} of {event.budget} visual tokens"
        self._print_line(event.step, "memory  ", (kept or "nothing", "magenta"), detail=f", {room}")
        dropped = (f"without {plain(i.label)} of {plain(i.node)}: {plain(i.reason)}" for i in event.dropped)
        for line in (*dropped, *map(plain, event.reports)):
            echo("           ", (line, "dim"))


def print_end(stored: StoredRun, state: RunState, settings: Settings | None = None) -> None:
    """Print how a run ended, and the evidence of its answer.

    The settings are those of its collection, unless the command line names it.
    """
    run, started = stored.result, stored.started
    echo("")
    if run.graph is not None and len(run.graph.nodes) > 1:
        out.print(graph_tree(run.graph), soft_wrap=False)
        echo("")
    if run.answer is None:
        _print_no_answer(run, started.settings, state, settings)
    else:
        _print_answer(run, without_model=run.is_without_model)
    _print_claims(run)
    for conflict in run.conflicts:
        echo(("  ! ", "yellow"), plain(conflict.sentence))
    for number, evidence in enumerate(run.rests, 1):
        _print_evidence(number, evidence, stored)
    if run.looked_at:
        echo(("Also looked at:", "dim"))
    for number, evidence in enumerate(run.looked_at, run.cited + 1):
        echo(f"  [{number}] ", (plain(evidence.document, 100), "magenta"), f", {place_name(evidence)}")
    for notice in run.notices:
        echo(("Note: ", "yellow"), plain(notice))
    for unsupported in run.unsupported:
        echo(("Not used: ", "yellow"), plain(unsupported))
    echo((f"{_cost(stored)} · run {stored.id}", "dim"))


def _print_answer(run: RunResult, *, without_model: bool) -> None:
    """Print an answer with its markers, and its computation and its sentence or row."""
    text = run.marked_answer.text
    if out.is_terminal and not without_model and "\n" in text.strip():
        echo(("Answer:", "bold green"))
        _print_markdown(write_markdown(sign_answer(run), "\\[{}\\]".format, formulas=False))
    else:
        echo(("Answer: ", "bold" if without_model else "bold green"), plain(text))
    if run.reading is not None:
        for line in filter(None, (run.reading.arithmetic, run.reading.context)):
            echo("        ", (plain(line, MAX_TEXT_CHARS), "dim"))
    if not (run.evidence or run.unsupported):
        echo(("No evidence: the agent looked at nothing.", "yellow"))


def _print_markdown(text: str) -> None:
    """Print an answer of several lines as paragraphs, lists and tables."""
    from rich.markdown import Markdown

    shown = "".join(character if character.isprintable() or character == "\n" else " " for character in text)
    out.print(Markdown(shown, code_theme="default", hyperlinks=False), soft_wrap=False)


def _print_claims(run: RunResult) -> None:
    """Print the claims that the evidence does not say, and how much of the answer is verified."""
    for line in claim_lines(run):
        echo(("  ! ", "yellow"), plain(line))
    if line := trust_line(run):
        echo((line, "dim"))


def _print_no_answer(
    run: RunResult, run_settings: RunSettings, state: RunState, settings: Settings | None
) -> None:
    """Print why there is no answer: nothing was found, the run failed, or it has not ended."""
    if run.withdrawn is not None:
        answer = plain(run.marked_answer.text)
        echo(("No answer: ", "bold yellow"), f"the evidence does not support the answer “{answer}”.")
    elif run.kind is ResultKind.PLACES:
        echo(
            (MAY_ANSWER, "bold"),
            " (without a model, no answer is certain enough; choose one with --model):",
        )
    elif run.stop_reason is StopReason.ABSTAINED:
        if run.is_without_model:
            echo(("Nothing found: ", "bold yellow"), plain(run.unanswered()))
        else:
            closest = " Closest matches:" if run.evidence else ""
            echo(("No answer: ", "bold yellow"), f"nothing that was found answers the question.{closest}")
    elif run.stop_reason is not None:
        echo(("Failed:", "bold red"))
        reason = run.failure or add_location(_stop_text(run, run_settings.limits), settings)
        echo("  ", plain(reason))
    elif state is RunState.RUNNING:
        echo(("Running: ", "bold yellow"), "the run is not finished yet.")
    else:
        echo(("Interrupted: ", "bold yellow"), "the process ended before the run did.")


def _stop_text(run: RunResult, limits: Limits) -> str:
    """Return why there is no answer, and which setting gives a run more room."""
    match run.stop_reason:
        case StopReason.OUT_OF_STEPS if run.steps and all(step.invalid for step in run.steps):
            return (
                f"None of {len(run.steps)} replies was a valid action: `vrag runs show` prints them. Check "
                "that the model can follow instructions and that its profile is right: `vrag doctor`."
            )
        case StopReason.OUT_OF_STEPS:
            return f"No answer after {limits.steps} model calls. Allow more: --max-steps or VRAG_MAX_STEPS."
        case StopReason.OUT_OF_BUDGET:
            budget = {
                f"{limits.tokens} tokens (VRAG_BUDGET_TOKENS)": limits.tokens,
                f"{limits.visual_tokens} visual tokens (VRAG_BUDGET_VISUAL_TOKENS)": limits.visual_tokens,
                f"{limits.seconds} seconds (VRAG_BUDGET_SECONDS)": limits.seconds,
                f"a cost of {limits.cost} (VRAG_BUDGET_COST)": limits.cost,
            }
            named = " or ".join(text for text, limit in budget.items() if limit is not None)
            return f"The budget was spent before there was an answer: {named}."
        case StopReason.OUT_OF_TOKENS:
            return "The model's reply was cut off before its action. Allow longer replies: VRAG_MAX_TOKENS."
        case StopReason.CANCELLED:
            return "The run was stopped before there was an answer."
        case _:
            return f"The run ended with {run.stop_reason}."


def _cost(stored: StoredRun) -> str:
    """Return steps, tokens and time of a run in one line; a call that failed took time too."""
    run = stored.result
    if run.is_without_model:
        return f"{run.seconds:.1f} s"
    usage = run.usage
    parts = [count(run.calls, "step")]
    if repaired := sum(isinstance(event, ModelCalled) and bool(event.repairs) for event in stored.events):
        parts.append(f"{repaired} repaired")
    if usage.prompt_tokens is not None:
        parts.append(f"{usage.prompt_tokens} + {usage.completion_tokens or 0} tokens")
    parts.append(f"{usage.visual_tokens} visual tokens")
    if usage.cost is not None:
        parts.append(f"cost {usage.cost:.4g}")
    return ", ".join([*parts, f"{run.seconds:.1f} s"])


def _print_evidence(number: int, evidence: Evidence, stored: StoredRun) -> None:
    """Print document, place and words of a piece of evidence."""
    echo(f"  [{number}] ", (plain(evidence.document, 100), "magenta"), f", {place_name(evidence)}")
    if evidence.quote:
        quote = _quote_part(" ".join(evidence.quote.split()), number, stored.result)
        echo("      ", (f"“{plain(quote)}”", "dim"))


def _quote_part(quote: str, number: int, run: RunResult) -> str:
    """Cut a quote around the words that a claim rests on, or else around words of the parts that cite it."""
    for claim in run.claims:
        at = quote.find(claim.found) if number in claim.numbers and claim.found else -1
        if at >= 0:
            start = max(0, at - QUOTE_CHARS_BEFORE)
            end = start + MAX_QUOTE_CHARS
            return f"{'…' if start else ''}{quote[start:end]}{'…' if end < len(quote) else ''}"
    parts = (citation for citation in run.citations if number in citation.numbers)
    words = " ".join(run.checked_text[citation.start : citation.end] for citation in parts)
    return excerpt(quote, words, MAX_QUOTE_CHARS, before=QUOTE_CHARS_BEFORE)


def graph_tree(graph: Graph) -> Tree:
    """Lay out a memory graph as a tree: each node below the first of its parents, with the others' names."""
    root = graph.nodes[0]
    branches = {root.id: Tree(_node_label(root))}
    for node in graph.nodes[1:]:  # in the order of creation: parents come before
        branches[node.id] = branches[node.parents[0] if node.parents else root.id].add(_node_label(node))
    return branches[root.id]


def _node_label(node: Node) -> Text:
    label = Text(plain(node.id), "bold")
    if not node.id.startswith(node.kind):
        label.append(f" {node.kind}", "not bold dim")
    if node.query:
        label.append(f"  {plain(node.query, MAX_NODE_QUERY_CHARS)}", "cyan")
    if others := ", ".join(map(plain, node.parents[1:])):
        label.append(f"  (also from {others})", "dim")
    if node.summary:
        label.append(f"\n{plain(node.summary, MAX_NODE_SUMMARY_CHARS)}")
    return label
