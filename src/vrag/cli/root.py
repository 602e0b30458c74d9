"""All commands together, and how faults are told."""

from __future__ import annotations

import errno
import io
import sys

import typer

from vrag.cli import config, corpus, demo, doctor, match, mcp, report, search, serve
from vrag.cli.ask import ask
from vrag.cli.data.commands import app as data_app
from vrag.cli.eval.commands import app as eval_app
from vrag.cli.index.commands import app as index_app
from vrag.cli.runs.commands import app as runs_app
from vrag.cli.terminal.closed_output import handle_closed_output
from vrag.cli.terminal.console import complain, warn
from vrag.cli.train.commands import app as train_app
from vrag.errors import SettingsError, VragError
from vrag.settings import unknown_variables

__all__ = ["app", "run"]

ENVIRONMENT_FAULTS = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.EIO,
}
"""Errors of the operating system that a user can act on; any other is a fault of ours."""

app = typer.Typer(
    name="vrag",
    help="Answers questions about documents by looking at them.\n\n"
    'Begin with: vrag ask ./my-documents "What was the revenue in 2023?"',
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("ask")(ask.ask)
app.command("demo")(demo.demo)
app.command("report")(report.report)
app.command("search")(search.search)
app.command("match")(match.match)
app.command("serve")(serve.serve)
app.command("mcp")(mcp.mcp)
app.command("doctor")(doctor.doctor)
app.add_typer(index_app, name="index")
app.add_typer(corpus.app, name="corpus")
app.add_typer(runs_app, name="runs")
app.add_typer(eval_app, name="eval")
app.add_typer(data_app, name="data")
app.add_typer(train_app, name="train")
app.add_typer(config.app, name="config")


def _version(show: bool) -> None:
    if show:
        from vrag import __version__

        print(__version__)
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(  # noqa: ARG001 - its callback does the work
        False, "--version", help="Print the version and leave.", is_eager=True, callback=_version
    ),
) -> None:
    """Answers questions about documents by looking at them."""
    for name, nearest in unknown_variables().items():
        warn(f"{name} is not a setting{f'; is {nearest} meant?' if nearest else '.'} See `vrag config show`.")


def run() -> None:
    """Runs the command line; ends the process with its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        with handle_closed_output():
            app()
    except SettingsError as error:
        sys.exit(complain(error, 2))
    except VragError as error:
        sys.exit(complain(error, 1))
    except OSError as error:
        if error.errno not in ENVIRONMENT_FAULTS:
            raise
        sys.exit(complain(VragError(f"The system refused: {error}.", "Make room or mend the rights."), 1))
