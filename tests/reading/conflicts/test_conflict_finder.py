"""Conflicts between documents: what is told, and what is no conflict."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.reading.answer import ReadPage
from vrag.reading.conflicts.alignment import ConflictKind
from vrag.reading.conflicts.editions import DocumentFacts
from vrag.reading.conflicts.finder import Conflict, find_conflicts
from vrag.testing import passage
from vrag.types import ItemFacts, TextCell, TextTable


def compare(texts: Mapping[str, str], mtimes: Mapping[str, int] | None = None) -> list[Conflict]:
    """Find the conflicts of text files, each one passage."""
    pages = {name: ReadPage(passage(name, 1, text)) for name, text in texts.items()}
    by_item = {page.item.id: page for page in pages.values()}
    facts = (
        DocumentFacts(page.item.document, name, (mtimes or {}).get(name, 0)) for name, page in pages.items()
    )
    return find_conflicts(
        [(fact, [page]) for fact, page in zip(facts, pages.values(), strict=True)], by_item.__getitem__
    )


PASSENGERS = "The harbour of Saltby handled 84,210 passengers in 2024."
WAREHOUSE = "The Oslo warehouse has a capacity of 4,200 pallets."
DEADLINE = "The deadline for applications to the Nansen programme is 3 May 2027."
MANAGER = "The project manager of the Fulmar project of Nordlys in Saltby is Anna Berg."
DOGS = "Dogs are allowed on board the ferry Fulmar during the crossing."
FEE = "The fee of the Nansen programme is 15 euros."
REVENUE = "Revenue of Nordlys AS was 46.3 billion in 2024."


@pytest.mark.parametrize(
    ("one", "other", "kind", "values"),
    [
        (PASSENGERS, PASSENGERS.replace("84,210", "84,120"), "number", ("84,210", "84,120")),
        (WAREHOUSE, "Capacity of the warehouse in Oslo: 4,500 pallets", "number", ("4,200", "4,500")),
        (
            "The budget of the Fulmar project is 3.2 million euros.",
            "According to the owner, the Fulmar project has a budget of €3,400,000.",
            "number",
            ("3.2 million euros", "€3,400,000"),
        ),
        (
            "62 % of the respondents of the survey in Orla use the ferry.",
            "In Orla, 26 percent of the respondents of the survey use the ferry.",
            "number",
            ("62 %", "26 percent"),
        ),
        (
            DEADLINE,
            "Applications to the Nansen programme: deadline 2027-05-13",
            "date",
            ("3 May 2027", "2027-05-13"),
        ),
        (
            "The contract with Sandvik Ltd ends on 31 December 2027.",
            "The Sandvik Ltd contract expires on 31 December 2028.",
            "date",
            ("31 December 2027", "31 December 2028"),
        ),
        (
            "Sandvik Museum was founded in 1987 by fishermen.",
            "Sandvik Museum was founded in 1978 by fishermen.",
            "date",
            ("1987", "1978"),
        ),
        (
            "The ferry from Orla departs at 9:15 am on weekdays.",
            "The ferry from Orla departs at 09:30 on weekdays.",
            "date",
            ("9:15 am", "09:30"),
        ),
        (MANAGER, MANAGER.replace("Anna Berg", "Jonas Lind"), "name", ("Anna Berg", "Jonas Lind")),
        (
            "The pipeline from Orla to Saltby is 42 km long.",
            "The pipeline from Orla to Saltby is 42 miles long.",
            "unit",
            ("42 km", "42 miles"),
        ),
        (DOGS, DOGS.replace("allowed", "prohibited"), "negation", ("allowed", "prohibited")),
        (DOGS, DOGS.replace("are", "are not"), "negation", ("allowed", "not allowed")),
    ],
)
def test_statements_about_the_same_that_disagree_are_told(
    one: str, other: str, kind: str, values: tuple[str, str]
) -> None:
    (conflict,) = compare({"a.txt": one, "b.txt": other})

    assert conflict.kind == ConflictKind(kind)
    assert tuple(side.value for side in conflict.sides) == values
    assert [side.name for side in conflict.sides] == ["a.txt", "b.txt"]
    assert values[0] in conflict.sides[0].quote


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (PASSENGERS, PASSENGERS),
        (REVENUE, "Revenue of Nordlys AS was 46,298 million in 2024."),
        (REVENUE, "Revenue of Nordlys AS was 41.1 billion in 2023."),
        (REVENUE, "Revenue of Nordlys AS is expected to be 48 billion in 2024."),
        (REVENUE, "Revenue of Nordlys AS in Norway was 12 billion in 2024."),
        (DEADLINE, DEADLINE.replace("3 May 2027", "2027-05-03")),
        (DEADLINE, DEADLINE.replace("3 May 2027", "05/03/2027")),
        ("The route to Saltby is 26 miles long in all.", "The route to Saltby is 42 km long in all."),
        (FEE, "Until 2024 the fee of the Nansen programme was 12 euros."),
        (FEE, "For example, the fee of the Nansen programme is 20 euros."),
        (FEE, "The fee of the Nansen programme is 20 dollars."),
        (FEE, "The fee of the Nansen programme is 20 or 25 euros."),
        ("The Oslo branch has 12 employees.", "The Bergen branch has 14 employees."),
        ("The Kestrel A200 pump weighs 24 kg.", "The Kestrel A300 pump weighs 31 kg."),
        ("About 500 people visited Sandvik Museum.", "512 people visited Sandvik Museum."),
        (
            "In the first quarter Nordlys sold 120 boats in Norway.",
            "In the second quarter Nordlys sold 130 boats in Norway.",
        ),
        ("Anna Berg joined the board of Nordlys.", "Jonas Lind joined the board of Nordlys."),
        ("Oslo is a large city of Norway.", "Bergen is a large city of Norway."),
        (MANAGER, MANAGER.replace("Anna Berg", "A. Berg")),
        ("Route 5 from Orla to Saltby is closed.", "Route 7 from Orla to Saltby is closed."),
        ("A total of 34 people came.", "A total of 36 people came."),
        (
            "Court of Saltby, filed by Nordlys, page: 3 of 17",
            "Court of Saltby, filed by Nordlys, page: 6 of 17",
        ),
        ("The ferry from Orla to Saltby departs at 9:15.", "The ferry from Saltby to Orla departs at 9:30."),
        ("The Fulmar has a length of 42 m in all.", "The Fulmar has a width of 12 m in all."),
        ("The chair of the audit panel is Anna Berg.", "The chair of the fees panel is Jonas Lind."),
        (
            "(4) In the Operating Procedures chapter of the manual, stop.",
            "(5) In the Operating Procedures chapter of the manual, stop.",
        ),
        (
            "Include Docket No. FAA–2020–0686 in the letter.",
            "Include Docket No. FAA–2020–0746 in the letter.",
        ),
    ],
)
def test_what_is_of_another_thing_or_the_same_value_is_no_conflict(one: str, other: str) -> None:
    assert compare({"a.txt": one, "b.txt": other}) == []


@given(st.integers(2, 10**7), st.integers(2, 10**7))
def test_two_whole_numbers_conflict_if_neither_is_the_other_rounded(one: int, other: int) -> None:
    text = "The harbour of Saltby handled {:,} passengers."
    found = compare({"a.txt": text.format(one), "b.txt": text.format(other)})

    if one == other:
        assert found == []
    for conflict in found:
        assert {side.value.replace(",", "") for side in conflict.sides} == {str(one), str(other)}
    if abs(one - other) > 0.5 * max(one, other) and not {one, other} & set(range(1900, 2101)):
        assert len(found) == 1


@given(st.integers(10_000, 10**8))
def test_a_number_and_the_same_rounded_to_thousands_do_not_conflict(number: int) -> None:
    rounded = f"The harbour of Saltby handled {number / 1000:.1f} thousand passengers."

    assert compare({"a.txt": f"The harbour of Saltby handled {number:,} passengers.", "b.txt": rounded}) == []


def test_annual_reports_of_other_years_do_not_conflict_and_two_revisions_do() -> None:
    text = "The harbour of Saltby handled {} passengers.\n\nIt has two piers and one crane."
    reports = {
        f"report-{year}.txt": f"Report {year}\n\n{text.format(n)}" for year, n in ((2023, 8421), (2024, 9173))
    }
    editions = {
        "1-report-2023.txt": f"Report 2023, draft\n\n{text.format(8421)}",
        "2-report-2024.txt": f"Report 2024, revised edition\n\n{text.format(9173)}",
    }

    assert compare(reports) == []
    (conflict,) = compare(editions)
    assert conflict.newer == 1
    assert [side.revision for side in conflict.sides] == [("draft",), ("revised",)]


LEASE = """Lease agreement between {0} and {1}

