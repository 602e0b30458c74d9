from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from corpus.fakes import PatientFile, PatientPages, ScriptedFile
from corpus.pdf_files import PdfPage, pdf_bytes, text_at
from vrag.corpus.convert import Converted, Failed, Finished, ItemCount, convert_all
from vrag.corpus.converter import CorpusOptions
from vrag.corpus.discover import read_source
from vrag.corpus.workers import sandbox
from vrag.corpus.workers.sandbox import SandboxOptions
from vrag.errors import CollectionError, VragError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from vrag.corpus.converter import Conversion, SourceFile


SCRIPTED = {".script": ScriptedFile}
linux = pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at processes through /proc")


def scripts(tmp_path: Path, *contents: str) -> list[SourceFile]:
    sources: list[SourceFile] = []
    for number, content in enumerate(contents):
        path = tmp_path / f"{number}.script"
        path.write_text(content)
        sources.append(read_source(path))
    return sources


def run(tmp_path: Path, *contents: str, workers: int = 2, seconds: float = 20.0) -> list[Conversion]:
    options = CorpusOptions(workers=workers, page_seconds=seconds)
    return list(convert_all(scripts(tmp_path, *contents), tmp_path / "items", options, converters=SCRIPTED))


def made(conversions: list[Conversion], source: int = 0) -> list[int]:
    name = f"{source}.script"
    return sorted(c.item.ordinal for c in conversions if isinstance(c, Converted) and c.source.name == name)


def failures(conversions: list[Conversion]) -> dict[int | None, str]:
    return {c.ordinal: c.reason for c in conversions if isinstance(c, Failed)}


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def await_end(pids: set[int], seconds: float = 10.0) -> set[int]:
    limit = time.monotonic() + seconds
    while (left := {pid for pid in pids if alive(pid)}) and time.monotonic() < limit:
        time.sleep(0.02)
    return left


def test_counted_is_first_and_finished_last_of_each_file(tmp_path: Path) -> None:
    conversions = run(tmp_path, "ok " * 30, "ok bad ok", "odd")
    for number, count in enumerate([30, 3, 1]):
        own = [c for c in conversions if c.source.name == f"{number}.script"]
        assert isinstance(own[0], ItemCount)
        assert own[0].items == count
        assert isinstance(own[-1], Finished)
        assert Counter(type(c) for c in own)[Finished] == 1
        assert len(own) == count + 2
    assert made(conversions) == list(range(1, 31))


def test_a_refused_item_fails_alone_with_its_reason(tmp_path: Path) -> None:
    conversions = run(tmp_path, "ok bad ok odd ok")
    assert made(conversions) == [1, 3, 5]
    assert failures(conversions) == {2: "It is bad.", 4: "It is damaged (ZeroDivisionError: odd)."}


@pytest.mark.smoke
@pytest.mark.slow
def test_a_crash_costs_the_item_it_happened_on(tmp_path: Path) -> None:
    conversions = run(tmp_path, "crash ok ok ok crash ok ok ok crash", "ok ok")
    assert made(conversions) == [2, 3, 4, 6, 7, 8]
    assert made(conversions, 1) == [1, 2]
    assert set(failures(conversions)) == {1, 5, 9}
    assert all("crashed" in reason for reason in failures(conversions).values())


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is blocked is given up after twice the limit of processor time."""
    monkeypatch.setattr("vrag.corpus.workers.worker_pool.WALL_FACTOR", 2.0)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is, nothing is taken for blocked."""
    monkeypatch.setattr("vrag.corpus.workers.worker_pool.WALL_FACTOR", 1000.0)


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_a_hang_costs_the_item_it_happened_on_and_its_time_limit(tmp_path: Path) -> None:
    conversions = run(tmp_path, "ok ok ok hang ok ok", seconds=1.0)
    assert made(conversions) == [1, 2, 3, 5, 6]
    assert failures(conversions) == {4: "It took longer than the time limit of 2 seconds."}


