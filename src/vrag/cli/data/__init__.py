"""`vrag data`: data sets of questions, made, converted and counted, and runs to learn from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain, repeat
from pathlib import Path

import typer

from vrag.agent.prompts import worded
from vrag.cases import ParquetOptions, Statistics, count_cases, find_overlaps, write_cases, write_parquet
from vrag.cli import options as opt
from vrag.cli.data.training_runs import demonstrate, export_sft, sample, select
from vrag.cli.terminal.console import echo, plain, print_json, print_result, print_table, quote_argument, warn
from vrag.cli.terminal.help import common_options
from vrag.cli.terminal.progress import note_on_interrupt, progress_line
from vrag.datasets.registry import open_cases, with_distinct_ids
from vrag.errors import CaseError, SettingsError
from vrag.factory.families import USUAL_PROFILE
from vrag.model_profiles import profile_named
from vrag.synthesis import COLOURS, WORDS, SynthesisOptions, Words, write
from vrag.synthesis import synthesize as make
from vrag.types import Case

KINDS = "Kind of file: dataset, vidoseek, parquet, slidevqa, mmlongbench, mmdocir, docscope, hotpotqa, squad."

app = typer.Typer(help="Make, convert and count questions with known answers.", no_args_is_help=True)


@app.command()
def synthesize(
    folder: Path = typer.Argument(..., help="Output folder: a new one, or one that this command made."),
    template: list[str] | None = typer.Option(
        None,
        "--template",
        "-t",
        help="Kind of document, repeatable: key_figure, table, chart, multi_hop; for models of "
        "CPU size also emblem, emblem_pair.",
        show_default="the first four",
    ),
    documents: int = typer.Option(16, min=1, help="Number of PDF files."),
    pages: int = typer.Option(4, min=1, help="Number of pages per file."),
    seed: int = typer.Option(0, help="Random seed; equal seeds make equal files."),
    held_out: float = typer.Option(
        0.25, "--held-out", help="Share of the documents whose questions are not for training."
    ),
    words: int = typer.Option(
        16, min=2, max=16, help="Number of first and second words of names; fewer are easier."
    ),
    colours: int = typer.Option(8, min=2, max=8, help="Number of colours of emblems."),
    as_json: opt.JsonOption = False,
) -> None:
    """Make a small corpus of PDF files with questions, gold pages and gold boxes.

    Example: vrag data synthesize my-corpus --template emblem --documents 32
    """
    options = SynthesisOptions(
        seed=seed,
        documents=documents,
        pages=pages,
        held_out=held_out,
        colours=dict(list(COLOURS.items())[:colours]),
        words=Words(WORDS.first[:words], WORDS.second[:words]),
    )
    if template:
        options = replace(options, templates=tuple(template))
    try:
        corpus = make(options)
    except CaseError as error:  # it only refuses options
        raise SettingsError(error.message, error.hint) from error
    with note_on_interrupt(f"{folder} is incomplete. Run the same command again to make it."):
        write(corpus, folder)
    facts = {
        "folder": str(folder),
        "documents": len(corpus.documents),
        "pages": len(corpus.documents) * pages,
        "train": len(corpus.train),
        "held_out": len(corpus.held_out),
    }

    def template_of(file_name: str) -> str:
        return file_name.rsplit("-", 1)[0]

    def render() -> None:
        kinds = Counter(map(template_of, corpus.documents))
        train = Counter(template_of(case.file_name) for case in corpus.train)
        other = Counter(template_of(case.file_name) for case in corpus.held_out)
        rows = ((kind, n, n * pages, train[kind], other[kind]) for kind, n in kinds.items())
        columns = ["template", "documents", "pages", "training questions", "held out"]
        print_table(columns, (map(str, row) for row in rows))
        train_file = plain(str(folder / "train.json"))
        echo(f"Questions: {train_file}; those of other documents are in held_out.json.")
        echo(("Next", "bold"), f": vrag index add {quote_argument(str(folder / 'documents'))}")

    print_result(facts, render, as_json=as_json)


@app.command()
@common_options("kinds", "split", "profile", "overwrite", "as_json")
def convert(
    paths: list[Path] = typer.Argument(
        ..., metavar="IN… OUT", help="Input files (JSON, JSON lines, parquet), then the output file."
    ),
    kinds: list[str] | None = typer.Option(
        None,
        "--from",
        help=f"{KINDS} Give it once for all files, or once for each.",
        show_default="detected by the columns",
    ),
    data_sources: list[str] | None = typer.Option(
        None,
        "--data-source",
        help="Origin of the rows in the parquet. Give it once for all files, or once for each.",
        show_default="by the kind of file: slidevqa_train, mmlongdoc, vidoseek, rag …",
    ),
    split: str = typer.Option("train", help="Name of the split in the parquet."),
    profile: str | None = typer.Option(
        None, help="Model family whose instruction is used in the prompts.", show_default="qwen2.5-vl"
    ),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace OUT even with several IN."),
    as_json: opt.JsonOption = False,
) -> None:
    """Convert questions between JSON and the parquet of trainers, and from published data sets.

    Several files become one. Ids are unchanged, except that an id of an earlier file gets its data source
    as a prefix.

    Examples:

      vrag data convert samples.json train.parquet --from mmlongbench

      vrag data convert a.json b.json all.parquet --data-source slidevqa_test --data-source mmlongdoc
    """
    *files, target = paths
    _check_target(files, target, overwrite=overwrite)
    inputs = _open_inputs(files, kinds or [], data_sources or [], split)
    boxes = Counter[str](boxes=0)
    note = f"Nothing was written: {target} is unchanged."
    with note_on_interrupt(note), progress_line(quiet=as_json) as show:
        rows = _count_boxes(with_distinct_ids(chain.from_iterable(rows for _, rows in inputs)), boxes, show)
        if target.suffix.lower() == ".json":
            count = write_cases(target, (case for _, case in rows))
        else:
            model = profile_named(profile or USUAL_PROFILE)
            instruction = worded(model.instruction, model.prompt, actions="", profile=model)
            count = write_parquet(target, rows, ParquetOptions(split=split, instruction=instruction))
    read_as = ", ".join(dict.fromkeys(kind for kind, _ in inputs))
    if as_json:
        print_json({"file": str(target), "cases": count, "read_as": read_as, "boxes": boxes["boxes"]})
        return
    echo(("Written", "bold"), f" {count} cases to {plain(str(target))}, read as {read_as}.")


def _check_target(files: list[Path], target: Path, *, overwrite: bool) -> None:
    """Refuse a target that is probably a mistake: the last one of several inputs, for example."""
    if not files:
        raise SettingsError("OUT is missing.", f"vrag data convert {quote_argument(str(target))} OUT")
    if target.suffix.lower() not in {".json", ".parquet"}:
        raise SettingsError(f"{target} must end in .json or .parquet.")
    if len({file.resolve() for file in files}) < len(files):
        raise SettingsError("A file is named twice.", "Name each file once.")
    if len(files) > 1 and target.exists() and not overwrite:
        raise SettingsError(
            f"{target} exists, and the last file is the output file.",
            "Add a new file name at the end; or add --overwrite to replace this file.",
        )


def _open_inputs(
    files: list[Path], kinds: list[str], data_sources: list[str], split: str
) -> list[tuple[str, Iterable[tuple[str, Case]]]]:
    """Open files; return the kind of each, and its cases with their data source.

    An option is given once for all files, or once for each.
    """

    def for_each_file(values: list[str], option: str) -> list[str | None]:
        if len(values) not in {0, 1, len(files)}:
            raise SettingsError(
                f"{option} is given {len(values)} times for {len(files)} files.",
                "Give it once for all files, or once for each, in the same order.",
            )
        return [*values] if len(values) == len(files) else [values[0] if values else None] * len(files)

    inputs: list[tuple[str, Iterable[tuple[str, Case]]]] = []
    options = for_each_file(kinds, "--from"), for_each_file(data_sources, "--data-source")
    for file, kind, data_source in zip(files, *options, strict=True):
        source, cases = open_cases(file, kind)
        origin = data_source or source.data_source(split)
        inputs.append((source.name, zip(repeat(origin), cases)))
    return inputs


def _count_boxes(
    cases: Iterable[tuple[str, Case]], boxes: Counter[str], show: Callable[[str], None]
) -> Iterator[tuple[str, Case]]:
    """Pass cases on, count their gold boxes, and show the progress."""
    for number, (data_source, case) in enumerate(cases, 1):
        boxes["boxes"] += len(case.regions)
        if number % 1000 == 0:
            show(f"{number:,} cases")
        yield data_source, case


@app.command()
def stats(
    files: list[Path] = typer.Argument(..., help="Data sets; several are compared."),
    kind: str | None = typer.Option(None, "--from", help=KINDS, show_default="detected by the columns"),
    as_json: opt.JsonOption = False,
) -> None:
    """Count what data sets contain, and find overlaps, such as test questions in a training set.

    Example: vrag data stats train.json held_out.json
    """
    if len({file.resolve() for file in files}) < len(files):
        raise SettingsError("A file is named twice.", "Name each file once.")
    read = {str(file): list(open_cases(file, kind)[1]) for file in files}
    counted = {name: count_cases(cases) for name, cases in read.items()}
    overlaps = find_overlaps(read)
    if as_json:
        facts = {name: asdict(each) for name, each in counted.items()}
        for record in facts.values():
            numbers = zip(("least", "median", "most"), record["answer_words"], strict=True)
            record["answer_words"] = dict(numbers)
        print_json({"files": facts, "overlaps": overlaps})
        return
    names = {file: Path(file).name for file in counted}
    if len(set(names.values())) < len(names):
        names = {file: file for file in counted}
    print_table(["figure", *names.values()], _figures(list(counted.values())))
    for overlap in overlaps:
        pair = f"{plain(names[overlap.one])} and {plain(names[overlap.other])}"
        if not (overlap.documents or overlap.questions):
            echo(f"{pair} share no document and no question.")
            continue
        examples = ", ".join(map(plain, overlap.documents[:3])) + (" …" if len(overlap.documents) > 3 else "")
        named = f" ({examples})" if examples else ""
        warn(f"{pair} share {len(overlap.documents)} documents{named} and {overlap.questions} questions.")


def _figures(files: list[Statistics]) -> Iterator[list[str]]:
    """Yield the rows of the table: a figure and its value for each file."""
    shares = (f"{each.answerable / each.cases:.0%}" if each.cases else "none" for each in files)
    yield ["cases", *(str(each.cases) for each in files)]
    yield ["documents", *(str(each.documents) for each in files)]
    yield ["answerable", *(f"{each.answerable} ({share})" for each, share in zip(files, shares, strict=True))]
    yield ["with gold boxes", *(str(each.with_regions) for each in files)]
    yield ["repeated questions", *(str(each.repeated) for each in files)]
    words = ("/".join(f"{number:g}" for number in each.answer_words) for each in files)
    yield ["words per answer: least/median/most", *words]
    pages = [{str(n): count for n, count in each.pages.items()} for each in files]
    tables: dict[str, Sequence[Mapping[str, int]]] = {
        "gold pages": pages,
        "read from": [each.source_types for each in files],
        "type": [each.query_types for each in files],
    }
    for figure, tallies in tables.items():
        for label in dict.fromkeys(label for tally in tallies for label in tally):
            yield [f"{figure}: {label or '(none)'}", *(str(tally.get(label, 0)) for tally in tallies)]


for command in (demonstrate, sample, select, export_sft):
    app.command()(command)
