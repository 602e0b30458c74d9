"""The threat model names defences and tests that exist, and what it says of the whole code holds."""

from __future__ import annotations

import ast
import re
import socket
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from server_harness import dial, serving

from vrag.server.options import ServerOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "threats.md").read_text(encoding="utf-8")
SOURCES = sorted((ROOT / "src" / "vrag").rglob("*.py"))


@cache
def list_tests(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, functions))


def table_rows() -> Iterator[list[str]]:
    """The rows of the tables of attacks: attack, defence, test, what is left."""
    for table in re.findall(r"^\| attack \| defence .*\n\|[-| ]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE):
        for line in table.splitlines():
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def test_every_attack_has_a_defence_a_test_and_what_is_left() -> None:
    rows = list(table_rows())
    assert len(rows) > 50
    for row in rows:
        assert len(row) == 4, row
        assert all(row), row
        assert "::test_" in row[2], row


def test_every_test_that_is_named_exists() -> None:
    named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", PAGE)
    missing = [
        f"{file}::{test}"
        for file, test in named
        if not (ROOT / "tests" / file).is_file() or test not in list_tests(ROOT / "tests" / file)
    ]
    assert not missing
    assert len(named) > 60


def test_every_file_that_is_named_exists() -> None:
    files = re.findall(r"`([\w/]+\.py)`", PAGE)
    missing = [
        name for name in files if not any((place / name).is_file() for place in (ROOT / "src/vrag", ROOT))
    ]
    assert not missing


_CALLS = re.compile(
    r"Image\.open\(|\b(?:eval|exec|compile|load|loads|system|popen|Environment|extractall|unpack_archive|from_string)\("
    r"|shelve|joblib|yaml\.|dill\.|cloudpickle|xml\.|etree|ElementTree|allow_pickle|trust_remote_code|shell="
)


@cache
def list_calls() -> list[tuple[str, str, ast.Call]]:
    """The calls of the files that may have one of interest: file, dotted name that is called, and call."""
    found: list[tuple[str, str, ast.Call]] = []
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        if _CALLS.search(text):
            nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
            name = path.relative_to(ROOT / "src" / "vrag").as_posix()
            found += [(name, ast.unparse(node.func), node) for node in nodes]
    return found


def keywords(call: ast.Call) -> dict[str, str]:
    return {word.arg: ast.unparse(word.value) for word in call.keywords if word.arg}


@pytest.mark.slow
def test_pictures_are_opened_in_named_formats_only() -> None:
    opened = [(file, call) for file, name, call in list_calls() if name == "Image.open"]
    assert len(opened) > 10
    assert not [(file, call.lineno) for file, call in opened if "formats" not in keywords(call)]


OWN_XML = frozenset({"corpus/formats/libreoffice/xml_parts.py"})  # without document types
XML_READERS = frozenset({"XMLParser", "XMLPullParser", "fromstring", "iterparse"})
OWN_PICKLES = frozenset(
    {
        "corpus/workers/requests.py",  # what the parent process sends; replies are no pickles
        "index/remote/ray.py",  # between our own tasks on a cluster that the settings name
        "index/remote/ray_tasks.py",
    }
)


def test_dangerous_calls_are_those_listed() -> None:
    """Pickles, code, shells, YAML, XML and templates: anything new is looked at."""
    found: list[str] = []
    for file, name, call in list_calls():
        given = keywords(call)
        last = name.rsplit(".", 1)[-1]
        bad = (
            (name in {"pickle.load", "pickle.loads"} and file not in OWN_PICKLES)
            or (last in XML_READERS and file not in OWN_XML)
            or name in {"eval", "exec", "compile", "os.system", "os.popen", "marshal.loads", "shelve.open"}
            or name.startswith(
                ("joblib.", "yaml.", "dill.", "cloudpickle.", "xml.", "ElementTree.", "etree.")
            )
            or (name.startswith("expat.") and file != "corpus/formats/xfa.py")  # refuses document types
            or (last == "load" and "torch" in name and given.get("weights_only") != "True")
            or given.get("allow_pickle", "False") != "False"
            or given.get("trust_remote_code", "False") != "False"
            or given.get("shell", "False") != "False"
            or (last == "Environment" and "loader" in given and "autoescape" not in given)
            or last in {"extractall", "unpack_archive", "from_string"}
        )
        if bad:
            found.append(f"{file}:{call.lineno}: {name}")
    assert not found


HEAD = "Host: 127.0.0.1\r\n"
HIDDEN = f"GET /version HTTP/1.1\r\n{HEAD}Authorization: Bearer secret\r\n\r\n"


@pytest.fixture(scope="module")
def guarded() -> Iterator[str]:
    with serving(options=ServerOptions(token="secret", drain_seconds=1)) as address:
        yield address


@pytest.mark.parametrize(
    "head",
    [
        f"Content-Length: {len(HIDDEN)}\r\nTransfer-Encoding: chunked\r\n",
        f"Content-Length: {len(HIDDEN)}\r\nContent-Length: 0\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        f"Content-Length: +{len(HIDDEN)}\r\n",
        "Host: evil.example\r\n",
    ],
)
def test_requests_that_two_parsers_could_read_in_two_ways_end_the_connection(guarded: str, head: str) -> None:
    """What follows such a head, a hidden request or a body, is not answered as a request of its own."""
    with dial(guarded) as connection:
        connection.sendall(f"POST /session HTTP/1.1\r\n{HEAD}{head}\r\n0\r\n\r\n{HIDDEN}".encode())
        connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    statuses = re.findall(rb"HTTP/1\.1 (\d+)", answer)
    assert len(statuses) <= 1, answer
    assert set(statuses) <= {b"400", b"501"}