@pytest.mark.slow
@pytest.mark.usefixtures("patient")
@pytest.mark.skipif(sys.platform == "win32", reason="has no limit of processor time")
def test_an_endless_computation_costs_its_item_and_its_limit_of_processor_time(tmp_path: Path) -> None:
    conversions = run(tmp_path, "ok ok ok spin ok ok", "ok spin!", seconds=1.0)
    assert made(conversions) == [1, 2, 3, 5, 6]
    reason = "It took longer than the time limit of 1 seconds of processor time."
    assert {c.reason for c in conversions if isinstance(c, Failed)} == {reason}
    assert failures(conversions).keys() == {4, None}


@pytest.mark.slow
@pytest.mark.usefixtures("patient")
@pytest.mark.skipif(sys.platform == "win32", reason="has no limit of processor time")
def test_a_page_that_has_to_wait_for_the_processor_is_not_lost(tmp_path: Path) -> None:
    """It takes longer than its limit, and no more processor time than that."""
    conversions = run(tmp_path, "ok nap ok", seconds=1.0)
    assert made(conversions) == [1, 2, 3]


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_libraries_find_nothing_in_the_standard_input_of_a_worker(tmp_path: Path) -> None:
    """Tasks come by it, and a thread waits for them: on Windows, libraries that look at it wait too."""
    assert failures(run(tmp_path, "input", workers=1)) == {1: "Standard input has b''."}


@pytest.mark.slow
def test_a_file_that_crashes_or_hangs_on_opening_fails_as_a_whole(tmp_path: Path) -> None:
    conversions = run(tmp_path, "ok crash!", "ok hang!", "ok", seconds=1.0)
    whole = {c.source.name: c.reason for c in conversions if isinstance(c, Failed) and c.ordinal is None}
    assert "crashed" in whole["0.script"]
    assert "time limit" in whole["1.script"]
    assert made(conversions, 2) == [1]
    assert sum(isinstance(c, Finished) for c in conversions) == 3


def test_a_reader_who_pauses_longer_than_the_time_limit_costs_nothing(tmp_path: Path) -> None:
    options = CorpusOptions(workers=2, page_seconds=0.5)
    results: list[Conversion] = []
    sources = scripts(tmp_path, "ok " * 400)
    for number, conversion in enumerate(convert_all(sources, tmp_path, options, converters=SCRIPTED)):
        if number == 5:
            time.sleep(1.5)
        results.append(conversion)
    assert made(results) == list(range(1, 401))


def test_items_at_hand_are_not_made_again(tmp_path: Path) -> None:
    def have(_: SourceFile) -> Collection[int]:
        return {1, 3, 4}

    sources = scripts(tmp_path, "crash ok crash crash ok")
    results = list(convert_all(sources, tmp_path, CorpusOptions(workers=1), have, converters=SCRIPTED))
    assert made(results) == [2, 5]
    assert not failures(results)
    assert next(c.items for c in results if isinstance(c, ItemCount)) == 5


def test_sources_are_taken_as_they_are_needed(tmp_path: Path) -> None:
    taken = 0

    def sources() -> Iterator[SourceFile]:
        nonlocal taken
        for source in scripts(tmp_path, *["ok slow slow slow"] * 40):
            taken += 1
            yield source

    results = convert_all(sources(), tmp_path, CorpusOptions(workers=2), converters=SCRIPTED)
    next(results)
    assert taken <= 6
    results.close()


class Live:
    """Sources that come one after another, when the test says so."""

    def __init__(self) -> None:
        self.coming: list[SourceFile] = []

    def __iter__(self) -> Live:
        return self

    def __next__(self) -> SourceFile:
        if not self.coming:
            raise StopIteration
        return self.coming.pop(0)


