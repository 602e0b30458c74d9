"""Facts of two documents in other forms: sentences, labels, tables, and answers to questions."""

from __future__ import annotations

import pytest

from vrag.reading.answer import ReadPage
from vrag.reading.conflicts.alignment import ConflictKind
from vrag.reading.conflicts.assertions import read_assertions
from vrag.reading.conflicts.editions import DocumentFacts
from vrag.reading.conflicts.fact_words import root
from vrag.reading.conflicts.finder import Conflict, find_conflicts
from vrag.reading.conflicts.stated_facts import FactKind, find_facts
from vrag.testing import passage
from vrag.text.terms import stem

LEASE = """Lease of 14 Bramble Court

The monthly rent of the flat is £1,180. The lease lasts two years. Smoking is not permitted in the flat.
The agent for repairs is Dovecote Services. The tenancy begins on 1 September 2025."""
CARD = """Facts about 14 Bramble Court

{}"""


def compare(one: str, other: str) -> list[Conflict]:
    """Find the conflicts of two text files, each one passage."""
    pages = [ReadPage(passage(name, 1, text)) for name, text in (("lease.md", one), ("other.md", other))]
    by_item = {page.item.id: page for page in pages}
    documents = [(DocumentFacts(page.item.document, page.item.document_name), [page]) for page in pages]
    return find_conflicts(documents, by_item.__getitem__)


@pytest.mark.parametrize(
    ("text", "kind", "values"),
    [
        ("Please pay the rent of £1,280 each month.", "number", ("£1,180", "£1,280")),
        ("Monthly rent: £1,280", "number", ("£1,180", "£1,280")),
        ("What is the monthly rent?\n\n£1,280.", "number", ("£1,180", "£1,280")),
        ("Q: How much is the monthly rent?\n\nA: It is £1,280.", "number", ("£1,180", "£1,280")),
        ("Duration of the lease: 3 years", "number", ("two years", "3 years")),
        ("Smoking is allowed in the flat.", "negation", ("not permitted", "allowed")),
        ("Is smoking permitted in the flat?\n\nYes.", "negation", ("not permitted", "Yes")),
        ("Agent for repairs: Marlow Finch", "name", ("Dovecote Services", "Marlow Finch")),
        ("Beginning of the tenancy: 1 October 2025", "date", ("1 September 2025", "1 October 2025")),
    ],
)
def test_a_fact_that_another_form_states_otherwise_is_told(
    text: str, kind: str, values: tuple[str, str]
) -> None:
    (conflict,) = compare(LEASE, CARD.format(text))

    assert conflict.kind == ConflictKind(kind)
    assert tuple(side.value.strip(".") for side in conflict.sides) == values
    assert [side.name for side in conflict.sides] == ["lease.md", "other.md"]


@pytest.mark.parametrize(
    "text",
    [
        "Please pay the rent of £1,180.00 each month.",
        "What was the monthly rent until the end of 2019?\n\nIt was £980.",
        "Duration of the lease: 24 months",
        "Until 2023 the monthly rent was £1,020.",
        "A monthly rent of £1,250 was proposed.",
        "The average monthly rent is £1,250.",
        "The rent of the flat is £14,160 per year.",
        "In winter, the monthly rent of the garage is £60.",
        "Monthly rent: £1,180; after 2027: £1,250",
        "Smoking is permitted on the balcony.",
        "Is smoking permitted in the flat?\n\nNo.",
        "The agent for lettings is Marlow Finch.",
        "Updated: 1 October 2025",
        "How long does the notice take?\n\nIt is 3 years.",
        "The monthly rent at Halden Freight is £640.",
        "Monthly rent of the garage: £60",
        "What is the monthly rent, as proposed and not decided?\n\nIt is £1,280.",
        "What is the monthly rent, forecast for next spring?\n\nIt is £1,280.",
        "What was the monthly rent in 2019?\n\nIt was £1,080.",
        "The monthly rent is not £1,280, as some have said.",
        "It is not true that the monthly rent is £1,280.",
        "Until the end of 2019, the monthly rent was £1,080.",
        "What is the monthly rent at Norwood Textiles?\n\nIt is £1,280.",
        "Monthly rent of Norwood Textiles: £1,280",
        "Norwood Court has a monthly rent of £1,280.",
    ],
)
def test_the_same_value_another_time_part_or_thing_is_no_conflict(text: str) -> None:
    assert compare(LEASE, CARD.format(text)) == []


def test_both_apostrophes_are_one() -> None:
    rules = f"{LEASE} The landlord doesn't enter without notice. The lift isn't for goods."
    assert compare(rules, rules.replace("'", "’").replace("Lease of", "Lease (draft) of")) == []


def test_documents_about_other_things_are_not_compared() -> None:
    other = LEASE.replace("14 Bramble Court", "Harbour Mews").replace("£1,180", "£950")

    assert compare(LEASE + " Nobody leaves Bramble Court.", other + " Nobody leaves Harbour Mews.") == []


