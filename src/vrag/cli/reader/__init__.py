"""`vrag reader`: training and figures of the reader that answers without a model."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from vrag.atomic_io import write_whole
from vrag.cli import options as opt
from vrag.cli.reader.measures import (
    ANSWERS,
    LEARNT,
    AnswerMeasureOptions,
    check_figure,
    describe_answers,
    describe_tat,
    describe_wiki,
    draw_answers,
    measure_answer_weights,
    measure_spans,
    measure_tables,
    open_text_reader,
    percent,
    print_answers,
    print_coverage,
    print_sets,
    show_work,
)
from vrag.cli.reader.weights import (
    ANSWER_FILE,
    SPAN_FILE,
    TABLE_FILE,
    folder_with,
    load_answer_weights,
    load_span_weights,
    load_table_weights,
)
from vrag.cli.terminal.console import duration, echo, plain, print_result, print_table, warn
from vrag.cli.terminal.help import common_options
from vrag.cli.terminal.progress import note_on_interrupt
from vrag.errors import CaseError, TrainingError
from vrag.scratch import scratch_directory


class ReaderPart(StrEnum):
    """The part of the reader of pages."""

    TABLES = "tables"
    SPANS = "spans"
    ANSWERS = "answers"
    ALL = "all"


FILES = {ReaderPart.TABLES: TABLE_FILE, ReaderPart.SPANS: SPAN_FILE, ReaderPart.ANSWERS: ANSWER_FILE}
"""Names of the files of weights."""
QUICK_SHARE, QUICK_CASES = 0.1, 1000
"""Share of the questions on running text, and questions over tables of a set, that a quick training uses."""
PartOption = Annotated[
    ReaderPart,
    typer.Option(
        "--part",
        help="Part of the reader: `tables`, `spans` (running text), `answers` (the choice among both, and "
        "whether to answer) or `all`.",
    ),
]
DataArgument = Annotated[
    Path,
    typer.Argument(metavar="DATA", help="Folder with copies of the public question sets, one folder each."),
]
OutOption = Annotated[Path, typer.Option("--out", "-o", help="Output folder of the weights.")]
QuickOption = Annotated[
    bool, typer.Option("--quick", help="Use about a tenth of the questions, to see whether all works.")
]
WeightsOption = Annotated[
    Path | None,
    typer.Option(help="Output folder of `vrag reader train`.", show_default="the weights of the package"),
]
QuestionsOption = Annotated[
    int | None, typer.Option(min=1, help="Only so many questions of each set.", show_default="all")
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--reader",
        help="Pretrained reader of running text, beside ours.",
        show_default="VRAG_READER, or none",
    ),
]
AblationsOption = Annotated[
    bool, typer.Option("--ablations", help="Measure answers without each part of the reader, too.")
]
HeldOutOption = Annotated[
    int, typer.Option("--seed", min=0, help="Seed of the training: its held-out questions are asked.")
]
FigureOption = Annotated[
    Path | None,
    typer.Option(help="Draw reliability and coverage of answers (PNG, SVG or PDF); needs matplotlib."),
]

app = typer.Typer(help="Train and measure the reader that answers without a model.", no_args_is_help=True)


@app.command()
@common_options("out", "part", "quick", "as_json")
def train(
    data: DataArgument,
    part: PartOption = ReaderPart.ALL,
    out: OutOption = Path("reader-weights"),
    seed: Annotated[int, typer.Option(min=0, help="Random seed; equal seeds make equal weights.")] = 0,
    quick: QuickOption = False,
    as_json: opt.JsonOption = False,
) -> None:
    """Train the reader that answers without a model, and measure it on questions that it has not seen.

    It learns from public question sets, which are not part of vrag. Each is a repository to clone into DATA;
    the command for a missing one is printed. Tables need WikiTableQuestions and TAT-QA. Running text takes
    those that it finds of squadshifts, COVID-QA, cmrc2018, DRCD, JaQuAD and xquad.

    For the answers, tables and text are read with the weights in the output folder, or else with those of the
    package.

    All takes about an hour on one core, in up to 12 GB of memory. The output is table.npz, span.npz and
    answer.npz.

    Examples:

      git clone --depth 1 https://github.com/google-deepmind/xquad sets/xquad

      vrag reader train sets --part spans --quick

      vrag reader measure sets --weights reader-weights
    """
    parts = _parts(part)
    for each in parts:
        _check_sets(data, each)
    trainers: Mapping[ReaderPart, Callable[..., dict[str, Any]]] = {
        ReaderPart.TABLES: _train_tables,
        ReaderPart.SPANS: _train_spans,
        ReaderPart.ANSWERS: _train_answers,
    }
    facts: dict[str, Any] = {"out": str(out), "seed": seed}
    with note_on_interrupt("The weights of the part in training are not written."):
        for each in parts:
            with show_work(f"Training on {NAMES[each]}"), _readable(data):
                facts[each] = trainers[each](data, out / FILES[each], seed=seed, quick=quick)

    def show() -> None:
        for each in parts:
            _print_training(facts[each], each)
            echo(f"Wrote {plain(str(out / FILES[each]))}.")

    print_result(facts, show, as_json=as_json)


@app.command()
@common_options("part", "weights", "reader", "questions", "as_json")
def measure(
    data: DataArgument,
    part: PartOption = ReaderPart.ALL,
    weights: WeightsOption = None,
    reader: ModelOption = None,
    questions: QuestionsOption = None,
    ablations: AblationsOption = False,
    seed: HeldOutOption = 0,
    figure: FigureOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Measure the reader of the package, or trained weights, on the test sets found in DATA.

    Tables: share of right answers on the test set of WikiTableQuestions, F1 on the development set of TAT-QA.
    Running text: F1 and exact match of the best span of the given paragraph, on XQuAD, the trial set of CMRC
    2018 and the development set of JaQuAD. The weights have learnt from XQuAD (marked *): its figures are
    too good for them. `vrag reader train` measures before it learns from XQuAD.

    Answers: questions with three pages each, some without the page that answers, of which the weights have
    not learnt the choice among tables and text; how many are answered, how many of these are right, and how
    often it abstains where no page answers.

    Examples:

      vrag reader measure sets --questions 200

      vrag reader measure sets --part spans --reader deepset/tinyroberta-squad2

      vrag reader measure sets --part answers --ablations --figure reliability.png
    """
    check_figure(figure)
    settings = opt.load_flags(locals()).settings
    parts = _parts(part)
    facts: dict[str, Any] = {}
    with _readable(data):
        if ReaderPart.TABLES in parts:
            facts |= measure_tables(data, load_table_weights(weights), questions)
        if ReaderPart.SPANS in parts:
            facts |= measure_spans(data, open_text_reader(load_span_weights(weights), settings), questions)
        if ReaderPart.ANSWERS in parts:
            options = AnswerMeasureOptions(seed=seed, questions=questions, ablations=ablations)
            text_weights = load_span_weights(folder_with(weights, SPAN_FILE))
            facts |= measure_answer_weights(
                data,
                options,
                load_answer_weights(weights),
                open_text_reader(text_weights, settings),
                load_table_weights(folder_with(weights, TABLE_FILE)),
            )
    if not facts:
        from vrag.reading.training.question_sets import QUESTION_SETS

        sets = [known for known in QUESTION_SETS if known.reader in parts] or QUESTION_SETS
        raise CaseError(f"{data} has no question set to measure on.", f"Run: {sets[-1].clone_command(data)}")
    if figure is not None and ANSWERS in facts:
        draw_answers(facts[ANSWERS], figure)

    def show() -> None:
        print_sets({name: figures for name, figures in facts.items() if name != ANSWERS})
        if ANSWERS in facts:
            print_answers(facts[ANSWERS])
            if figure is not None:
                echo(f"Wrote {plain(str(figure))}.")

    print_result(facts, show, as_json=as_json)


