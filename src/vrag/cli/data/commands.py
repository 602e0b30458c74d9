"""`vrag data`: data sets of questions, from published ones or made; how they convert, what they hold."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from vrag.cli.data.demonstrate import demonstrate
from vrag.cli.data.distill import export_sft, sample, select
from vrag.cli.terminal.console import Json, emit_json, plain, progress_line, say, show_table, warn
from vrag.cli.terminal.interrupts import stoppable
from vrag.errors import CaseError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from vrag.cases import Overlap, Statistics
    from vrag.synthesis import Corpus
    from vrag.types import Case

__all__ = ["app"]

_TOLD = 1_000
"""Cases from one word of how far it is to the next."""

KINDS = "What the file is: dataset, vidoseek, parquet, slidevqa, mmlongbench, mmdocir, hotpotqa, squad."
From = typer.Option(None, "--from", help=KINDS, show_default="told by its columns")

app = typer.Typer(help="Make, convert and count questions whose answers are known.", no_args_is_help=True)


@app.callback()
def data() -> None:
    """Make, convert and count questions whose answers are known."""


@app.command()
def synthesize(
    folder: Path = typer.Argument(..., help="Where to write; a new folder, or one that this command made."),
    template: list[str] | None = typer.Option(
        None,
        "--template",
        "-t",
        help="Kind of document, repeatable: key_figure, table, chart, multi_hop, and for models of "
        "CPU size emblem, emblem_pair.",
        show_default="the first four",
    ),
    documents: int = typer.Option(16, min=1, help="PDF files to make."),
    pages: int = typer.Option(4, min=1, help="Pages of each."),
    seed: int = typer.Option(0, help="The same seed makes the same bytes."),
    held_out: float = typer.Option(
        0.25, "--held-out", help="Share of the documents whose questions are kept from training."
    ),
    words: int = typer.Option(16, min=2, max=16, help="First and second words of names: fewer are easier."),
    colours: int = typer.Option(8, min=2, max=8, help="Colours of emblems."),
    as_json: bool = Json,
) -> None:
    """Make a small corpus of PDF files with questions, gold pages and gold boxes.

    Example: vrag data synthesize my-corpus --template emblem --documents 32
    """
    from vrag.synthesis import COLOURS, WORDS, SynthesisOptions, Words, write
    from vrag.synthesis import synthesize as make

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
    except CaseError as error:  # all that it refuses are options
        raise SettingsError(error.message, error.hint) from error
    with stoppable(f"{folder} is not whole; the same command makes it anew."):
        write(corpus, folder)
    if as_json:
        emit_json(_facts(corpus, folder, pages))
    else:
        _tell_made(corpus, folder, pages)


@app.command()
def convert(
    paths: list[Path] = typer.Argument(
        ..., metavar="IN… OUT", help="Files to read (JSON, JSON lines, parquet), then the one to write."
    ),
    kinds: list[str] | None = typer.Option(
        None,
        "--from",
        help=f"{KINDS} Once for all files, or once for each.",
        show_default="told by its columns",
    ),
    data_sources: list[str] | None = typer.Option(
        None,
        "--data-source",
        help="What the parquet calls the origin of the rows. Once for all files, or once for each.",
        show_default="by what the file is: slidevqa_train, mmlongdoc, vidoseek, rag …",
    ),
    split: str = typer.Option("train", help="What the parquet calls the split."),
    profile: str | None = typer.Option(
        None, help="Model family whose instruction stands in the prompts.", show_default="qwen2.5-vl"
    ),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace OUT, also when there are several IN."),
    as_json: bool = Json,
) -> None:
    """Convert questions between our JSON and the parquet of trainers, and out of published data sets.

    Several files become one. Their ids stay as they are; one that an earlier file has gets its data source
    in front.

    Example: vrag data convert samples.json train.parquet --from mmlongbench

    Example: vrag data convert a.json b.json all.parquet --data-source slidevqa_test --data-source mmlongdoc
    """
    from vrag.cases import ParquetOptions, write_cases, write_parquet
    from vrag.datasets.registry import with_distinct_ids

    *files, target = paths
    _check_target(files, target, overwrite=overwrite)
    inputs = _open_inputs(files, kinds or [], data_sources or [], split)
    tally = Counter[str](boxes=0)
    left = f"Nothing was written: {target} is as it was before."
    with stoppable(left), progress_line(quiet=as_json) as tell:
        taken = _tallied(with_distinct_ids(chain.from_iterable(inputs)), tally, tell)
        if target.suffix.lower() == ".json":
            count = write_cases(target, (case for _, case in taken))
        else:
            options = ParquetOptions(split=split, instruction=_instruction(profile))
            count = write_parquet(target, taken, options)
    read_as = ", ".join(dict.fromkeys(each.kind for each in inputs))
    if as_json:
        emit_json({"file": str(target), "cases": count, "read_as": read_as, "boxes": tally["boxes"]})
        return
    say(("Written", "bold"), f" {count} cases to {plain(str(target))}, read as {read_as}.")
    if target.suffix.lower() == ".parquet" and tally["boxes"]:
        warn(f"The parquet has no column for gold boxes: {tally['boxes']} are not in it.")


@dataclass(frozen=True, slots=True)
class _Input:
    """A file that is converted."""

    cases: Iterable[Case]
    kind: str
    data_source: str

    def __iter__(self) -> Iterator[tuple[str, Case]]:
        return ((self.data_source, case) for case in self.cases)


def _check_target(files: list[Path], target: Path, *, overwrite: bool) -> None:
    """Refuse a target that cannot be meant.

    Raises:
        SettingsError: If there is no input or one is named twice; if the target is of another kind, or
            exists beside several inputs, of which it may be one.
    """
    if not files:
        raise SettingsError("OUT is missing.", f"vrag data convert {shlex.quote(str(target))} OUT")
    suffix = target.suffix.lower()
    if suffix not in {".json", ".parquet"}:
        raise SettingsError(f"{target} ends in {suffix or 'nothing'}, not in .json or .parquet.")
    if len({file.resolve() for file in files}) < len(files):
        raise SettingsError("A file is named twice.", "Its questions would be there twice.")
    if len(files) > 1 and target.exists() and not overwrite:
        raise SettingsError(
            f"{target} exists, and the last file named is the one that is written.",
            "Name a new file at the end; or, to replace this one, add --overwrite.",
        )


def _open_inputs(files: list[Path], kinds: list[str], data_sources: list[str], split: str) -> list[_Input]:
    """Open all files.

    Raises:
        SettingsError: If an option is given neither once nor once for each file.
        CaseError: If a file cannot be read.
    """
    from vrag.datasets.registry import open_cases

    inputs: list[_Input] = []
    each_kind, each_source = (
        _for_each(kinds, files, "--from"),
        _for_each(data_sources, files, "--data-source"),
    )
    for file, kind, data_source in zip(files, each_kind, each_source, strict=True):
        found, cases = open_cases(file, kind)
        inputs.append(_Input(cases, found.name, data_source or found.data_source(split)))
    return inputs


def _for_each(values: list[str], files: list[Path], option: str) -> list[str | None]:
    """The value of an option for each file."""
    if len(values) not in {0, 1, len(files)}:
        raise SettingsError(
            f"{option} is given {len(values)} times for {len(files)} files.",
            "Give it once for all files, or once for each, in their order.",
        )
    return [*values] if len(values) == len(files) else [values[0] if values else None] * len(files)


@app.command()
def stats(
    files: list[Path] = typer.Argument(..., help="Data sets; several are compared."),
    kind: str | None = From,
    as_json: bool = Json,
) -> None:
    """Count what data sets hold, and find what they share: a test set must not stand in a training set.

    Example: vrag data stats train.json held_out.json
    """
    from vrag.cases import count_cases, find_overlaps
    from vrag.datasets.registry import open_cases

    if len({file.resolve() for file in files}) < len(files):
        raise SettingsError("A file is named twice.", "It shares everything with itself.")
    read = {str(file): list(open_cases(file, kind)[1]) for file in files}
    counted = {name: count_cases(cases) for name, cases in read.items()}
    overlaps = find_overlaps(read)
    if as_json:
        found = {name: _as_dict(each) for name, each in counted.items()}
        emit_json({"files": found, "overlaps": [asdict(each) for each in overlaps]})
        return
    names = _short(list(counted))
    show_table(["figure", *names.values()], _figures(list(counted.values())))
    for overlap in overlaps:
        _tell_overlap(overlap, names)


app.command("demonstrate")(demonstrate)
app.command("sample")(sample)
app.command("select")(select)
app.command("export-sft")(export_sft)


def _tallied(
    cases: Iterable[tuple[str, Case]], tally: Counter[str], tell: Callable[[str], None]
) -> Iterator[tuple[str, Case]]:
    """Pass cases on, count their gold boxes, and report progress."""
    for number, (data_source, case) in enumerate(cases, 1):
        tally["boxes"] += len(case.regions)
        if number % _TOLD == 0:
            tell(f"{number:,} cases")
        yield data_source, case


def _instruction(name: str | None) -> str:
    """What the agent tells a model of that family before the question."""
    from vrag.agent.prompts import worded
    from vrag.factory import USUAL_PROFILE
    from vrag.model_profiles import profile_named

    profile = profile_named(name or USUAL_PROFILE)
    return worded(profile.instruction, profile.prompt, actions="", profile=profile)


def _facts(corpus: Corpus, folder: Path, pages: int) -> dict[str, Any]:
    return {
        "folder": str(folder),
        "documents": len(corpus.documents),
        "pages": len(corpus.documents) * pages,
        "train": len(corpus.train),
        "held_out": len(corpus.held_out),
    }


def _tell_made(corpus: Corpus, folder: Path, pages: int) -> None:
    """Prints what was made of each template, and what to do next."""
    kinds = Counter(_template(name) for name in corpus.documents)
    shown, kept = (
        Counter(_template(case.file_name) for case in part) for part in (corpus.train, corpus.held_out)
    )
    rows = ((kind, count, count * pages, shown[kind], kept[kind]) for kind, count in kinds.items())
    columns = ["template", "documents", "pages", "training questions", "held out"]
    show_table(columns, (map(str, row) for row in rows))
    say(f"Questions: {plain(str(folder / 'train.json'))}, and held out by document in held_out.json.")
    say(("Next", "bold"), f": vrag index add {shlex.quote(str(folder / 'documents'))}")


def _template(file_name: str) -> str:
    return file_name.rsplit("-", 1)[0]


def _figures(files: list[Statistics]) -> Iterator[list[str]]:
    """The rows of the table: a figure and its value for each file."""
    yield ["cases", *(str(each.cases) for each in files)]
    yield ["documents", *(str(each.documents) for each in files)]
    yield ["answerable", *(f"{each.answerable} ({_share(each)})" for each in files)]
    yield ["with gold boxes", *(str(each.with_regions) for each in files)]
    yield ["asked twice", *(str(each.repeated) for each in files)]
    words = ("/".join(f"{number:g}" for number in each.answer_words) for each in files)
    yield ["words of an answer: least/median/most", *words]
    yield from _labels("gold pages", [{str(n): count for n, count in each.pages.items()} for each in files])
    yield from _labels("read from", [each.source_types for each in files])
    yield from _labels("type", [each.query_types for each in files])


def _labels(figure: str, files: list[Mapping[str, int]]) -> Iterator[list[str]]:
    for label in dict.fromkeys(label for each in files for label in each):
        yield [f"{figure}: {label or '(none)'}", *(str(each.get(label, 0)) for each in files)]


def _share(each: Statistics) -> str:
    return f"{each.answerable / each.cases:.0%}" if each.cases else "none"


def _as_dict(each: Statistics) -> dict[str, Any]:
    least, median, most = each.answer_words
    return asdict(each) | {"answer_words": {"least": least, "median": median, "most": most}}


def _short(files: list[str]) -> dict[str, str]:
    """What each file is called: its name, or its path where that is not enough to tell them apart."""
    names = {file: Path(file).name for file in files}
    return names if len(set(names.values())) == len(names) else dict(zip(files, files, strict=True))


def _tell_overlap(overlap: Overlap, names: Mapping[str, str]) -> None:
    """Prints what two files share, where they do."""
    pair = f"{plain(names[overlap.one])} and {plain(names[overlap.other])}"
    if not (overlap.documents or overlap.questions):
        say(f"{pair} share no document and no question.")
        return
    some = ", ".join(map(plain, overlap.documents[:3])) + (" …" if len(overlap.documents) > 3 else "")
    named = f" ({some})" if some else ""
    warn(f"{pair} share {len(overlap.documents)} documents{named} and {overlap.questions} questions.")
