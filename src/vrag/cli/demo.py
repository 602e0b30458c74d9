"""`vrag demo`: a question to the sample documents that come with the package."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import typer

from vrag.cli.ask import ask
from vrag.cli.display import Agent, BaseUrl, Collection, Json, Model, say, warn

__all__ = ["demo", "samples_place"]

QUESTION = "How many passengers travelled on the line from Orla to Saltby in 2024?"


def demo(
    question: str = typer.Argument(QUESTION, help="What to ask the sample documents."),
    agent: str | None = Agent,
    model: str | None = Model,
    base_url: str | None = BaseUrl,
    collection: str | None = Collection,
    as_json: bool = Json,
) -> None:
    """Ask the sample documents a question: a report, slides, a scan, a picture, a guide in Chinese.

    Without a model everything happens on this machine: no key, no network.
    """
    from vrag.samples import corpus_dir

    place = collection or str(samples_place())
    if not as_json:
        say(("Documents: ", "bold"), ", ".join(sorted(path.name for path in corpus_dir().iterdir())))
        say(("Question:  ", "bold"), question, "\n")
    try:
        ask(
            words=[question],
            docs=[corpus_dir()],
            agent=agent,
            model=model,
            base_url=base_url,
            collection=place,
            max_steps=None,
            search_url=None,
            image_root=None,
            as_json=as_json,
        )
    finally:
        if not as_json:
            say(("\nTry your own: ", "bold"), 'vrag ask ./my-documents "What was the revenue in 2023?"')


def samples_place() -> Path:
    """Where the sample documents are indexed, unless the user says otherwise.

    What another version of vrag left there is set aside: the documents come with the package, and are
    indexed again. Nothing is deleted, since somebody may have added their own.
    """
    from vrag.settings import load_settings

    place = Path(load_settings().settings.collection).with_name("samples")
    if not _is_current(place):
        aside = next(
            name for number in count(1) if not (name := place.with_name(f"samples-{number}")).exists()
        )
        place.rename(aside)
        warn(f"Another version of vrag indexed the sample documents. Its collection is now {aside}.")
    return place


def _is_current(place: Path) -> bool:
    """Whether this version of vrag can add to what lies there, if anything does."""
    from vrag.errors import CollectionError
    from vrag.index.header import Header

    try:
        header = Header.read(place)
        if header is not None:
            header.check_options(header.options)
    except CollectionError:
        return False
    return True
