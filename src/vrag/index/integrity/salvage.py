"""Reading of the rows of a damaged table: everything that can still be read, in a process of its own.

LanceDB trusts its files: damage may end in an error, a failed assumption, an allocation of many gigabytes, or
a call that never returns. So a child process reads ranges of rows and writes them into a scratch directory. A
range that cannot be read is halved, down to single rows, and of a row that cannot be read its parts are read
one by one. When the child dies or stands still, another one goes on behind the range.

The child opens a directory of links to the files of the table, without the manifests that are damaged or
newer than the version that is to be read.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from vrag.index.schema import arrow
from vrag.index.tables.layout import HINT, list_files, version_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vrag.index.integrity.checksums import RowPart
    from vrag.index.schema import ArrowSchema, ArrowTable

STALL_SECONDS = 60.0
"""Time for which a child may read one range."""
_ROWS = 64
"""Rows of a range, to begin with."""
_MAX_BYTES = 16 << 30
"""Address space of a child: damage may ask for more than there is."""


class Salvage(NamedTuple):
    """The rows of a table that could be read."""

    version: int
    """The version it was read from; 0 if none could be opened."""
    batches: list[ArrowTable]
    """Rows, mapped into memory. Parts that could not be read are empty, and their checksum does not fit."""
    lost: int
    """Number of rows that could not be read at all."""


def salvage_rows(
    table: Path, schema: ArrowSchema, parts: Sequence[RowPart], faulty: set[str], scratch: Path
) -> Salvage:
    """Read the rows of the newest version of the table in a directory that can be opened.

    `faulty` are the names of its files that are damaged; the rows are written into the folder `scratch`.
    Raises `OSError` if it cannot be written to.
    """
    names = list_files(table)
    versions = {name: version for name in names if (version := version_of(name))}
    for version in sorted(versions.values(), reverse=True):
        left_out = {name for name, number in versions.items() if number > version} | faulty
        if any(number == version for name, number in versions.items() if name in faulty):
            continue
        folder = Path(tempfile.mkdtemp(dir=scratch))
        _link_files(table, folder / "database" / table.name, names - (left_out & versions.keys()))
        reader = _Reader(folder, table.stem, schema, parts)
        if reader.run():
            return Salvage(version, list(reader.batches()), reader.lost)
        shutil.rmtree(folder, ignore_errors=True)
    return Salvage(0, [], 0)


def _link_files(table: Path, target: Path, names: set[str]) -> None:
    for name in names:
        if name.endswith(HINT):
            continue
        link = target / name
        link.parent.mkdir(parents=True, exist_ok=True)
        try:
            link.symlink_to(table.absolute() / name)
        except OSError:
            shutil.copyfile(table / name, link)


class _Reader:
    """A reader of all rows of one version, by children."""

    def __init__(self, folder: Path, name: str, schema: ArrowSchema, parts: Sequence[RowPart]) -> None:
        self.lost = 0
        self._folder, self._name, self._schema = folder, name, schema
        own = set(schema.names)
        self._groups = [list(part.columns) for part in parts if part.columns and own.issuperset(part.columns)]
        covered = {name for group in self._groups for name in group}
        self._groups += [[name] for name in schema.names if name not in covered]
        (folder / "rows").mkdir()

    def run(self) -> bool:
        """Read; return whether the table could be opened."""
        ranges: list[tuple[int, int]] | None = None
        while ranges is None or ranges:
            count, begun, failed = self._ask(ranges)
            if count is None and ranges is None:
                return False
            self.lost += failed
            if begun is None:
                break
            ranges = _ranges(count or 0) if ranges is None else ranges
            start, end = begun
            rest = [(max(a, end), b) for a, b in ranges if b > end]
            if end - start > 1:
                middle = (start + end) // 2
                ranges = [(start, middle), (middle, end), *rest]
            else:
                self.lost += 1
                ranges = rest
        return True

    def batches(self) -> Iterator[ArrowTable]:
        """Yield what was read, with all columns of the schema."""
        pa = arrow()
        for path in sorted((self._folder / "rows").glob("*.arrow")):
            with pa.memory_map(str(path)) as file:
                yield _complete(pa.ipc.open_file(file).read_all(), self._schema)

    def _ask(self, ranges: list[tuple[int, int]] | None) -> tuple[int | None, tuple[int, int] | None, int]:
        """Run a child for these ranges, None for all.

        Returns the number of rows, the range at which it died, and how many rows it lost.
        """
        order = {"ranges": ranges, "groups": self._groups, "name": self._name, "folder": str(self._folder)}
        path = os.pathsep.join(
            filter(None, [str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")])
        )
        child = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path},
        )
        stdin = child.stdin
        assert stdin is not None
        with child:
            stdin.write(json.dumps(order).encode())
            stdin.close()
            count, begun, lost = None, None, 0
            try:
                for line in _lines(child):
                    count = line.get("rows", count)
                    begun = tuple(line["begin"]) if "begin" in line else None
                    lost += line.get("lost", 0)
            finally:
                with suppress(OSError):
                    child.kill()
        return count, begun, lost


def _lines(child: subprocess.Popen[bytes]) -> Iterator[dict[str, Any]]:
    """Yield what a child says, until it ends or says nothing for too long."""
    import queue
    import threading

    assert child.stdout is not None
    stream, received = child.stdout, queue.Queue[bytes]()

    def receive() -> None:
        for line in stream:
            received.put(line)
        received.put(b"")

    threading.Thread(target=receive, daemon=True).start()
    with suppress(queue.Empty):
        while line := received.get(timeout=STALL_SECONDS):
            with suppress(ValueError):
                yield json.loads(line)


def _ranges(count: int) -> list[tuple[int, int]]:
    return [(at, min(at + _ROWS, count)) for at in range(0, count, _ROWS)]


def _complete(rows: ArrowTable, schema: ArrowSchema) -> ArrowTable:
    """Add the columns that could not be read: numbers and texts are empty, what may be missing is missing."""
    pa = arrow()
    columns: list[Any] = []
    for field in schema:
        if field.name in rows.column_names:
            columns.append(rows[field.name].cast(field.type))
            continue
        empty: Any = [] if hasattr(field.type, "value_type") else 0
        if field.type in {pa.string(), pa.binary()}:
            empty = "" if field.type == pa.string() else b""
        value: Any = None if field.nullable else empty
        columns.append(pa.array([value] * rows.num_rows, field.type))
    return pa.table(columns, schema=schema)


class _Child:
    """The child's part."""

    def __init__(self, order: dict[str, Any]) -> None:
        from vrag.index.tables.lance import open_database

        self._folder, self._groups = Path(order["folder"]), order["groups"]
        database = open_database(str(self._folder / "database"))
        self._handle: Any = database.open_table(order["name"])
        stored = set(self._handle.schema.names)
        self._groups = [group for group in order["groups"] if stored.issuperset(group)]
        self._columns = list(dict.fromkeys(name for group in self._groups for name in group))

    def run(self, ranges: Sequence[tuple[int, int]] | None) -> None:
        count = int(self._handle.count_rows())
        self._say(rows=count)
        for start, end in _ranges(count) if ranges is None else ranges:
            self._read(start, end)

    def _read(self, start: int, end: int) -> None:
        self._say(begin=[start, end])
        try:
            rows = self._take(start, end, self._columns)
        except BaseException:  # noqa: BLE001 - a panic is a BaseException
            if end - start > 1:
                middle = (start + end) // 2
                self._read(start, middle)
                self._read(middle, end)
                return
            rows = self._read_parts(start)
        if rows is None:
            self._say(lost=1)
            return
        pa = arrow()
        path = self._folder / "rows" / f"{start:012d}.arrow"
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, rows.schema) as out:
            out.write_table(rows)
        self._say(done=end - start)

    def _read_parts(self, row: int) -> ArrowTable | None:
        """Read the parts of a row that can be read; None if its first, which says what it is, cannot."""
        found: ArrowTable = None
        for group in self._groups:
            try:
                part = self._take(row, row + 1, group)
            except BaseException:  # noqa: BLE001
                if found is None:
                    return None
                continue
            found = part if found is None else found
            for name in group:
                if name not in found.column_names:
                    found = found.append_column(part.schema.field(name), part[name])
        return found

    def _take(self, start: int, end: int, columns: list[str]) -> ArrowTable:
        rows = self._handle.take_offsets(list(range(start, end))).select(columns).to_arrow().select(columns)
        rows.validate(full=True)
        if rows.num_rows != end - start:
            raise ValueError("Rows are missing.")
        return rows

    def _say(self, **facts: object) -> None:
        sys.stdout.write(json.dumps(facts) + "\n")
        sys.stdout.flush()


def _limit_memory() -> None:
    if sys.platform != "win32":
        import resource

        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_AS, (_MAX_BYTES, _MAX_BYTES))


if __name__ == "__main__":
    _limit_memory()
    given = json.load(sys.stdin)
    _Child(given).run(given["ranges"])
    os._exit(0)  # LanceDB's threads would take ten seconds to end
