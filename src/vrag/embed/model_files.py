"""The files of a model: search, download, JSON and a digest."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from vrag.embed.device import library
from vrag.errors import EmbedError, first_line
from vrag.parsing import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterator

_HUB_NAME = re.compile(r"(?P<name>[\w-][\w.-]*/[\w.-]+)(@(?P<revision>[\w./-]+))?")
_PATH = re.compile(r"[./~\\]|[A-Za-z]:[\\/]|[^:]*[/\\][^:]*[/\\]")
"""The beginning of a path; no name of the hub has two slashes."""
_TEXTS = {".txt", ".jinja", ".model", ".tiktoken"}
_PATH_KEYS = {"_name_or_path", "name_or_path", "base_model_name_or_path"}
"""Keys of paths that files were once read from."""
_MAX_WHOLE_BYTES = 32 * 2**20
"""Size up to which a file of weights is hashed from end to end."""
_BLOCK_BYTES = 256
"""Length hashed at the beginning, the middle and the end of each tensor of larger files."""
_DOWNLOADS = ["*.json", "*.jinja", "*.txt", "*.model", "*.tiktoken", "*.safetensors"]
"""Files to download: neither pickles nor code."""


def find_checkpoint(name: str) -> Path:
    """Return the folder of a model: a local one, or the local snapshot of one from the hub.

    What was downloaded before is used without asking the hub again; `NAME@REVISION` names one revision. Code
    and pickled weights are never downloaded. Raises `EmbedError` if there is no such folder, or the hub has
    no such model or cannot be reached, and `MissingExtra` if the model has to come from the hub and its
    client is not installed.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder.resolve()
    named = _HUB_NAME.fullmatch(name)
    if named is None or name.startswith((".", "/", "~")):
        raise EmbedError(f"There is no folder {name}.", "Name a folder with a model, or a model of the hub.")
    hub = library("huggingface_hub")
    wanted = {"repo_id": named["name"], "revision": named["revision"], "allow_patterns": _DOWNLOADS}
    try:
        found = Path(hub.snapshot_download(**wanted, local_files_only=True))
        if _is_complete(found):
            return found
    except (OSError, ValueError):  # not here yet
        pass
    return _download(hub, wanted)


def names_checkpoint(name: str) -> bool:
    """Return whether a name is that of a folder, whether it exists or not, or may be one of the hub.

    >>> [names_checkpoint(name) for name in ("/models/GVE-3B", "C:/GVE-3B", "org/model@v1", "colqwn2")]
    [True, True, True, False]
    """
    folder = Path(name).expanduser().is_dir() if name else False
    return folder or bool(_PATH.match(name) or _HUB_NAME.fullmatch(name))


def lasting_name(name: str) -> str:
    """Return the name of a model for use in other folders: local paths become absolute."""
    folder = Path(name).expanduser()
    return str(folder.resolve()) if folder.is_dir() else name


def read_json(folder: Path, name: str) -> Any:  # noqa: ANN401 - whatever the file holds
    """Read a JSON file of the model; None when there is no such file.

    Raises `EmbedError` if the file is damaged.
    """
    path = folder / name
    try:
        return parse_json(path.read_bytes()) if path.is_file() else None
    except (OSError, ValueError) as error:
        raise EmbedError(f"{path} cannot be read: {error}.", "Download the model again.") from error


def read_settings(folder: Path, name: str) -> dict[str, Any]:
    """Read a JSON file of the model that holds an object; empty when there is no such file.

    Raises `EmbedError` if the file is damaged or holds something else.
    """
    data = read_json(folder, name)
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise EmbedError(f"{folder / name} does not hold settings.", "Download the model again.")
    return cast("dict[str, Any]", data)


def module_folder(folder: Path, path: str) -> Path:
    """Return the folder of a module that `modules.json` lists.

    Raises `EmbedError` if it lies outside of the model's folder: the model would be more than its files.
    """
    place = folder / path
    inside = not Path(path).is_absolute() and ".." not in Path(path).parts
    if not inside or not place.resolve().is_relative_to(folder.resolve()):
        raise EmbedError(
            f"{folder / 'modules.json'} lists {path!r}, which is outside of the model's folder.",
            "Copy that part into the folder and correct its path.",
        )
    return place


