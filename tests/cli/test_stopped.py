"""Work that ends before its end: by Ctrl-C, at whatever moment, or with its process."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from chat_server import ChatServer, Hang
from typer.main import get_command
from typer.testing import CliRunner

from vrag.agent.runs.run_store import RunStore
from vrag.cli.root import COMMANDS, create_app

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path


app = create_app()

COLLECTION = "my notes"
QUESTION = "How many passengers did the ferry carry in 2024?"


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("desk")
    (path / "note.md").write_text("The ferry carried 48,200 passengers in 2024.\n")
    assert vrag(path, "index", "add", "note.md", "-c", COLLECTION).returncode == 0
    return path


@pytest.fixture
def server() -> Generator[ChatServer]:
    with ChatServer(lambda _: Hang()) as started:
        yield started


def environment(desk: Path) -> dict[str, str]:
    return {**os.environ, "HOME": str(desk), "COLUMNS": "200"}


def vrag(desk: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "vrag", *arguments]
    return subprocess.run(
        line, capture_output=True, text=True, cwd=desk, env=environment(desk), check=False, timeout=120
    )


def ended_by(number: signal.Signals, desk: Path, server: ChatServer, *arguments: str) -> tuple[int, str, str]:
    """Sends a signal while the model is being waited for; status and what was printed."""
    line = [sys.executable, "-m", "vrag", "ask", QUESTION, "-c", COLLECTION, "--model", "scripted"]
    with subprocess.Popen(
        [*line, "--base-url", server.url, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=desk,
        env=environment(desk),
    ) as process:
        while not server.requests:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    return process.returncode, out, err


STOPS = pytest.mark.parametrize(
    ("number", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGTERM"]
)


@pytest.mark.slow
@STOPS
def test_a_stop_leaves_one_object_where_json_was_asked_for(
    desk: Path, server: ChatServer, number: signal.Signals, expected: int
) -> None:
    status, out, err = ended_by(number, desk, server, "--json")
    assert status == expected
    told = json.loads(out)
    assert (told["answer"], told["stop_reason"], told["question"]) == (None, "cancelled", QUESTION)
    assert told["run"] in err
    assert "Traceback" not in err


def test_so_does_ctrl_c_before_the_question_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def pressed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("vrag.cli.ask.open_for_asking", pressed)
    done = CliRunner().invoke(app, ["ask", QUESTION, "--json"])
    assert done.exit_code == 130
    assert json.loads(done.stdout).keys() == {"failure", "hint"}


@pytest.mark.slow
@STOPS
def test_what_is_said_on_a_stop_leads_to_the_run(
    desk: Path, server: ChatServer, number: signal.Signals, expected: int
) -> None:
    status, _, err = ended_by(number, desk, server)
    assert status == expected
    command = shlex.split(" ".join(err.split("Finished steps are kept: ")[1].split()))
    shown = vrag(desk, *command[1 : command.index(COLLECTION) + 2])
    assert shown.returncode == 0, (err, shown.stderr)
    assert "The run was stopped before there was an answer." in shown.stdout


@pytest.mark.slow
def test_a_run_that_ended_with_its_process_is_called_interrupted_everywhere(
    desk: Path, server: ChatServer
) -> None:
    assert ended_by(signal.SIGKILL, desk, server)[0] == -signal.SIGKILL
    here = ("-c", COLLECTION)
    listed = json.loads(vrag(desk, "runs", "list", "--json", *here).stdout)
    assert listed[0]["ended"] == "interrupted"
    assert "Interrupted: " in vrag(desk, "runs", "show", "last", *here).stdout
    assert vrag(desk, "runs", "export", "last", "-o", "cut.html", *here).returncode == 0
    assert ">Interrupted<" in (desk / "cut.html").read_text(encoding="utf-8")
    told = vrag(desk, "report", "--run", "last", "-o", "told.html", *here)
    assert "1 question, 0 answered, 1 interrupted" in told.stdout
    assert told.returncode == 1, "nobody has found that the documents hold no answer"
    assert "Interrupted" in (desk / "told.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("module", ["typer", "vrag.cli.ask", "vrag.settings", "vrag.cli.root"])
def test_ctrl_c_while_the_program_loads_ends_it_quietly(module: str) -> None:
    code = (
        "import sys\n"
        "class Pressed:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {module!r}: raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Pressed())\n"
        "sys.argv = ['vrag', 'ask']\n"
        "from vrag.cli import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Stopped.\n")


def interrupted(desk: Path, seconds: float, *arguments: str, again: float | None = None) -> tuple[int, str]:
    """Sends Ctrl-C to a command and its processes, some time after it began; status and messages."""
    started = "import os, sys; os.write(1, b'+'); from vrag.cli import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", started, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=desk,
        env=environment(desk),
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        for pause in filter(None, (seconds, again)):
            time.sleep(pause)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=120)
    return process.returncode, err.decode()


@pytest.mark.slow
@pytest.mark.parametrize("again", [None, 0.03], ids=["once", "twice"])
def test_ctrl_c_at_any_moment_prints_one_line(tmp_path: Path, again: float | None) -> None:
    """While the program loads, starts processes, indexes, asks and prints."""
    (tmp_path / "documents").mkdir()
    for number in range(6):
        (tmp_path / "documents" / f"{number}.md").write_text(
            f"The ferry number {number} carried {number} passengers.\n" * 50
        )
    begin = time.monotonic()
    assert vrag(tmp_path, "ask", "documents", QUESTION, "-c", "whole").returncode in {0, 3}
    whole = time.monotonic() - begin
    for part in range(1, 6):
        status, said = interrupted(
            tmp_path, whole * part / 5.5, "ask", "documents", QUESTION, "-c", f"part-{part}", again=again
        )
        lines = [line for line in said.splitlines() if not line.startswith("Index")]
        assert status in {130, 0, 3}, said
        assert "Traceback" not in said
        assert len(lines) == (status == 130), said
        assert all(line.startswith("Stopped.") for line in lines)


@pytest.mark.slow
def test_ctrl_c_that_a_library_turns_into_another_error_ends_quietly_too(tmp_path: Path) -> None:
    where = WAITING.replace(
        WAITING[WAITING.index("    async def long") :],
        "    try:\n        os.kill(os.getpid(), signal.SIGINT)\n        import time; time.sleep(5)\n"
        "    except KeyboardInterrupt:\n        raise ImportError('a part is missing') from None\n",
    )
    assert stopped_itself(tmp_path, where, "wait") == (130, "Stopped.\n")


@pytest.mark.slow
def test_ctrl_c_in_a_destructor_is_not_lost(tmp_path: Path) -> None:
    where = WAITING.replace(
        WAITING[WAITING.index("    async def long") :],
        "    class Pressed:\n        def __del__(self): os.kill(os.getpid(), signal.SIGINT)\n"
        "    Pressed()\n    import time; time.sleep(20)\n",
    )
    assert stopped_itself(tmp_path, where, "wait") == (130, "Stopped.\n")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["", None], ids=["list", "all"])
def test_loading_commands_loads_no_models_and_no_index_engine(command: str | None) -> None:
    """Listing the commands loads less than loading all of them."""
    code = f"import sys; from vrag.cli.root import create_app; create_app({command!r}); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"torch", "transformers", "pyarrow", "onnxruntime", "cv2"}
    if command is not None:
        heavy |= {"apsw", "fastapi", "vrag.agent.environment", "vrag.factory.session"}
    assert not heavy.intersection(done.stdout.split())


def test_the_list_of_commands_says_what_each_says_of_itself() -> None:
    listed: Any = get_command(create_app(""))
    loaded: Any = get_command(app)
    assert list(listed.commands) == list(COMMANDS)
    assert listed.commands.keys() == loaded.commands.keys()
    for name, command in loaded.commands.items():
        assert listed.commands[name].help == command.help.partition("\n\n")[0]


STOPPED_ITSELF = """
import os, signal, sys
{setup}
from vrag.cli import main
{where}
sys.argv = ["vrag", *sys.argv[1:]]
main()
"""
AT_THE_THIRD_FILE = """
from vrag.index import build
take, taken = build._Build._handle_result, []
def stopping(self, one):
    take(self, one)
    taken.append(one)
    if len(taken) == 3:
        os.kill(os.getpid(), signal.SIGTERM)
