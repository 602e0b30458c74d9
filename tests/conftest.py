"""Every test has its own settings and its own collection, and no network."""

from __future__ import annotations

import gc
import inspect
import itertools
import os
import signal
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

import httpx
import httpx._transports.default as httpx_transports
import pytest
import quarantine
import tiers
import worker_threads
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

pytest_plugins = ["pytester"]

settings.register_profile("vrag", deadline=None, derandomize=True, max_examples=30)  # the same everywhere
settings.register_profile(
    "fuzz", deadline=None, print_blob=True, max_examples=200
)  # new ones, for `make fuzz`
settings.load_profile("vrag")

_default_timeout = inspect.signature(httpx.get).parameters["timeout"].default
for _phase in ("connect", "read", "write", "pool"):
    setattr(_default_timeout, _phase, 120.0)  # seconds: a busy machine answers late; the default is 5

_load_certificates = "create_ssl_context"  # each HTTP client reads them again, which takes 20 ms
setattr(httpx_transports, _load_certificates, cache(getattr(httpx_transports, _load_certificates)))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell has it for what runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Add our plugins; let each worker begin at another file: what one has rewritten, the others load."""
    config.pluginmanager.register(tiers)
    config.pluginmanager.register(quarantine)
    config.pluginmanager.register(worker_threads)
    worker = getattr(config, "workerinput", None)
    if worker is None or config.args != ["tests"]:
        return
    files = sorted(str(path) for path in (config.rootpath / "tests").rglob("test_*.py"))
    start = len(files) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    config.args = [*files[start:], *files[:start]]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give workers one order: files with slow tests first, then those of many, so that all end together."""
    if not hasattr(config, "workerinput"):
        return
    tests = Counter(item.path for item in items)
    slow = {item.path for item in items if tiers.is_slow(item)}
    items.sort(key=lambda item: (item.path not in slow, -tests[item.path], str(item.path)))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests without the garbage collector, since that makes much and drops nothing."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Keep the collected tests out of each later garbage collection: there are ten thousand of them."""
    gc.collect()
    gc.freeze()


_FOREIGN = ("VRAG_", "OPENAI_", "OPENROUTER_", "GEMINI_", "ANTHROPIC_", "DASHSCOPE_")
_DEFAULTS = {
    "VRAG_PROBE": "false",  # scripted models answer in the order of their script
    "VRAG_SECOND_READING": "false",  # OCR again; the tests that need it turn it on
    "VRAG_OCR": "false",  # takes most of the time of a conversion; the tests that need it turn it on
    "VRAG_WORKERS": "1",  # each process takes time to start; several are started in tests of converting
}
os.environ.update(_DEFAULTS)  # for fixtures of modules, too


@pytest.fixture(scope="session")
def new_homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Endless folders, one for each test; `mktemp` would list all earlier ones for each."""
    folder = tmp_path_factory.mktemp("homes")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def own_settings(new_homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a home that no setting of the person who runs the tests reaches."""
    home = next(new_homes)
    home.mkdir()
    for name in [name for name in os.environ if name.startswith(_FOREIGN) and name not in _DEFAULTS]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    return home
