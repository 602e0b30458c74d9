"""The Typer application, and its errors. It imports the module of the command that is run, and no other."""

from __future__ import annotations

import errno
import importlib
import io
import os
import re
import sys
from typing import Any

import typer

from vrag.cli.terminal.console import print_error, warn
from vrag.cli.terminal.help import FOR_TEAMS, UsageError, prepare_help
from vrag.cli.terminal.process import (
    BUSY,
    DONE,
    FAILED,
    STOPPED,
    close_databases,
    handle_closed_output,
    is_interrupt,
    raise_interrupts,
    report_stop,
)
from vrag.errors import CollectionBusy, SettingsError, VragError, first_line
from vrag.settings import unknown_variables

COMMANDS = {
    "ask": "Ask a question about documents.",
    "search": "Search the collection and list the hits, best first.",
    "conflicts": "List statements of the documents that disagree, both sides with their places.",
    "serve": "Serve questions, documents and search over HTTP, with a web page.",
    "demo": "Try vrag on sample documents.",
    "report": "Ask several questions and write one document with sources.",
    "index": "Add documents to a collection, and maintain it.",
    "runs": "List, show, export and delete recorded questions.",
    "doctor": "Check the installation, the collection and the model.",
    "config": "Show the settings in force; download instructions.",
    "convert": "Convert documents to Markdown or JSON, without a model and without a collection.",
    "tables": "Print the tables of a document, without a model.",
    "match": "Mark where a page matches a query, with a multi-vector embedder.",
    "corpus": "Export documents as files: pages as pictures, videos as clips.",
    "mcp": "Serve MCP tools over standard input and output.",
    "tokens": "Add, list and remove the users of a server, and change their roles.",
    "audit": "Show the audit log of a server.",
    "eval": "Measure search and answers on questions with known answers.",
    "data": "Make, convert and count questions with known answers.",
    "train": "Train a model to search, look and answer.",
    "reader": "Train and measure the reader that answers without a model.",
}
"""First lines of the help texts of commands and groups."""
EVERYBODY = {"ask", "search", "serve", "demo", "report", "index", "runs", "doctor", "config"}
"""Commands that the help lists first."""
MODULES = {"match": "search", "mcp": "serve"}
"""Modules of the commands that have none of their own."""
USER_ERRNOS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO}
"""Errors of the operating system that a user can act on; any other is a bug of vrag."""

NO_MEMORY = re.compile("failed to map segment|cannot allocate memory|can't start new thread", re.IGNORECASE)
"""Part of the messages of a loader and of threads that get no memory."""


def create_app(name: str | None = None) -> typer.Typer:
    """Create the application with one command or group, or with all.

    The others are listed with their help, but cannot be run: so a command does not wait for their imports.
    """
    app = typer.Typer(
        name="vrag",
        help="Answer questions about documents by looking at them.\n\n"
        'Examples: `vrag demo`, or `vrag ask ./my-documents "What was the revenue in 2023?"`',
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(root)
    for command, summary in COMMANDS.items():
        panel = None if command in EVERYBODY else FOR_TEAMS
        if name not in {command, None}:
            app.command(command, help=summary, rich_help_panel=panel)(lambda: None)
            continue
        loaded = importlib.import_module(f"vrag.cli.{MODULES.get(command, command)}")
        group = getattr(loaded, "app", None)
        if group is None:
            app.command(command, rich_help_panel=panel)(getattr(loaded, command))
        else:
            app.add_typer(group, name=command, rich_help_panel=panel)
    prepare_help(app)
    return app


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
    for error in unknown_variables():
        warn(str(error))


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory was refused: to Python, to a library that was to be loaded, or to a thread."""
    return isinstance(error, MemoryError) or bool(NO_MEMORY.search(str(error)))


def run() -> None:
    """Run the command line and end the process with its exit status."""
    encoding = "utf-8" if sys.platform == "win32" else None  # not a code page: files and programs get UTF-8
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding=encoding, errors="backslashreplace")
    try:
        with handle_closed_output(), close_databases():
            app = _create_app_for_line()
            raise_interrupts()
            sys.exit(_run_command(app))
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


def _create_app_for_line() -> typer.Typer:
    """Create the application with the command of the line, or with what completes the line."""
    words = sys.argv[1:]
    if "_VRAG_COMPLETE" in os.environ:
        from vrag.cli.terminal.completion import completed_words, create_value_app

        words, incomplete = completed_words()
        if app := create_value_app(words, incomplete):
            return app
    return create_app(next((word for word in words if not word.startswith("-")), ""))  # no option has a value


def _run_command(app: typer.Typer) -> int:
    """Run the command and return its exit status; wrong usage is printed like every other error."""
    try:
        status = app(standalone_mode=False, prog_name="vrag")
    except typer.Abort as error:  # the answer to a question was no, or Ctrl-C
        status = STOPPED if is_interrupt(error) else FAILED
        if status == FAILED:
            warn("Nothing was changed.")
    except UsageError as error:
        if type(error).__name__ != "NoArgsIsHelpError":  # it has printed the help
            print_error(describe_usage_error(error), error.exit_code)
        status = error.exit_code
    except Exception as error:  # a library may turn Ctrl-C into an error of its own
        if not is_interrupt(error):
            raise
        status = STOPPED
    if status == STOPPED:
        report_stop()
    return status if isinstance(status, int) else DONE


def describe_usage_error(error: Any) -> VragError:  # noqa: ANN401 - the type of Typer is private
    """Return an error of use in the form of all errors: what is wrong, and which help says more."""
    message = error.format_message().removeprefix("Invalid value: ").replace("Value error, ", "", 1)
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "vrag"
    usage = " ".join(context.get_usage().split()).removeprefix("Usage: ") if context else "vrag COMMAND"
    return VragError(
        message if message[-1:] in ".?!" else f"{message}.", f"Usage: {usage} (help: {command} -h)"
    )
