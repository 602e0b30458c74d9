"""What tests of backups share: writing to a collection, and looking at files and at what is restored."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from vrag.agent.budget import StopReason
from vrag.agent.events import RunFailed
from vrag.agent.runs.run_store import RunStore
from vrag.index.backups.restore import restore
from vrag.index.backups.store import BackupStore
from vrag.index.build import add, add_sources
from vrag.index.collection import Collection
from vrag.index.maintenance import compact, remove
from vrag.index.vectors.embed_items import local

LONG_AGO = 1_700_000_000 * 10**9


def upload(collection: Collection, name: str, text: str) -> Path:
    """Add a file as a server does that was sent it."""
    path = collection.directory / "uploads" / name
    path.parent.mkdir(exist_ok=True)
    part = path.with_name(".1.part")
    part.write_text(text)
    os.utime(part, ns=(LONG_AGO, LONG_AGO))
    part.replace(path)
    add_sources(collection, [path], local(None))
    return path


def write_run(collection: Collection, run: str) -> None:
    """Record a run with a picture of its own and one that all have."""
    pictures = (b"picture of " + run.encode(), b"picture of all")
    files = {f"{hashlib.sha256(picture).hexdigest()}.jpg": picture for picture in pictures}
    RunStore(collection.runs_dir, collection.directory).add(run, [failure_of(run)], files)


def failure_of(run: str) -> RunFailed:
    """Return the one event of a run."""
    facts = {"boundary": "ModelError", "message": f"{run} has failed.", "stop_reason": StopReason.MODEL_ERROR}
    return RunFailed.model_validate({"run_id": run, "seq": 0, "ts": 1.0, "step": 0, **facts})


def run_contents(collection: Collection) -> dict[str, object]:
    """Return all runs with the bytes of their files."""
    store = RunStore(collection.runs_dir, collection.directory)
    names = {row: store.file_names(row.id) for row in store.rows()}
    return {
        row.id: (row, {name: store.read_file(row.id, *name.split(".")) for name in files})
        for row, files in names.items()
    }


def age(directory: Path) -> None:
    """Make all files old: one that has just changed is read again."""
    for path in directory.rglob("*"):
        if path.is_file() and path.suffix != ".txt":  # the manifest has the times of documents
            os.utime(path, ns=(LONG_AGO, LONG_AGO))


def files_below(directory: Path) -> dict[str, bytes]:
    paths = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in paths}


def restored(backups: Path, snapshot: str = "last") -> Collection:
    target = backups.with_name("restored")
    shutil.rmtree(target, ignore_errors=True)
    restore(backups, target, snapshot)
    return Collection.open(target)


def change_content(collection: Collection, docs: Path, changes: str) -> None:
    if "documents" in changes:
        remove(collection, ["a.txt"])
        (docs / "b.txt").write_text("pic six\nseven")
        add(collection, [docs / "b.txt"])
    if "uploads" in changes:
        upload(collection, "early.txt", "this replaces it")
        sent = collection.directory / "uploads" / "sent.txt"
        remove(collection, [sent])
        sent.unlink()
    if "versions" in changes:
        compact(collection)


def flip(backups: Path, beginning: str) -> str:
    """Flip a bit of the first content of the newest backup by such a name; return the name."""
    name, path = next(entry for entry in contents_of(backups).items() if entry[0].startswith(beginning))
    flip_bit(path)
    return name


def flip_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def flip_pages(database: Path) -> None:
    """Flip a bit in all pages but the first."""
    data = bytearray(database.read_bytes())
    for page in range(4096, len(data), 4096):
        data[page + 100] ^= 1
    database.write_bytes(data)


def contents_of(backups: Path) -> dict[str, Path]:
    """Return where the files of the newest backup are stored, by their paths in the collection."""
    store = BackupStore(backups)
    files = store.contents(store.read(store.find("last")))
    return {name: store.blobs.path(sha256) for name, sha256 in sorted(files.items())}