NAMES = {ReaderPart.TABLES: "tables", ReaderPart.SPANS: "running text", ReaderPart.ANSWERS: "answers"}
"""Names of the parts in sentences."""


def _parts(part: ReaderPart) -> tuple[ReaderPart, ...]:
    return tuple(FILES) if part is ReaderPart.ALL else (part,)


def _check_sets(data: Path, part: ReaderPart) -> None:
    """Warn of missing sets of running text.

    Raises `CaseError` if the folder lacks a set that this part cannot do without.
    """
    from vrag.reading.training.question_sets import QUESTION_SETS, missing_sets

    if part is ReaderPart.ANSWERS:  # from whatever sets of the others are there
        return
    missing = missing_sets(data, part)
    if not missing:
        return
    names = ", ".join(each.folder for each in missing)
    commands = " && ".join(each.clone_command(data) for each in missing)
    known = sum(each.reader == part and each.folder != LEARNT for each in QUESTION_SETS)
    if part is ReaderPart.TABLES or sum(each.folder != LEARNT for each in missing) == known:
        raise CaseError(f"{data} has no copy of {names}, which the reader learns from.", f"Run: {commands}")
    warn(f"{data} has no copy of {names}: the figures will be lower. To get them, run: {commands}")


@contextmanager
def _readable(data: Path) -> Generator[None]:
    """Raise errors of reading the question sets as `CaseError`."""
    try:
        yield
    except (FileNotFoundError, UnicodeDecodeError, json.JSONDecodeError, KeyError) as error:
        raise CaseError(
            f"A question set in {data} cannot be read: {type(error).__name__}: {error}.",
            "Delete its folder and clone the repository again.",
        ) from error
    except ValueError as error:
        raise TrainingError(f"The reader cannot learn from {data}: {error}.") from error


