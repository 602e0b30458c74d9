"""Download of the published files of a benchmark from the Hugging Face hub into its usual cache.

Only the files that are read are fetched, and what is in the cache already is not fetched again. The hub's own
client does it, so its settings count: `HF_ENDPOINT`, `HF_TOKEN`, `HF_HOME`, `HF_HUB_OFFLINE`. Nothing that
comes is executed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from vrag.embed.device import library
from vrag.errors import CaseError

if TYPE_CHECKING:
    from collections.abc import Callable

    from vrag.datasets.protocols import Benchmark

_REPOSITORY = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")


def is_on_hub(benchmark: Benchmark) -> bool:
    """Return whether a benchmark's files are a data set of the hub."""
    return _REPOSITORY.fullmatch(benchmark.hub.repo) is not None


def hub_repository(benchmark: Benchmark, split: str | None = None) -> str:
    """Return the data set of the hub that has a benchmark's files.

    Raises `CaseError` if they are somewhere else, or the user's own; or those of the split are not known.
    """
    repo = benchmark.hub.repo
    if not is_on_hub(benchmark):
        raise CaseError(
            f"The files of {benchmark.name} are not on the hub: {repo}.",
            f"{benchmark.hub.note} Name their folder: vrag eval prepare {benchmark.name}=FOLDER.".strip(),
        )
    splits = benchmark.hub.splits
    if split is not None and splits and split not in splits:
        raise CaseError(
            f"Of {benchmark.name} {', '.join(splits)} alone is fetched, not {split!r:.40}.",
            f"Leave the split out. {_by_hand(benchmark, split)} {benchmark.hub.note}".strip(),
        )
    return repo


def fetch(benchmark: Benchmark) -> Path:
    """Fetch the files of a benchmark that are not in the hub's cache, and return their folder.

    Where the hub cannot be reached, or must not be (`HF_HUB_OFFLINE`), files of an earlier fetch are used.

    The folder is a snapshot: its name is the revision. Raises `CaseError` if the hub does not have the files,
    restricts access or cannot be reached, or they cannot be written; `MissingExtra` if the hub's client is
    not installed.
    """
    repo = hub_repository(benchmark)
    hub = library("huggingface_hub")
    patterns = list(benchmark.hub.files)
    folder = _snapshot(hub.snapshot_download, benchmark, repo, patterns)
    if not folder.is_dir() or not any(folder.iterdir()):
        raise CaseError(
            f"{repo} holds none of the files {', '.join(patterns) or 'of a data set'}.",
            f"Its authors may have moved them: see {_page(repo)}. {_by_hand(benchmark)}",
        )
    return folder


def _snapshot(download: Callable[..., str], benchmark: Benchmark, repo: str, patterns: list[str]) -> Path:
    errors, page, by_hand = library("huggingface_hub.errors"), _page(repo), _by_hand(benchmark)
    try:
        return Path(download(repo, repo_type="dataset", allow_patterns=patterns or None))
    except errors.GatedRepoError as error:
        raise CaseError(
            f"{repo} is available after you agree to its terms.",
            f"Agree to them at {page}, then run: hf auth login (or set HF_TOKEN). {by_hand}",
        ) from error
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError) as error:
        raise CaseError(
            f"The hub has no data set {repo}, or does not show it to you.",
            f"See {page}; if you may read it, run: hf auth login. {by_hand}",
        ) from error
    except Exception as error:  # the hub's client lets errors of many network layers through
        if isinstance(error.__cause__, errors.OfflineModeIsEnabled):
            raise CaseError(
                f"{repo} was not fetched completely before, and HF_HUB_OFFLINE is set.",
                f"Unset HF_HUB_OFFLINE. {by_hand}",
            ) from error
        reason = str(error).strip().split("\n")[0].rstrip(".").removeprefix("Got: ") or type(error).__name__
        raise CaseError(
            f"{repo} could not be fetched: {reason:.300}.",
            f"Check that {page} is reachable; the same command continues. {by_hand}",
        ) from error


def _page(repo: str) -> str:
    """Return the web page of a data set."""
    return f"{library('huggingface_hub.constants').ENDPOINT}/datasets/{repo}"


def _by_hand(benchmark: Benchmark, split: str = "") -> str:
    name = f"{benchmark.name}:{split}" if split else benchmark.name
    return f"Or download the files by hand: vrag eval prepare {name:.80}=FOLDER."
