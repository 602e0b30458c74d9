"""What tests of backups share: writing to a collection, and looking at files and at what is restored."""

from __future__ import annotations

import os
import shutil
from datetime import timedelta
from pathlib import Path

from vrag.index.backups.restore import restore
from vrag.index.backups.store import BackupStore
from vrag.index.build import add, add_sources
from vrag.index.collection import Collection
from vrag.index.embed_items import local
from vrag.index.maintenance import compact, remove

AT_ONCE = timedelta(milliseconds=1)
"""Age of old versions that compaction deletes."""
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


def write_run(collection: Collection, name: str, events: bytes) -> Path:
    run = collection.runs_dir / name
    (run / "files").mkdir(parents=True, exist_ok=True)
    (run / "files" / "picture.jpg").write_bytes(b"picture of " + name.encode())
    (run / "events.jsonl").write_bytes(events)
    (run / "meta.json").write_text('{"owner": "somebody"}')
    (run / "lock").touch()
    return run


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
        compact(collection, keep=AT_ONCE)


def flip(backups: Path, beginning: str) -> str:
    """Flip a bit of the object of the first file of such a name; return the name."""
    store = BackupStore(backups)
    files = store.read(store.find("last"))[1]
    file = next(file for file in files if file.name.startswith(beginning))
    path = store.objects.path(file.sha256)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    return file.name