@pytest.mark.slow
def test_a_small_file_that_comes_later_does_not_wait_for_a_large_one(tmp_path: Path) -> None:
    large, small, middle = scripts(tmp_path, "slow " * 60, "ok ok ok", "ok " * 30)
    live = Live()
    live.coming.append(large)
    seen: list[str] = []
    options = CorpusOptions(workers=1)
    for conversion in convert_all(live, tmp_path, options, converters=SCRIPTED, live=True):
        if isinstance(conversion, Converted) and conversion.source is large and conversion.item.ordinal == 4:
            live.coming += [middle, small]
        if isinstance(conversion, Converted | Finished):
            seen.append(f"{conversion.source.name} {type(conversion).__name__}")
    ends = [entry for entry in seen if "Finished" in entry]
    assert ends == ["1.script Finished", "2.script Finished", "0.script Finished"]
    before = seen[: seen.index("1.script Finished")].count("0.script Converted")
    assert before <= 5, "one item may be in progress"
    assert len(seen) == 60 + 3 + 30 + 3


@pytest.fixture
def same_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers look for files beside the one that they read, in a folder that is the owner's alone."""
    monkeypatch.setattr(sandbox, "_options", SandboxOptions(user=""))


@pytest.mark.usefixtures("same_user")
@pytest.mark.slow
def test_a_large_file_leaves_a_worker_to_small_ones(tmp_path: Path) -> None:
    (tmp_path / "a.slow").write_text("ok " * 9)
    (tmp_path / "z.script").write_text("ok ok")
    live = Live()
    live.coming.append(read_source(tmp_path / "a.slow"))
    converters = SCRIPTED | {".slow": PatientPages}
    ends: list[str] = []
    failures: list[str] = []
    for conversion in convert_all(live, tmp_path, CorpusOptions(workers=2), converters=converters, live=True):
        if isinstance(conversion, ItemCount) and conversion.source.name == "a.slow":
            live.coming.append(read_source(tmp_path / "z.script"))
        if isinstance(conversion, Failed):
            failures.append(conversion.reason)
        if isinstance(conversion, Finished):
            ends.append(conversion.source.name)
            (tmp_path / "a.go").touch()
    assert failures == []
    assert ends == ["z.script", "a.slow"]


@pytest.mark.usefixtures("same_user")
@pytest.mark.slow
def test_files_that_take_long_to_open_leave_a_worker_to_others(tmp_path: Path) -> None:
    live = Live()
    for name in ("a.slow", "b.slow", "z.script"):
        (tmp_path / name).write_text("ok ok" if name == "z.script" else "ok " * 9)
        live.coming.append(read_source(tmp_path / name))
    converters = SCRIPTED | {".slow": PatientFile}
    ends: list[str] = []
    for conversion in convert_all(live, tmp_path, CorpusOptions(workers=2), converters=converters, live=True):
        assert not isinstance(conversion, Failed)
        if isinstance(conversion, Finished):
            ends.append(conversion.source.name)
            for name in ("a.go", "b.go"):
                (tmp_path / name).touch()
    assert ends[0] == "z.script"
    assert sorted(ends) == ["a.slow", "b.slow", "z.script"]


def test_live_sources_end_when_none_are_left_and_no_file_is_open(tmp_path: Path) -> None:
    assert list(convert_all(Live(), tmp_path, CorpusOptions(workers=1), live=True)) == []


@pytest.mark.slow
@linux
def test_an_item_that_wants_all_memory_fails_alone(tmp_path: Path) -> None:
    conversions = run(tmp_path, "ok eat ok")
    assert made(conversions) == [1, 3]
    assert failures(conversions) == {2: "It takes more memory than is allowed."}


@pytest.mark.slow
@linux
def test_closing_the_generator_ends_the_workers(tmp_path: Path) -> None:
    sources = scripts(tmp_path, "pid hang", "pid hang")
    results = convert_all(sources, tmp_path, CorpusOptions(workers=2), converters=SCRIPTED)
    pids: set[int] = set()
    while len(pids) < 2:
        conversion = next(results)
        if isinstance(conversion, Converted):
            pids.add(int(conversion.item.text))
    assert all(map(alive, pids))
    begun = time.monotonic()
    results.close()
    assert time.monotonic() - begun < 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids), "not even a zombie is left"


