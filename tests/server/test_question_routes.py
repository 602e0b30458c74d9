"""Suggested questions over HTTP: made in the background, kept by content, and never waited for."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from library_harness import FIRST, Lines, library, until

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from library_harness import Desk

    from vrag.reading.answer import ReadPage


class Asker:
    """Suggests the first words of each page."""

    def __init__(self) -> None:
        self.name = "asker"
        self.go = threading.Event()
        self.go.set()
        self.began = threading.Event()
        self.mended = False
        self.asked: list[str] = []

    def suggest(self, pages: Sequence[ReadPage], most: int) -> tuple[str, ...]:
        self.began.set()
        assert self.go.wait(30)
        self.asked.append(pages[0].item.document_name)
        if pages[0].item.text == "broken" and not self.mended:
            raise OSError("broken")
        return tuple(f"{page.item.text}?" for page in pages[:most])


def questions(desk: Desk, **asked: str) -> tuple[list[str], bool]:
    answer = desk.client.get(f"/collections/{FIRST}/questions", params=asked).raise_for_status().json()
    return [question["text"] for question in answer["questions"]], answer["pending"]


def made(desk: Desk, **asked: str) -> list[str]:
    return until(lambda: told if not (told := questions(desk, **asked))[1] else None)[0]


def test_they_are_made_in_the_background_and_kept(tmp_path: Path) -> None:
    asker = Asker()
    with library(tmp_path, suggester=asker) as desk:
        first = desk.added("a.md", "whales\nbirds")
        desk.added("b.md", "squids")
        asker.go.clear()
        assert questions(desk) == ([], True), "nobody waits"
        asker.go.set()
        assert sorted(made(desk)) == ["birds?", "squids?", "whales?"]
        assert made(desk, document=first) == ["whales?", "birds?"]
        assert questions(desk, limit="1")[0] == made(desk)[:1]
        assert sorted(asker.asked) == ["a.md", "b.md"]
    with library(tmp_path, suggester=asker) as desk:
        assert len(questions(desk)[0]) == 3
        assert len(asker.asked) == 2, "what is known is not made again"
        asker.name = "another"
        assert questions(desk) == ([], True)
        made(desk)
        assert len(asker.asked) == 4


def test_they_begin_with_one_of_each_document(tmp_path: Path) -> None:
    with library(tmp_path, suggester=Asker()) as desk:
        desk.added("a.md", "a1\na2")
        desk.added("b.md", "b1\nb2")
        assert [text[0] for text in made(desk)] in (list("abab"), list("baba"))


def test_they_wait_while_files_are_read(tmp_path: Path) -> None:
    asker, lines = Asker(), Lines()
    with library(tmp_path, lines=lines, suggester=asker) as desk:
        desk.added("a.md", "whales")
        assert lines.began.acquire(timeout=120)
        lines.go.clear()
        job = desk.put("b.md", "birds")
        assert lines.began.acquire(timeout=120)
        assert questions(desk) == ([], True)
        assert asker.asked == []
        lines.go.set()
        desk.ended(job)
        assert sorted(made(desk)) == ["birds?", "whales?"]


def test_a_document_that_fails_has_none_until_it_is_tried_again(tmp_path: Path) -> None:
    asker = Asker()
    with library(tmp_path, suggester=asker) as desk:
        desk.added("a.md", "broken")
        desk.added("b.md", "birds")
        assert made(desk) == ["birds?"]
    asker.mended = True
    with library(tmp_path, suggester=asker) as desk:
        assert sorted(made(desk)) == ["birds?", "broken?"]


def test_those_of_a_deleted_collection_are_not_made(tmp_path: Path) -> None:
    asker = Asker()
    with library(tmp_path, suggester=asker) as desk:
        desk.added("kept.md", "whales")
        desk.client.post("/collections", json={"name": "second"}).raise_for_status()
        place = next(one.collection.directory for one in desk.shelf.open_collections if one.name == "second")
        for name in ("a.md", "b.md"):
            desk.added(name, name, "second")
        asker.go.clear()
        desk.client.get("/collections/second/questions").raise_for_status()
        assert asker.began.wait(30)
        desk.client.delete("/collections/second").raise_for_status()
        asker.go.set()
        assert made(desk) == ["whales?"], "what was queued before has had its turn"
        assert len(asker.asked) == 2, "of the deleted ones only the first had been begun"
        assert not place.exists()
        desk.client.post("/collections", json={"name": "second"}).raise_for_status()
        desk.added("a.md", "a.md", "second")


def test_those_of_another_collection_or_document_are_not_found(tmp_path: Path) -> None:
    with library(tmp_path) as desk:
        assert questions(desk, document="0" * 64) == ([], False)
        assert desk.client.get("/collections/other/questions").status_code == 404
        assert desk.client.get(f"/collections/{FIRST}/questions?document=x").status_code == 422


def test_the_reader_makes_them_of_tables(tmp_path: Path) -> None:
    with library(tmp_path, real=True) as desk:
        desk.added(
            "fares.md", "# Fares\n\nThe single fare of the ferry: 3.50\n\nOpening hours of the office: 9.30\n"
        )
        assert all(text.endswith("?") for text in made(desk))