build._Build._handle_result = stopping
"""


def stopped_itself(desk: Path, where: str, *arguments: str, setup: str = "") -> tuple[int, str]:
    """Runs a command in a process that sends itself SIGTERM at a given point; status and what was said."""
    code = STOPPED_ITSELF.format(setup=setup, where=where)
    line = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(
        line, capture_output=True, text=True, cwd=desk, env=environment(desk), check=False, timeout=120
    )
    return done.returncode, done.stderr


@pytest.mark.slow
def test_sigterm_while_files_are_added_keeps_what_is_done(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for number in range(6):
        (tmp_path / "folder" / f"{number}.md").write_text(f"Ferry number {number}.\n")
    status, said = stopped_itself(tmp_path, AT_THE_THIRD_FILE, "index", "add", "folder", "-c", "kept")
    assert status == 143, said
    assert "Stopped. Finished work is kept. Run the same command again to continue." in " ".join(said.split())
    assert "Traceback" not in said
    assert vrag(tmp_path, "index", "verify", "-c", "kept").returncode == 0
    again = vrag(tmp_path, "index", "add", "folder", "-c", "kept")
    assert again.returncode == 0
    listed = json.loads(vrag(tmp_path, "search", "ferry", "-c", "kept", "--json").stdout)
    assert len(listed["hits"]) == 6


WAITING = """
import asyncio
from vrag.cli import root
create_app = root.create_app
def create_app_with_wait(name):
    app = create_app(name)
    app.command("wait")(wait)
    return app
