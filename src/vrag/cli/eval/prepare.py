"""`vrag eval list` and `vrag eval prepare`: published benchmarks, and folders of them that can be run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from vrag.cli import options as opt
from vrag.cli.terminal.console import echo, plain, print_json, print_table
from vrag.cli.terminal.progress import note_on_interrupt, progress_line
from vrag.datasets.own import FORM
from vrag.datasets.protocols import Benchmark
from vrag.datasets.registry import BENCHMARKS, benchmark_named
from vrag.errors import SettingsError
from vrag.evaluation.prepare import fetch, hub_repository, is_on_hub
from vrag.evaluation.prepare import prepare as prepare_benchmarks
from vrag.text.numerals import count


def list_benchmarks(
    name: str | None = typer.Argument(None, help="A benchmark to describe in detail."),
    as_json: opt.JsonOption = False,
) -> None:
    """List the published benchmarks that can be prepared and run.

    Examples:

      vrag eval list

      vrag eval list mmlongbench
    """
    found = [benchmark_named(name)] if name else list(BENCHMARKS.values())
    if as_json:
        print_json([_facts(benchmark) for benchmark in found])
    elif name:
        _print_benchmark(found[0])
    else:
        rows = ([benchmark.name, benchmark.about, benchmark.licence] for benchmark in found)
        print_table(["name", "asks", "licence"], rows)
        echo("Details: vrag eval list NAME. Next: vrag eval prepare NAME[=FOLDER] --out PREPARED.")


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


def _print_benchmark(benchmark: Benchmark) -> None:
    facts = _facts(benchmark)
    echo((benchmark.name, "bold"), f"  {benchmark.title}")
    facts |= {"files": ", ".join(facts["files"]) or "all", "measures": ", ".join(facts["measures"])}
    names = ("asks", "licence", "source", "files", "note", "measures")
    print_table(["", ""], ((name, facts[name] or "–") for name in names))
    if benchmark.name == "dataset":
        echo(f"A question: {FORM}")
        echo("uid and reference_page (from 1) are optional; a list of answers means that each one is right.")
    if is_on_hub(benchmark):
        echo(f"Download: vrag eval prepare {benchmark.name} --out PREPARED")
    echo(f"From a folder: vrag eval prepare {benchmark.name}=FOLDER --out PREPARED")


def prepare(
    benchmarks: list[str] = typer.Argument(
        ...,
        metavar="NAME[:SPLIT][=FOLDER]…",
        help="Benchmarks, with the folders of their downloaded files; without a folder they are downloaded.",
    ),
    out: Path = typer.Option(..., "--out", "-o", help="Output folder."),
    limit: int | None = typer.Option(
        None, min=1, help="Use only the first questions of each benchmark; all documents are included."
    ),
    as_json: opt.JsonOption = False,
) -> None:
    """Make a folder of questions and documents from published benchmarks.

    Several benchmarks become one corpus that is searched together, as in the papers. Wrong page numbers are
    corrected and broken rows dropped; the changes are printed and stored in benchmark.json. Without a folder
    the files are downloaded from the Hugging Face hub into its cache, which requires the extra `models`.

    Examples:

      vrag eval prepare mmlongbench --out mmlongbench

      vrag eval prepare mmlongbench=MMLongBench-Doc --out mmlongbench

      vrag eval prepare slidevqa:test=SlideVQA vidoseek=ViDoSeek mmlongbench=MMLongBench-Doc --out merged
    """
    sources = [_parse_source(word) for word in benchmarks]
    inputs: list[tuple[Benchmark, Path, str | None]] = []
    with note_on_interrupt("Finished downloads are kept. Run the same command again to continue."):
        for benchmark, folder, split in sources:
            place = folder or fetch(benchmark)
            inputs.append((benchmark, place, split))
            if folder is None and not as_json:
                echo(f"Downloaded {benchmark.hub.repo}: {plain(str(place))}")
    number = 0
    note = f"{out} is incomplete. Run the same command again to make it."
    with note_on_interrupt(note), progress_line(quiet=as_json) as show:

        def report(name: str) -> None:
            nonlocal number
            number += 1
            show(f"{count(number, 'document')} · {plain(name, 60)}")

        prepared = prepare_benchmarks(inputs, out, limit=limit, tell=report)
    if as_json:
        parts = [part.model_dump(mode="json") for part in prepared.parts]
        print_json({"folder": str(out), "benchmarks": parts})
        return
    for part in prepared.parts:
        counts = f"{count(part.cases, 'question')}, {count(part.documents, 'document')}"
        echo((part.title, "bold"), f": {counts}. Licence: {part.licence}.")
        for text in part.notes:
            echo(("  ! ", "yellow"), plain(text, 300))
    echo(f"Next: vrag eval run {plain(str(out))} --out results")


def _parse_source(word: str) -> tuple[Benchmark, Path | None, str | None]:
    """Parse NAME[:SPLIT][=FOLDER]; without a folder the benchmark is downloaded."""
    key, equals, folder = word.partition("=")
    name, _, split = key.partition(":")
    if not name or (equals and not folder):
        raise typer.BadParameter(f"{word!r} is neither NAME nor NAME=FOLDER.", param_hint="NAME=FOLDER")
    if not equals and name not in BENCHMARKS and Path(key).expanduser().is_dir():
        raise SettingsError(
            f"{plain(key, 80)!r} is a folder, not a benchmark.",
            f"For a folder of your own: vrag eval prepare dataset={plain(key, 80)} --out PREPARED.",
        )
    benchmark = benchmark_named(name)
    if not equals:
        hub_repository(benchmark, split or None)  # before another benchmark is downloaded
    return benchmark, Path(folder).expanduser() if equals else None, split or None
