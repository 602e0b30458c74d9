"""`vrag eval`: how good the search is, and the answers, on questions that have been answered before."""

from __future__ import annotations

import typer

from vrag.cli.eval.compare import compare, table
from vrag.cli.eval.prepare import benchmark_list, prepare
from vrag.cli.eval.report import report
from vrag.cli.eval.retrieval import retrieval
from vrag.cli.eval.run import run

__all__ = ["app"]

app = typer.Typer(help="Measure on questions whose answers are known.", no_args_is_help=True)


@app.callback()
def evaluate() -> None:
    """Measure on questions whose answers are known."""


app.command("retrieval")(retrieval)
app.command("list")(benchmark_list)
app.command("prepare")(prepare)
app.command("run")(run)
app.command("report")(report)
app.command("compare")(compare)
app.command("table")(table)
