"""`vrag eval`: the quality of search and answers, measured on questions with known answers."""

from __future__ import annotations

import typer

from vrag.cli.eval import compare, prepare, report, run

app = typer.Typer(help="Measure search and answers on questions with known answers.", no_args_is_help=True)

app.command("list")(prepare.list_benchmarks)
for command in (prepare.prepare, run.run, report.report, compare.compare, compare.table, run.retrieval):
    app.command()(command)
