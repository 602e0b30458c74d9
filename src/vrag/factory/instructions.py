"""Custom instructions: files of the user, and those that released checkpoints were trained with.

A file is plain text, which is the instruction, or TOML with `instruction` and, for the text of the last turn,
`answer_now`. The instructions of released checkpoints belong to their authors: they are not part of this
package but are fetched from their public repository on request, at a fixed commit and checked by hash.
"""

from __future__ import annotations

import ast
import hashlib
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vrag.errors import DownloadError, SettingsError
from vrag.parsing import parse_toml

RAW_FILES = "https://raw.githubusercontent.com"
"""Address of raw files on GitHub."""
_MAX_BYTES = 1_000_000
"""Maximum size of an instruction file and of a fetched file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """The texts that replace the built-in instruction."""

    instruction: str
    """`{question}` marks the place of the question; without it the question follows at the end."""
    answer_now: str | None = None
    """The text that the last turn adds; None for the built-in one."""

    def as_toml(self) -> str:
        """Return the TOML file that `read_wording` reads."""
        texts = {"instruction": self.instruction, "answer_now": self.answer_now}
        escaped = {
            name: text.replace("\\", "\\\\").replace('"', '\\"')
            for name, text in texts.items()
            if text is not None
        }
        return "".join(f'{name} = """\n{text}"""\n' for name, text in escaped.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedInstruction:
    """The place where the authors of a checkpoint published its instruction."""

    repository: str
    commit: str
    path: str
    """A Python file, which is read and never executed."""
    sha256: str
    variable: str
    """The constant that holds the instruction."""
    has_last_turn: bool
    """True if the file holds the text of the last turn, as a message."""

    def url(self, host: str) -> str:
        """Return the address of the file on a host that mirrors raw files of GitHub."""
        return f"{host.rstrip('/')}/{self.repository}/{self.commit}/{self.path}"


PUBLISHED = {
    "vrag-rl": PublishedInstruction(
        repository="Alibaba-NLP/VRAG",
        commit="24f8d055989cf6ee1a348646bca6d947b4409b26",
        path="demo/vrag_agent.py",
        sha256="ccd1845b0f556939c4c44b4ebaccbbaf3f7d10e4acfd06cdc745679bb4b2f999",
        variable="prompt_ins",
        has_last_turn=True,
    ),
    "unidoc-rl": PublishedInstruction(
        repository="deepglint/UniDoc-RL",
        commit="2d659bbc2f07e3b9a1358a8c281de83b8055cc6a",
        path="synthetic_data/convert_to_llamafactory.py",
        sha256="3f7d87ef6a3cfa44feeb240702efa4fdec67762f79831e739c6b8420722a4524",
        variable="SYSTEM_PROMPT",
        has_last_turn=False,
    ),
}
"""Published instructions by the name of the profile."""


def read_wording(file: str) -> Instruction:
    """Read the instruction in a file of the user.

    Raises `SettingsError` if it cannot be read, is empty, or is TOML with other keys.
    """
    path = Path(file)
    try:
        text = _read(path).decode("utf-8")
        wording = _from_toml(text) if path.suffix == ".toml" else Instruction(instruction=text.strip())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SettingsError(
            f"The instruction {file} cannot be read: {reason}.",
            "Set VRAG_INSTRUCTION to a file; `vrag config fetch-instruction` fetches that of a checkpoint.",
        ) from error
    if not wording.instruction.strip():
        raise SettingsError(f"The instruction {file} is empty.", "Unset VRAG_INSTRUCTION, or write the file.")
    return wording


def fetch_wording(name: str, host: str = RAW_FILES) -> Instruction:
    """Fetch the instruction of a released checkpoint, named by its profile, from its public repository.

    `host` has GitHub's raw files, or is a mirror of them; the file is checked by its hash.

    Raises `SettingsError` if there is no instruction of that name, and `DownloadError` if the file cannot be
    fetched, or its hash differs.
    """
    if name not in PUBLISHED:
        raise SettingsError(f"No instruction is published for {name!r}.", f"Known: {', '.join(PUBLISHED)}.")
    source = PUBLISHED[name]
    data = _download(source.url(host))
    if hashlib.sha256(data).hexdigest() != source.sha256:
        raise DownloadError(
            f"{source.url(host)} is not the expected file: its SHA-256 differs.",
            f"Try again; behind a proxy, check its response. The repository is {source.repository}.",
        )
    tree = ast.parse(data.decode("utf-8"))  # the constants are read from it; nothing is executed
    instruction = next(
        node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and [getattr(target, "id", "") for target in node.targets] == [source.variable]
    )
    answer_now = next(filter(None, map(_message_text, ast.walk(tree)))) if source.has_last_turn else None
    return Instruction(instruction=str(instruction), answer_now=answer_now)


def _download(url: str) -> bytes:
    import httpx

    from vrag.chat.http_clients import uses_proxy

    chunks = bytearray()
    try:
        proxies = uses_proxy(url)
        with httpx.stream("GET", url, timeout=30, follow_redirects=True, trust_env=proxies) as response:
            response.raise_for_status()
            for chunk in response.iter_bytes():
                chunks += chunk
                if len(chunks) > _MAX_BYTES:
                    raise DownloadError(f"{url} has more than {_MAX_BYTES:,} bytes.")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise DownloadError(
            f"{url} cannot be fetched: {str(error).rstrip('.') or type(error).__name__}.",
            "Try again when this machine is online, or name a copy with --host.",
        ) from error
    return bytes(chunks)


def _message_text(node: ast.AST) -> str | None:
    """Return the text of a literal message part: `{"type": "text", "text": "…"}`."""
    if not isinstance(node, ast.Dict):
        return None
    parts = {
        key.value: value.value
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(value, ast.Constant)
    }
    text = parts.get("text")
    return text if parts.get("type") == "text" and isinstance(text, str) else None


def _from_toml(text: str) -> Instruction:
    values: dict[str, Any] = parse_toml(text)
    if unknown := sorted(values.keys() - {"instruction", "answer_now"}):
        raise ValueError(f"there is no {unknown[0]}, only instruction and answer_now")
    if not all(isinstance(value, str) for value in values.values()) or "instruction" not in values:
        raise ValueError("instruction must be a text, and answer_now one where it is there")
    return Instruction(**values)


def _read(path: Path) -> bytes:
    """Read a small regular file: a device may never end, and a pipe may block."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError("not a regular file")
    with path.open("rb") as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise ValueError(f"it has more than {_MAX_BYTES:,} bytes")
    return data
