"""The Typer application with all commands, and its errors."""

from __future__ import annotations

import errno
import inspect
import io
import sys
from typing import Annotated

import typer

from vrag.cli.ask.ask import ask
from vrag.cli.config import app as config_app
from vrag.cli.corpus import app as corpus_app
from vrag.cli.data.commands import app as data_app
from vrag.cli.demo import demo
from vrag.cli.doctor import doctor
from vrag.cli.eval.commands import app as eval_app
from vrag.cli.index.commands import app as index_app
from vrag.cli.match import match
from vrag.cli.mcp import mcp
from vrag.cli.report import report
from vrag.cli.runs import app as runs_app
from vrag.cli.search import search
from vrag.cli.serve import serve
from vrag.cli.terminal.console import print_error, warn
from vrag.cli.terminal.process import handle_closed_output
from vrag.cli.train.commands import app as train_app
from vrag.errors import SettingsError, VragError
from vrag.settings import unknown_variables

USER_ERRNOS = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.EIO,
}
"""Errors of the operating system that a user can act on; any other is a bug of vrag."""

app = typer.Typer(
    name="vrag",
    help="Answer questions about documents by looking at them.\n\n"
    "A first example: vrag demo\n\n"
    'Your documents:  vrag ask ./my-documents "What was the revenue in 2023?"',
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (ask, demo, report, search, match, serve, mcp, doctor):
    app.command()(command)
app.add_typer(index_app, name="index")
app.add_typer(corpus_app, name="corpus")
app.add_typer(runs_app, name="runs")
app.add_typer(eval_app, name="eval")
app.add_typer(data_app, name="data")
app.add_typer(train_app, name="train")
app.add_typer(config_app, name="config")


def _unwrap_help(group: typer.Typer) -> None:
    """Join the lines of each paragraph of the help texts, to fit any terminal; keep indented lines."""
    for command in group.registered_commands:
        paragraphs = (inspect.getdoc(command.callback) or "").split("\n\n")
        joined = (text if text.startswith(" ") else text.replace("\n", " ") for text in paragraphs)
        command.help = "\n\n".join(joined)
    for subgroup in group.registered_groups:
        if subgroup.typer_instance is not None:
            _unwrap_help(subgroup.typer_instance)


_unwrap_help(app)


def _print_version(show: bool) -> None:
    if show:
        from vrag import __version__

        print(__version__)
        raise typer.Exit


VersionOption = Annotated[
    bool,
    typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version),
]


@app.callback()
def root(version: VersionOption = False) -> None:  # noqa: ARG001 - its callback prints it
    """Answer questions about documents by looking at them."""
    for name, nearest in unknown_variables().items():
        question = f"; did you mean {nearest}?" if nearest else "."
        warn(f"{name} is not a setting{question} `vrag config show` lists all settings.")


def run() -> None:
    """Run the command line and end the process with its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        with handle_closed_output():
            app()
    except SettingsError as error:
        sys.exit(print_error(error, 2))
    except VragError as error:
        sys.exit(print_error(error, 1))
    except OSError as error:
        if error.errno not in USER_ERRNOS:
            raise
        hint = "Free some disk space or fix the permissions."
        sys.exit(print_error(VragError(f"The operating system refused: {error}.", hint), 1))
