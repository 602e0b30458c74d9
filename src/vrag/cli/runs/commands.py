"""`vrag runs`: what was asked before, step by step, and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from vrag.cli.runs.export import EXAMPLE, NONE_YET, export, read_run, store_of
from vrag.cli.terminal.console import Collection, Json, SearchUrl, emit_json, plain, say, show_table
from vrag.cli.terminal.hints import again
from vrag.errors import RunError
from vrag.settings import load_settings

if TYPE_CHECKING:
    from vrag.agent.runs.replay import ReplayDifference
    from vrag.agent.runs.run_store import RunStore

__all__ = ["app"]

app = typer.Typer(help="List, show, replay and export recorded runs.", no_args_is_help=True)
app.command()(export)
Run = typer.Argument("last", help="Id of the run, or the beginning of one; `last` for the newest.")


@app.command("list")
def list_runs(
    limit: int = typer.Option(20, "--limit", "-n", min=1, help="How many, the newest first."),
    collection: str | None = Collection,
    search_url: str | None = SearchUrl,
    as_json: bool = Json,
) -> None:
    """List recorded runs, the newest first."""
    store = store_of(collection, search_url)
    rows = [_summary(store, run) for run in store.ids()[:limit]]
    if as_json:
        emit_json([dict(zip(("run", "ended", "question", "answer"), row, strict=True)) for row in rows])
    elif rows:
        show_table(["run", "ended", "question", "answer"], ([plain(c, 60) for c in row] for row in rows))
    else:
        say(again(f"{NONE_YET} {EXAMPLE}"))


@app.command()
def show(
    run: str = Run,
    collection: str | None = Collection,
    search_url: str | None = SearchUrl,
    as_json: bool = Json,
) -> None:
    """Show a run step by step, with what was seen and how it ended."""
    from vrag.cli.ask.run_printer import RunPrinter, tell_end
    from vrag.render.text_format import count

    store = store_of(collection, search_url)
    stored, state = store.settled(read_run(store, run).id)
    if as_json:
        emit_json([event.model_dump(mode="json") for event in stored.events])
        return
    say(("Question: ", "bold"), plain(stored.started.question))
    if earlier := len(stored.started.history):
        say((f"Follows on {count(earlier, 'earlier question')}.", "dim"))
    teller = RunPrinter()
    for event in stored.events:
        teller.tell(event)
    tell_end(stored, state)


@app.command()
def replay(
    run: str = Run,
    collection: str | None = Collection,
    search_url: str | None = SearchUrl,
    as_json: bool = Json,
) -> None:
    """Feed the recorded replies through the environment again and compare every event.

    Exit status 0 when all events are the same, 1 when not.
    """
    from vrag.agent.runs.replay import differences
    from vrag.agent.runs.replay import replay as replay_run
    from vrag.factory import open_session

    session = open_session(load_settings(collection=collection, search_url=search_url).settings)
    stored = read_run(session.runs, run)
    found = differences(stored.events, list(replay_run(stored, session.searcher)))
    if as_json:
        emit_json({"run": stored.id, "events": len(stored.events), "differences": _records(found)})
    elif found:
        say((f"{len(found)} of {len(stored.events)} events differ.", "yellow"))
        for record in _records(found)[:5]:
            say("  ", plain(str(record), 300))
    else:
        say((f"The same {len(stored.events)} events again.", "green"))
    raise typer.Exit(1 if found else 0)


def _summary(store: RunStore, run: str) -> tuple[str, str, str, str]:
    from vrag.agent.runs.run_store import RunState

    if store.is_starting(run):
        return run, "starting", "", ""
    try:
        outline = store.outline(run)
    except RunError as error:
        return run, "damaged", error.message, ""
    if outline.end is None and (state := store.state(run, ended=False)) is RunState.RUNNING:
        return run, state.value, outline.started.question, ""
    outline = outline if outline.end else store.outline(run)  # it may have come to its end just then
    ended = outline.stop_reason or RunState.INTERRUPTED.value
    return run, ended, outline.started.question, outline.answer or ""


def _records(found: list[ReplayDifference]) -> list[dict[str, object]]:
    return [
        {
            "recorded": difference.recorded and difference.recorded.model_dump(mode="json"),
            "replayed": difference.replayed and difference.replayed.model_dump(mode="json"),
        }
        for difference in found
    ]
