"""`vrag demo`: the sample documents that come with the package, on a web page or in the terminal."""

from __future__ import annotations

import shutil
import webbrowser
from itertools import count
from pathlib import Path

import typer
from rich.text import Text

from vrag.cli import options as opt
from vrag.cli.ask import answer_question
from vrag.cli.terminal.console import echo, err, print_add_report, warn
from vrag.cli.terminal.help import common_options
from vrag.cli.terminal.progress import index_progress
from vrag.index.location import CollectionHeader, is_collection
from vrag.samples import corpus_dir, questions_path
from vrag.settings import SettingsReport, load_settings

EXAMPLES = (
    "How many passengers travelled on the line from Orla to Saltby in 2024?",
    "What was the percentage change in passenger fares from 2023 to 2024?",
    "When is the first crossing of the Guillemot from Orla to Saltby planned?",
    "Which fund pays the difference if fewer than fifteen persons travel in the first winter?",
    "What is the single fare for a kayak?",
    "从赫塞尔港到奥拉岛的末班船几点开？",
    "What is the top speed of the Guillemot?",
)
"""Questions that the page offers: a cell, a change, a date, a scan, a photograph, Chinese, no answer."""

FIRST_TIME = (
    "Indexing the sample documents. This happens once and takes some ten seconds, most of them to read "
    "a scan and a photograph by OCR."
)


@common_options("model", "base_url", "port", "copy_to", "as_json")
def demo(
    question: str | None = typer.Argument(None, help="Question to answer here instead of serving a page."),
    agent: opt.AgentOption = None,
    model: opt.ModelOption = None,
    base_url: opt.BaseUrlOption = None,
    collection: opt.CollectionOption = None,
    only: opt.OnlyOption = None,
    port: opt.PortOption = None,
    wait: opt.WaitOption = None,
    browser: bool = typer.Option(True, help="Open the page in a browser."),
    copy_to: Path | None = typer.Option(
        None, "--copy-to", help="Copy the sample documents and questions to this new folder instead."
    ),
    as_json: opt.JsonOption = False,
) -> None:
    """Try vrag on sample documents.

    They are a report, slides, a scan, a picture and a guide in Chinese. Serves a web page to ask questions
    on, until Ctrl-C. With a question, prints the answer instead; with
    --copy-to, copies the documents to FOLDER/documents and questions about them to FOLDER/questions.json.
    Without a model everything runs on this machine: no key, no network.

    Examples:

      vrag demo

      vrag demo --copy-to samples

      vrag demo "How many passengers travelled on the line from Orla to Saltby in 2024?"
    """
    if question is not None and only is not None:
        raise typer.BadParameter("With a question nothing is served. Leave out the question or --only.")
    if copy_to is not None:
        if question is not None or only is not None:
            raise typer.BadParameter("With --copy-to nothing is asked or served.")
        copy_samples(copy_to)
        return
    place = collection or str(samples_collection())
    report = load_settings(agent=agent, model=model, base_url=base_url, collection=place, wait=wait)
    if "://" not in place and not is_collection(Path(place)):
        err.print(Text(FIRST_TIME, "dim"))
    if question is not None:
        _ask(report, question, as_json=as_json)
        return
    from vrag.cli.serve import WebServer
    from vrag.factory.indexing import open_for_adding
    from vrag.index.build import add
    from vrag.server.options import ServerOptions

    opened, options, embedder = open_for_adding(report)
    with index_progress() as progress:
        added = add(opened, [corpus_dir()], options, embedder=embedder, progress=progress)
    print_add_report(added, report.settings, quiet_when_unchanged=True)
    settings = report.settings.model_copy(update={"collections": ()})
    server = WebServer(
        settings=settings, options=ServerOptions(), only=only, files="links", examples=EXAMPLES
    )
    open_page = webbrowser.open if browser and only is None else None
    server.run("127.0.0.1", port, level="warning", on_ready=open_page)


def copy_samples(folder: Path) -> None:
    """Copy the sample documents and questions to a new folder. An existing one is refused."""
    if folder.exists():
        raise typer.BadParameter(f"{folder} exists. Name a new folder.")
    shutil.copytree(corpus_dir(), folder / "documents")
    shutil.copy(questions_path(), folder)
    echo(f"Copied {len(list(corpus_dir().iterdir()))} documents to {folder / 'documents'}")
    echo(f"Copied questions with known answers to {folder / questions_path().name}")


def _ask(report: SettingsReport, question: str, *, as_json: bool) -> None:
    if not as_json:
        echo(("Documents: ", "bold"), ", ".join(sorted(path.name for path in corpus_dir().iterdir())))
        echo(("Question:  ", "bold"), question, "\n")
    try:
        answer_question(report, question, [corpus_dir()], as_json=as_json)
    except typer.Exit:
        if not as_json:
            echo(("\nYour documents: ", "bold"), 'vrag ask ./my-documents "What was the revenue in 2023?"')
        raise


def samples_collection() -> Path:
    """Return the folder of the collection with the sample documents.

    A collection of another version of vrag is renamed, and the samples are indexed again. Nothing is
    deleted, since the user may have added documents.
    """
    from vrag.errors import CollectionError

    place = Path(load_settings().settings.collection).with_name("samples")
    try:
        if header := CollectionHeader.read(place):
            header.check_options(header.options)
    except CollectionError:
        names = (place.with_name(f"samples-{number}") for number in count(1))
        renamed = next(name for name in names if not name.exists())
        place.rename(renamed)
        warn(f"Another version of vrag indexed the sample documents. Its collection is now {renamed}.")
    return place
