"""`vrag data sample|select|export-sft`: supervised data from several experts."""

from __future__ import annotations

import asyncio
import os
import shlex
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

from vrag.cli.terminal.console import (
    Collection,
    Json,
    add_progress,
    emit_json,
    err,
    plain,
    progress_line,
    say,
    show_table,
    tell_report,
)
from vrag.cli.terminal.interrupts import GOES_ON, stoppable
from vrag.cli.terminal.paths import tell_absent
from vrag.cli.terminal.questions import read_questions
from vrag.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from vrag.distill.expert import Tally
    from vrag.distill.sample_store import SampleStore
    from vrag.distill.sampler import SamplingProgress
    from vrag.search.searcher import Searcher
    from vrag.settings import SettingsReport
    from vrag.types import Document

__all__ = ["export_sft", "sample", "select"]

Out = typer.Option(..., "--out", "-o", help="Directory of the samples.")
Samples = typer.Argument(..., metavar="DIR", help="Directory that `vrag data sample` wrote.")
Learner = typer.Option("qwen2.5-vl", "--profile", help="Family of the model that learns.")


def sample(
    dataset: Path = typer.Argument(..., help="Questions with answers: JSON, JSON lines or parquet."),
    out: Path = Out,
    docs: list[Path] = typer.Option(
        [], "--docs", "-d", help="The documents; indexed if they are not yet. All of the collection without."
    ),
    experts: Path | None = typer.Option(
        None, "--experts", help="TOML file that names the experts.", show_default="models of DashScope"
    ),
    profile: str = Learner,
    oracle: bool = typer.Option(True, help="Show an unseen gold page first, when a search found one."),
    steps: int = typer.Option(10, min=2, max=10, help="Turns of a run at most."),
    attempts: int = typer.Option(3, min=1, help="Runs of a case at most that break off."),
    concurrency: int = typer.Option(4, min=1, max=256, help="Cases at once."),
    limit: int | None = typer.Option(None, min=1, help="Sample the first cases only."),
    retry_failed: bool = typer.Option(False, "--retry-failed", help="Try failed cases afresh."),
    collection: str | None = Collection,
    as_json: bool = Json,
) -> None:
    """Let experts answer questions whose answers are known, and score the answers.

    A planner decides each turn, a grounder draws the boxes again, a judge scores the answer from 1 to 5.
    Every case is an ordinary recorded run. What was finished stays: the same command goes on where it
    was stopped or killed.

    Example: vrag data sample train.json --docs pdf/ --out samples/ --experts experts.toml
    """
    from vrag.distill.config import read_experts
    from vrag.distill.sample_store import SampleOutcome, SampleStore
    from vrag.distill.sampler import ExpertSampling, sample_cases
    from vrag.model_profiles import profile_named

    cases = read_questions(dataset, limit)
    who, learner = read_experts(experts, os.environ), profile_named(profile)
    searcher, found = _open(load_settings(collection=collection), docs)
    tell_absent(cases, found)
    sampling = ExpertSampling(
        searcher=searcher,
        experts=who,
        learner=learner,
        documents=frozenset(document.id for document in found) if docs else None,
        oracle=oracle,
        steps=steps,
        attempts=attempts,
        concurrency=concurrency,
    )
    with SampleStore(out).writer(sampling.made_with) as writer, _progress() as tell:
        if retry_failed:
            uids = {case.uid for case in cases}
            records = list(writer.records.values())
            writer.retry(r.uid for r in records if r.outcome is SampleOutcome.FAILED and r.uid in uids)
        done = asyncio.run(sample_cases(cases, sampling, writer, tell))
    if as_json:
        emit_json(_as_json(done))
    else:
        _tell(done, out)


def select(
    samples: Path = Samples,
    score: int = typer.Option(5, min=1, max=5, help="Least score."),
    most: int | None = typer.Option(
        None,
        min=1,
        help="Samples to keep, shared evenly among the kinds.",
        show_default="as many of a kind as the median kind has",
    ),
    seed: int = typer.Option(0, help="Of the choice among samples of one kind."),
    as_json: bool = Json,
) -> None:
    """Keep the samples that a trainer is to see, and say of every other why not.

    Kept are those with the best score, 1 to 6 pictures, 2 to 6 turns, every box inside its picture and
    every turn carried out; then as many of each length, with and without crops. Writes selected.jsonl,
    dropped.jsonl and selection.json into the directory.

    Example: vrag data select samples/ --most 3000
    """
    from vrag.distill.select import SelectionOptions, select_samples, write_selection

    store = _store(samples)
    with stoppable("Nothing was selected; a selection of before is as it was."):
        selection = select_samples(store, SelectionOptions(score=score, most=most, seed=seed))
    write_selection(store, selection)
    report = selection.as_dict()
    if as_json:
        emit_json(report)
        return
    kinds = report["kinds"].items()
    show_table(["kind", "found", "kept"], ([kind, str(n["found"]), str(n["kept"])] for kind, n in kinds))
    if report["reasons"]:
        show_table(["dropped for", "samples"], ([why, str(n)] for why, n in report["reasons"].items()))
    where = plain(str(samples / "dropped.jsonl"))
    say(f"{report['kept']} kept, {report['dropped']} dropped; why is in {where}.")


