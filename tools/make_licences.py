"""Writes docs/licences.md: the licence of each package that vrag needs, and of what it contains.

Names come from the lock files, licences from the metadata of the installed packages. A licence that is not in
`ALLOWED` needs a reason in `tools/licences.toml`, which also has licences of packages that are installed only
on other systems or whose metadata name none.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "licences.md"
ALLOWED = frozenset(
    {
        *"0BSD Apache-2.0 BSD BSD-2-Clause BSD-3-Clause BSL-1.0 CC0-1.0 CNRI-Python ISC MIT MIT-0".split(),
        *("Apache-2.0 WITH LLVM-exception", "MIT-CMU", "MPL-2.0", "PSF-2.0", "Unlicense", "Zlib"),
    }
)
"""SPDX identifiers; `BSD` where metadata do not say which. None binds programs that only use a package."""

_WORDS = (
    (r"^mpl-2\.0 and mit$", "MPL-2.0 AND MIT"),
    (r"^mit or apache-2\.0$", "MIT OR Apache-2.0"),
    (r"mozilla public license 2\.0|^mpl", "MPL-2.0"),
    (r"gnu general public|^gpl", "GPL-3.0"),
    (r"public domain", "Public domain"),
    (r"^apache|apache software", "Apache-2.0"),
    (r"bsd[ -]3[ -]clause|3-clause bsd|^bsd-3-clause", "BSD-3-Clause"),
    (r"bsd[ -]2[ -]clause", "BSD-2-Clause"),
    (r"\bbsd\b", "BSD"),
    (r"^isc\b", "ISC"),
    (r"python software foundation", "PSF-2.0"),
    (r"^(the )?mit\b|mit license", "MIT"),
)
"""What metadata say in words, and the identifier of it; the first that is found counts."""
_PACKAGE = re.compile(r"^([\w.\-]+)==", re.MULTILINE)


@dataclass(frozen=True)
class LicenceGroup:
    """Packages of the page that are needed for one purpose."""

    title: str
    packages: frozenset[str]


def locked_packages(lock: str) -> frozenset[str]:
    """Return the names of the packages in a lock file, normalised."""
    text = (ROOT / lock).read_text(encoding="utf-8")
    return frozenset(canonicalize_name(name) for name in _PACKAGE.findall(text))


def licence_groups() -> list[LicenceGroup]:
    """Return the packages by what needs them; each stands in the first group that it is in."""
    base, image = locked_packages("requirements.lock"), locked_packages("deploy/image.lock")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    torch = {"torch"} if "torch==" in str(project["dependency-groups"]["dev"]) else set[str]()
    rest = locked_packages("requirements-dev.lock") | locked_packages("deploy/build.lock") | torch
    return [
        LicenceGroup("The base install", base),
        LicenceGroup("Only in the image: the extras `mcp`, `otel` and `s3`", image - base),
        LicenceGroup("Other extras, development and building", rest - base - image),
    ]


def name_licence(package: str) -> str | None:
    """Return the licence that the metadata of an installed package name; None if they name none.

    Raises:
        PackageNotFoundError: If it is not installed.
    """
    found = metadata(package)
    if "License-Expression" in found:
        return found["License-Expression"]
    names: list[str] = found.get_all("Classifier") or []
    classifiers = [name.rpartition(" :: ")[2] for name in names if "License ::" in name]
    fields: list[str] = found.get_all("License") or []
    texts = [*(field.strip().partition("\n")[0] for field in fields), *classifiers]
    if len(classifiers) > 1 and "OSI Approved" not in classifiers:
        return " OR ".join(dict.fromkeys(filter(None, map(_identify, classifiers)))) or None
    return next(filter(None, map(_identify, texts)), None)


def _identify(text: str) -> str | None:
    return next((name for pattern, name in _WORDS if re.search(pattern, text, re.IGNORECASE)), None)


def is_allowed(expression: str) -> bool:
    """Return whether a licence may be used without a reason: any alternative whose parts are all allowed.

    One that mixes AND and OR is not: somebody has to read it.
    """
    if " AND " in expression and " OR " in expression:
        return False
    alternatives = expression.strip("()").split(" OR ")
    return any(all(part.strip("() ") in ALLOWED for part in choice.split(" AND ")) for choice in alternatives)


def find_licences(packages: Iterable[str], stated: Mapping[str, str]) -> dict[str, str]:
    """Return the licence of each package: as stated in tools/licences.toml, otherwise as installed.

    Raises:
        LookupError: If one is neither stated nor installed, or its metadata name none.
    """
    licences = dict[str, str]()
    for package in sorted(packages):
        try:
            licence = stated.get(package) or name_licence(package)
        except PackageNotFoundError:
            licence = None
        if licence is None:
            raise LookupError(f"No licence of {package}: install it, or state it in tools/licences.toml.")
        licences[package] = licence
    return licences


def npm_licences() -> dict[str, str]:
    """Return the licences of the packages of the type checker of the page's scripts."""
    lock = json.loads((ROOT / "tools/typescript/package-lock.json").read_text(encoding="utf-8"))
    return {
        f"{path.rpartition('node_modules/')[2]} (npm)": package["license"]
        for path, package in lock["packages"].items()
        if path
    }


def render_page() -> str:
    """Return the page.

    Raises:
        LookupError: If a licence is not known, or not allowed and without a reason.
    """
    config = tomllib.loads((ROOT / "tools" / "licences.toml").read_text(encoding="utf-8"))
    reasons: dict[str, str] = config["reasons"]
    lines = [*config["page"]["head"].strip().splitlines(), ""]
    for group in licence_groups():
        licences = find_licences(group.packages, config["stated"])
        if "development" in group.title:
            licences |= npm_licences()
        lines += [f"## {group.title}", "", "| package | licence | note |", "|---|---|---|"]
        for package, licence in licences.items():
            if not is_allowed(licence) and package not in reasons:
                raise LookupError(f"{package} is under {licence}: tools/licences.toml needs a reason.")
            lines.append(f"| {package} | {licence} | {reasons.get(package, '')} |".replace("|  |", "| |"))
        lines.append("")
    return "\n".join([*lines, *config["page"]["end"].strip().splitlines(), ""])


def main() -> None:
    """Write the page."""
    try:
        PAGE.write_text(render_page(), encoding="utf-8")
    except LookupError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
