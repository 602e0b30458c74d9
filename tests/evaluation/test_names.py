from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vrag.evaluation.relevance import DocumentNames
from vrag.types import Document, DocumentStatus, item_id

IDS = tuple(f"{at:064x}"[::-1] for at in range(4))
FILES = st.sampled_from(("a.pdf", "b.pdf", "c.pdf"))


def document(id: str, name: str, items: int = 3) -> Document:
    return Document(
        path=f"/{id}/{name}", id=id, name=name, size=1, mtime_ns=1, status=DocumentStatus.READY, items=items
    )


NAMES = DocumentNames.of([document(IDS[0], "a.pdf"), document(IDS[0], "b.pdf"), document(IDS[1], "c.pdf")])


def test_a_document_has_the_names_of_all_its_files() -> None:
    assert NAMES.called(IDS[0], "a.pdf") == {"a.pdf", "b.pdf"}


def test_an_item_tells_its_document() -> None:
    assert NAMES.called(item_id(IDS[0], 12), "a.pdf") == {"a.pdf", "b.pdf"}


def test_a_document_that_is_not_known_has_the_name_by_which_it_was_found() -> None:
    assert NAMES.called(IDS[3], "z.pdf") == {"z.pdf"}
    assert DocumentNames().among({"z.pdf"}, IDS[3], "z.pdf") == "z.pdf"


def test_a_document_without_items_cannot_be_found() -> None:
    names = DocumentNames.of([document(IDS[2], "e.pdf", items=0)])
    assert names.among({"e.pdf"}, IDS[2], "e.pdf") is None
    assert "e.pdf" not in names.by_name


def test_names_of_the_same_bytes_are_one() -> None:
    wanted = {"a.pdf", "b.pdf", "c.pdf", "z.pdf"}
    assert NAMES.distinct(wanted) == {"a.pdf": "a.pdf", "b.pdf": "a.pdf", "c.pdf": "c.pdf", "z.pdf": "z.pdf"}
    assert NAMES.distinct({"b.pdf"}) == {"b.pdf": "b.pdf"}


@given(st.lists(st.tuples(st.sampled_from(IDS), FILES), max_size=8), st.frozensets(FILES))
def test_whatever_is_wanted_is_found_under_a_distinct_name(
    held: list[tuple[str, str]], wanted: frozenset[str]
) -> None:
    names = DocumentNames.of([document(id, name) for id, name in held])
    distinct = names.distinct(wanted)
    assert distinct.keys() == wanted
    for id, name in held:
        found = names.among(wanted, id, name)
        assert (found is None) == (not names.called(id, name) & wanted)
        assert found is None or found in distinct.values()
    for name in distinct.values():
        owners = names.by_name.get(name, frozenset())
        assert not owners or any(names.among(wanted, id, name) == name for id in owners)