def export_sft(
    samples: Path = Samples,
    out: Path = typer.Option(..., "--out", "-o", help="Directory of the data set."),
    profile: str = Learner,
    name: str = typer.Option("vrag_sft", help="Of the data set, as the trainer calls it."),
    as_json: bool = Json,
) -> None:
    """Write the selected samples as a data set of LLaMA-Factory, with pictures.

    Pictures have exactly the size at which the model of the profile is shown them, and boxes are written
    as it writes them.

    Example: vrag data export-sft samples/ --out sft/ --profile qwen2.5-vl
    """
    from vrag.distill.export import export_sft as export
    from vrag.distill.select import read_selected
    from vrag.model_profiles import profile_named

    store = _store(samples)
    selected = read_selected(store)
    left = f"The data set was not written, at most pictures of it, in {out}. The same command writes it."
    with stoppable(left), progress_line(quiet=as_json) as tell:
        done = export(store.runs, _counted(selected, tell), profile_named(profile), out, name)
    if as_json:
        refused = [{"run": run, "reason": reason} for run, reason in done.refused]
        emit_json(
            {"file": str(done.file), "samples": done.samples, "images": done.images, "refused": refused}
        )
        return
    say(f"{done.samples} samples with {done.images} pictures: {plain(str(done.file))}")
    for run, reason in done.refused:
        say(("  ! ", "yellow"), f"{run}: {plain(reason, 300)}")


def _counted(ids: list[str], tell: Callable[[str], None]) -> Iterator[str]:
    """Passes the ids of samples on and tells how many were."""
    for number, id in enumerate(ids, 1):
        tell(f"{number}/{len(ids)} samples")
        yield id


def _store(directory: Path) -> SampleStore:
    """The samples in a directory.

    Raises:
        SampleError: If there are none.
    """
    from vrag.distill.sample_store import SampleStore
    from vrag.errors import SampleError

    store = SampleStore(directory)
    if not store.samples.path.is_file():
        raise SampleError(f"There are no samples in {directory}.", "Make some: vrag data sample.")
    return store


def _open(report: SettingsReport, docs: list[Path]) -> tuple[Searcher, list[Document]]:
    """What searches, and the documents that are looked at."""
    from vrag.factory import index_documents, open_session

    if not docs:
        session = open_session(report.settings)
        return session.searcher, session.documents
    print_added = partial(tell_report, quiet_when_unchanged=True)
    with add_progress() as progress:
        indexed = index_documents(report, docs, progress=progress, on_added=print_added)
    settings = report.settings.model_copy(update={"collections": ()})
    return open_session(settings, indexed.embedder).searcher, indexed.documents


@contextmanager
def _progress() -> Generator[Callable[[SamplingProgress], None]]:
    """A bar on the standard error stream; a line now and then where that is no terminal."""
    columns = (TextColumn("Sampling"), BarColumn(), TextColumn("{task.fields[state]}"))
    with (
        stoppable(GOES_ON),
        Bar(*columns, console=err, transient=True, disable=not err.is_terminal) as bar,
    ):
        task = bar.add_task("", total=None, state="")

        def report(now: SamplingProgress) -> None:
            bar.update(task, completed=now.over, total=now.cases, state=_state(now))
            if not err.is_terminal and (now.over % 10 == 0 or now.over == now.cases):
                err.print(_state(now))

        yield report


def _state(now: SamplingProgress) -> str:
    outcomes = " · ".join(f"{count} {outcome}" for outcome, count in now.outcomes.items() if count)
    cost = _cost(now.experts)
    return f"{now.over}/{now.cases} cases · {outcomes}{f' · cost {cost:.2f}' if cost else ''}"


def _cost(experts: dict[str, Tally]) -> float:
    return sum(tally.cost or 0.0 for tally in experts.values())


def _as_json(done: SamplingProgress) -> dict[str, Any]:
    return {
        "cases": done.cases,
        "before": done.before,
        "outcomes": done.outcomes,
        "experts": {role: tally.as_dict() for role, tally in done.experts.items()},
    }


def _tell(done: SamplingProgress, out: Path) -> None:
    """How it ended, and what this call of the command cost."""
    rows = (
        [
            role,
            str(tally.calls),
            str(tally.retries),
            str(tally.faults),
            str(tally.prompt_tokens),
            str(tally.completion_tokens),
            "unknown" if tally.cost is None else f"{tally.cost:.4f}",
        ]
        for role, tally in done.experts.items()
    )
    show_table(["expert", "calls", "retries", "faults", "prompt tokens", "reply tokens", "cost"], rows)
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in done.outcomes.items())
    say(f"{done.over} of {done.cases} cases are over, {done.before} were before: {outcomes}.")
    say(("Next", "bold"), f": vrag data select {shlex.quote(str(out))}")
