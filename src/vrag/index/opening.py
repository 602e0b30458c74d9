"""Opening a collection wherever it is: in a directory, published at a URL, or in a backup."""

from __future__ import annotations

from pathlib import Path

from vrag.index.collection import Collection
from vrag.index.location import DESCRIPTION, is_url


def open_collection(place: str | Path, *, wait: float = 0.0, durable: bool = True) -> Collection:
    """Open a collection by its directory, the URL at which it is published, or the directory of a backup.

    The last two can only be read. `wait` and `durable` as for `Collection.open`. Raises `CollectionError` if
    there is none, or it cannot be opened.
    """
    if is_url(place):
        from vrag.index.remote.remote_collection import RemoteLocation

        remote = RemoteLocation(str(place))
        return Collection(remote, remote.open_store())
    path = Path(place).absolute()
    if (path / DESCRIPTION).is_file():
        from vrag.index.backups.store import BackupStore

        snapshot = BackupStore.open(path.parent).open_snapshot(path.name)
        return Collection(snapshot, snapshot.open_store())
    return Collection.open(place, wait=wait, durable=durable)
