"""`vrag eval compare` and `vrag eval table`: several runs side by side."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import typer

from vrag.cli import options as opt
from vrag.cli.eval import report as evaluation_report
from vrag.cli.eval.report import MEASURES, PicturesOption
from vrag.cli.terminal.console import echo, plain, print_json, print_table, warn
from vrag.errors import RunError
from vrag.evaluation.comparison import Comparison
from vrag.evaluation.comparison import compare as compare_records
from vrag.evaluation.measures.run_measures import CITING
from vrag.evaluation.pairs import differences, judges_of, row_differences
from vrag.evaluation.paper_tables import LAYOUTS, joined, lay_out, lay_out_as
from vrag.evaluation.report import Thumbnails, comparison_page
from vrag.evaluation.report.labels import OF_ANSWERS, facts_of, p_text, title_of
from vrag.evaluation.result_store import Evaluation, read_evaluation
from vrag.render.markdown_text import inline
from vrag.text.numerals import count


def compare(
    a: opt.EvaluationArgument,
    b: Path = typer.Argument(..., help="Another one, with the same questions."),
    out: Path | None = typer.Option(
        None, "--out", "-o", help="Output folder for the comparison as a page, Markdown and JSON."
    ),
    measures: list[str] | None = typer.Option(
        None, "--measure", help="Additional measure, such as turns or region_recall@5; repeatable."
    ),
    pictures: PicturesOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Compare two runs of a benchmark, question by question.

    The answers to the same questions are paired, and a permutation test over documents (questions about one
    document are not independent) separates differences from chance. Questions without a verdict in either run
    are left out and counted. p of all measures but the first is corrected for their number.

    Examples:

      vrag eval compare no-model vimrag --out comparison

      vrag eval compare no-model vimrag --measure turns --measure visual_tokens
    """
    thumbnails = evaluation_report.parse_pictures(pictures)
    first, second = read_evaluation(a), read_evaluation(b)
    condition_differences = differences(first.conditions, second.conditions)
    for difference in condition_differences:
        warn(difference)
    reported = (name for part in first.conditions.benchmarks for name in part.measures)
    of_answers = (name for name in reported if name in {*OF_ANSWERS, *CITING})  # of search: in MEASURES
    known = {name for each in (first, second) for record in each.records for name in record.measures}
    for name in measures or ():
        if name not in known | {*MEASURES}:
            message = f"Neither run has the measure {plain(name, 80)}; known: {', '.join(sorted(known))}"
            raise typer.BadParameter(message, param_hint="--measure")
    names = a.resolve().name, b.resolve().name
    comparison = compare_records(
        first.records,
        second.records,
        names=names if names[0] != names[1] and all(names) else (str(a), str(b)),
        judges=(first.conditions.judge_identity, second.conditions.judge_identity),
        measures=tuple(dict.fromkeys((*MEASURES, *of_answers, *(measures or ())))),
    )
    files, omitted = (), 0
    if out:
        both, folders = (first, second), (a, b)
        files, omitted = _write(comparison, both, folders, out, condition_differences, thumbnails)
    if as_json:
        facts = {"files": list(map(str, files)), "differences": condition_differences}
        print_json(facts | comparison.as_dict())
        return
    _print_comparison(comparison)
    evaluation_report.print_files(files, omitted)


def _write(
    comparison: Comparison,
    both: tuple[Evaluation, Evaluation],
    folders: tuple[Path, Path],
    out: Path,
    condition_differences: Sequence[str],
    thumbnails: Thumbnails | None,
) -> tuple[tuple[Path, ...], int]:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"{out} cannot be written: {error.strerror}.", "Choose another folder.") from error
    first, second = (each.conditions for each in both)
    session = evaluation_report.reopen_session(first) or evaluation_report.reopen_session(second)
    page = comparison_page(
        comparison,
        both[0].records,
        both[1].records,
        title=f"{title_of(first.benchmarks)}: {comparison.a} and {comparison.b}",
        facts=(facts_of(first), facts_of(second)),
        notes=condition_differences,
        stores=(evaluation_report.store_of(folders[0]), evaluation_report.store_of(folders[1])),
        page_image=evaluation_report.page_image_of(session),
        thumbnails=thumbnails,
        runs=(_path_to_runs(out, folders[0]), _path_to_runs(out, folders[1])),
    )
    return evaluation_report.write_page(page, out, "comparison"), page.thumbnails.left


def _path_to_runs(out: Path, folder: Path) -> str:
    """Return the relative path from a page to the runs of an evaluation.

    Empty if they are gone, or on another drive of Windows.
    """
    runs, page = (folder / evaluation_report.RUNS).resolve(), out.resolve()
    if not runs.is_dir() or runs.drive != page.drive:
        return ""
    return Path(os.path.relpath(runs, page)).as_posix()


