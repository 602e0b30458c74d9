"""Values that the shell offers for options and arguments: agents, embedders, collections, runs.

They are found without loading a command or opening a collection, since a person waits for them with every
press of the tab key.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import typer

from vrag.cli.terminal.last_collection import is_collection, load_collection_settings
from vrag.errors import VragError
from vrag.settings import AgentName, load_settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vrag.settings import Settings

MAX_RUNS = 30
"""Runs that are offered, the newest first."""
RUN_COMMANDS = {"show", "replay", "export", "rename", "delete"}
"""Commands of `vrag runs` whose first argument is a run."""

Completer = Callable[[str], list[str]]
"""A function from the beginning of a value to the values."""


def completed_words() -> tuple[list[str], str]:
    """Return the finished words of the line that a shell completes, and the unfinished one."""
    if line := os.environ.get("COMP_WORDS"):
        end = int(os.environ.get("COMP_CWORD", "0"))
        words = line.split()
        return words[1:end], words[end] if end < len(words) else ""
    line = os.environ.get("_TYPER_COMPLETE_ARGS", "")
    words = line.split()[1:]
    return (words, "") if line[-1:].isspace() or not words else (words[:-1], words[-1])


def create_value_app(words: Sequence[str], incomplete: str) -> typer.Typer | None:
    """Create an application that completes a value; None if what follows the words is none of a kind known.

    It takes all words of the line as its arguments.
    """
    complete = None if incomplete.startswith("-") else find_completer(words)
    if complete is None:
        return None
    app = typer.Typer(context_settings={"ignore_unknown_options": True})

    @app.command()
    def complete_words(words: list[str] = typer.Argument(None, autocompletion=complete)) -> None:
        """Take the words of a line."""
        del words

    return app


def find_completer(words: Sequence[str]) -> Completer | None:
    """Return what completes the word after these; None if it is not a value of a kind that is known."""
    option = words[-1] if words else ""
    values: dict[str, Completer] = {
        "--agent": complete_agent,
        "--embedder": complete_embedder,
        "--collection": complete_collection,
        "-c": complete_collection,
    }
    if option in values:
        return values[option]
    is_run = len(words) == 2 and words[0] == "runs" and words[1] in RUN_COMMANDS
    if is_run or option in {"--after", "--run"}:
        collection = dict(pairwise(words))
        named = collection.get("--collection") or collection.get("-c")
        return lambda incomplete: complete_run(incomplete, named)
    return None


def complete_agent(incomplete: str) -> list[str]:
    """Return the names of agents that begin with a text."""
    return _matching(get_args(AgentName), incomplete)


def complete_embedder(incomplete: str) -> list[str]:
    """Return the names of embedders that begin with a text."""
    from vrag.embed.registry import embedder_names

    return _matching(embedder_names(), incomplete)


def complete_collection(incomplete: str) -> list[str]:
    """Return the collections whose path begins with a text: those beside the default one, and others here."""
    folder, slash, _ = incomplete.rpartition(os.sep)
    typed = folder + slash
    here = Path(os.path.expanduser(typed))  # noqa: PTH111 - of an unknown user it raises no error
    beside = Path(load_settings().settings.collection).parent
    others = (str(path) for path in _collections_in(beside) if path.parent != here)
    return _matching([*(typed + path.name for path in _collections_in(here)), *others], incomplete)


def complete_run(incomplete: str, collection: str | None = None) -> list[str]:
    """Return `last` and the ids of the newest runs of a collection that begin with a text."""
    from vrag.agent.runs.run_database import RunDatabase

    runs = _runs_folder(load_collection_settings(collection))
    ids: list[str] = []
    with suppress(VragError):
        rows = RunDatabase(runs, durable=True).select("id FROM runs ORDER BY id DESC")
        ids = [id for (id,) in rows]
    return _matching(["last", *ids], incomplete)[:MAX_RUNS]


def _runs_folder(settings: Settings) -> Path:
    return Path(settings.runs_dir).expanduser() if settings.runs_dir else Path(settings.places[0]) / "runs"


def _collections_in(folder: Path) -> list[Path]:
    return sorted(filter(is_collection, _folders_in(folder)))


def _folders_in(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")]
    except OSError:
        return []


def _matching(values: Iterable[str], incomplete: str) -> list[str]:
    return [value for value in values if value.startswith(incomplete)]
