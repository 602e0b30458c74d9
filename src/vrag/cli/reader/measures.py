"""Figures of the reader on public question sets: measured, printed and drawn."""

from __future__ import annotations

import io
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from vrag.atomic_io import write_whole
from vrag.cli.terminal.console import echo, err, print_table
from vrag.errors import MissingExtra

if TYPE_CHECKING:
    from vrag.reading.scorer import CandidateScorer
    from vrag.reading.spans.reader import SpanModel
    from vrag.reading.text_reader import TextReader
    from vrag.reading.training.answer_measure import AnswerFigures
    from vrag.reading.training.tat_measure import TatFigures
    from vrag.reading.training.train_tables import TableFigures
    from vrag.settings import Settings

FIGURE_SUFFIXES = ".png", ".svg", ".pdf"
LEARNT = "xquad"
"""Begins the names of test sets that the weights of the package have learnt from."""
ANSWERS = "answers"
"""Key of the figures of answers of all sources; test sets have other names."""
INK, ACCENT, SOFT = "#1d2530", "#d9480f", "#8a929b"


@contextmanager
def show_work(text: str) -> Generator[None]:
    """Show on a terminal what is being done and for how long; else print it once."""
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    if not err.is_terminal:
        err.print(f"{text} …")
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        bar.add_task(text, total=None)
        yield


def measure_tables(data: Path, scorer: CandidateScorer, limit: int | None) -> dict[str, Any]:
    """Return the figures of tables on each test set that a folder has, by its name."""
    from vrag.reading.training.question_sets import TABLES, missing_sets
    from vrag.reading.training.table_data import read_tat_cases, read_wiki_cases
    from vrag.reading.training.tat_measure import measure_tat
    from vrag.reading.training.train_tables import measure_cases

    missing = {each.folder for each in missing_sets(data, TABLES)}
    facts: dict[str, Any] = {}
    if "WikiTableQuestions" not in missing:
        with show_work("Measuring on WikiTableQuestions"):
            cases = read_wiki_cases(data / "WikiTableQuestions", "pristine-unseen-tables")[:limit]
            facts["WikiTableQuestions"] = describe_wiki(measure_cases(scorer, cases))
    if "TAT-QA" not in missing:
        with show_work("Measuring on TAT-QA"):
            cases = read_tat_cases(data / "TAT-QA" / "dataset_raw" / "tatqa_dataset_dev.json")[:limit]
            facts["TAT-QA"] = describe_tat(measure_tat(scorer, cases))
    return facts


def open_text_reader(model: SpanModel, settings: Settings) -> TextReader:
    """Return our reader with these weights, or ours with the pretrained one that the settings name."""
    from vrag.reading.text_reader import CombinedReader, SpanReader

    if not settings.reader:
        return SpanReader(model)
    from vrag.agent.policies.pretrained_reader import PretrainedReader
    from vrag.embed.options import EmbedOptions

    return CombinedReader(
        SpanReader(model), PretrainedReader(settings.reader, EmbedOptions(device=settings.device))
    )


def measure_spans(data: Path, reader: TextReader, limit: int | None) -> dict[str, Any]:
    """Return the figures of running text on each test set that a folder has, by its name."""
    from vrag.reading.training.question_sets import measure_texts, text_tests

    facts: dict[str, Any] = {}
    for name, questions in text_tests(data):
        with show_work(f"Measuring on {name}"):
            label = f"{name} *" if name.startswith(LEARNT) else name
            facts[label] = asdict(measure_texts(reader, questions[:limit]))
    return facts


def describe_wiki(figures: TableFigures) -> dict[str, Any]:
    """Return figures on WikiTableQuestions as JSON."""
    facts = asdict(figures)
    return {"questions": facts.pop("questions"), "exact": facts.pop("accuracy"), **facts}


def describe_tat(figures: TatFigures) -> dict[str, Any]:
    """Return figures on TAT-QA as JSON."""
    return asdict(figures)


def print_sets(facts: Mapping[str, Mapping[str, Any]]) -> None:
    """Print the figures of tables and of running text, by test set."""
    rows: list[list[str]] = []
    for name, figures in facts.items():
        measures = (percent(figures.get(key)) for key in ("f1", "exact"))
        rows.append([name, f"{figures['questions']:,}", *measures, _format_milliseconds(figures)])
    if rows:
        print_table(["set", "questions", "F1", "right", "time"], rows)
    if any(name.endswith("*") for name in facts):
        echo("* The weights have learnt from these paragraphs.")


def _format_milliseconds(figures: Mapping[str, Any]) -> str:
    return f"{figures['milliseconds']:.1f} ms" if "milliseconds" in figures else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerMeasureOptions:
    """Options of measuring answers."""

    seed: int
    """Seed of the training, which chose the questions that were not learnt from."""
    questions: int | None
    """Questions of each set; None for all."""
    ablations: bool
    """Measure without each part, too."""