def _print_comparison(comparison: Comparison) -> None:
    """Print the differences, the number of questions behind them, and what was left out."""
    facts = comparison.as_dict()
    rows: list[tuple[str, ...]] = []
    remarks: dict[str, list[str]] = {}
    for name, measure in facts["measures"].items():
        low, high, adjusted = measure.get("low"), measure.get("high"), measure.get("adjusted")
        interval = "" if low is None or high is None else f"{low:+.3f} – {high:+.3f}"
        p = p_text(measure.get("p") if adjusted is None else adjusted)  # corrected in all but the first
        means = (f"{measure['a']:.3f}", f"{measure['b']:.3f}", f"{measure['difference']:+.3f}")
        rows.append((name, *means, interval, p, str(measure["n"])))
        if measure.get("remark"):
            remarks.setdefault(measure["remark"], []).append(name)
    print_table(["measure", "A", "B", "B − A", "95 %", "p", "n"], rows)
    for remark, names in remarks.items():
        echo(f"{', '.join(names)}: {remark}.")
    cells = {name: len(keys) for name, keys in facts["cells"].items()}
    echo(
        f"Both right {cells['both']}, only A {cells['only_a']}, "
        f"only B {cells['only_b']}, neither {cells['neither']}."
    )
    for name, reason in (("only_a", "Only in A"), ("only_b", "Only in B"), ("unjudged", "Without a verdict")):
        if facts[name]:
            warn(f"{reason}, and left out: {count(len(facts[name]), 'run')}.")
    if facts["bracket"]:
        worst, best = (facts["bracket"][side]["difference"] for side in ("worst_for_b", "worst_for_a"))
        echo(f"With the missing verdicts, the difference of accuracy would be {worst:+.3f} to {best:+.3f}.")


def table(
    folders: list[Path] = typer.Argument(
        ..., metavar="[NAME=]FOLDER…", help="Output folders of `vrag eval run`; equal NAMEs share a row."
    ),
    layout: str | None = typer.Option(
        None, help="Columns of the table of a paper: vrag or vimrag.", show_default="by kind of question"
    ),
    by: str | None = typer.Option(
        None,
        help="Columns: benchmark, or within each query_type, source_type, document_type.",
        show_default="benchmark",
    ),
    measure: str = typer.Option("accuracy", help="Measure in the cells, by its name in report.json."),
    markdown: bool = typer.Option(
        False, "--markdown", help="Print Markdown, with the best value of each column in bold."
    ),
    as_json: opt.JsonOption = False,
) -> None:
    """Print several runs as a table, as in papers: one row per run, columns by kind of question.

    Examples:

      vrag eval table RAG=rag ReAct=react VRAG=vrag VimRAG=vimrag --by query_type --markdown

      vrag eval table RAG=rag VRAG=vrag-slides VRAG=vrag-documents --layout vrag --markdown
    """
    if layout is not None and layout not in LAYOUTS:
        raise typer.BadParameter(f"Unknown layout {layout!r}; known: {', '.join(LAYOUTS)}.")
    if layout is not None and by is not None:
        raise typer.BadParameter(
            "A layout has its own columns. Leave out --layout or --by.", param_hint="--by"
        )
    rows: dict[str, list[Evaluation]] = {}
    for name, path in _parse_rows(list(map(str, folders))):
        rows.setdefault(name, []).append(read_evaluation(path))
    runs = joined((name, run.records) for name, evaluations in rows.items() for run in evaluations)
    if layout is None:
        result = lay_out(runs, by=by or "benchmark", measure=measure)
    else:
        result = lay_out_as(runs, LAYOUTS[layout], measure=measure)
    notes = row_differences(rows)
    if as_json:
        judges = {name: judges_of(evaluations) for name, evaluations in rows.items()}
        print_json({**result.as_dict(), "judges": judges, "notes": notes})
    elif markdown:
        text = "\n\n".join((result.markdown, *map(inline, notes)))
        typer.echo("".join(sign if sign == "\n" or sign.isprintable() else " " for sign in text))
    else:
        cells = ((name, *map(result.cell_text, row)) for name, row in result.rows.items())
        print_table(["", *result.heads], cells)
        for note in notes:
            warn(note)


def _parse_rows(words: Sequence[str]) -> list[tuple[str, Path]]:
    """Parse [NAME=]FOLDER; a name that was not given must differ from all others."""
    rows: list[tuple[str, Path]] = []
    for word in words:
        name, equals, folder = word.partition("=")
        path = Path(folder if equals else word).expanduser()
        rows.append((name if equals and name else path.name or word, path))
    names = [name for name, _ in rows]
    for word, name in zip(words, names, strict=True):
        if "=" not in word and names.count(name) > 1:
            raise typer.BadParameter(f"Two runs are named {name}. Name them apart: NAME=FOLDER.")
    return rows
