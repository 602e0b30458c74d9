"""`vrag audit`: the audit log of a server."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from vrag.cli import options as opt
from vrag.cli.terminal.console import echo, plain, print_json, print_table, warn
from vrag.errors import SettingsError
from vrag.server.http.audit_log import (
    AuditAction,
    AuditEntry,
    AuditLog,
    AuditResult,
    DamagedLog,
    read_entries,
)
from vrag.settings import Settings, load_settings

app = typer.Typer(help="Show the audit log of a server.", no_args_is_help=True)
COLUMNS = ("time", "user", "role", "address", "action", "what", "result")
_HINT = "Name it with --file, or with the setting audit_log (VRAG_AUDIT_LOG)."


def open_audit_log(settings: Settings) -> AuditLog | None:
    """Return the audit log of the settings; None without one."""
    if not settings.audit_log:
        return None
    return AuditLog(
        Path(settings.audit_log), with_questions=settings.audit_questions, durable=settings.durable
    )


@app.callback()
def audit() -> None:
    """Show the audit log of a server."""


@app.command()
def show(
    since: Annotated[
        str | None,
        typer.Option("--since", help="Time (2026-03-14T09:00Z) or age (7d, 12h, 30m)."),
    ] = None,
    user: Annotated[str | None, typer.Option("--user", help="Only entries of a user, or about one.")] = None,
    action: Annotated[AuditAction | None, typer.Option("--action", help="Only entries of an action.")] = None,
    result: Annotated[AuditResult | None, typer.Option("--result", help="Only entries of a result.")] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="Maximum number of entries, the newest.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", help="Audit log.", show_default="VRAG_AUDIT_LOG")
    ] = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Show who did what, the oldest first, from the log and its rotated files.

    Exit status: 0 all files were read, 1 some could not be read to their end.

    Examples:

      vrag audit show --since 7d

      vrag audit show --user alice --action remove_document

      vrag audit show --result refused --json
    """
    path = file or Path(load_settings().settings.audit_log or "")
    if not path.is_file():
        raise SettingsError(
            "No audit log is configured." if not path.name else f"There is no file {path}.", _HINT
        )
    begin = _parse_since(since) if since else ""

    def is_wanted(entry: AuditEntry) -> bool:
        return (
            entry.time >= begin
            and user in {None, entry.user, entry.subject}
            and action in {None, entry.action}
            and result in {None, entry.result}
        )

    damaged: list[DamagedLog] = []
    entries = read_entries(path, wanted=is_wanted, limit=limit, damaged=damaged)
    if as_json:
        print_json([json.loads(entry.line) for entry in entries])
    elif entries:
        print_table(COLUMNS, ([plain(cell, 80) for cell in _row(entry)] for entry in entries))
    else:
        echo("No entry matches.")
    for each in damaged:
        warn(f"{each.path} cannot be read to its end: {each.reason}. Its other entries are missing here.")
    if damaged:
        raise typer.Exit(1)


def _row(entry: AuditEntry) -> tuple[str, ...]:
    facts = (
        entry.collection,
        entry.file or entry.document[:12],
        entry.run or (f"upload {entry.job}" if entry.job and not entry.file else ""),
        f"{entry.runs} runs" if entry.runs is not None else "",
        entry.model and f"{entry.model} for {entry.scope or 'session'}",
        entry.subject and f"{entry.subject} {entry.new_role}".rstrip(),
        f"{entry.method} {entry.path}".strip(),
        entry.question,
        f"{entry.omitted} omitted before" if entry.omitted else "",
    )
    status = f"{entry.result} {entry.status or ''} {entry.reason}".strip()
    what = " · ".join(filter(None, facts))
    time = entry.time[:19].replace("T", " ")
    return time, entry.user, str(entry.role), entry.address, str(entry.action), what, status


def _parse_since(text: str) -> str:
    """Return a time in the form of the log. Raises `typer.BadParameter` if the text is no time."""
    try:
        time = datetime.now(UTC) - opt.parse_age(text)
    except typer.BadParameter:
        try:
            time = opt.parse_time(text)
        except typer.BadParameter:
            message = f"{text!r} is not a time such as 2026-03-14, or an age such as 7d."
            raise typer.BadParameter(message) from None
    return f"{time:%Y-%m-%dT%H:%M:%S}"
