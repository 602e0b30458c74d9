"""`GET /conflicts`."""

from __future__ import annotations

from server_harness import ask

from vrag.server.app import create_app
from vrag.testing import MemorySearcher, passage

REPORT = passage("report.md", 1, "The harbour of Saltby handled 84,210 passengers in 2024.")
MEMO = passage("memo.md", 1, "In 2024, the harbour of Saltby handled 84,120 passengers.")


def test_both_sides_of_a_conflict_are_sent() -> None:
    app = create_app(MemorySearcher((REPORT, MEMO)), corpora=lambda: ("ferries",))

    for path in ("/conflicts", "/conflicts?collection=ferries"):
        response = ask(app, "GET", path)

        assert response.status_code == 200, response.text
        (conflict,) = response.json()["conflicts"]
        assert [side["document"] for side in conflict["sides"]] == ["memo.md", "report.md"]
        assert [side["value"] for side in conflict["sides"]] == ["84,120", "84,210"]
        assert response.json()["documents"] == 2


def test_an_unknown_collection_is_refused() -> None:
    app = create_app(MemorySearcher((REPORT, MEMO)), corpora=lambda: ("ferries",))

    assert ask(app, "GET", "/conflicts?collection=trains").status_code == 404
