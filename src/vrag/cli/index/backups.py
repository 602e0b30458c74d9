"""`vrag index backup | backups | restore`: copies of a collection from which it can be restored."""

from __future__ import annotations

import functools
import re
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from vrag.cli import options as opt
from vrag.cli.options import parse_path
from vrag.cli.terminal.console import (
    MAX_PROBLEMS,
    add_location,
    duration,
    echo,
    echo_problem,
    plain,
    print_result,
    quote_argument,
)
from vrag.cli.terminal.help import common_options
from vrag.cli.terminal.progress import count_progress, note_on_interrupt
from vrag.errors import CollectionError
from vrag.index.location import LocalLocation
from vrag.index.opening import open_collection
from vrag.settings import load_settings
from vrag.text.numerals import count

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vrag.index.backups.backup import BackupReport
    from vrag.index.backups.check import BackupCheck
    from vrag.index.backups.snapshot import BackupSnapshot
    from vrag.index.backups.store import BackupStore

_DEST = typer.Argument(..., parser=parse_path, metavar="DEST", help="Directory of the backups.")
_BACKUPS = typer.Argument(..., parser=parse_path, metavar="BACKUPS", help="Directory of the backups.")
_MISSING = "It was missing in the collection, or could not be read."


@common_options("collection", "keep", "as_json")
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

    The backup has the documents' pages and texts, uploaded files and recorded runs, in one consistent
    state. Only content that is not in DEST yet is copied. You can stop and repeat the command at any time.
    One directory holds the backups of one collection.

    Exit status: 0 done, 1 failed, or done with a problem that is listed: the collection is damaged, or older
    backups could not be deleted, 2 wrong usage, 4 another process is writing to DEST.

    Examples:

      vrag index backup /mnt/backup/reports --keep 30

      vrag index backups /mnt/backup/reports --check

      vrag index restore /mnt/backup/reports ./restored
    """
    settings = load_settings(collection=collection, wait=wait).settings
    _check_directory(destination)
    from vrag.index.backups.backup import back_up

    note = "Earlier backups are complete. Run the same command again to continue."
    with note_on_interrupt(note), count_progress("Copying") as progress:
        opened = open_collection(settings.collection)
        report = back_up(
            opened,
            destination,
            keep=keep,
            moved=moved,
            wait=settings.wait,
            progress=functools.partial(progress, "files"),
        )
    print_result(asdict(report), functools.partial(_echo_backup, report, destination), as_json=as_json)
    raise typer.Exit(1 if report.snapshot.missing or report.prune_failure else 0)


def _check_directory(destination: Path) -> None:
    if re.match("[a-z][a-z0-9+.-]+:/", str(destination)):  # more than the letter of a drive
        raise CollectionError(
            f"{destination} is not a directory.",
            "Back up to a directory, and copy it to object storage. "
            "To search a collection from there: vrag index publish",
        )


def _echo_backup(report: BackupReport, destination: Path) -> None:
    made = report.snapshot
    echo((f"Backup {made.name}", "bold"), f" in {plain(str(destination))}")
    echo(f"  contents   {_contents(made)}")
    echo(f"  copied     {report.read} files, {_megabytes(made.added_bytes)}; {duration(report.seconds)}")
    if report.deleted:
        echo(f"  deleted    {len(report.deleted)} older backups, {_megabytes(report.freed_bytes)}")
    _echo_problems((name, _MISSING) for name in made.missing)
    if made.missing:
        echo("The collection is damaged. Run: vrag index verify")
    if report.prune_failure:
        echo(("  ! ", "yellow"), plain(report.prune_failure))


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

    With --check, a damaged picture, upload or run is set aside, so that the next backup copies it again if
    the collection still has it.

    Exit status: 0 done, 1 failed or damaged, 2 wrong usage, 4 another process is writing to BACKUPS.

    Examples:

      vrag index backups /mnt/backup/reports

      vrag index backups /mnt/backup/reports --keep 30
    """
    from vrag.index.backups.store import BackupStore

    settings = load_settings(wait=wait).settings
    store = BackupStore.open(backups)
    pruned = _prune(store, keep, settings.wait) if keep else None
    checked = _check(store, settings.wait) if check else None
    listed = _list(store)

    def render() -> None:
        _echo_list(listed)
        if pruned:
            echo(f"Deleted {len(pruned['deleted'])} backups, {_megabytes(pruned['freed_bytes'])}.")
        if checked:
            _echo_check(checked)

    facts = (pruned or {}) | {
        "snapshots": [asdict(snapshot) for snapshot in listed.snapshots],
        "damaged": [name for name, _ in listed.unreadable],
        "bytes": listed.bytes,
        "problems": [problem._asdict() for problem in checked.problems] if checked else None,
    }
    print_result(facts, render, as_json=as_json)
    raise typer.Exit(1 if listed.unreadable or (checked and checked.problems) else 0)


