"""Builds the documentation site: `python tools/make_site.py [VERSION]`.

The pages go to build/site/VERSION (major and minor of the package by default), those of the highest version
to build/site/latest too, beside the list of versions that the selector of the pages reads. Versions that are
there already stay, so that a published site can be laid into build/site and one version be added to it.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import vrag

ROOT = Path(__file__).parents[1]
SITE = ROOT / "build" / "site"
LATEST = "latest"
AT_ROOT = ("404.html", "llms.txt", "llms-full.txt", "sitemap.xml")
"""Files that are looked for at the root of a host or project."""
REDIRECT = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>vrag</title>
<meta http-equiv="refresh" content="0; url=latest/">
<link rel="canonical" href="latest/">
<a href="latest/">The documentation of vrag</a>
"""


def main() -> None:
    """Build the version that is named on the command line."""
    version = sys.argv[1] if len(sys.argv) > 1 else project_version()
    if not re.fullmatch(r"\w[\w.-]*", version) or version == LATEST:
        sys.exit(f"{version!r} is not a version: give one such as 0.2 or dev.")
    pages = build()
    add_version(SITE, pages, version)
    print(f"{SITE.relative_to(ROOT)}: {', '.join(find_versions(SITE))}")


def project_version() -> str:
    """Major and minor version of the package, as in 0.2."""
    return ".".join(vrag.__version__.split(".")[:2])


def build() -> Path:
    """Folder of the built pages. A warning, such as a link that leads nowhere, ends the program."""
    pages = ROOT / tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["site_dir"]
    shutil.rmtree(pages, ignore_errors=True)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        sys.exit("The site was not built: see the messages above.")
    # Files from the root of the repository link to docs/, which is the root of the site.
    for page in pages.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        page.write_text(text.replace('href="../docs/', 'href="../'), encoding="utf-8")
    search = pages / "search.json"
    index = json.loads(search.read_text(encoding="utf-8"))
    index["items"] = fold_members(index["items"])
    search.write_text(json.dumps(index, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")
    return pages


def fold_members(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Entries of the search, with members of classes in the text of their class.

    As entries of their own they would come before the guides for everyday words such as "token" and "cost",
    since the search ranks matches in titles first.
    """
    found = {item["location"]: dict(item) for item in items}
    for location, item in list(found.items()):
        owner = found.get(location.rpartition(".")[0])
        if owner and location.startswith("reference/") and "#vrag." in location:
            owner["text"] += f" <p>{item['title']}</p> {item['text']}"
            del found[location]
    return list(found.values())


def add_version(site: Path, pages: Path, version: str) -> None:
    """Move built pages into a site as a version; update what belongs to all versions."""
    shutil.rmtree(site / version, ignore_errors=True)
    site.mkdir(parents=True, exist_ok=True)
    shutil.move(pages, site / version)
    versions = find_versions(site)
    shutil.rmtree(site / LATEST, ignore_errors=True)
    shutil.copytree(site / versions[0], site / LATEST)
    for name in AT_ROOT:
        shutil.copy(site / LATEST / name, site / name)
    (site / "index.html").write_text(REDIRECT, encoding="utf-8")
    (site / ".nojekyll").touch()  # GitHub Pages publishes the files as they are
    listed = [
        {"version": name, "title": name, "aliases": [LATEST] if name == versions[0] else []}
        for name in versions
    ]
    (site / "versions.json").write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")


def find_versions(site: Path) -> list[str]:
    """Versions of a site, highest first; those without numbers, such as dev, come last."""
    names = [page.parent.name for page in site.glob("*/index.html") if page.parent.name != LATEST]
    return sorted(names, key=_version_order, reverse=True)


def _version_order(name: str) -> tuple[bool, list[int], str]:
    numbers = [int(number) for number in re.findall(r"\d+", name)]
    return name[0].isdigit(), numbers, name


if __name__ == "__main__":
    main()
