"""Supervised data: recorded runs in the tokens of the model that learns from them, images read on demand."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from PIL import Image

from vrag.agent.events import Event, ModelCalled
from vrag.agent.policies.local_model import opening_of
from vrag.agent.policy import EnclosedImage, FinishReason, Message, Role, Text
from vrag.agent.runs.run_store import RunStore
from vrag.errors import TrainingError
from vrag.geometry import Size
from vrag.parsing import parse_json
from vrag.rl.generation import GeneratedReply, GenerationPrompt, first_prompt, next_prompt
from vrag.rl.model import TrainableModel
from vrag.rl.rows import DroppedRow, Row, RunRows, Vocabulary, rows_of

_EVENTS, _FILES = "events.jsonl", "files"
_THOUGHT = re.compile(r"<think>\s*")
_UNREADABLE = "A message of the call, or a picture in one, is missing or damaged."


@dataclass(frozen=True, slots=True, eq=False)
class SftDataset:
    """The rows of recorded runs."""

    rows: Sequence[Row]
    files: Mapping[str, bytes]
    """Images of the rows, `<sha256>.jpg`; each is read when it is asked for, so that thousands of runs are
    not in memory."""
    dropped: Sequence[DroppedRow]
    """Calls of which no row was made."""


def find_recordings(folders: Iterable[Path]) -> list[Path]:
    """Find the folders of all recorded runs in some folders, at any depth, in order.

    Raises `TrainingError` if there are none.
    """
    roots = list(folders)
    found = [
        path.parent
        for root in roots
        for path in sorted(root.rglob(_EVENTS))
        if not path.parent.name.startswith(".")  # of a process that died while it wrote it
    ]
    if not found:
        raise TrainingError(
            f"There are no recorded runs in {', '.join(map(str, roots))}.",
            "Record some: vrag data demonstrate.",
        )
    return found


def digest_of(runs: Iterable[Path]) -> str:
    """Hash the names and contents of runs, in their order, whatever folder they are in.

    Raises `TrainingError` if one cannot be read.
    """
    digest = hashlib.sha256()
    for run in runs:
        digest.update(f"{run.name}\n".encode())
        files = _list_files(run)
        for path in (run / _EVENTS, *(files[name] for name in sorted(files))):
            try:
                with path.open("rb") as file:
                    file_digest = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError as error:
                raise _read_error(path, error) from error
            digest.update(f"{path.name} {file_digest}\n".encode())
    return digest.hexdigest()[:16]


def load_sft_dataset(network: TrainableModel, runs: Iterable[Path]) -> SftDataset:
    """Convert recorded runs to rows, in order. Only one run at a time is in memory, besides the rows.

    Raises `RunError` if a run is damaged and `TrainingError` if one cannot be read.
    """
    rows: list[Row] = []
    dropped: list[DroppedRow] = []
    images: dict[str, Path] = {}
    for run in runs:
        files = _list_files(run)
        stored = RunStore(run.parent).read(run.name)
        made = sft_rows(network, stored.events, {name: _read_bytes(path) for name, path in files.items()})
        rows += made.rows
        dropped += made.dropped
        images |= {name: path for name, path in files.items() if name.endswith(".jpg")}
    return SftDataset(rows, _FilesOnDisk(images), dropped)


@dataclass(frozen=True, slots=True, eq=False)
class _FilesOnDisk(Mapping[str, bytes]):
    """Files by name, read on demand; raises `TrainingError` if one is gone or cannot be read."""

    paths: Mapping[str, Path]

    def __getitem__(self, name: str) -> bytes:
        return _read_bytes(self.paths[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.paths)

    def __len__(self) -> int:
        return len(self.paths)


def _list_files(run: Path) -> dict[str, Path]:
    """List the files that a run names, by name, without unfinished ones."""
    folder = run / _FILES
    found = folder.iterdir() if folder.is_dir() else ()
    return {path.name: path for path in found if not path.name.startswith(".")}


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _read_error(path, error) from error


def _read_error(path: Path, error: OSError) -> TrainingError:
    return TrainingError(
        f"{path} cannot be read: {error.strerror or error}.",
        "Training needs its recorded runs: restore the file, and run the same command again.",
    )


def vocabulary_of(network: TrainableModel) -> Vocabulary:
    """Return the facts about a network's tokens that rows need."""
    return Vocabulary(
        decode=network.checkpoint.decode,
        ends=network.checkpoint.ends,
        image=network.image_token,
        forbidden=frozenset(network.checkpoint.banned),
        features=network.checkpoint.profile.visual_tokens,
    )


def sft_rows(network: TrainableModel, events: Sequence[Event], files: Mapping[str, bytes]) -> RunRows:
    """Make the rows of a run that another policy made: a person, an expert, a script.

    Each reply up to the end of its action is encoded, with the end of a turn behind it. Its own tokens are
    those that are learned by `network`.
    """
    conversation = _TokenizedConversation(network, files)
    tokenized = [
        conversation.tokenize(event) if isinstance(event, ModelCalled) else event for event in events
    ]
    made = rows_of(tokenized, files, vocabulary_of(network))
    dropped = [
        replace(row, reason=_UNREADABLE) if conversation.unreadable & {*row.steps} else row
        for row in made.dropped
    ]
    return replace(made, dropped=tuple(dropped))


class _TokenizedConversation:
    """A recorded conversation in the tokens of a network."""

    def __init__(self, network: TrainableModel, files: Mapping[str, bytes]) -> None:
        self._network, self._files = network, files
        self._messages: dict[str, Message] = {}
        self._before: tuple[GenerationPrompt, GeneratedReply] | None = None
        self.unreadable: set[int] = set()
        """Steps of calls with a message that cannot be read."""

    def tokenize(self, event: ModelCalled) -> ModelCalled:
        """Return the call with the tokens of this network; without any where a message cannot be read."""
        try:
            history = [self._read_message(sha256) for sha256 in event.messages]
        except (KeyError, ValueError, TypeError, OSError, Image.DecompressionBombError):
            self.unreadable.add(event.step)
            return event.model_copy(update={"prompt_ids": (), "ids": (), "logprobs": ()})
        network = self._network
        if self._before is None:
            prompt = first_prompt(network, history)
        else:
            prompt = next_prompt(network, *self._before, history)
        reply = event.reply[: event.executed]
        rest = reply
        if opening_of(prompt.text):  # the prompt has begun a thought, as some chat templates do
            thought = _THOUGHT.match(reply)
            rest = reply[thought.end() :] if thought else f"</think>{reply}"
        ids = (*network.encode(rest), int(network.checkpoint.tokenizer.eos_token_id))
        logprobs = (0.0,) * len(ids)
        self._before = prompt, GeneratedReply(reply, ids, logprobs, FinishReason.STOP)
        changes = {"prompt_ids": prompt.ids, "ids": ids, "logprobs": logprobs, "reply": reply}
        return event.model_copy(update=changes)

    def _read_message(self, sha256: str) -> Message:
        if sha256 in self._messages:
            return self._messages[sha256]
        value: dict[str, Any] = parse_json(self._files[f"{sha256}.json"])
        parts: list[Text | EnclosedImage] = []
        for part in value["parts"]:
            if "picture" in part:
                picture = str(part["picture"])
                jpeg = self._files[f"{picture}.jpg"]
                self._network.see(picture, jpeg)  # raises if it is damaged
                parts.append(EnclosedImage(picture, Size(1, 1), jpeg, picture))
            else:
                parts.append(Text(str(part["text"])))
        self._messages[sha256] = message = Message(Role(value["role"]), tuple(parts))
        return message
