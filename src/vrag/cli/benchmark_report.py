"""`vrag eval report` and `vrag eval compare`: what came of runs, as pages to browse, Markdown and JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from vrag.cli.display import Json, emit_json, file_uri, plain, say, show_table, warn
from vrag.cli.saving import write_file
from vrag.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from PIL.Image import Image

    from vrag.agent.runs import RunStore
    from vrag.assemble import Workbench
    from vrag.evaluation.comparison import Comparison
    from vrag.evaluation.report import ComparisonPage, ReportPage
    from vrag.evaluation.running import Conditions, Evaluation

__all__ = ["Written", "compare", "report", "table", "tell_report_of", "write_report"]

RUNS = "runs"
SHOWN = ("accuracy", "em", "f1", "anls", "mmlongbench", "recall@5", "ndcg@5", "seen_recall", "centre", "iou")
"""Measures that the terminal shows and comparisons compare; the report has all of them."""


@dataclass(frozen=True)
class Written:
    """A report on disk."""

    files: tuple[Path, ...]
    summary: Mapping[str, Any]


def report(
    folder: Path = typer.Argument(..., help="A folder of `vrag eval run`."),
    as_json: bool = Json,
) -> None:
    """Write the report of an evaluation anew: report.html, report.md and report.json in its folder.

    Example: vrag eval report results
    """
    from vrag.evaluation.running import read_evaluation

    written = write_report(read_evaluation(folder), folder)
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
    from vrag.evaluation.running import read_evaluation

    one, other = read_evaluation(a), read_evaluation(b)
    for warning in _differences(one.conditions, other.conditions):
        warn(warning)
    made = make(one.records, other.records, names=(str(a), str(b)), measures=SHOWN)
    files = _write_comparison(made, (one, other), (a, b), out) if out else ()
    if as_json:
        emit_json({"files": list(map(str, files)), **made.as_dict()})
        return
    _tell_comparison(made)
    _tell_files(files)


def table(
    folders: list[Path] = typer.Argument(..., metavar="[NAME=]FOLDER…", help="Folders of `vrag eval run`."),
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
    """
    from vrag.evaluation.layout import lay_out
    from vrag.evaluation.running import read_evaluation

    named = [_named(word) for word in map(str, folders)]
    if len({name for name, _ in named}) < len(named):
        raise typer.BadParameter("Two runs have the same name: NAME=FOLDER tells them apart.")
    made = lay_out({name: read_evaluation(path).records for name, path in named}, by=by, measure=measure)
    if as_json:
        emit_json(made.as_dict())
    elif markdown:
        typer.echo(made.markdown)
    else:
        show_table(["", *made.heads], ((name, *map(made.told, row)) for name, row in made.rows.items()))


def _named(word: str) -> tuple[str, Path]:
    name, equals, folder = word.partition("=")
    path = Path(folder if equals else word).expanduser()
    return (name if equals and name else path.name or word), path


def write_report(done: Evaluation, folder: Path, bench: Workbench | None = None) -> Written:
    """Writes the report of an evaluation into its folder.

    Args:
        done: The evaluation.
        folder: Its folder.
        bench: What was searched, for pictures of gold pages that no run was shown.
    """
    from vrag.evaluation.report import report_page
    from vrag.evaluation.summary import summarise

    summary = summarise(done.records).as_dict()
    titles = ", ".join(part.title for part in done.conditions.benchmarks)
    page = report_page(
        titles,
        done.records,
        summary,
        facts=_facts(done.conditions),
        notes=[note for part in done.conditions.benchmarks for note in part.notes],
        store=_store(folder),
        page_image=_pages(bench),
    )
    return Written(_write(page, folder, "report"), summary)


def tell_report_of(written: Written) -> None:
    """Prints the headline of a report, and where it is."""
    if not written.summary["records"]:
        say("No question was asked yet.")
        return
    rows: list[tuple[str, ...]] = []
    for name in SHOWN:
        if found := written.summary["measures"].get(name):
            low, high = found.get("low"), found.get("high")
            spread = "" if low is None or high is None else f"{low:.3f} – {high:.3f}"
            rows.append((name, f"{found['mean']:.3f}", spread, str(found["n"])))
    show_table(["measure", "mean", "95 %", "n"], rows)
    told = ", ".join(f"{count} {name}" for name, count in written.summary["outcomes"].items() if count)
    say(f"{told}.")
    _tell_files(written.files)


def _tell_files(files: Sequence[Path]) -> None:
    for path in files[:1]:
        say(("Written", "bold"), f" {plain(file_uri(path.resolve()))}")


def _facts(conditions: Conditions) -> dict[str, str]:
    """What was run, in words."""
    made = conditions.made_with
    limits: dict[str, Any] = made.get("limits") or {}
    told = {
        "agent": made.get("agent"),
        "model": made.get("policy"),
        "profile": made.get("profile"),
        "judge": conditions.judge,
        "runs of a question": conditions.samples,
        "steps at most": limits.get("steps"),
        "collection": made.get("collection"),
        "questions": f"SHA-256 {conditions.cases[:16]}…",
        "licence": "; ".join(dict.fromkeys(part.licence for part in conditions.benchmarks)),
        "vrag": conditions.version,
        "whole": "no: it was stopped before all questions were asked" if conditions.stopped else "yes",
    }
    return {name: str(value) for name, value in told.items() if value not in (None, "")}


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
    made: Comparison, both: tuple[Evaluation, Evaluation], folders: tuple[Path, Path], out: Path
) -> tuple[Path, ...]:
    from vrag.evaluation.report import comparison_page

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"{out} cannot be written: {error.strerror}.", "Name another folder.") from error
    page = comparison_page(
        made.as_dict(),
        both[0].records,
        both[1].records,
        facts=(_facts(both[0].conditions), _facts(both[1].conditions)),
        stores=(_store(folders[0]), _store(folders[1])),
    )
    return _write(page, out, "comparison")


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


def _differences(a: Conditions, b: Conditions) -> list[str]:
    """What makes two runs hard to compare, in sentences."""
    told: list[str] = []
    if a.cases != b.cases:
        told.append("The two were asked questions of other preparations; those with equal ids are compared.")
    if a.samples != b.samples:
        told.append(
            f"Questions were asked {a.samples} and {b.samples} times; the samples of both are compared."
        )
    if a.stopped or b.stopped:
        told.append("One was stopped before all questions were asked.")
    return told


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
    low, high, adjusted = one.get("low"), one.get("high"), one.get("adjusted")
    p = one.get("p") if adjusted is None else adjusted
    return (
        name,
        f"{one['a']:.3f}",
        f"{one['b']:.3f}",
        f"{one['difference']:+.3f}",
        "" if low is None or high is None else f"{low:+.3f} – {high:+.3f}",
        "–" if p is None else f"{p:.3f}",
        str(one["n"]),
    )
