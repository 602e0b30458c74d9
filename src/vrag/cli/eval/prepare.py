"""`vrag eval list` and `vrag eval prepare`: published data sets, and folders of them that can be run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from vrag.cli.terminal.console import Json, emit_json, plain, progress_line, say, show_table
from vrag.cli.terminal.interrupts import stoppable
from vrag.render.text_format import count

if TYPE_CHECKING:
    from vrag.datasets.protocols import Benchmark

__all__ = ["benchmark_list", "prepare"]


def benchmark_list(
    name: str | None = typer.Argument(None, help="One of them: where its files are, and what to mind."),
    as_json: bool = Json,
) -> None:
    """List the published benchmarks that can be prepared and run.

    Examples of use:

      vrag eval list

      vrag eval list mmlongbench
    """
    from vrag.datasets.registry import BENCHMARKS, benchmark_named

    found = [benchmark_named(name)] if name else list(BENCHMARKS.values())
    if as_json:
        emit_json([_facts(benchmark) for benchmark in found])
    elif name:
        _tell(found[0])
    else:
        show_table(["name", "asks", "licence"], ([one.name, one.about, one.licence] for one in found))
        say("More of one: vrag eval list NAME. Then: vrag eval prepare NAME[=FOLDER] --out PREPARED.")


def prepare(
    benchmarks: list[str] = typer.Argument(
        ...,
        metavar="NAME[:SPLIT][=FOLDER]…",
        help="Benchmarks with the folders of their files, as downloaded; without one, fetched from the hub.",
    ),
    out: Path = typer.Option(..., "--out", "-o", help="Folder to make."),
    limit: int | None = typer.Option(
        None, min=1, help="The first questions of each benchmark alone; its documents are all there."
    ),
    as_json: bool = Json,
) -> None:
    """Make a folder of questions and documents out of benchmarks as they were published.

    Several become one corpus, searched together, as the papers do. Page numbers are mended, broken rows
    dropped, and what was done is told and kept in benchmark.json. Without a folder the files are fetched from
    the Hugging Face hub into its cache, which takes the extra `models`.

    Examples of use:

      vrag eval prepare mmlongbench --out mmlongbench

      vrag eval prepare mmlongbench=MMLongBench-Doc --out mmlongbench

      vrag eval prepare slidevqa:test=SlideVQA vidoseek=ViDoSeek mmlongbench=MMLongBench-Doc --out merged
    """
    from vrag.evaluation.prepare import prepare as make

    asked = [_asked(word) for word in benchmarks]
    with stoppable("What was fetched is kept; the same command goes on from there."):
        found = [(one, folder or _fetched(one, quiet=as_json), split) for one, folder, split in asked]
    number = 0
    with (
        stoppable(f"{out} is not whole; the same command makes it anew."),
        progress_line(quiet=as_json) as tell,
    ):

        def progress(name: str) -> None:
            nonlocal number
            number += 1
            tell(f"{count(number, 'document')} · {plain(name, 60)}")

        made = make(found, out, limit=limit, tell=progress)
    if as_json:
        emit_json({"folder": str(out), "benchmarks": [part.model_dump(mode="json") for part in made.parts]})
        return
    for part in made.parts:
        held = f"{count(part.cases, 'question')}, {count(part.documents, 'document')}"
        say((part.title, "bold"), f": {held}. Licence: {part.licence}.")
        for note in part.notes:
            say(("  ! ", "yellow"), plain(note, 300))
    say(f"Ask them: vrag eval run {plain(str(out))} --out results")


def _asked(word: str) -> tuple[Benchmark, Path | None, str | None]:
    """A benchmark, its folder, its split; without a folder it can be fetched."""
    from vrag.datasets.registry import BENCHMARKS, benchmark_named
    from vrag.errors import SettingsError
    from vrag.evaluation.download import hub_repository

    told, equals, folder = word.partition("=")
    name, _, split = told.partition(":")
    if not name or (equals and not folder):
        raise typer.BadParameter(f"{word!r} is neither NAME nor NAME=FOLDER.", param_hint="NAME=FOLDER")
    if not equals and name not in BENCHMARKS and Path(told).expanduser().is_dir():
        raise SettingsError(
            f"There is no benchmark {plain(told, 80)!r}, but a folder.",
            f"A folder of your own: vrag eval prepare dataset={plain(told, 80)} --out PREPARED.",
        )
    benchmark = benchmark_named(name)
    if not equals:
        hub_repository(benchmark, split or None)  # before anything of another one is fetched
    return benchmark, Path(folder).expanduser() if equals else None, split or None


def _fetched(benchmark: Benchmark, *, quiet: bool) -> Path:
    from vrag.evaluation.download import fetch

    folder = fetch(benchmark)
    if not quiet:
        say(f"Fetched {benchmark.hub.repo}: {plain(str(folder))}")
    return folder


def _facts(benchmark: Benchmark) -> dict[str, Any]:
    hub = benchmark.hub
    return {
        "name": benchmark.name,
        "title": benchmark.title,
        "asks": benchmark.about,
        "licence": benchmark.licence,
        "source": hub.repo,
        "files": list(hub.files),
        "note": hub.note,
        "measures": list(benchmark.measures),
    }


def _tell(benchmark: Benchmark) -> None:
    from vrag.datasets.own import FORM
    from vrag.evaluation.download import is_on_hub

    hub = benchmark.hub
    say((benchmark.name, "bold"), f"  {benchmark.title}")
    rows = [
        ("asks", benchmark.about),
        ("licence", benchmark.licence),
        ("files at", hub.repo),
        ("read are", ", ".join(hub.files) or "all"),
        ("mind", hub.note or "–"),
        ("measures", ", ".join(benchmark.measures)),
    ]
    show_table(["", ""], rows)
    if benchmark.name == "dataset":
        say(f"A question: {FORM}")
        say("uid and reference_page (from 1) may be left out; a list of answers is several right ones.")
    if is_on_hub(benchmark):
        say(f"Fetched from there: vrag eval prepare {benchmark.name} --out PREPARED")
    say(f"From a folder: vrag eval prepare {benchmark.name}=FOLDER --out PREPARED")
