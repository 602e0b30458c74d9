"""`vrag demo`: a question to the sample documents that come with the package."""

from __future__ import annotations

from pathlib import Path

import typer

from vrag.cli.ask import ask
from vrag.cli.display import Agent, BaseUrl, Collection, Json, Model, say

__all__ = ["demo"]

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
    from vrag.settings import load_settings

    place = collection or str(Path(load_settings().settings.collection).with_name("samples"))
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
