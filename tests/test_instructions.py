"""Instructions of the user and of released checkpoints: files that are read, and files that are fetched."""

from __future__ import annotations

import hashlib
import sys
import threading
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from vrag.cli.root import create_app, run
from vrag.errors import DownloadError, SettingsError
from vrag.factory import instructions
from vrag.factory.agents import open_agent, open_method, open_profile
from vrag.factory.instructions import PUBLISHED, Instruction, fetch_wording, read_wording
from vrag.model_profiles import PROFILES
from vrag.settings import Settings
from vrag.testing import tiny_corpus

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

app = create_app()

CODE = '''
import base64
wording = "another"
prompt_text = """Answer it.
Question: {question}
"""

def run(question):
    send({"type": "text", "text": prompt_text})
    send({"type": "image", "text": "a caption"})
    send({"type": "text", "text": "answer now"})
raise SystemExit("it must not be executed")
'''
SOURCE = replace(
    PUBLISHED["vrag-rl"], variable="prompt_text", sha256=hashlib.sha256(CODE.encode()).hexdigest()
)


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[str]:
    """A server with raw files as GitHub has them."""
    monkeypatch.setitem(PUBLISHED, "vrag-rl", SOURCE)
    file = tmp_path / SOURCE.repository / SOURCE.commit / SOURCE.path
    file.parent.mkdir(parents=True)
    file.write_text(CODE)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Silent, directory=str(tmp_path))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


class TestFetching:
    def test_the_constants_are_read_and_nothing_is_executed(self, host: str) -> None:
        assert fetch_wording("vrag-rl", host) == Instruction(
            instruction="Answer it.\nQuestion: {question}\n", answer_now="answer now"
        )

    def test_another_file_than_expected_is_refused(self, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(PUBLISHED, "vrag-rl", replace(SOURCE, sha256="0" * 64))
        with pytest.raises(DownloadError, match="SHA-256 differs"):
            fetch_wording("vrag-rl", host)

    def test_a_file_that_is_too_long_is_refused(self, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(instructions, "_MAX_BYTES", 100)
        with pytest.raises(DownloadError, match="more than 100 bytes"):
            fetch_wording("vrag-rl", host)

    @pytest.mark.parametrize("host", ["http://127.0.0.1:9", "nowhere", "http://"])
    def test_without_a_connection_the_error_says_what_to_do(
        self, host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with pytest.raises(DownloadError, match="cannot be fetched") as caught:
            fetch_wording("vrag-rl", host)
        assert "--host" in (caught.value.hint or "")
        command = ["vrag", "config", "fetch-instruction", "vrag-rl", "--host", host]
        monkeypatch.setattr(sys, "argv", [*command, "--out", str(tmp_path / "own.toml")])
        with pytest.raises(SystemExit) as stopped:
            run()
        assert stopped.value.code == 1

    def test_what_the_host_lacks_is_named(self, host: str) -> None:
        with pytest.raises(DownloadError, match="404"):
            fetch_wording("unidoc-rl", host)

    def test_sources_are_profiles_with_a_fixed_commit(self) -> None:
        assert PUBLISHED.keys() <= PROFILES.keys()
        for source in PUBLISHED.values():
            assert (len(source.commit), len(source.sha256)) == (40, 64)
            assert source.url("https://raw.githubusercontent.com").startswith("https://")

    def test_the_command_writes_a_file_that_the_setting_takes(self, host: str, tmp_path: Path) -> None:
        file = tmp_path / "own.toml"
        command = ["config", "fetch-instruction", "vrag-rl", "--host", host, "--out", str(file)]
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
        assert f"VRAG_INSTRUCTION={file}" in done.output.replace("\n", "")
        settings = Settings(instruction=str(file), model="autumncc/Qwen2.5-VL-7B-VRAG")
        assert open_method(settings).instruction == "Answer it.\nQuestion: {question}\n"
        assert open_profile(settings) == replace(PROFILES["vrag-rl"], answer_now="answer now")
        again = CliRunner().invoke(app, command)
        assert again.exit_code != 0
        assert CliRunner().invoke(app, [*command, "--force"]).exit_code == 0


class TestReading:
    def test_plain_text_is_the_instruction(self, tmp_path: Path) -> None:
        file = tmp_path / "own.txt"
        file.write_text("Be brief.\n")
        assert read_wording(str(file)) == Instruction(instruction="Be brief.")

    @given(
        st.builds(
            Instruction,
            instruction=st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1).filter(
                str.strip
            ),
            answer_now=st.none() | st.text(st.sampled_from("a\"\\\n'{}é"), max_size=20),
        )
    )
    def test_what_is_written_is_read(
        self, tmp_path_factory: pytest.TempPathFactory, wording: Instruction
    ) -> None:
        file = tmp_path_factory.mktemp("wording") / "own.toml"
        file.write_text(wording.as_toml(), encoding="utf-8")
        assert read_wording(str(file)) == wording

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("answer_now = 'x'", "instruction must be a text"),
            ("instruction = 5", "instruction must be a text"),
            ("instruction = 'x'\nlast = 'y'", "there is no last"),
            ("instruction = ", "cannot be read"),
            ("instruction = ' '", "is empty"),
        ],
    )
    def test_toml_of_another_content_is_refused(self, tmp_path: Path, text: str, reason: str) -> None:
        file = tmp_path / "own.toml"
        file.write_text(text)
        with pytest.raises(SettingsError, match=reason):
            read_wording(str(file))


def test_a_released_checkpoint_without_its_instruction_is_warned_about(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    settings = Settings(model="autumncc/Qwen2.5-VL-7B-VRAG", base_url="http://127.0.0.1:9/v1")
    (notice,) = open_agent(settings, tiny_corpus()).notices
    assert "vrag config fetch-instruction vrag-rl" in notice
    assert notice in caplog.text
    (tmp_path / "own.txt").write_text("Be brief.")
    worded = settings.model_copy(update={"instruction": str(tmp_path / "own.txt")})
    assert not open_agent(worded, tiny_corpus()).notices
    assert not open_agent(settings.model_copy(update={"agent": "vimrag"}), tiny_corpus()).notices
