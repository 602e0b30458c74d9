"""The events of recorded runs as JSON, for tests that change some."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.agent.runs.run_store import RunStore


def read_events(store: RunStore, run: str) -> list[bytes]:
    """Return the events of a run, each as JSON."""
    clauses = "data FROM events WHERE run = (SELECT number FROM runs WHERE id = ?) ORDER BY number"
    return [data for (data,) in store.files.select(clauses, [run])]


def write_events(store: RunStore, run: str, events: Sequence[bytes]) -> None:
    """Replace the events of a run by others, of any content; what lists show of it stays."""
    with store.changing() as connection:
        (number,) = connection.execute("SELECT number FROM runs WHERE id = ?", (run,)).fetchone()
        connection.execute("DELETE FROM events WHERE run = ?", (number,))
        for data in events:
            connection.execute("INSERT INTO events(run, type, data) VALUES (?, '', ?)", (number, data))
        connection.execute(
            "UPDATE events SET type = json_extract(CAST(data AS TEXT), '$.type') "
            "WHERE run = ? AND json_valid(CAST(data AS TEXT)) "
            "AND json_extract(CAST(data AS TEXT), '$.type') IS NOT NULL",
            (number,),
        )


def reopen(store: RunStore, run: str, events: Sequence[bytes] = ()) -> None:
    """Make a run one without its end: with other events, and as if its process had died."""
    write_events(store, run, events or read_events(store, run)[:-1])
    with store.changing() as connection:
        connection.execute(
            "UPDATE runs SET answer = NULL, stop_reason = NULL, outcome = NULL, recorder = '1-gone', "
            "events = ? WHERE id = ?",
            (len(read_events(store, run)), run),
        )
