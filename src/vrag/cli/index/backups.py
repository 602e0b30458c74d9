"""`vrag index backup | backups | restore`: copies of a collection from which it can be restored."""

from __future__ import annotations

import functools
import re
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from vrag.cli import options as opt
from vrag.cli.terminal.console import (
    MAX_PROBLEMS,
    add_location,
    duration,
    echo,
    echo_problem,
    plain,
    print_result,
)
from vrag.cli.terminal.files import parse_path
from vrag.cli.terminal.progress import count_progress, note_on_interrupt
from vrag.errors import CollectionError
from vrag.index.collection import Collection
from vrag.index.location import LocalLocation
from vrag.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vrag.index.integrity.backup_store import BackupSnapshot

_DEST = typer.Argument(..., parser=parse_path, metavar="DEST", help="Directory of the backups.")
_BACKUPS = typer.Argument(..., parser=parse_path, metavar="BACKUPS", help="Directory of the backups.")


def backup(
    destination: Path = _DEST,
    collection: opt.CollectionOption = None,
    keep: int | None = typer.Option(
        None, min=1, help="Delete all but this number of the newest backups afterwards.", show_default="all"
    ),
    moved: bool = typer.Option(
        False, "--moved", help="Continue the backups of a collection that was in another directory before."
    ),
    wait: opt.WaitOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Back up a collection to a directory, while others use it.

    The backup has the documents' pages and tables, uploaded files and recorded runs, in one consistent
    state. Only content that is not in DEST yet is copied. You can stop and repeat the command at any time.
    One directory holds the backups of one collection.

    Exit status: 0 done, 1 failed, or made of a damaged collection, with its missing files listed, 2 wrong
    usage, 4 another process is writing to DEST.

    Examples:

      vrag index backup /mnt/backup/reports --keep 30

      vrag index backups /mnt/backup/reports --check

      vrag index restore /mnt/backup/reports ./restored
    """
    settings = load_settings(collection=collection, wait=wait).settings
    if re.match("[a-z][a-z0-9+.-]+:/", str(destination)):  # more than the letter of a drive
        raise CollectionError(
            f"{destination} is not a directory.",
            "Back up to a directory, and copy it to object storage: its files never change. "
            "To search a collection from there: vrag index publish",
        )
    from vrag.index.integrity.backup import back_up

    note = "Earlier backups are complete. Run the same command again to continue."
    with note_on_interrupt(note), count_progress("Copying") as progress:
        opened = Collection.open(settings.collection)
        report = back_up(
            opened,
            destination,
            keep=keep,
            moved=moved,
            wait=settings.wait,
            progress=functools.partial(progress, "files"),
        )
    made = report.snapshot

    def render() -> None:
        echo((f"Backup {made.name}", "bold"), f" in {plain(str(destination))}")
        echo(f"  contents   {_contents(made)}")
        echo(f"  copied     {report.read} files, {_megabytes(made.added_bytes)}; {duration(report.seconds)}")
        if report.deleted:
            echo(f"  deleted    {len(report.deleted)} older backups, {_megabytes(report.freed_bytes)}")
        _echo_problems(
            (name, "It is missing in the collection, or cannot be read.") for name in report.missing
        )
        if report.missing:
            echo("The collection is damaged. Run: vrag index verify")

    print_result(asdict(report), render, as_json=as_json)
    raise typer.Exit(1 if report.missing else 0)


def list_backups(
    backups: Path = _BACKUPS,
    check: bool = typer.Option(False, "--check", help="Read everything, and compare it with its hashes."),
    keep: int | None = typer.Option(
        None, min=1, help="Delete all but this number of the newest backups.", show_default="all"
    ),
    wait: opt.WaitOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """List the backups in a directory, check or delete them.

    With --check, a damaged file is set aside, so that the next backup copies it again if the collection still
    has it.

    Exit status: 0 done, 1 failed or damaged, 2 wrong usage, 4 another process is writing to BACKUPS.

    Examples:

      vrag index backups /mnt/backup/reports

      vrag index backups /mnt/backup/reports --keep 30
    """
    from vrag.index.integrity.backup_store import BackupStore
    from vrag.index.integrity.restore import check_backups

    settings = load_settings(wait=wait).settings
    store = BackupStore.open(backups)
    facts: dict[str, Any] = {}
    if keep:
        with store.lock(settings.wait):
            facts["deleted"], facts["freed_bytes"] = store.prune(keep)
    checked = None
    if check:
        with count_progress("Checking") as progress:
            checked = check_backups(
                backups, wait=settings.wait, progress=functools.partial(progress, "contents")
            )
    snapshots: list[BackupSnapshot] = []
    damaged: list[tuple[str, str]] = []
    for name in store.names():
        try:
            snapshots.append(store.read(name)[0])
        except CollectionError as error:
            damaged.append((name, error.message))
    size = sum(store.objects().values())

    def render() -> None:
        for snapshot in snapshots:
            made = time.strftime("%Y-%m-%d %H:%M", time.localtime(snapshot.created))
            added = f"{_megabytes(snapshot.added_bytes)} new"
            echo((snapshot.name, "bold"), f"  {made}  {_contents(snapshot)}, {added}")
        _echo_problems(damaged)
        echo(f"Backups: {len(snapshots)}, {_megabytes(size)} on disk.")
        if keep:
            echo(f"Deleted {len(facts['deleted'])} backups, {_megabytes(facts['freed_bytes'])}.")
        if checked:
            contents = f"{checked.objects} stored contents of {len(snapshots)} backups"
            echo(f"Checked {contents}; equal files share one ({duration(checked.seconds)}).")
            _echo_problems((problem.file or "snapshot", problem.detail) for problem in checked.problems)
            if not checked.problems:
                echo(("No problems.", "green"))

    facts |= {
        "snapshots": [asdict(snapshot) for snapshot in snapshots],
        "damaged": [name for name, _ in damaged],
        "bytes": size,
        "problems": [problem._asdict() for problem in checked.problems] if checked else None,
    }
    print_result(facts, render, as_json=as_json)
    raise typer.Exit(1 if damaged or (checked and checked.problems) else 0)


def restore_backup(
    backups: Path = _BACKUPS,
    target: Path = typer.Argument(
        ..., parser=parse_path, metavar="TARGET", help="New or empty directory for the collection."
    ),
    snapshot: str = typer.Option(
        "last", "--snapshot", help="Name of the backup, or its beginning.", show_default="the newest"
    ),
    partial: bool = typer.Option(
        False, "--partial", help="Leave out pictures, uploaded files and runs that are damaged in the backup."
    ),
    as_json: opt.JsonOption = False,
) -> None:
    """Restore a collection from a backup into a new directory.

    Every file is compared with its hash. The directory appears when it is complete; an existing collection is
    never overwritten.

    Exit status: 0 done, 1 failed, or restored without damaged files, which are listed, 2 wrong usage.

    Example: vrag index restore /mnt/backup/reports ./restored --snapshot 20260301
    """
    from vrag.index.integrity.restore import restore

    note = f"{target} was not written."
    with note_on_interrupt(note), count_progress("Restoring") as progress:
        report = restore(
            backups, target, snapshot, partial=partial, progress=functools.partial(progress, "files")
        )

    def render() -> None:
        echo(("Restored", "bold"), f" {report.snapshot.name} to {plain(str(report.directory))}")
        echo(f"  contents   {_contents(report.snapshot)}; {duration(report.seconds)}")
        _echo_problems(("left out", detail) for detail in report.missing)
        if report.missing:
            settings = load_settings(collection=str(report.directory)).settings
            echo(add_location(LocalLocation.repair_hint, settings))
        echo(f"Use it: vrag ask QUESTION --collection {plain(str(report.directory))}")

    print_result(asdict(report), render, as_json=as_json)
    raise typer.Exit(1 if report.missing else 0)


def _contents(snapshot: BackupSnapshot) -> str:
    counts = f"{snapshot.documents} documents, {snapshot.items} items, {snapshot.runs} runs"
    return f"{counts}, {_megabytes(snapshot.bytes)}"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


def _echo_problems(problems: Iterable[tuple[str, str]]) -> None:
    listed = list(problems)
    for subject, detail in listed[:MAX_PROBLEMS]:
        echo_problem(subject, detail)
    if (more := len(listed) - MAX_PROBLEMS) > 0:
        echo(f"  … and {more} more; --json lists all.")