def _prune(store: BackupStore, keep: int, wait: float) -> dict[str, Any]:
    with store.lock(wait):
        deleted, freed = store.prune(keep)
    return {"deleted": deleted, "freed_bytes": freed}


def _check(store: BackupStore, wait: float) -> BackupCheck:
    from vrag.index.backups.check import check_backups

    with count_progress("Checking") as progress:
        return check_backups(store.directory, wait=wait, progress=functools.partial(progress, "contents"))


class _BackupList(NamedTuple):
    snapshots: list[BackupSnapshot]
    unreadable: list[tuple[str, str]]
    """Names of snapshots, and the reasons that they cannot be read."""
    bytes: int


def _list(store: BackupStore) -> _BackupList:
    snapshots: list[BackupSnapshot] = []
    unreadable: list[tuple[str, str]] = []
    for name in store.names():
        try:
            snapshots.append(store.read(name).snapshot)
        except CollectionError as error:
            unreadable.append((name, error.message))
    return _BackupList(snapshots, unreadable, store.size())


def _echo_list(listed: _BackupList) -> None:
    for snapshot in listed.snapshots:
        made = time.strftime("%Y-%m-%d %H:%M", time.localtime(snapshot.created))
        added = f"{_megabytes(snapshot.added_bytes)} new"
        damaged = "; the collection was damaged" if snapshot.missing else ""
        echo((snapshot.name, "bold"), f"  {made}  {_contents(snapshot)}, {added}", (damaged, "yellow"))
    _echo_problems(listed.unreadable)
    echo(f"Backups: {len(listed.snapshots)}, {_megabytes(listed.bytes)} on disk.")


def _echo_check(checked: BackupCheck) -> None:
    contents = f"{count(checked.objects, 'stored content')} of {count(checked.snapshots, 'backup')}"
    echo(f"Checked {contents}; equal files share one ({duration(checked.seconds)}).")
    _echo_problems((problem.file or "snapshot", problem.detail) for problem in checked.problems)
    if not checked.problems:
        echo(("No problems.", "green"))


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

    Exit status: 0 done, 1 failed, or restored with damage that is listed, 2 wrong usage, 4 another process is
    restoring to TARGET.

    Example: vrag index restore /mnt/backup/reports ./restored --snapshot 20260301
    """
    from vrag.index.backups.restore import restore

    note = f"{target} was not written."
    with note_on_interrupt(note), count_progress("Restoring") as progress:
        report = restore(
            backups, target, snapshot, partial=partial, progress=functools.partial(progress, "files")
        )

    absent = [(name, _MISSING) for name in report.snapshot.missing]

    def render() -> None:
        echo(("Restored", "bold"), f" {report.snapshot.name} to {plain(str(report.directory))}")
        echo(f"  contents   {_contents(report.snapshot)}; {duration(report.seconds)}")
        _echo_problems([*(("left out", detail) for detail in report.missing), *absent])
        if report.missing or absent:
            settings = load_settings(collection=str(report.directory)).settings
            echo(add_location(LocalLocation.repair_hint, settings))
        echo(f"Use it: vrag ask QUESTION --collection {plain(quote_argument(str(report.directory)))}")

    print_result(asdict(report), render, as_json=as_json)
    raise typer.Exit(1 if report.missing or absent else 0)


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
