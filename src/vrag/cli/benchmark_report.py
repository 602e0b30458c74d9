"""`vrag eval report` and `vrag eval compare`: what came of runs, as pages to browse, Markdown and JSON."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from vrag.cli.display import Json, emit_json, file_uri, plain, say, show_table, warn
from vrag.cli.saving import write_file
from vrag.errors import RunError
from vrag.view.wording import count, size

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from PIL.Image import Image

    from vrag.agent.runs import RunStore
    from vrag.assemble import Workbench
    from vrag.evaluation.comparison import Comparison
    from vrag.evaluation.report import ComparisonPage, ReportPage, Thumbnails
    from vrag.evaluation.running import Conditions, Evaluation

Pictures = typer.Option(
    None,
    "--pictures",
    metavar="all|evidence|none|SIZE",
    help="Pictures of pages in the page: all, those of evidence alone, none, or as many as fit into a size.",
    show_default="24MB",
)

__all__ = ["Written", "compare", "report", "table", "tell_report_of", "write_report"]

RUNS = "runs"
SHOWN = (
    *("accuracy", "em", "f1", "anls", "mmlongbench", "recall@5", "ndcg@5", "seen_recall"),
    *("centre", "iou", "box_area"),
)
"""Measures that comparisons compare; the report has all of them."""
TOLD = (*SHOWN, "region_recall@5", "region_precision@5", "abstention_precision", "abstention_recall")
"""Measures that the terminal shows."""


@dataclass(frozen=True)
class Written:
    """A report on disk."""

    files: tuple[Path, ...]
    summary: Mapping[str, Any]
    left: int = 0
    """Pictures that there was no room for."""


def report(
    folder: Path = typer.Argument(..., help="A folder of `vrag eval run`."),
    pictures: str | None = Pictures,
    as_json: bool = Json,
) -> None:
    """Write the report of an evaluation anew: report.html, report.md and report.json in its folder.

    Examples of use:

      vrag eval report results

      vrag eval report results --pictures 8MB
    """
    from vrag.evaluation.running import read_evaluation

    thumbnails = _thumbnails(pictures)
    done = read_evaluation(folder)
    written = write_report(done, folder, _searched(done.conditions), thumbnails=thumbnails)
    if as_json:
        emit_json({"files": list(map(str, written.files)), **written.summary})
    else:
        tell_report_of(written)


def compare(
    a: Path = typer.Argument(..., help="A folder of `vrag eval run`."),
    b: Path = typer.Argument(..., help="Another one, of the same questions."),
    out: Path | None = typer.Option(
        None, "--out", "-o", help="Folder for the comparison as a page, Markdown, JSON."
    ),
    pictures: str | None = Pictures,
    as_json: bool = Json,
) -> None:
    """Compare two runs of a benchmark, question by question.

    The same questions are paired, so that differences are told from chance: by a permutation test over
    documents, as questions about one document are not independent. Questions without a verdict in either are
    left out and counted.

    Examples of use:

      vrag eval compare offline vimrag --out comparison
    """
    from vrag.evaluation.comparison import compare as make
    from vrag.evaluation.differing import differences
    from vrag.evaluation.measures.citing import CITING
    from vrag.evaluation.report.naming import OF_ANSWERS
    from vrag.evaluation.running import read_evaluation

    thumbnails = _thumbnails(pictures)
    one, other = read_evaluation(a), read_evaluation(b)
    different = differences(one.conditions, other.conditions)
    for warning in different:
        warn(warning)
    reported = (name for part in one.conditions.benchmarks for name in part.measures)
    own = (name for name in reported if name in {*OF_ANSWERS, *CITING})  # what search finds is in SHOWN
    made = make(
        one.records,
        other.records,
        names=_apart(a, b),
        judges=(one.conditions.judge_identity, other.conditions.judge_identity),
        measures=tuple(dict.fromkeys((*SHOWN, *own))),
    )
    files, left = (), 0
    if out:
        files, left = _write_comparison(made, (one, other), (a, b), out, different, thumbnails)
    if as_json:
        emit_json({"files": list(map(str, files)), "differences": different, **made.as_dict()})
        return
    _tell_comparison(made)
    _tell_files(files, left)


def _apart(a: Path, b: Path) -> tuple[str, str]:
    """What two folders are called: by their last names, where these differ."""
    names = a.resolve().name, b.resolve().name
    return names if names[0] != names[1] and all(names) else (str(a), str(b))


def table(
    folders: list[Path] = typer.Argument(
        ..., metavar="[NAME=]FOLDER…", help="Folders of `vrag eval run`; those of one NAME are one row."
    ),
    layout: str | None = typer.Option(
        None, help="Columns as in a paper's table: vrag or vimrag.", show_default="by kind of question"
    ),
    by: str = typer.Option(
        "benchmark", help="Columns: benchmark, or within each query_type, source_type, document_type."
    ),
    measure: str = typer.Option("accuracy", help="What is told; the report of a run names all measures."),
    markdown: bool = typer.Option(
        False, "--markdown", help="Print Markdown, the best of each column in bold."
    ),
    as_json: bool = Json,
) -> None:
    """Lay out several runs in a table, as papers do: a row for each, columns by kind of question.

    Examples of use:

      vrag eval table RAG=rag ReAct=react VRAG=vrag VimRAG=vimrag --by query_type --markdown

      vrag eval table RAG=rag VRAG=vrag-slides VRAG=vrag-documents --layout vrag --markdown
    """
    from vrag.evaluation.layout import LAYOUTS, joined, lay_out, lay_out_as
    from vrag.evaluation.running import read_evaluation

    if layout is not None and layout not in LAYOUTS:
        raise typer.BadParameter(f"There is no layout {layout!r}: {', '.join(LAYOUTS)}.")
    parts = ((name, read_evaluation(path).records) for name, path in _all_named(list(map(str, folders))))
    runs = joined(parts)
    if layout is None:
        made = lay_out(runs, by=by, measure=measure)
    else:
        made = lay_out_as(runs, LAYOUTS[layout], measure=measure)
    if as_json:
        emit_json(made.as_dict())
    elif markdown:
        shown = (sign if sign == "\n" or sign.isprintable() else " " for sign in made.markdown)
        typer.echo("".join(shown))
    else:
        show_table(["", *made.heads], ((name, *map(made.told, row)) for name, row in made.rows.items()))


def _all_named(words: Sequence[str]) -> list[tuple[str, Path]]:
    """Runs by the names that they were given; those that nobody named must differ from all others."""
    named = [_named(word) for word in words]
    for word, (name, _) in zip(words, named, strict=True):
        if "=" not in word and sum(other == name for other, _ in named) > 1:
            raise typer.BadParameter(f"Two runs are called {name}: NAME=FOLDER tells them apart.")
    return named


def _named(word: str) -> tuple[str, Path]:
    name, equals, folder = word.partition("=")
    path = Path(folder if equals else word).expanduser()
    return (name if equals and name else path.name or word), path


def write_report(
    done: Evaluation, folder: Path, bench: Workbench | None = None, *, thumbnails: Thumbnails | None = None
) -> Written:
    """Writes the report of an evaluation into its folder.

    Args:
        done: The evaluation.
        folder: Its folder.
        bench: What was searched, for pictures of gold pages that no run was shown.
        thumbnails: Which pictures go in, and how many bytes of them.
    """
    from vrag.evaluation.report import report_page
    from vrag.evaluation.report.facts import facts_of, title_of
    from vrag.evaluation.summary import summarise

    summary = summarise(done.records).as_dict()
    parts = done.conditions.benchmarks
    page = report_page(
        title_of(parts),
        done.records,
        summary,
        facts=facts_of(done.conditions),
        notes=[note for part in parts for note in part.notes],
        reported={part.name: part.measures for part in parts},
        store=_store(folder),
        page_image=_pages(bench),
        thumbnails=thumbnails,
    )
    return Written(_write(page, folder, "report"), summary, page.thumbnails.left)


def tell_report_of(written: Written) -> None:
    """Prints the headline of a report, and where it is."""
    if not written.summary["records"]:
        say("No question was asked yet.")
        return
    rows: list[tuple[str, ...]] = []
    for name in TOLD:
        if found := written.summary["measures"].get(name):
            low, high = found.get("low"), found.get("high")
            spread = "" if low is None or high is None else f"{low:.3f} – {high:.3f}"
            rows.append((name, f"{found['mean']:.3f}", spread, str(found["n"])))
    show_table(["measure", "mean", "95 %", "n"], rows)
    told = ", ".join(f"{count} {name}" for name, count in written.summary["outcomes"].items() if count)
    say(f"{told}.")
    _tell_files(written.files, written.left)


def _tell_files(files: Sequence[Path], left: int) -> None:
    for path in files[:1]:
        room = f", {count(left, 'picture')} left out: --pictures all has them" if left else ""
        told = f" {plain(file_uri(path.resolve()))} ({size(path.stat().st_size)}{room})"
        say(("Written", "bold"), told)


def _thumbnails(wanted: str | None) -> Thumbnails | None:
    """The pictures that were asked for; None for as many as is usual."""
    from vrag.evaluation.report.thumbnails import thumbnails_of

    try:
        return None if wanted is None else thumbnails_of(wanted)
    except ValueError as error:
        raise typer.BadParameter(f"--pictures {error}.") from error


def _searched(conditions: Conditions) -> Workbench | None:
    """What was searched; None where it is gone, is another one by now, or a server searched."""
    from vrag.assemble import open_workbench
    from vrag.errors import VragError
    from vrag.settings import load_settings

    if not conditions.places:
        return None
    try:
        bench = open_workbench(load_settings(collections=conditions.places, search_url="").settings)
        version = bench.searcher.version
    except VragError:  # it is for pictures alone
        return None
    return bench if str(conditions.made_with.get("collection")).startswith(version) else None


def _store(folder: Path) -> RunStore | None:
    from vrag.agent.runs import RunStore

    return RunStore(folder / RUNS) if (folder / RUNS).is_dir() else None


def _pages(bench: Workbench | None) -> Callable[[str, int], Image | None] | None:
    """Pictures of pages by file name and number; None where nothing is there to draw them from."""
    if bench is None:
        return None
    from vrag.errors import VragError
    from vrag.types import item_id

    ids = {document.name: document.id for document in bench.documents if document.items}

    def page(name: str, number: int) -> Image | None:
        if (id := ids.get(name)) is None:
            return None
        try:
            return bench.searcher.image(item_id(id, number))
        except VragError:  # a gold page that the document does not have, or that could not be drawn
            return None

    return page


def _write_comparison(
    made: Comparison,
    both: tuple[Evaluation, Evaluation],
    folders: tuple[Path, Path],
    out: Path,
    different: Sequence[str],
    thumbnails: Thumbnails | None,
) -> tuple[tuple[Path, ...], int]:
    """The files, and how many pictures there was no room for."""
    from vrag.evaluation.report import comparison_page
    from vrag.evaluation.report.facts import facts_of, title_of

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"{out} cannot be written: {error.strerror}.", "Name another folder.") from error
    page = comparison_page(
        made.as_dict(),
        both[0].records,
        both[1].records,
        title=f"{title_of(both[0].conditions.benchmarks)}: {made.a} and {made.b}",
        facts=(facts_of(both[0].conditions), facts_of(both[1].conditions)),
        notes=different,
        stores=(_store(folders[0]), _store(folders[1])),
        page_image=_pages(_searched(both[0].conditions) or _searched(both[1].conditions)),
        thumbnails=thumbnails,
        runs=(_runs_from(out, folders[0]), _runs_from(out, folders[1])),
    )
    return _write(page, out, "comparison"), page.thumbnails.left


def _runs_from(out: Path, folder: Path) -> str:
    """Where the runs of an evaluation lie, from a page in another folder; empty where there are none."""
    runs = (folder / RUNS).resolve()
    return Path(os.path.relpath(runs, out.resolve())).as_posix() if runs.is_dir() else ""


def _write(page: ReportPage | ComparisonPage, folder: Path, stem: str) -> tuple[Path, ...]:
    texts = {
        "html": page.html,
        "md": page.markdown,
        "json": json.dumps(page.as_dict(), ensure_ascii=False, indent=1) + "\n",
    }
    try:
        for suffix, text in texts.items():
            write_file(str(folder / f"{stem}.{suffix}"), text.encode())
    except RunError as error:
        raise RunError(error.message, "Make room, or mend the rights of the folder.") from error
    return tuple(folder / f"{stem}.{suffix}" for suffix in texts)


def _tell_comparison(made: Comparison) -> None:
    """Prints the differences, what they rest on, and what was left out."""
    facts = made.as_dict()
    show_table(
        ["measure", "A", "B", "B − A", "95 %", "p", "n"],
        (_difference(name, one) for name, one in facts["measures"].items()),
    )
    for remark in dict.fromkeys(one["remark"] for one in facts["measures"].values() if one.get("remark")):
        about = [name for name, one in facts["measures"].items() if one.get("remark") == remark]
        say(f"{', '.join(about)}: {remark}.")
    cells = {name: len(keys) for name, keys in facts["cells"].items()}
    say(
        f"Both right {cells['both']}, only A {cells['only_a']}, "
        f"only B {cells['only_b']}, neither {cells['neither']}."
    )
    for name, what in (("only_a", "only A has"), ("only_b", "only B has"), ("unjudged", "have no verdict")):
        if facts[name]:
            warn(f"{len(facts[name])} runs of questions {what}; they are left out.")
    if facts["bracket"]:
        worst = (facts["bracket"][side]["difference"] for side in ("worst_for_b", "worst_for_a"))
        say("With the verdicts that are missing, accuracy would differ by {:+.3f} to {:+.3f}.".format(*worst))


def _difference(name: str, one: Mapping[str, Any]) -> tuple[str, ...]:
    """A row; p is corrected for the number of measures in all but the first."""
    from vrag.evaluation.report.naming import p_text

    low, high, adjusted = one.get("low"), one.get("high"), one.get("adjusted")
    p = one.get("p") if adjusted is None else adjusted
    return (
        name,
        f"{one['a']:.3f}",
        f"{one['b']:.3f}",
        f"{one['difference']:+.3f}",
        "" if low is None or high is None else f"{low:+.3f} – {high:+.3f}",
        p_text(p),
        str(one["n"]),
    )
