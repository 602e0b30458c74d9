"""`vrag demo`: the sample documents that come with the package, on a page or asked right away."""

from __future__ import annotations

import json
import webbrowser
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vrag.cli.ask.ask import answer_question
from vrag.cli.serve import Only, Port, ServedPart, run
from vrag.cli.terminal.console import Agent, BaseUrl, Collection, Json, Model, say, tell_report, warn
from vrag.settings import load_settings

if TYPE_CHECKING:
    from vrag.settings import Settings

__all__ = ["demo", "samples_place"]

SHOWN = (
    "report-saltby-passengers",
    "report-speed-limit",
    "deck-first-crossing",
    "board-kayak",
    "zh-last-boat",
)
"""Questions of the sample corpus that the page offers."""


def demo(
    question: str | None = typer.Argument(None, help="What to ask right away, without a page."),
    agent: str | None = Agent,
    model: str | None = Model,
    base_url: str | None = BaseUrl,
    collection: str | None = Collection,
    only: ServedPart | None = Only,
    port: int | None = Port,
    browser: bool = typer.Option(True, help="Open the page in a browser."),
    as_json: bool = Json,
) -> None:
    """Try it on sample documents: a report, slides, a scan, a picture, a guide in Chinese.

    Serves a page on which you ask, watch and look, until Ctrl-C. With a question it is answered here
    instead. Without a model everything happens on this machine: no key, no network.

    Examples of use:

      vrag demo

      vrag demo "How many passengers travelled on the line from Orla to Saltby in 2024?"
    """
    if question is not None and only is not None:
        raise typer.BadParameter("A question is answered here, and nothing served: leave one of the two out.")
    place = collection or str(samples_place())
    if question is None:
        _serve(place, agent, model, base_url, only, port, browser=browser)
    else:
        _ask(question, place, agent, model, base_url, as_json=as_json)


def _ask(
    question: str, place: str, agent: str | None, model: str | None, base_url: str | None, *, as_json: bool
) -> None:
    from vrag.samples import corpus_dir

    if not as_json:
        say(("Documents: ", "bold"), ", ".join(sorted(path.name for path in corpus_dir().iterdir())))
        say(("Question:  ", "bold"), question, "\n")
    try:
        report = load_settings(agent=agent, model=model, base_url=base_url, collection=place)
        answer_question(report, question, [corpus_dir()], as_json=as_json)
    except typer.Exit:
        if not as_json:
            say(("\nTry your own: ", "bold"), 'vrag ask ./my-documents "What was the revenue in 2023?"')
        raise


def _serve(
    place: str,
    agent: str | None,
    model: str | None,
    base_url: str | None,
    only: ServedPart | None,
    port: int | None,
    *,
    browser: bool,
) -> None:
    from vrag.server.options import ServerOptions

    settings = _with_samples(collection=place, agent=agent, model=model, base_url=base_url)
    run(
        settings,
        ServerOptions(),
        only=only,
        host="127.0.0.1",
        port=port,
        files="links",
        examples=_examples(),
        ready=_open if browser and only is None else None,
        level="warning",
    )


def _open(address: str) -> None:
    webbrowser.open(address)


def _with_samples(**flags: str | None) -> Settings:
    """The settings of a server with the sample documents indexed."""
    from vrag.factory import open_for_adding
    from vrag.index.build import add
    from vrag.samples import corpus_dir

    report = load_settings(**flags)
    opened, options, embedder = open_for_adding(report)
    done = add(opened, [corpus_dir()], options, embedder=embedder)
    tell_report(done, report.settings, quiet_when_unchanged=True)
    return report.settings.model_copy(update={"collections": ()})


def _examples() -> tuple[str, ...]:
    from vrag.samples import questions_path

    asked = json.loads(questions_path().read_text(encoding="utf-8"))
    queries = {one["uid"]: one["query"] for one in asked["examples"]}
    return tuple(queries[uid] for uid in SHOWN)


def samples_place() -> Path:
    """Where the sample documents are indexed, unless the user says otherwise.

    What another version of vrag left there is set aside: the documents come with the package, and are
    indexed again. Nothing is deleted, since somebody may have added their own.
    """
    place = Path(load_settings().settings.collection).with_name("samples")
    if not _is_current(place):
        moved_place = next(
            name for number in count(1) if not (name := place.with_name(f"samples-{number}")).exists()
        )
        place.rename(moved_place)
        warn(f"Another version of vrag indexed the sample documents. Its collection is now {moved_place}.")
    return place


def _is_current(place: Path) -> bool:
    """Whether this version of vrag can add to what lies there, if anything does."""
    from vrag.errors import CollectionError
    from vrag.index.collection_json import CollectionHeader

    try:
        header = CollectionHeader.read(place)
        if header is not None:
            header.check_options(header.options)
    except CollectionError:
        return False
    return True