The term of this lease is {2} months.

The monthly rent is payable to {0} on the first day.

{1} shall keep the premises clean.

The deposit of {1} is {3} euros.

Notice of termination must be given three months before the end of the lease."""


def test_contracts_of_one_template_with_other_parties_do_not_conflict() -> None:
    leases = {
        "lease-1.txt": LEASE.format("Acme", "Birch", 24, "3,000"),
        "lease-2.txt": LEASE.format("Cedar", "Dune", 36, "5,000"),
    }
    amended = {
        "lease-1.txt": LEASE.format("Acme", "Birch", 24, "3,000"),
        "lease-2.txt": LEASE.format("Acme", "Birch", 36, "3,000"),
    }

    assert compare(leases) == []
    assert [conflict.sides[1].value for conflict in compare(amended)] == ["36 months"]


RULES = """Rules of the rowing club Ness

The boats are kept in the shed at the pier.

Every rower signs the book before a trip.

Oars are cleaned after use.

{}"""


@pytest.mark.parametrize(
    ("one", "other", "kind", "values"),
    [
        ("Guests may row {} a year.", ("three times", "five times"), "number", ("three times", "five times")),
        ("Life jackets are worn until {}.", ("April", "May"), "date", ("April", "May")),
        ("Repairs are done by {} of Orla.", ("Vik Marine", "Torsnes Boats"), "name", None),
        ("The course is {} long.", ("4 km", "4 miles"), "unit", ("4 km", "4 miles")),
        ("The oars are on the {} floor.", ("5th", "6th"), "number", ("5th", "6th")),
        (
            "Juniors {} row alone at dusk.",
            ("may", "may not"),
            "negation",
            ("may row", "may not row"),
        ),
        ("The fee covers all boats {} skiffs.", ("including", "except"), "negation", ("including", "except")),
    ],
)
def test_a_small_part_that_differs_in_two_editions_is_told(
    one: str, other: tuple[str, str], kind: str, values: tuple[str, str] | None
) -> None:
    texts = {f"{name}.txt": RULES.format(one.format(part)) for name, part in zip("ab", other, strict=True)}

    (conflict,) = compare(texts)

    assert conflict.kind == ConflictKind(kind)
    assert tuple(side.value for side in conflict.sides) == (values or other)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("The key lies in the hut.", "The key lies in the cabin."),
        ("Members: the fee is 90 euros.", "Members: the fee is €90."),
        ("The club has a bar but no kitchen.", "The club has a bar but no kitchen."),
    ],
)
def test_other_words_in_an_edition_are_no_conflict(first: str, second: str) -> None:
    assert compare({"a.txt": RULES.format(first), "b.txt": RULES.format(second)}) == []


def test_an_edition_is_one_whatever_its_title_calls_it() -> None:
    text = RULES.format("Life jackets are worn until {}.").replace("Rules", "{}Rules", 1)
    texts = {
        "a.txt": text.format("Regatta harbour: ", "April"),
        "b.txt": text.format("Draft, extract: ", "May"),
    }

    (conflict,) = compare(texts)

    assert [side.value for side in conflict.sides] == ["April", "May"]


def test_a_short_extract_with_rewritten_statements_is_an_edition() -> None:
    text = """{}

