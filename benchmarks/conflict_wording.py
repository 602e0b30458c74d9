"""Words around planted statements: what editions, letters, minutes, tables and questions say besides."""

from __future__ import annotations

import random
from collections.abc import Sequence

from benchmarks.conflict_documents import Block, Heading, Paragraph, Table

EDITIONS = (
    ("revised edition", "Version 2 of 14 March 2026. It supersedes all earlier editions.", True),
    ("amended text", "As amended on 3 February 2026. The parts that were not amended are left out.", True),
    ("new version", "This version of 2026 replaces the one before.", True),
    ("draft", "Draft for comments, not yet approved.", False),
    ("extract", "Reprinted for the annex to the file.", False),
)
"""What an edition calls itself, what it says of itself, and whether it replaces the document."""
SENTENCES = (
    "{topic} is {value}.",
    "{value}: that is {topic}.",
    "please note that {topic} is {value}.",
    "as for {topic}, it is {value}.",
    "we confirm {value} as {topic}.",
)


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _write_letter(
    title: str, told: Sequence[tuple[str, str, str]], chance: random.Random
) -> tuple[Block, ...]:
    head, first, last = chance.choice(_LETTERS)
    body: list[Block] = []
    for _, _, statement in told:
        lead = chance.choice(
            ("", "Several people have asked about this. ", "There was a question from the floor. ")
        )
        tail = chance.choice(("", " Please pass this on.", " This was noted without discussion."))
        body.append(Paragraph(f"{lead}{capital(statement)}{tail}"))
    return (Heading(head), Paragraph(first.format(title=title)), *body, Paragraph(last))


def _write_table(
    title: str, told: Sequence[tuple[str, str, str]], chance: random.Random
) -> tuple[Block, ...]:
    head = chance.choice(("Key figures", "Fact sheet", "At a glance", "Data on one page"))
    columns = chance.choice((("Subject", "Value"), ("Item", "Entry"), ("What", "Details")))
    rows = [(capital(topic.removeprefix("the ")), value) for topic, value, _ in told]
    rows.append(("Prepared by", "Records office"))
    return Heading(head), Paragraph(f"Taken together for readers of: {title}."), Table((columns, *rows))


def _write_questions(
    title: str, told: Sequence[tuple[str, str, str]], _chance: random.Random
) -> tuple[Block, ...]:
    body: list[Block] = []
    for topic, _, statement in told:
        verb = "was" if "until" in topic else "is"
        body += [Heading(f"What {verb} {topic}?"), Paragraph(capital(statement))]
    return (Heading("Frequently asked questions"), Paragraph(f"Questions about: {title}."), *body)


FRAMES = {"letter": _write_letter, "table": _write_table, "questions": _write_questions}
_LETTERS = (
    ("Letter", "Dear colleagues, this concerns: {title}.", "Kind regards, the office"),
    (
        "Minutes of the meeting",
        "The chair opened the meeting. On the agenda: {title}.",
        "The meeting was closed.",
    ),
    ("Memorandum", "To: all readers. Subject: {title}.", "For the file."),
    ("Summary", "This summary was written for those who have not read: {title}.", "End of the summary."),
)
