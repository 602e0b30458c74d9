"""`vrag reader`: training and figures of the reader that answers without a model."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from vrag.atomic_io import write_whole
from vrag.cli import options as opt
from vrag.cli.reader.weights import (
    ANSWER_FILE,
    SPAN_FILE,
    TABLE_FILE,
    load_span_weights,
    load_table_weights,
)
from vrag.cli.terminal.console import duration, echo, err, plain, print_result, print_table, warn
from vrag.cli.terminal.progress import note_on_interrupt
from vrag.errors import CaseError, TrainingError

if TYPE_CHECKING:
    from vrag.reading.scorer import CandidateScorer
    from vrag.reading.spans.reader import SpanModel
    from vrag.reading.training.tat_measure import TatFigures
    from vrag.reading.training.train_tables import TableFigures


class ReaderPart(StrEnum):
    """The part of the offline reader."""

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

app = typer.Typer(help="Train and measure the reader that answers without a model.", no_args_is_help=True)


@app.command()
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
            with _working(f"Training on {NAMES[each]}"), _readable(data):
                facts[each] = trainers[each](data, out / FILES[each], seed=seed, quick=quick)

    def show() -> None:
        for each in parts:
            _print_training(facts[each], each)
            echo(f"Wrote {plain(str(out / FILES[each]))}.")

    print_result(facts, show, as_json=as_json)


@app.command()
def measure(
    data: DataArgument,
    part: PartOption = ReaderPart.ALL,
    weights: WeightsOption = None,
    reader: ModelOption = None,
    questions: QuestionsOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Measure the reader of the package, or trained weights, on the test sets found in DATA.

    Tables: share of right answers on the test set of WikiTableQuestions, F1 on the development set of TAT-QA.
    Running text: F1 and exact match of the best span of the given paragraph, on XQuAD, the trial set of CMRC
    2018 and the development set of JaQuAD. The weights have learnt from XQuAD (marked *): its figures are
    too good for them. `vrag reader train` measures before it learns from XQuAD.

    Examples:

      vrag reader measure sets --questions 200

      vrag reader measure sets --part spans --reader deepset/tinyroberta-squad2
    """
    settings = opt.load_flags(locals()).settings
    parts = _parts(part)
    facts: dict[str, Any] = {}
    with _readable(data):
        if ReaderPart.TABLES in parts:
            facts |= _measure_tables(data, load_table_weights(weights), questions)
        if ReaderPart.SPANS in parts:
            facts |= _measure_spans(
                data, load_span_weights(weights), settings.reader, settings.device, questions
            )
    if not facts:
        from vrag.reading.training.question_sets import QUESTION_SETS

        sets = [known for known in QUESTION_SETS if known.reader in parts]
        raise CaseError(f"{data} has no question set to measure on.", f"Run: {sets[-1].clone_command(data)}")

    def show() -> None:
        rows: list[list[str]] = []
        for name, figures in facts.items():
            measures = (_percent(figures.get(key)) for key in ("f1", "exact"))
            rows.append([name, f"{figures['questions']:,}", *measures, _milliseconds(figures)])
        print_table(["set", "questions", "F1", "right", "time"], rows)
        if any(name.endswith("*") for name in facts):
            echo("* The weights have learnt from these paragraphs.")

    print_result(facts, show, as_json=as_json)


NAMES = {ReaderPart.TABLES: "tables", ReaderPart.SPANS: "running text", ReaderPart.ANSWERS: "answers"}
"""Names of the parts in sentences."""
_LEARNT = "xquad"
"""Begins the names of test sets that the weights of the package have learnt from."""


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
    known = sum(each.reader == part and each.folder != _LEARNT for each in QUESTION_SETS)
    if part is ReaderPart.TABLES or sum(each.folder != _LEARNT for each in missing) == known:
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


@contextmanager
def _working(text: str) -> Generator[None]:
    """Show on a terminal what is being done and for how long; else print it once."""
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    if not err.is_terminal:
        err.print(f"{text} …")
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        bar.add_task(text, total=None)
        yield