def measure_answer_weights(
    data: Path,
    options: AnswerMeasureOptions,
    scorer: CandidateScorer,
    text_reader: TextReader,
    table_scorer: CandidateScorer,
) -> dict[str, Any]:
    """Return the figures of answers to held-out questions under `ANSWERS`; nothing without a question."""
    from vrag.reading.scorer import TrainingOptions
    from vrag.reading.training.answer_measure import VARIANTS, measure_variants
    from vrag.reading.training.train_answers import AnswerTrainingOptions, limit_by_source, read_held_out

    network = TrainingOptions(seed=options.seed)
    questions = limit_by_source(
        read_held_out(data, AnswerTrainingOptions(network=network)), options.questions
    )
    if not questions:
        return {}
    variants = VARIANTS if options.ablations else VARIANTS[:1]
    with show_work("Measuring answers"):
        measured = list(measure_variants(questions, scorer, text_reader, table_scorer, variants))
    described = {variant.name: _describe_variant(figures) for variant, figures in measured}
    return {ANSWERS: describe_answers(measured[0][1]) | {"seed": options.seed, "variants": described}}


def describe_answers(figures: AnswerFigures) -> dict[str, Any]:
    """Return figures as JSON."""
    return {
        "questions": figures.questions,
        "possible": figures.possible,
        "right": figures.right,
        "reliability": [one._asdict() for one in figures.reliability],
        "coverage": [one._asdict() for one in figures.coverage],
    }


def _describe_variant(figures: AnswerFigures) -> dict[str, Any]:
    facts = asdict(figures)
    kept = {key: facts[key] for key in ("possible", "right", "milliseconds")}
    return kept | {"at_threshold": figures.at_threshold._asdict()}


def print_answers(facts: Mapping[str, Any]) -> None:
    """Print what is answered, by each variant of the reader."""
    rows: list[list[str]] = []
    for name, figures in facts["variants"].items():
        point = figures["at_threshold"]
        shares = figures["possible"], figures["right"], point["answered"], point["right"], point["abstained"]
        rows.append([name, *map(percent, shares)])
    print_table(["answers", "possible", "first", "answered", "right", "abstained"], rows)
    echo(
        f"{facts['questions']:,} questions, three pages each; the choice of answers was not learnt from "
        "them. possible, first: a right answer is among the candidates, or the likeliest. right: of those "
        "answered. abstained: of the questions that no page shown answers."
    )


def print_coverage(facts: Mapping[str, Any]) -> None:
    """Print the outcome of answering from a probability on."""
    rows = [
        [f"{one['threshold']:.2f}", *(percent(one[key]) for key in ("answered", "right", "abstained"))]
        for one in facts["coverage"]
    ]
    head = ["answered from", "of all questions", "right of these", "abstained where no page answers"]
    print_table(head, rows)
    possible = percent(facts["possible"])
    echo(f"{facts['questions']:,} held-out questions; {possible} have a right answer among the candidates.")


def percent(share: float | None) -> str:
    """Format a share; nothing for None."""
    return "" if share is None else f"{100 * share:.1f} %"


def check_figure(path: Path | None) -> None:
    """Raise `BadParameter` if no picture can have this name, and `MissingExtra` without matplotlib."""
    if path is None:
        return
    if path.suffix.lower() not in FIGURE_SUFFIXES:
        known = ", ".join(FIGURE_SUFFIXES)
        raise typer.BadParameter(f"{path} has to end in one of {known}.", param_hint="--figure")
    _open_figure()


def draw_answers(facts: Mapping[str, Any], path: Path) -> None:
    """Draw reliability, and coverage by threshold, as a picture in the format of the path's suffix."""
    figure = _open_figure()
    reliability, coverage = figure.subplots(1, 2)
    _draw_reliability(reliability, facts["reliability"])
    _draw_coverage(coverage, facts["coverage"])
    drawn = io.BytesIO()
    figure.savefig(drawn, format=path.suffix[1:].lower(), dpi=110)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, drawn.getvalue())


def _open_figure() -> Any:  # noqa: ANN401 - matplotlib's types are incomplete
    from vrag.embed.device import library

    try:
        return library("matplotlib.figure").Figure(figsize=(10, 4), layout="constrained")
    except MissingExtra as error:
        raise MissingExtra("matplotlib", "train") from error


def _draw_reliability(axes: Any, bins: Sequence[Mapping[str, float]]) -> None:  # noqa: ANN401
    filled = [one for one in bins if one["answers"]]
    axes.plot([0, 1], [0, 1], color=SOFT, linewidth=1, linestyle="--")
    axes.plot([one["probability"] for one in filled], [one["right"] for one in filled], "o-", color=ACCENT)
    for one in filled:
        place = one["probability"], one["right"]
        count = f"{one['answers']:.0f}"
        axes.annotate(count, place, (6, -12), textcoords="offset points", color=SOFT, fontsize=8)
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="stated probability", ylabel="share of answers that are right")
    axes.set_title("Stated probability and right answers (held-out questions)", color=INK, fontsize=10)


def _draw_coverage(axes: Any, points: Sequence[Mapping[str, float]]) -> None:  # noqa: ANN401
    thresholds = [one["threshold"] for one in points]
    for key, name, color in (
        ("answered", "questions answered", INK),
        ("right", "right among the answers", ACCENT),
        ("abstained", "abstained where no page answers", SOFT),
    ):
        axes.plot(thresholds, [one[key] for one in points], label=name, color=color)
    axes.set(xlim=(0, 0.9), ylim=(0, 1), xlabel="answers from this probability on", ylabel="share")
    axes.legend(frameon=False, fontsize=8)
    axes.set_title("Abstention and coverage", color=INK, fontsize=10)