CHILD = """
import sys
from pathlib import Path
from corpus.fakes import ScriptedFile
from vrag.corpus.convert import Converted, convert_all
from vrag.corpus.discover import read_source
from vrag.corpus.converter import CorpusOptions

source = read_source(Path(sys.argv[1]))
options = CorpusOptions(workers=1)
for conversion in convert_all([source], source.path.parent, options, converters={".script": ScriptedFile}):
    if isinstance(conversion, Converted):
        sys.stdout.write(conversion.item.text + "\\n")
        sys.stdout.flush()
"""


@pytest.mark.slow
@linux
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_workers_end_with_their_parent_and_need_no_main_guard(tmp_path: Path, how: signal.Signals) -> None:
    (source,) = scripts(tmp_path, "pid hang")
    script = tmp_path / "unguarded.py"
    script.write_text(CHILD)
    paths = os.pathsep.join(filter(None, sys.path))
    with subprocess.Popen(
        [sys.executable, script, source.path],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": paths},
    ) as parent:
        assert parent.stdout
        worker = int(parent.stdout.readline())
        assert alive(worker)
        parent.send_signal(how)
        parent.wait(10)
    assert not await_end({worker})


def test_an_unknown_suffix_is_a_failure_with_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "a.xyz"
    path.write_text("x")
    failed, finished = convert_all([read_source(path)], tmp_path, CorpusOptions())
    assert isinstance(failed, Failed)
    assert ".xyz" in failed.reason
    assert isinstance(finished, Finished)


def test_a_file_that_changed_or_vanished_since_it_was_found_fails(tmp_path: Path) -> None:
    first, second, third = scripts(tmp_path, "ok", "ok ok", "ok ok ok")
    first.path.write_text("changed")
    second.path.unlink()
    options = CorpusOptions(workers=1)
    results = list(convert_all([first, second, third], tmp_path, options, converters=SCRIPTED))
    reasons = [c.reason for c in results if isinstance(c, Failed)]
    assert len(reasons) == 2
    assert "changed" in reasons[0]
    assert "No such file" in reasons[1]
    assert made(results, 2) == [1, 2, 3]


def test_an_items_directory_that_cannot_be_written_is_no_fault_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "items").write_text("a file stands in the way")
    with pytest.raises(CollectionError, match="cannot be written"):
        run(tmp_path, "picture")


@pytest.mark.slow
def test_a_converter_that_workers_cannot_import_is_an_error(tmp_path: Path) -> None:
    nowhere = type("Nowhere", (ScriptedFile,), {"__module__": "corpus.nowhere"})
    sys.modules["corpus.nowhere"] = type(sys)("corpus.nowhere")
    sys.modules["corpus.nowhere"].__dict__["Nowhere"] = nowhere
    try:
        with pytest.raises(VragError, match="converter"):
            list(
                convert_all(
                    scripts(tmp_path, "ok"), tmp_path, CorpusOptions(), converters={".script": nowhere}
                )
            )
    finally:
        del sys.modules["corpus.nowhere"]


@pytest.mark.slow
def test_one_large_file_is_shared_by_all_workers(tmp_path: Path) -> None:
    conversions = run(tmp_path, "pid slow " * 60)
    pids = {c.item.text for c in conversions if isinstance(c, Converted)} - {"slow"}
    assert len(pids) == 2


def test_the_order_of_work_does_not_change_the_items(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf_bytes(*(PdfPage(text_at(72, 700, f"this is page number {n}")) for n in range(20))))
    found: list[dict[str, str]] = []
    for workers in (1, 3):
        options = CorpusOptions(workers=workers, ocr="never")
        results = convert_all([read_source(path)], tmp_path / f"items{workers}", options)
        found.append({c.item.id: repr(c.item) for c in results if isinstance(c, Converted)})
    assert len(found[0]) == 20
    assert found[0] == found[1]