def _train_tables(data: Path, path: Path, *, seed: int, quick: bool) -> dict[str, Any]:
    from vrag.reading.training.train_tables import TableTrainingOptions, train_table_scorer

    options = TableTrainingOptions(cases=QUICK_CASES if quick else None)
    options = replace(options, network=replace(options.network, seed=seed))
    scorer, figures = train_table_scorer(data, options)
    _save(scorer.save, path)
    return {"sets": {"WikiTableQuestions": _wiki_facts(figures.wiki), "TAT-QA": _tat_facts(figures.tat)}}


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
    tables, spans = (
        path.parent if (path.parent / FILES[part]).is_file() else None
        for part in (ReaderPart.TABLES, ReaderPart.SPANS)
    )
    training = train_answer_scorer(
        data, options, SpanReader(load_span_weights(spans)), load_table_weights(tables)
    )
    _save(training.scorer.save, path)
    figures = training.figures
    return {
        "questions": figures.questions,
        "possible": figures.possible,
        "right": figures.right,
        "reliability": [one._asdict() for one in figures.reliability],
        "coverage": [one._asdict() for one in figures.coverage],
    }


def _save(save: Callable[[Path], None], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="vrag-") as folder:
        unfinished = Path(folder) / path.name
        save(unfinished)
        write_whole(path, unfinished.read_bytes())


def _wiki_facts(figures: TableFigures) -> dict[str, Any]:
    facts = asdict(figures)
    return {"questions": facts.pop("questions"), "exact": facts.pop("accuracy"), **facts}


def _tat_facts(figures: TatFigures) -> dict[str, Any]:
    return asdict(figures)


def _print_training(facts: Mapping[str, Any], part: ReaderPart) -> None:
    if part is ReaderPart.ANSWERS:
        _print_answers(facts)
        return
    rows: list[list[str]] = []
    for name, figures in facts["sets"].items():
        measures = (_percent(figures.get(key)) for key in ("f1", "exact", "oracle"))
        rows.append([name, f"{figures['questions']:,}", *measures])
    if rows:
        print_table([f"{NAMES[part]}: unseen", "questions", "F1", "right", "among the candidates"], rows)
    if facts.get("calibration"):
        error, area = facts["calibration"]["error"], facts["calibration"]["area"]
        echo(f"Probabilities: calibration error {error:.3f}, area under the curve {area:.3f}.")
    if "seconds" in facts:
        echo(f"Learnt from {facts['learnt']:,} questions in {duration(facts['seconds'])}.")


def _print_answers(facts: Mapping[str, Any]) -> None:
    """Print what comes of answering from a probability on."""
    rows = [
        [f"{one['threshold']:.2f}", *(_percent(one[key]) for key in ("answered", "right", "abstained"))]
        for one in facts["coverage"]
    ]
    head = ["answered from", "of all questions", "right of these", "abstained where no page answers"]
    print_table(head, rows)
    possible = _percent(facts["possible"])
    echo(f"{facts['questions']:,} held-out questions; {possible} have a right answer among the candidates.")


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f} %"


def _milliseconds(figures: Mapping[str, Any]) -> str:
    return f"{figures['milliseconds']:.1f} ms" if "milliseconds" in figures else ""


def _measure_tables(data: Path, scorer: CandidateScorer, limit: int | None) -> dict[str, Any]:
    from vrag.reading.training.question_sets import TABLES, missing_sets
    from vrag.reading.training.table_data import read_tat_cases, read_wiki_cases
    from vrag.reading.training.tat_measure import measure_tat
    from vrag.reading.training.train_tables import measure_cases

    missing = {each.folder for each in missing_sets(data, TABLES)}
    facts: dict[str, Any] = {}
    if "WikiTableQuestions" not in missing:
        with _working("Measuring on WikiTableQuestions"):
            cases = read_wiki_cases(data / "WikiTableQuestions", "pristine-unseen-tables")[:limit]
            facts["WikiTableQuestions"] = _wiki_facts(measure_cases(scorer, cases))
    if "TAT-QA" not in missing:
        with _working("Measuring on TAT-QA"):
            cases = read_tat_cases(data / "TAT-QA" / "dataset_raw" / "tatqa_dataset_dev.json")[:limit]
            facts["TAT-QA"] = _tat_facts(measure_tat(scorer, cases))
    return facts


def _measure_spans(
    data: Path, model: SpanModel, pretrained: str, device: str, limit: int | None
) -> dict[str, Any]:
    from vrag.reading.text_reader import CombinedReader, SpanReader, TextReader
    from vrag.reading.training.question_sets import measure_texts, text_tests

    reader: TextReader = SpanReader(model)
    if pretrained:
        from vrag.agent.policies.pretrained_reader import PretrainedReader
        from vrag.embed.options import EmbedOptions

        reader = CombinedReader(reader, PretrainedReader(pretrained, EmbedOptions(device=device)))
    facts: dict[str, Any] = {}
    for name, questions in text_tests(data):
        with _working(f"Measuring on {name}"):
            label = f"{name} *" if name.startswith(_LEARNT) else name
            facts[label] = asdict(measure_texts(reader, questions[:limit]))
    return facts