def _train_tables(data: Path, path: Path, *, seed: int, quick: bool) -> dict[str, Any]:
    from vrag.reading.training.train_tables import TableTrainingOptions, train_table_scorer

    options = TableTrainingOptions(cases=QUICK_CASES if quick else None)
    options = replace(options, network=replace(options.network, seed=seed))
    scorer, figures = train_table_scorer(data, options)
    _save(scorer.save, path)
    return {"sets": {"WikiTableQuestions": describe_wiki(figures.wiki), "TAT-QA": describe_tat(figures.tat)}}


def _train_spans(data: Path, path: Path, *, seed: int, quick: bool) -> dict[str, Any]:
    from vrag.reading.training.train_spans import SpanTrainingOptions, train_span_reader

    options = SpanTrainingOptions(share=QUICK_SHARE if quick else 1.0)
    options = replace(options, network=replace(options.network, seed=seed))
    training = train_span_reader(data, options)
    _save(training.model.save, path)
    report = training.report
    return {
        "learnt": report.questions,
        "seconds": round(report.seconds, 1),
        "calibration": asdict(report.calibration) if report.calibration else None,
        "sets": {name: figures._asdict() for name, figures in report.figures.items()},
    }


def _train_answers(data: Path, path: Path, *, seed: int, quick: bool) -> dict[str, Any]:
    from vrag.reading.text_reader import SpanReader
    from vrag.reading.training.train_answers import AnswerTrainingOptions, train_answer_scorer

    options = AnswerTrainingOptions(cases=QUICK_CASES // 20) if quick else AnswerTrainingOptions()
    options = replace(options, network=replace(options.network, seed=seed))
    spans = load_span_weights(folder_with(path.parent, SPAN_FILE))
    tables = load_table_weights(folder_with(path.parent, TABLE_FILE))
    training = train_answer_scorer(data, options, SpanReader(spans), tables)
    _save(training.scorer.save, path)
    return describe_answers(training.figures)


def _save(save: Callable[[Path], None], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with scratch_directory() as folder:
        unfinished = folder / path.name
        save(unfinished)
        write_whole(path, unfinished.read_bytes())


def _print_training(facts: Mapping[str, Any], part: ReaderPart) -> None:
    if part is ReaderPart.ANSWERS:
        print_coverage(facts)
        return
    rows: list[list[str]] = []
    for name, figures in facts["sets"].items():
        measures = (percent(figures.get(key)) for key in ("f1", "exact", "oracle"))
        rows.append([name, f"{figures['questions']:,}", *measures])
    if rows:
        print_table([f"{NAMES[part]}: unseen", "questions", "F1", "right", "among the candidates"], rows)
    if facts.get("calibration"):
        error, area = facts["calibration"]["error"], facts["calibration"]["area"]
        echo(f"Probabilities: calibration error {error:.3f}, area under the curve {area:.3f}.")
    if "seconds" in facts:
        echo(f"Learnt from {facts['learnt']:,} questions in {duration(facts['seconds'])}.")