def test_the_topic_of_a_conflict_is_a_label_or_words_in_their_order() -> None:
    (labelled,) = compare(LEASE, CARD.format("Monthly rent: £1,280"))
    (written,) = compare(LEASE, CARD.format("The monthly rent of the flat is £1,280 from today."))

    assert labelled.attribute == "monthly rent"
    assert written.attribute == "monthly rent flat"
    assert labelled.subject == "Lease of 14 Bramble Court"


POLICY = """Travel rules of Lindqvist Consulting

Rooms may cost up to €140 per night. In total, claims must be submitted within 30 days of the end of the trip.
A daily allowance of €42 is paid for meals, and breakfast is included in most hotels.
Staff are reimbursed at €0.38 per kilometre for their own car. Tickets are bought 14 days before departure."""
LETTER = """Subject: travel at Lindqvist Consulting

Dear Ms Lund,

{} Our office is closed on Friday. Kind regards"""


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("You get €48 for your meals per day.", ("€42", "€48")),
        ("After a trip you have 60 days to submit your claims.", ("30 days", "60 days")),
        ("For a kilometre in your own car we pay €0.45.", ("€0.38", "€0.45")),
        ("Please buy your tickets 21 days before you leave.", ("14 days", "21 days")),
    ],
)
def test_a_letter_that_states_a_value_in_other_words_is_told(text: str, values: tuple[str, str]) -> None:
    (conflict,) = compare(POLICY, LETTER.format(text))

    assert tuple(side.value for side in conflict.sides) == values


@pytest.mark.parametrize(
    "text",
    [
        "A train to Bergen costs €0.12 per kilometre.",
        "Our claims for 2023 had 900 pages.",
        "The meals of the whole team came to €4,200.",
        "On average, claims are submitted within 12 days of a trip.",
        "For interns the daily allowance for meals is €20.",
    ],
)
def test_a_value_of_another_size_or_of_some_only_is_no_conflict(text: str) -> None:
    assert compare(POLICY, LETTER.format(text)) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Charter of the Kestrel R2", "Charter of the Kestrel R4"),
        ("Lease of Unit B", "Lease of Unit C"),
        ("Lease of 14 Mill Lane", "Lease of 16 Mill Lane"),
        ("Benefits of the crew", "Benefits of the crew of Northwind"),
    ],
)
def test_documents_whose_titles_have_other_codes_or_names_are_not_compared(one: str, other: str) -> None:
    text = "{}\n\nThe monthly fee for the crew is £{}."

    assert compare(text.format(one, "140"), text.format(one, "150")) != []
    assert compare(text.format(one, "140"), text.format(other, "150")) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("insurance", "insured"),
        ("chaired", "chairman"),
        ("length", "long"),
        ("cost", "price"),
        ("annual", "year"),
    ],
)
def test_verb_and_noun_of_one_attribute_have_the_same_root(one: str, other: str) -> None:
    assert root(stem(one)) == root(stem(other))


ALONE = "Pay at Lindqvist\n\nFor the Lisbon branch alone, the {}."
ASKED = "Questions about Lindqvist\n\nWhat is the paid leave {} at Lindqvist?\n\nIt is {}."


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ALONE.format("payroll deduction is $202"), ALONE.format("coworking stipend is $150")),
        (ASKED.format("of a primary caregiver", "16 days"), ASKED.format("for jury duty", "10 days")),
        (
            "Leave at Lindqvist\n\nThe short disability period lasts 10 weeks.",
            "Leave at Lindqvist\n\nThe long disability period lasts 12 weeks.",
        ),
    ],
)
def test_values_that_only_share_a_limit_or_a_common_word_are_no_conflict(one: str, other: str) -> None:
    assert compare(one, other) == []


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [
        ("Parental leave lasts up to 16 weeks.", "Length of the parental leave: 16 days", "unit"),
        ("Parental leave lasts up to 12 weeks.", "Length of the parental leave: 12 months", "unit"),
        ("We pay a bicycle allowance of $25 per month.", "The bicycle allowance is $25 per year.", "unit"),
        ("Dental insurance is provided through Torsnes.", "The dental insurer is Marlow Finch.", "name"),
    ],
)
def test_one_number_in_two_units_and_a_name_behind_through_are_told(one: str, other: str, kind: str) -> None:
    (conflict,) = compare(f"Benefits at Lindqvist\n\n{one}", f"Benefits at Lindqvist\n\n{other}")

    assert conflict.kind == ConflictKind(kind)


@pytest.mark.parametrize(("by", "is_name"), [("Torsnes Marine", True), ("Section K. Payment", False)])
def test_a_part_of_a_document_is_no_name(by: str, is_name: bool) -> None:
    page = ReadPage(passage("terms.md", 1, f"The payments of the crew are managed by {by}, as before."))
    names = [
        fact.text for one in read_assertions(page) for fact in find_facts(one) if fact.kind is FactKind.NAME
    ]

    assert (by in names) is is_name
