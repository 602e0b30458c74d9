"""`vrag eval compare` and `vrag eval table`: several runs beside each other."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from vrag.cli.eval.report_pages import (
    RUNS,
    SHOWN,
    Pictures,
    page_image_of,
    searched_of,
    store_of,
    tell_files,
    thumbnails_asked,
    write_page,
)
from vrag.cli.terminal.console import Json, emit_json, plain, say, show_table, warn
from vrag.errors import RunError
from vrag.render.markdown import inline
from vrag.render.text_format import count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vrag.evaluation.report import Thumbnails
    from vrag.evaluation.result_store import Evaluation
    from vrag.evaluation.statistics.comparison import Comparison

__all__ = ["compare", "table"]


def compare(
    a: Path = typer.Argument(..., help="A folder of `vrag eval run`."),
    b: Path = typer.Argument(..., help="Another one, of the same questions."),
    out: Path | None = typer.Option(
        None, "--out", "-o", help="Folder for the comparison as a page, Markdown, JSON."
    ),
    measures: list[str] | None = typer.Option(
        None, "--measure", help="Compare this as well, such as turns or region_recall@5; repeatable."
    ),
    pictures: str | None = Pictures,
    as_json: bool = Json,
) -> None:
    """Compare two runs of a benchmark, question by question.

    The same questions are paired, so that differences are told from chance: by a permutation test over
    documents, as questions about one document are not independent. Questions without a verdict in either are
    left out and counted. p of all measures but the first is corrected for their number.

    Examples of use:

      vrag eval compare offline vimrag --out comparison

      vrag eval compare offline vimrag --measure turns --measure visual_tokens
    """
    from vrag.evaluation.measures.citations import CITING
    from vrag.evaluation.report.labels import OF_ANSWERS
    from vrag.evaluation.result_store import read_evaluation
    from vrag.evaluation.statistics.comparability import differences
    from vrag.evaluation.statistics.comparison import compare as make

    thumbnails = thumbnails_asked(pictures)
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
        measures=tuple(dict.fromkeys((*SHOWN, *own, *_asked(measures or (), one, other)))),
    )
    files, left = (), 0
    if out:
        files, left = _write_comparison(made, (one, other), (a, b), out, different, thumbnails)
    if as_json:
        emit_json({"files": list(map(str, files)), "differences": different, **made.as_dict()})
        return
    _tell_comparison(made)
    tell_files(files, left)


def _apart(a: Path, b: Path) -> tuple[str, str]:
    """What two folders are called: by their last names, where these differ."""
    names = a.resolve().name, b.resolve().name
    return names if names[0] != names[1] and all(names) else (str(a), str(b))


def _asked(measures: Sequence[str], one: Evaluation, other: Evaluation) -> Sequence[str]:
    """Measures that somebody named.

    Raises:
        typer.BadParameter: If neither run has one of them.
    """
    known = {name for done in (one, other) for record in done.records for name in record.measures}
    for name in measures:
        if name not in known | {*SHOWN}:
            told = f"{plain(name, 80)} is measured in neither run; they have: {', '.join(sorted(known))}"
            raise typer.BadParameter(told, param_hint="--measure")
    return measures


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
    from vrag.evaluation.report.run_facts import facts_of, title_of

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"{out} cannot be written: {error.strerror}.", "Name another folder.") from error
    page = comparison_page(
        made,
        both[0].records,
        both[1].records,
        title=f"{title_of(both[0].conditions.benchmarks)}: {made.a} and {made.b}",
        facts=(facts_of(both[0].conditions), facts_of(both[1].conditions)),
        notes=different,
        stores=(store_of(folders[0]), store_of(folders[1])),
        page_image=page_image_of(searched_of(both[0].conditions) or searched_of(both[1].conditions)),
        thumbnails=thumbnails,
        runs=(_runs_from(out, folders[0]), _runs_from(out, folders[1])),
    )
    return write_page(page, out, "comparison"), page.thumbnails.left


def _runs_from(out: Path, folder: Path) -> str:
    """Where the runs of an evaluation lie, from a page in another folder; empty where there are none."""
    runs = (folder / RUNS).resolve()
    return Path(os.path.relpath(runs, out.resolve())).as_posix() if runs.is_dir() else ""


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
    for name, what in (("only_a", "Only in A"), ("only_b", "Only in B"), ("unjudged", "Without a verdict")):
        if facts[name]:
            warn(f"{what}, and left out: {count(len(facts[name]), 'run')}.")
    if facts["bracket"]:
        worst = (facts["bracket"][side]["difference"] for side in ("worst_for_b", "worst_for_a"))
        say("With the verdicts that are missing, accuracy would differ by {:+.3f} to {:+.3f}.".format(*worst))


def _difference(name: str, one: Mapping[str, Any]) -> tuple[str, ...]:
    """A row; p is corrected for the number of measures in all but the first."""
    from vrag.evaluation.report.labels import p_text

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


def table(
    folders: list[Path] = typer.Argument(
        ..., metavar="[NAME=]FOLDER…", help="Folders of `vrag eval run`; those of one NAME are one row."
    ),
    layout: str | None = typer.Option(
        None, help="Columns as in a paper's table: vrag or vimrag.", show_default="by kind of question"
    ),
    by: str | None = typer.Option(
        None,
        help="Columns: benchmark, or within each query_type, source_type, document_type.",
        show_default="benchmark",
    ),
    measure: str = typer.Option(
        "accuracy", help="What is told: a measure of questions, as report.json names it."
    ),
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
    from vrag.evaluation.paper_tables import LAYOUTS, joined, lay_out, lay_out_as
    from vrag.evaluation.statistics.comparability import judges_of, row_differences

    if layout is not None and layout not in LAYOUTS:
        raise typer.BadParameter(f"There is no layout {layout!r}: {', '.join(LAYOUTS)}.")
    if layout is not None and by is not None:
        raise typer.BadParameter(
            "A layout has columns of its own: leave one of the two out.", param_hint="--by"
        )
    rows = _rows(list(map(str, folders)))
    runs = joined((name, run.records) for name, held in rows.items() for run in held)
    if layout is None:
        made = lay_out(runs, by=by or "benchmark", measure=measure)
    else:
        made = lay_out_as(runs, LAYOUTS[layout], measure=measure)
    notes = row_differences(rows)
    if as_json:
        judges = {name: judges_of(held) for name, held in rows.items()}
        emit_json({**made.as_dict(), "judges": judges, "notes": notes})
    elif markdown:
        told = "\n\n".join((made.markdown, *map(inline, notes)))
        typer.echo("".join(sign if sign == "\n" or sign.isprintable() else " " for sign in told))
    else:
        show_table(["", *made.heads], ((name, *map(made.told, row)) for name, row in made.rows.items()))
        for note in notes:
            warn(note)


def _rows(words: Sequence[str]) -> dict[str, list[Evaluation]]:
    """The runs of each row, by its name."""
    from vrag.evaluation.result_store import read_evaluation

    rows: dict[str, list[Evaluation]] = {}
    for name, path in _all_named(words):
        rows.setdefault(name, []).append(read_evaluation(path))
    return rows


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
