"""`vrag eval`: the quality of search and answers, measured on questions with known answers."""

from __future__ import annotations

import typer

from vrag.cli.eval.compare import compare, table
from vrag.cli.eval.prepare import list_benchmarks, prepare
from vrag.cli.eval.report import report
from vrag.cli.eval.run import retrieval, run

app = typer.Typer(help="Measure search and answers on questions with known answers.", no_args_is_help=True)


@app.callback()
def evaluate() -> None:
    """Measure search and answers on questions with known answers."""


app.command("list")(list_benchmarks)
for command in (prepare, run, report, compare, table, retrieval):
    app.command()(command)