Oars {} after use.

Every {} rower signs the book before each trip of the day.

The {} boats of the club lie in the old shed at the pier.

Members meet on the {} floor of the old boat house each week."""
    texts = {
        "a.txt": text.format("Rules of the club Ness", "are cleaned", "young", "red", "5th"),
        "b.txt": text.format("Rules of the club Ness", "are cleaned", "new", "blue", "6th"),
    }

    assert "5th" in [conflict.sides[0].value for conflict in compare(texts)]


def test_forms_of_one_template_about_other_parties_are_no_editions() -> None:
    other = RULES.replace("club Ness", "club Orla").format("Guests row 5 times. Orla is open.")

    assert compare({"a.txt": RULES.format("Guests row 3 times. Ness is open."), "b.txt": other}) == []


def test_minutes_of_one_series_do_not_conflict() -> None:
    minutes = "Minutes of the board of Nordlys, {}\n\nPresent were {} members of the board of Nordlys."

    assert (
        compare({"m1.txt": minutes.format("3 March 2025", 7), "m2.txt": minutes.format("7 April 2025", 9)})
        == []
    )


def test_a_value_for_which_the_other_document_has_several_is_not_told() -> None:
    both = f"{PASSENGERS.replace('84,210', '91,000')}\n\nOverview. {PASSENGERS}"

    assert compare({"a.txt": PASSENGERS, "b.txt": both}) == []


def test_a_cell_of_a_table_conflicts_with_a_sentence() -> None:
    text = "Year Staff of the Orla yard\n2023 310\n2024 326"
    cells = ((0, 0, 0, 4), (0, 1, 5, 27), (1, 0, 28, 32), (1, 1, 33, 36), (2, 0, 37, 41), (2, 1, 42, 45))
    table = TextTable(tuple(TextCell(row, column, 1, 1, *span) for row, column, *span in cells), 1, 1)
    item = passage("a.md", 1, text)
    object.__setattr__(item, "facts", ItemFacts(tables=(table,)))
    other = passage("b.md", 1, "In 2024, the Orla yard had a staff of 362.")
    pages = {one.id: ReadPage(one) for one in (item, other)}
    documents = [(DocumentFacts(one.document, one.document_name), [pages[one.id]]) for one in (item, other)]

    (conflict,) = find_conflicts(documents, pages.__getitem__)

    assert [side.value for side in conflict.sides] == ["326", "362"]
    assert conflict.sides[0].quote == "2024 · Staff of the Orla yard: 326"


def test_a_key_of_a_table_that_goes_on_below_is_one() -> None:
    def find(below: str) -> list[Conflict]:
        lines = ("Item", "Value", "Fee for a boat of the Orla yard", "€60", below)
        text = "\n".join(lines)
        starts = [sum(len(line) + 1 for line in lines[:number]) for number in range(len(lines))]
        places = ((0, 0), (0, 1), (1, 0), (1, 1), (2, 0))
        cells = tuple(
            TextCell(row, column, 1, 1, start, start + len(line))
            for (row, column), start, line in zip(places, starts, lines, strict=True)
        )
        item = passage("a.md", 1, text)
        object.__setattr__(item, "facts", ItemFacts(tables=(TextTable(cells, 1, 1),)))
        other = passage("b.md", 1, "The fee for a boat of the Orla yard is €50.")
        pages = {one.id: ReadPage(one) for one in (item, other)}
        documents = [
            (DocumentFacts(one.document, one.document_name), [pages[one.id]]) for one in (item, other)
        ]
        return find_conflicts(documents, pages.__getitem__)

    assert [conflict.sides[0].value for conflict in find("Deposit")] == ["€60"]
    assert find("until the end of 2019") == []


def test_the_newer_document_is_shown_by_its_date_or_that_of_its_file() -> None:
    other = PASSENGERS.replace("84,210", "84,120")
    dated = {"a.txt": f"Dated 3 May 2025\n\n{PASSENGERS}", "b.txt": f"Memo\n\n2 March 2025\n\n{other}"}
    day = 86_400 * 10**9
    files = {"a.txt": PASSENGERS, "b.txt": other}

    (by_date,) = compare(dated)
    (by_file,) = compare(files, {"a.txt": 19_000 * day, "b.txt": 19_010 * day})
    (unknown,) = compare(files)

    assert [by_date.newer, by_file.newer, unknown.newer] == [0, 1, None]
    assert [side.dated for side in by_date.sides] == ["2025-05-03", "2025-03-02"]


def test_pages_have_the_rectangles_of_the_statement_and_of_its_value() -> None:
    from vrag.testing import page

    texts = {"a.pdf": PASSENGERS, "b.pdf": PASSENGERS.replace("84,210", "84,120")}
    pages = {name: ReadPage(page(name, 1, text)) for name, text in texts.items()}
    by_item = {one.item.id: one for one in pages.values()}
    documents = [(DocumentFacts(one.item.document, name), [one]) for name, one in pages.items()]

    (conflict,) = find_conflicts(documents, by_item.__getitem__)

    for side in conflict.sides:
        assert side.page == 1
        assert side.box is not None
        (mark,) = side.marks
        assert mark.intersect(side.box).area == pytest.approx(mark.area)
        assert mark.area < 0.5 * side.box.area
