"""`vrag data` synthesize, convert and stats, from the command line."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from vrag.cli.data import app
from vrag.datasets.registry import open_cases, read_cases
from vrag.errors import CaseError, SettingsError, VragError
from vrag.samples import questions_path

parquet: Any = importlib.import_module("pyarrow.parquet")


def run(*arguments: object) -> str:
    done = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    run("synthesize", tmp_path / "made", "-t", "emblem", "--documents", 4, "--pages", 3)
    return tmp_path / "made"


def test_synthesize_says_what_was_made_and_what_comes_next(tmp_path: Path) -> None:
    said = run("synthesize", tmp_path / "a corpus", "--documents", 8, "--pages", 2)

    assert [line.split()[0] for line in said.splitlines()[1:5]] == [
        "chart",
        "key_figure",
        "multi_hop",
        "table",
    ]
    assert f"vrag index add '{tmp_path}/a corpus/documents'" in said
    assert len(list((tmp_path / "a corpus" / "documents").glob("*.pdf"))) == 8


def test_synthesize_counts_for_machines(tmp_path: Path) -> None:
    said = run("synthesize", tmp_path / "made", "-t", "emblem", "--documents", 4, "--pages", 3, "--json")

    made = json.loads(said)
    assert (made["documents"], made["pages"], made["train"], made["held_out"]) == (4, 12, 9, 3)


def test_synthesize_makes_the_same_files_again(corpus: Path) -> None:
    before = {path: path.read_bytes() for path in corpus.rglob("*") if path.is_file()}

    run("synthesize", corpus, "-t", "emblem", "--documents", 4, "--pages", 3)

    assert {path: path.read_bytes() for path in corpus.rglob("*") if path.is_file()} == before


def test_convert_goes_to_parquet_and_back(corpus: Path, tmp_path: Path) -> None:
    run("convert", corpus / "train.json", tmp_path / "a.parquet")
    said = run("convert", tmp_path / "a.parquet", tmp_path / "b.json", "--json")

    assert json.loads(said) == {
        "file": str(tmp_path / "b.json"),
        "cases": 9,
        "read_as": "parquet",
        "boxes": 9,
    }
    there, back = read_cases(corpus / "train.json"), read_cases(tmp_path / "b.json")
    assert [(case.uid, case.query, case.reference_page) for case in back] == [
        (case.uid, case.query, case.reference_page) for case in there
    ]


def test_convert_keeps_the_gold_boxes(corpus: Path, tmp_path: Path) -> None:
    run("convert", corpus / "train.json", tmp_path / "a.parquet")
    converted = read_cases(tmp_path / "a.parquet")
    assert [case.regions for case in converted] == [
        case.regions for case in read_cases(corpus / "train.json")
    ]
    assert any(case.regions for case in converted)


def test_the_prompt_is_our_instruction_and_the_question(corpus: Path, tmp_path: Path) -> None:
    run("convert", corpus / "train.json", tmp_path / "a.parquet", "--profile", "qwen3-vl")

    row = parquet.read_table(tmp_path / "a.parquet").to_pylist()[0]
    prompt = row["prompt"][0]["content"]
    assert prompt.endswith(f"The question:\n{row['extra_info']['question']}")
    assert "<search>" in prompt
    assert "$" not in prompt


def test_source_and_split_can_be_named(corpus: Path, tmp_path: Path) -> None:
    run("convert", corpus / "train.json", tmp_path / "a.parquet", "--from", "vidoseek", "--split", "test")
    run("convert", corpus / "train.json", tmp_path / "b.parquet", "--data-source", "emblems")

    one, other = (parquet.read_table(tmp_path / name).to_pylist()[0] for name in ("a.parquet", "b.parquet"))
    assert (one["data_source"], one["extra_info"]["split"]) == ("vidoseek", "test")
    assert (other["data_source"], other["extra_info"]["split"]) == ("emblems", "train")


def test_several_files_become_one_in_their_order(corpus: Path, tmp_path: Path) -> None:
    target = tmp_path / "all.parquet"
    sources = ("--data-source", "emblems", "--data-source", "emblems_held_out")
    said = run("convert", corpus / "train.json", corpus / "held_out.json", target, *sources, "--json")

    rows = parquet.read_table(target).to_pylist()
    assert json.loads(said)["cases"] == len(rows) == 12
    assert [row["data_source"] for row in rows] == ["emblems"] * 9 + ["emblems_held_out"] * 3
    assert [row["extra_info"]["index"] for row in rows] == list(range(12))


def test_the_last_of_several_files_is_not_overwritten_by_accident(corpus: Path, tmp_path: Path) -> None:
    held_out = corpus / "held_out.json"
    before = held_out.read_bytes()

    with pytest.raises(SettingsError, match="exists"):
        run("convert", corpus / "train.json", corpus / "documents", held_out)
    assert held_out.read_bytes() == before

    run("convert", corpus / "train.json", held_out, tmp_path / "a.json")
    run("convert", corpus / "train.json", held_out, tmp_path / "a.json", "--overwrite")
    assert len(read_cases(tmp_path / "a.json")) == 12


def test_stats_tells_a_clean_split_from_a_leak(corpus: Path) -> None:
    clean = run("stats", corpus / "train.json", corpus / "held_out.json")

    assert "share no document and no question" in clean
    leaking = corpus / "leaking.json"
    leaking.write_bytes((corpus / "train.json").read_bytes())
    assert "share 3 documents" in run("stats", corpus / "train.json", leaking)


def test_stats_names_files_so_that_they_can_be_told_apart(corpus: Path, tmp_path: Path) -> None:
    files = [tmp_path / name / "train.json" for name in ("a", "b")]
    for file in files:
        file.parent.mkdir()
        file.write_bytes((corpus / "train.json").read_bytes())

    said = "".join(run("stats", *files).split())
    assert "".join(f"{files[0]} and {files[1]} share".split()) in said


def test_stats_for_machines(corpus: Path) -> None:
    found = json.loads(run("stats", corpus / "train.json", corpus / "held_out.json", "--json"))

    assert found["files"][str(corpus / "train.json")]["pages"] == {"1": 9}
    assert found["overlaps"][0]["documents"] == []


def test_stats_counts_the_samples_that_ship() -> None:
    said = run("stats", questions_path())

    assert f"{len(list(open_cases(questions_path())[1]))}" in said.splitlines()[1]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("synthesize", "{here}"), "not empty"),
        (("convert", "{here}/missing.json", "{here}/b.json"), "cannot be read"),
        (("convert", "{here}/a.json", "{here}/b.json"), "not JSON"),
        (("stats", "{here}/a.json"), "not JSON"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_reason(
    tmp_path: Path, arguments: tuple[str, ...], why: str
) -> None:
    (tmp_path / "a.json").write_text("{")

    with pytest.raises(CaseError, match=why):
        run(*(argument.format(here=tmp_path) for argument in arguments))

    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("synthesize", "{here}/new", "-t", "poem"), "poem"),
        (("synthesize", "{here}/new", "--held-out", "1.5"), "held out"),
        (("synthesize", "{here}/new", "--documents", "999"), "256"),
        (("convert", "{here}/a.json", "{here}/b.csv"), r"\.csv"),
        (("convert", "{here}/a.json"), "OUT is missing"),
        (("convert", "{here}/a.json", "{here}/./a.json", "{here}/b.json"), "named twice"),
        (("convert", "{here}/a.json", "{here}/b.json", "--from", "rag", "--from", "rag"), "2 times for 1"),
        (("convert", "{here}/a.json", "{here}/b.json", "--from", "webqa"), "webqa"),
        (("stats", "{here}/a.json", "--from", "webqa"), "webqa"),
        (("stats", "{here}/a.json", "{here}/./a.json"), "named twice"),
    ],
)
def test_options_that_cannot_be_are_wrong_use(tmp_path: Path, arguments: tuple[str, ...], why: str) -> None:
    """Settings that cannot be end a command with status 2."""
    (tmp_path / "a.json").write_text("{")

    with pytest.raises(SettingsError, match=why):
        run(*(argument.format(here=tmp_path) for argument in arguments))

    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_an_unknown_model_family_is_refused(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(VragError, match="gpt"):
        run("convert", corpus / "train.json", tmp_path / "a.parquet", "--profile", "gpt")


def test_the_commands_of_sampling_are_here_as_well() -> None:
    command: Any = get_command(app)
    assert {"sample", "select", "export-sft"} <= set(command.commands)


def test_stopped_convert_says_that_nothing_was_written(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "a.parquet"
    target.write_text("before")

    def stopped(*_: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr("vrag.cases.parquet._row", stopped)
    done = CliRunner().invoke(app, ["convert", str(corpus / "train.json"), str(target)])

    assert done.exit_code == 130
    assert f"Nothing was written: {target}" in "".join(done.stderr.splitlines()).replace("  ", " ")
    assert target.read_text() == "before"
    assert not list(tmp_path.glob(".*"))


def test_stopped_synthesize_says_that_the_folder_is_not_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("vrag.synthesis.corpus.write_cases", stopped)
        line = ["synthesize", str(tmp_path / "made"), "-t", "emblem", "--documents", "4", "--pages", "3"]
        done = CliRunner().invoke(app, line)
    assert done.exit_code == 130
    assert "is incomplete" in done.stderr
    assert "Questions" in run(*line)
