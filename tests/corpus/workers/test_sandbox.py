"""A worker that a hostile file has taken over is refused by the kernel whatever it tries."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from corpus.workers.hostile_converters import ATTEMPTS, Hostile
from vrag.corpus.convert import Converted, Failed, convert_all
from vrag.corpus.converter import CorpusOptions
from vrag.corpus.discover import read_source
from vrag.corpus.workers import sandbox
from vrag.corpus.workers.sandbox import Protection, SandboxMode, SandboxOptions
from vrag.doctor.environment import start_worker
from vrag.errors import VragError

pytestmark = pytest.mark.slow


linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux restricts processes")
DOCS = Path(__file__).parents[3] / "docs" / "threats.md"
_ALLOWED = (
    "read list source reopen write append mkdir memfd tcp unix abstract socketpair listen fork "
    "vfork kill dumpable"
)
ALLOWED_OUTSIDE = [str(name) for name in _ALLOWED.split()]
"""Attempts that succeed without a sandbox: without this, a refusal would prove nothing."""


def run_attempts(
    folder: Path, mode: SandboxMode, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """Have a worker try all; returns what it was answered, by attempt."""
    monkeypatch.setattr(sandbox, "_options", SandboxOptions(mode))
    monkeypatch.setenv("VRAG_API_KEY", "secret")
    (folder / "site").mkdir()
    for name in ("other.txt", "items.jpg", "site/other.txt"):
        (folder / name).write_text("words of another document")
    with ExitStack() as stack:
        port, _ = listen(stack, socket.AF_INET, ("127.0.0.1", 0))
        _, path = listen(stack, socket.AF_UNIX, str(folder / "socket"))
        listen(stack, socket.AF_UNIX, f"\0vrag-{os.getpid()}")
        arguments = {
            name: str(folder / "other.txt") for name in "read append truncate chmod chown utime xattr".split()
        }
        arguments |= {
            name: str(folder / "other.txt") for name in ("rename", "link", "symlink", "mkfifo", "mknod")
        }
        arguments |= {
            name: str(os.getpid())
            for name in "ptrace read-memory kill tgkill sigqueue pidfd parent-limit".split()
        }
        arguments |= {
            "unlink": str(folder / "items.jpg"),
            "list": str(folder),
            "write": str(folder / "new"),
            "mkdir": str(folder / "new-folder"),
            "neighbour": "other.txt",
            "tcp": str(port),
            "unix": str(path),
            "abstract": f"vrag-{os.getpid()}",
            "exec": "/bin/true",
            "mount": "/mnt",
            "chroot": "/",
            "chdir": "/",
            "environment": "VRAG_API_KEY",
        }
        source = folder / "site" / "a.hostile"
        source.write_text("\n".join(f"{name} {arguments.get(name, '')}" for name in names))
        options = CorpusOptions(workers=1, page_seconds=30)
        made = list(
            convert_all([read_source(source)], folder / "items", options, converters={".hostile": Hostile})
        )
    assert not [each for each in made if isinstance(each, Failed)]
    texts = {each.item.ordinal: each.item.text for each in made if isinstance(each, Converted)}
    return {name: texts[number] for number, name in enumerate(names, 1)}


def listen(stack: ExitStack, family: int, address: object) -> tuple[int, object]:
    opened = stack.enter_context(socket.socket(family))
    opened.bind(address)  # type: ignore[arg-type]
    opened.listen()
    name: Any = opened.getsockname()
    return (int(name[1]) if family == socket.AF_INET else 0), address


@linux
def test_whatever_a_worker_tries_the_kernel_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = run_attempts(tmp_path, "auto", list(ATTEMPTS), monkeypatch)
    assert [name for name, answer in answers.items() if answer.startswith("DONE")] == []
    documented = dict(re.findall(r"^\| `([\w-]+)` \| [^|]+ \| ([^|]+) \|$", DOCS.read_text(), re.MULTILINE))
    assert answers == documented


@linux
def test_the_same_attempts_succeed_outside_of_the_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = run_attempts(tmp_path, "off", ALLOWED_OUTSIDE, monkeypatch)
    refused = {name: answer for name, answer in answers.items() if not answer.startswith("DONE")}
    assert not refused


@linux
def test_the_setting_on_reads_no_file_where_the_kernel_offers_too_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "_options", SandboxOptions("on"))
    monkeypatch.setattr(Protection, "is_complete", property(lambda _: False))
    source = tmp_path / "a.hostile"
    source.write_text("environment PATH")
    with pytest.raises(VragError, match="No file is read without"):
        list(convert_all([read_source(source)], tmp_path, CorpusOptions(), converters={".hostile": Hostile}))
    with pytest.raises(VragError, match="No file is read without"):
        start_worker()


LOWERED = """
import json, os, sys
from vrag.corpus.workers.sandbox import SandboxPolicy, protect

done = protect(SandboxPolicy(readable=("/",), user="nobody", needed=(sys.argv[1],)))
capabilities = [line for line in open("/proc/self/status") if line.startswith("CapEff")]
print(json.dumps([os.getresuid(), os.getresgid(), os.getgroups(), done.user, done.missing, capabilities]))
"""


@linux
@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
@pytest.mark.parametrize("readable", [True, False])
def test_root_becomes_nobody_if_that_user_can_read_the_installation(tmp_path: Path, readable: bool) -> None:
    installation = "/usr" if readable else str(tmp_path)
    tmp_path.chmod(0o700)
    code = "import sys; sys.dont_write_bytecode = True\n" + LOWERED
    done = subprocess.run([sys.executable, "-c", code, installation], capture_output=True, check=True)
    users, groups, others, name, missing, capabilities = json.loads(done.stdout)
    assert users == [users[0]] * 3
    assert groups == [groups[0]] * 3
    assert capabilities[0].split()[1].strip("0") == ""
    if readable:
        assert name == "nobody"
        assert users[0] != 0 != groups[0]
        assert others == []
    else:
        assert users[0] == 0
        assert "cannot read" in missing[0]