root.create_app = create_app_with_wait
def wait(ignored: bool = False) -> None:
    async def long() -> None:
        asyncio.get_running_loop().call_later(0.1, os.kill, os.getpid(), signal.SIGTERM)
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            print("cancelled in order", file=sys.stderr)
            raise SystemExit(130) from None
    asyncio.run(long())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "setup", ["", "signal.signal(signal.SIGINT, signal.SIG_IGN)"], ids=["", "background"]
)
def test_sigterm_cancels_work_in_an_event_loop_as_ctrl_c_does(tmp_path: Path, setup: str) -> None:
    """Also in a process that a shell started in the background, where Ctrl-C is ignored."""
    status, said = stopped_itself(tmp_path, WAITING, "wait", setup=setup)
    assert (status, said) == (143, "cancelled in order\nStopped.\n")


@pytest.mark.slow
def test_a_process_in_the_background_goes_on_ignoring_ctrl_c(tmp_path: Path) -> None:
    where = WAITING.replace("signal.SIGTERM)", "signal.SIGINT)")
    ignored = "signal.signal(signal.SIGINT, signal.SIG_IGN)"
    brief = where.replace("sleep(100)", "sleep(0.3)")
    assert stopped_itself(tmp_path, brief, "wait", setup=ignored) == (0, "")
    assert stopped_itself(tmp_path, where, "wait") == (130, "cancelled in order\nStopped.\n")


@pytest.mark.slow
def test_a_run_that_is_just_starting_is_not_called_damaged(desk: Path) -> None:
    with RunStore(desk / COLLECTION / "runs").record() as recording:
        listed = json.loads(vrag(desk, "runs", "list", "--json", "-c", COLLECTION).stdout)
        starting = {"run": recording.id, "ended": "starting", "question": "", "answer": ""}
        assert listed[0].items() >= starting.items()
        shown = vrag(desk, "runs", "show", "last", "-c", COLLECTION)
        assert (shown.returncode, "just starting" in " ".join(shown.stderr.split())) == (1, True)
    RunStore(desk / COLLECTION / "runs").delete(recording.id)
