"""Writes the notes of a release: `python tools/write_release_notes.py v0.2.0`.

The notes are the section of CHANGELOG.md for the version, with links that work outside of the repository.
Nothing is written unless tag, package, changelog and citation name the same version and date, and nothing is
left unreleased.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import yaml

import vrag

ROOT = Path(__file__).parents[1]
NOTES = ROOT / "build" / "release" / "notes.md"
REPOSITORY = "https://github.com/vrag-agent/vrag"
HEADING = re.compile(r"^## (?P<name>\S+)(?: [-–] (?P<date>\d{4}-\d{2}-\d{2}))?$", re.MULTILINE)


class ReleaseError(Exception):
    """The files do not agree on the release."""


def main() -> None:
    """Check the tag that the command line names, and write the notes."""
    if len(sys.argv) != 2:
        sys.exit("Name the tag: python tools/write_release_notes.py v0.2.0")
    tag = sys.argv[1]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    try:
        cited = (str(citation["version"]), str(citation["date-released"]))
        notes = cut_notes(tag, vrag.__version__, changelog, cited)
    except ReleaseError as error:
        sys.exit(f"Not released: {error}")
    NOTES.parent.mkdir(parents=True, exist_ok=True)
    NOTES.write_text(notes, encoding="utf-8")
    print(f"{NOTES.relative_to(ROOT)}: {len(notes.splitlines())} lines for {tag}")


def cut_notes(tag: str, version: str, changelog: str, cited: tuple[str, str]) -> str:
    """The notes of a release.

    Args:
        tag: Such as v0.2.0.
        version: That of the package.
        changelog: The text of CHANGELOG.md.
        cited: Version and date of CITATION.cff.

    Raises:
        ReleaseError: The tag is not that of the version, the changelog has no dated section for it or has
            entries that are not released, or the citation names another version or date.
    """
    if tag != f"v{version}":
        raise ReleaseError(f"the tag is {tag}, but the package has version {version}")
    sections = split_sections(changelog)
    if sections.get("Unreleased", ("", ""))[1]:
        raise ReleaseError(f"CHANGELOG.md has entries under Unreleased; move them under {version}")
    date, text = sections.get(version, ("", ""))
    if not date or not text:
        raise ReleaseError(f"CHANGELOG.md has no section '## {version} – YYYY-MM-DD' with entries")
    if cited != (version, date):
        raise ReleaseError(f"CITATION.cff names {' of '.join(cited)}, not {version} of {date}")
    return re.sub(r"\]\((?!https?:|#)([^)]+)\)", rf"]({REPOSITORY}/blob/{tag}/\1)", text) + "\n"


def split_sections(changelog: str) -> dict[str, tuple[str, str]]:
    """Date and text of each section by its name; the date of what is not released is empty."""
    headings = list(HEADING.finditer(changelog))
    ends = [heading.start() for heading in headings[1:]] + [len(changelog)]
    return {
        heading["name"]: (heading["date"] or "", changelog[heading.end() : end].strip())
        for heading, end in zip(headings, ends, strict=True)
    }


if __name__ == "__main__":
    main()
