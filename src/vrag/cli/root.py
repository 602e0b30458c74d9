"""The Typer application, and its errors. It imports the module of the command that is run, and no other."""

from __future__ import annotations

import errno
import importlib
import inspect
import io
import os
import re
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from vrag.cli.terminal.console import print_error, warn
from vrag.cli.terminal.process import BUSY, handle_closed_output
from vrag.errors import CollectionBusy, SettingsError, VragError, first_line
from vrag.settings import unknown_variables

COMMANDS = {
    "ask": "Ask a question about documents.",
    "demo": "Try vrag on sample documents: a report, slides, a scan, a picture, a guide in Chinese.",
    "report": "Ask several questions and write one document: each answer with pictures and sources.",
    "search": "Search the collection and list the hits, best first.",
    "match": "Mark where a page matches a query, with a multi-vector embedder.",
    "serve": "Serve questions, documents and search over HTTP, with a web page.",
    "mcp": "Serve MCP tools over standard input and output.",
    "doctor": "Check the installation, the collection, the search server and the model; say how to fix "
    "problems.",
    "tables": "Print the tables of a document, without a model and without a collection.",
    "index": "Add documents to a collection, and maintain it.",
    "corpus": "Export documents as files: pages as pictures, videos as clips.",
    "runs": "List, show, replay, export, rename, delete and purge recorded runs.",
    "tokens": "Add, list and remove the users of a server, and change their roles.",
    "audit": "Show the audit log of a server.",
    "eval": "Measure search and answers on questions with known answers.",
    "data": "Make, convert and count questions with known answers.",
    "train": "Train a model to search, look and answer.",
    "reader": "Train and measure the reader that answers without a model.",
    "config": "Show the settings in force; download instructions.",
}
"""First lines of the help texts of commands and groups."""
MODULES = {"match": "search", "mcp": "serve"}
"""Modules of the commands that have none of their own."""
USER_ERRNOS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO}
"""Errors of the operating system that a user can act on; any other is a bug of vrag."""

NO_MEMORY = re.compile("failed to map segment|cannot allocate memory|can't start new thread", re.IGNORECASE)
"""Part of the messages of a loader and of threads that get no memory."""


class PlainErrorGroup(TyperGroup):
    """The group of all commands; its errors of use are without the words that Typer takes from pydantic."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - the type of Typer is private
        """Run a command."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise


def create_app(name: str | None = None) -> typer.Typer:
    """Create the application with one command or group, or with all.

    The others are listed with their help, but cannot be run: so a command does not wait for their imports.
    """
    app = typer.Typer(
        name="vrag",
        cls=PlainErrorGroup,
        help="Answer questions about documents by looking at them.\n\n"
        "A first example: vrag demo\n\n"
        'Your documents:  vrag ask ./my-documents "What was the revenue in 2023?"',
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(root)
    for command, summary in COMMANDS.items():
        if name not in {command, None}:
            app.command(command, help=summary)(lambda: None)
            continue
        loaded = importlib.import_module(f"vrag.cli.{MODULES.get(command, command)}")
        group = getattr(loaded, "app", None)
        if group is None:
            app.command(command)(getattr(loaded, command))
        else:
            app.add_typer(group, name=command)
    _unwrap_help(app)
    return app


def _unwrap_help(group: typer.Typer) -> None:
    """Join the lines of each paragraph of the help texts, to fit any terminal; keep indented lines."""
    for command in group.registered_commands:
        paragraphs = (command.help or inspect.getdoc(command.callback) or "").split("\n\n")
        joined = (text if text.startswith(" ") else text.replace("\n", " ") for text in paragraphs)
        command.help = "\n\n".join(joined)
    for subgroup in group.registered_groups:
        if subgroup.typer_instance is not None:
            _unwrap_help(subgroup.typer_instance)


def _print_version(show: bool) -> None:
    if show:
        from vrag import __version__

        print(__version__)
        raise typer.Exit


def root(
    version: bool = typer.Option(  # noqa: ARG001 - its callback prints it
        False, "--version", help="Print the version and exit.", is_eager=True, callback=_print_version
    ),
) -> None:
    """Answer questions about documents by looking at them."""
    for name, nearest in unknown_variables().items():
        question = f"; did you mean {nearest}?" if nearest else "."
        warn(f"{name} is not a setting{question} `vrag config show` lists all settings.")


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory was refused: to Python, to a library that was to be loaded, or to a thread."""
    return isinstance(error, MemoryError) or bool(NO_MEMORY.search(str(error)))


def run() -> None:
    """Run the command line and end the process with its exit status."""
    encoding = "utf-8" if sys.platform == "win32" else None  # not a code page: files and programs get UTF-8
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding=encoding, errors="backslashreplace")
    completing = "_VRAG_COMPLETE" in os.environ
    name = next((word for word in sys.argv[1:] if not word.startswith("-")), "")  # no option has a value
    try:
        with handle_closed_output():
            create_app(None if completing else name)()
    except SettingsError as error:
        sys.exit(print_error(error, 2))
    except CollectionBusy as error:
        sys.exit(print_error(error, BUSY))
    except VragError as error:
        sys.exit(print_error(error, 1))
    except (MemoryError, ImportError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        hint = f"Close other programs, or raise the limit (ulimit -v, control group). {first_line(error)}."
        sys.exit(print_error(VragError("There is not enough memory.", hint), 1))
    except OSError as error:
        if error.errno not in USER_ERRNOS:
            raise
        hint = "Free some disk space or fix the permissions."
        sys.exit(print_error(VragError(f"The operating system refused: {error}.", hint), 1))
