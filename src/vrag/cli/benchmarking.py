"""`vrag eval list` and `vrag eval prepare`: published data sets, and folders of them that can be run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from vrag.cli.display import Json, emit_json, plain, progress_line, say, show_table
from vrag.cli.stopping import stoppable

if TYPE_CHECKING:
    from vrag.evaluation.benchmark import Benchmark

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
    from vrag.evaluation.benchmarks import BENCHMARKS, benchmark_named

    found = [benchmark_named(name)] if name else list(BENCHMARKS.values())
    if as_json:
        emit_json([_facts(benchmark) for benchmark in found])
    elif name:
        _tell(found[0])
    else:
        show_table(["name", "asks", "licence"], ([one.name, one.about, one.licence] for one in found))
        say("More of one: vrag eval list NAME. Then: vrag eval prepare NAME=FOLDER --out PREPARED.")


def prepare(
    benchmarks: list[str] = typer.Argument(
        ..., metavar="NAME[:SPLIT]=FOLDER…", help="Benchmarks with the folders of their files, as downloaded."
    ),
    out: Path = typer.Option(..., "--out", "-o", help="Folder to make."),
    limit: int | None = typer.Option(
        None, min=1, help="The first questions of each benchmark alone; its documents are all there."
    ),
    as_json: bool = Json,
) -> None:
    """Make a folder of questions and documents out of benchmarks as they were published.

    Several become one corpus, searched together, as the papers do. Page numbers are mended, broken rows
    dropped, and what was done is told and kept in benchmark.json.

    Examples of use:

      vrag eval prepare mmlongbench=MMLongBench-Doc --out mmlongbench

      vrag eval prepare slidevqa:test=SlideVQA vidoseek=ViDoSeek mmlongbench=MMLongBench-Doc --out merged
    """
    from vrag.evaluation.preparing import prepare as make

    asked = [_asked(word) for word in benchmarks]
    count = 0
    with (
        stoppable(f"{out} is not whole; the same command makes it anew."),
        progress_line(quiet=as_json) as tell,
    ):

        def progress(name: str) -> None:
            nonlocal count
            count += 1
            tell(f"{count} documents · {plain(name, 60)}")

        made = make(asked, out, limit=limit, tell=progress)
    if as_json:
        emit_json({"folder": str(out), "benchmarks": [part.model_dump(mode="json") for part in made.parts]})
        return
    for part in made.parts:
        say((part.title, "bold"), f": {part.cases} questions, {part.documents} documents. {part.licence}.")
        for note in part.notes:
            say(("  ! ", "yellow"), plain(note, 300))
    say(f"Ask them: vrag eval run {plain(str(out))} --out results")


def _asked(word: str) -> tuple[Benchmark, Path, str | None]:
    from vrag.evaluation.benchmarks import benchmark_named

    told, equals, folder = word.partition("=")
    if not equals or not told or not folder:
        raise typer.BadParameter(f"{word!r} is not NAME=FOLDER.", param_hint="NAME=FOLDER")
    name, _, split = told.partition(":")
    return benchmark_named(name), Path(folder).expanduser(), split or None


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
    say(f"Then: vrag eval prepare {benchmark.name}=FOLDER --out PREPARED")