def checkpoint_digest(folder: Path) -> str:
    """Compute the SHA-256 of everything in a model's files that its vectors depend on.

    Configuration, tokenizer, processor, templates and module folders count in full, apart from the paths they
    mention; weights by the names, types and shapes of all tensors, the size of the file, and 256 bytes at the
    beginning, the middle and the end of each tensor (files up to 32 MiB: every byte), so that 16 GB take a
    second. It therefore notices another model, another fine-tuning, another precision and a swapped
    tokenizer; it would miss a change of single numbers within a large tensor. Folder names are not part of
    it: a model that moves stays the same. Raises `EmbedError` if the weights are missing or damaged, or a
    part lies outside of the folder.
    """
    whole = hashlib.sha256()
    has_weights = False
    for path in _files(folder):
        whole.update(path.relative_to(folder).as_posix().encode() + b"\0")
        if path.suffix == ".safetensors":
            has_weights = True
            whole.update(_weights_digest(path))
        elif path.suffix == ".json" and path != folder / "tokenizer.json":  # that has no paths, and is large
            data = _without_paths(read_json(path.parent, path.name))
            whole.update(hashlib.sha256(json.dumps(data, sort_keys=True).encode()).digest())
        else:
            whole.update(hashlib.sha256(path.read_bytes()).digest())
    if not has_weights:
        raise EmbedError(
            f"{folder} holds no weights as .safetensors.",
            "Convert them: pickled weights can run code and are not loaded.",
        )
    return whole.hexdigest()


def _download(hub: Any, wanted: dict[str, Any]) -> Path:  # noqa: ANN401
    name = wanted["repo_id"]
    try:
        return Path(hub.snapshot_download(**wanted))
    except hub.errors.GatedRepoError as error:
        raise EmbedError(
            f"The model {name} is gated.", "Accept its terms on its page, then run: hf auth login"
        ) from error
    except (hub.errors.RepositoryNotFoundError, hub.errors.RevisionNotFoundError) as error:
        raise EmbedError(f"The hub has no model {name}, or not in that revision.") from error
    except Exception as error:  # the hub's client lets errors of many network layers through
        raise EmbedError(
            f"The model {name} is not on this machine and could not be downloaded: {first_line(error)}.",
            f"Run `hf download {name}` where the hub can be reached and name the folder here.",
        ) from error


def _is_complete(folder: Path) -> bool:
    """Return whether all shards in an index of weights exist; an interrupted download lacks some."""
    for index in folder.glob("*.safetensors.index.json"):
        shards = cast("dict[str, str]", read_json(folder, index.name)["weight_map"]).values()
        return all((folder / shard).exists() for shard in shards)
    return any(folder.glob("*.safetensors"))


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files that count, in a fixed order: those at the top and in the folders of modules.

    Everything counts in and below the folders that `modules.json` lists, whatever their names. A router at
    the top has its parts in folders that `modules.json` does not list: all count then.
    """
    places = [folder, *(place for place in folder.iterdir() if re.match(r"\d+_", place.name))]
    found = {path for place in places if place.is_dir() for path in place.iterdir()}
    modules: object = read_json(folder, "modules.json")
    for entry in cast("list[object]", modules) if isinstance(modules, list) else []:
        if isinstance(entry, dict):
            part = cast("dict[str, Any]", entry)
            place = module_folder(folder, str(part.get("path", "")))
            if place != folder or str(part.get("type")).endswith((".Router", ".Asym")):
                found.update(place.rglob("*"))
    for path in sorted(found):
        if path.is_file() and path.suffix in {".safetensors", ".json", *_TEXTS}:
            yield path


def _without_paths(data: Any) -> Any:  # noqa: ANN401
    if isinstance(data, dict):
        entries = cast("dict[str, Any]", data).items()
        return {key: _without_paths(value) for key, value in entries if key not in _PATH_KEYS}
    if isinstance(data, list):
        return [_without_paths(value) for value in cast("list[Any]", data)]
    return data


def _weights_digest(path: Path) -> bytes:
    """Hash a file of weights: all of a small one; header, size and samples of a large one."""
    size = path.stat().st_size
    if size <= _MAX_WHOLE_BYTES:
        return hashlib.sha256(path.read_bytes()).digest()
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = file.read(min(length, size))
            sample = hashlib.sha256(header + size.to_bytes(8, "little"))
            tensors: dict[str, Any] = parse_json(header)
            tensors.pop("__metadata__", None)
            offsets = sorted(tuple(map(int, tensor["data_offsets"])) for tensor in tensors.values())
            for start, end in offsets:  # counted from behind the header
                for place in sorted({start, (start + end) // 2, max(start, end - _BLOCK_BYTES)}):
                    file.seek(8 + length + place)
                    sample.update(place.to_bytes(8, "little") + file.read(min(_BLOCK_BYTES, end - place)))
            return sample.digest()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EmbedError(f"The weights {path.name} are damaged: {error}.", "Download them again.") from error
