"""Rows of docs/coming-from-the-reference.md: run here in the words of the reference, or by a named test."""

from __future__ import annotations

import inspect
import os
import re
import runpy
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from model_servers import JsonServer, vllm

from vrag.compat import VRAG, VimRAG
from vrag.embed.registry import full_name
from vrag.factory.agents import check_agent
from vrag.factory.families import forget_families, open_family
from vrag.factory.instructions import PUBLISHED
from vrag.providers import DASHSCOPE
from vrag.samples import corpus_dir
from vrag.settings import load_settings

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "coming-from-the-reference.md"
ROWS = {
    int(number): cells
    for number, *cells in (
        line.split(" | ")
        for line in re.findall(r"^\| (\d.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    )
}
"""Second to fourth cell of each row, by its number."""
AGENTS = "tests/test_compat_agents.py"
MMLONGBENCH = "tests/cases/test_mmlongbench_rows.py"
COUNTERPARTS = "tests/test_docs.py::test_every_counterpart_works"
OLD_NAMES = "tests/test_docs.py::test_the_old_names_work"
FIELDS = (
    "tests/demo/test_streamlit_apps.py::test_the_fields_and_what_stands_in_them_are_those_of_the_reference"
)
STREAMED = f"{AGENTS}::test_it_yields_the_events_of_the_reference_in_chunks_as_they_are_written"
THINKING = f"{AGENTS}::test_thinking_and_sampling_are_those_of_the_reference"
TOOLS = "tests/agent/test_custom_tools.py::test_the_example_is_some_thirty_lines_and_found_by_its_entry_point"
TRAINING_SCRIPT = "tests/cli/test_verl_cli.py::test_the_script_hands_its_arguments_on"
JUDGE = "tests/test_providers.py::test_a_judge_may_be_named_with_its_provider"
ELSEWHERE = {
    6: "tests/test_run_demo.py::test_the_graph_agent_answers_without_a_model_and_says_so",
    7: "tests/test_run_demo.py::test_vllm_serves_the_model_while_the_question_is_answered",
    8: "tests/test_run_demo.py::test_search_answers_until_ctrl_c",
    **dict.fromkeys((10, 13, 14, 15, 16, 23, 24, 31, 32, 33, 34, 37, 38, 39, 40), COUNTERPARTS),
    **dict.fromkeys((25, 26, 27, 29, 30), OLD_NAMES),
    28: "tests/test_compat.py::test_goes_on_where_it_was_and_loads_what_was_built",
    35: "tests/test_compat_scripts.py::test_paths_that_are_edited_into_the_search_server_are_used",
    36: "tests/test_compat_scripts.py::test_paths_that_are_edited_into_the_search_server_are_used",
    46: "tests/test_docs.py::test_the_agents_can_be_imported_as_they_were",
    47: "tests/test_docs.py::test_the_agents_can_be_imported_as_they_were",
    48: f"{AGENTS}::test_without_a_generator_it_gives_the_answer_alone",
    49: f"{AGENTS}::test_it_yields_what_the_demo_shows_and_returns_the_answer",
    50: f"{AGENTS}::test_it_has_the_tools_of_the_reference_unless_the_user_chose_crop_nodes",
    51: THINKING,
    52: STREAMED,
    53: COUNTERPARTS,
    54: "tests/demo/test_streamlit_apps.py::test_vrag_shows_every_step_of_a_model",
    55: "tests/demo/test_streamlit_apps.py::test_vimrag_shows_its_graph",
    **dict.fromkeys((56, 57, 58, 59, 60), FIELDS),
    61: "tests/demo/test_streamlit_apps.py::test_vimrag_shows_its_graph",
    63: THINKING,
    64: STREAMED,
    **dict.fromkeys((62, 65, 66, 67, 87), COUNTERPARTS),
    68: "tests/cases/test_slidevqa_rows.py::test_slidevqa_counts_pages_from_1",
    69: "tests/published/test_vidoseek_benchmark.py::test_questions_are_asked_of_the_whole_collection",
    70: f"{MMLONGBENCH}::test_mmlongbench_counts_pages_from_1_and_its_page_0_is_no_page",
    71: "tests/evaluation/test_preparing.py::test_cases_documents_and_notes_come_back",
    72: "tests/distill/test_experts.py::test_keys_go_to_dashscope_and_to_whom_the_file_names",
    73: "tests/distill/test_distilling_cli.py"
    "::test_sampling_is_stopped_and_goes_on_and_says_what_each_expert_cost",
    74: "tests/distill/test_experts.py::test_boxes_come_through_every_family_and_back",
    75: "tests/distill/test_distilling_cli.py::test_what_was_selected_is_exported",
    76: "tests/distill/test_exporting.py::test_user_and_model_speak_in_turn_and_each_picture_has_its_place",
    77: "tests/test_geometry.py::test_smart_resize_agrees_with_the_image_processor_of_the_model_family",
    78: TRAINING_SCRIPT,
    79: "tests/reward/test_reward_plugins.py::test_the_part_of_the_page_is_found_and_counts",
    80: "tests/reward/test_cached_judge.py::test_the_same_answer_is_judged_once",
    81: TRAINING_SCRIPT,
    82: JUDGE,
    83: JUDGE,
    84: TOOLS,
    85: TOOLS,
    86: "tests/reward/test_combined_reward.py::test_by_hand",
    88: "tests/rl/test_ggpo.py::test_dead_ends_of_a_correct_trajectory_are_masked",
}
"""Tests of other files, by the rows that they run."""
HERE: set[int] = set()
"""Rows that tests of this file run."""
Test = TypeVar("Test", bound=Callable[..., None])


def runs(*numbers: int) -> Callable[[Test], Test]:
    """Record the rows that a test runs."""
    HERE.update(numbers)
    return lambda test: test


def there(number: int) -> str:
    """The first code in the words of the reference, in a row."""
    found = re.search(r"`([^`]+)`", ROWS[number][0])
    assert found is not None
    return found[1]


def shell(line: str, folder: Path) -> str:
    done = subprocess.run(["sh", "-ec", line], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_row_is_run_by_a_test_that_exists() -> None:
    assert not HERE & ELSEWHERE.keys()
    assert HERE | ELSEWHERE.keys() == ROWS.keys()
    for named in ELSEWHERE.values():
        file, _, test = named.partition("::")
        text = (ROOT / file).read_text(encoding="utf-8")
        assert f"def {test}(" in text, named


@runs(1)
def test_the_page_names_the_python_that_the_package_requires() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"] == ">=3.11"
    assert "Python 3.11 or newer" in ROWS[1][2]


@runs(2, 11, 12)
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this is no clone")
@pytest.mark.slow
def test_pictures_and_documents_are_copied_into_a_clone_and_stay_out_of_its_history(tmp_path: Path) -> None:
    files = shell("git ls-files --cached --others --exclude-standard search_engine", ROOT).splitlines()
    clone, own = tmp_path / "VRAG", tmp_path / "own"
    for file in [".gitignore", *files]:
        (clone / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, clone / file)
    shell("git init -q && git add -A", clone)
    own.mkdir()
    shutil.copy(corpus_dir() / "price-board.jpg", own)
    shutil.copy(corpus_dir() / "guillemot-slides.pdf", own)
    shell(there(11).replace("/path/to/your/images", str(own)), clone)
    shell(f"{there(12)} && cp {own}/*.pdf search_engine/corpus/pdf/", clone)
    assert (clone / "search_engine/corpus/image/price-board.jpg").is_file()
    assert (clone / "search_engine/corpus/pdf/guillemot-slides.pdf").is_file()
    assert shell("git ls-files --others --exclude-standard", clone) == ""


@runs(3, 4)
def test_one_file_of_requirements_has_what_both_of_the_reference_s_have() -> None:
    assert there(3) == "pip install -r requirements.txt"
    wanted = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert ".[models,streamlit,video]" in wanted
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"models", "streamlit", "video"} <= project["optional-dependencies"].keys()


@runs(5)
def test_the_lock_file_of_verl_has_hashes() -> None:
    lock = (ROOT / "requirements-verl.lock").read_text(encoding="utf-8")
    assert re.search(r"^verl==\S+ \\\n +--hash=sha256:", lock, re.MULTILINE)


@runs(9, 45)
def test_the_key_of_dashscope_is_all_that_its_model_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `run_demo.sh vimrag` becomes after `export DASHSCOPE_API_KEY=…`."""
    name, _, key = there(9).removeprefix("export ").partition("=")
    monkeypatch.setenv(name, key)
    commands: list[list[str]] = []

    def execv(_: str, command: list[str]) -> None:
        commands.append(command)
        raise SystemExit

    monkeypatch.setattr(os, "execv", execv)
    demo = runpy.run_path(str(ROOT / "tools" / "demo_agent.py"))
    with monkeypatch.context() as patch:
        patch.setenv("VRAG_MODEL", "")  # it is set by the script, and reset here
        with pytest.raises(SystemExit):
            demo["main"]("vimrag")
    assert commands[0][2:] == ["vrag", "demo", "--agent", "vimrag"]
    settings = load_settings(model=there(45)).settings
    assert (demo["HOSTED_MODEL"], settings.model, settings.base_url) == (there(45), there(45), DASHSCOPE)
    assert settings.key("model_key") == key
    check_agent(settings)


@runs(17, 18, 19, 20, 21, 22)
@pytest.mark.parametrize("number", [17, 19, 20, 21, 22])
def test_the_names_of_the_reference_s_embedders_are_those_of_the_page(number: int) -> None:
    short = re.findall(r"`--embedder ([^`]+)`", ROWS[number][1])
    assert [full_name(name) for name in short] == [full_name(there(number))]
    assert "colpali" in full_name(re.findall(r"`--embedder ([^`]+)`", ROWS[18][1])[0])


@runs(41)
def test_ports_are_those_of_the_newest_version_and_others_are_arguments() -> None:
    defaults = {name: one.default for name, one in inspect.signature(VRAG).parameters.items()}
    assert defaults["base_url"] == "http://0.0.0.0:8002/v1"
    assert defaults["search_url"] == "http://0.0.0.0:8001/search"
    assert inspect.signature(VimRAG).parameters["search_url"].default == "http://localhost:8001/search"
    VRAG(base_url="http://0.0.0.0:8001/v1", search_url="http://0.0.0.0:8002/search", generator=False)


@runs(42, 43, 44)
@pytest.mark.parametrize(("number", "profile"), [(42, "vrag-rl"), (43, "qwen2.5-vl")])
def test_what_vllm_is_started_with_has_the_profile_of_its_checkpoint(number: int, profile: str) -> None:
    words = shlex.split(there(number).removesuffix(" …"))
    weights = words[2]
    served = words[words.index("--served-model-name") + 1] if "--served-model-name" in words else weights
    forget_families()
    with JsonServer(vllm(served, weights)) as server:
        family = open_family(load_settings(model=served, base_url=server.url).settings)
    assert family.profile.name == profile
    assert (profile in PUBLISHED) == (f"fetch-instruction {profile}" in ROWS[44][1])
