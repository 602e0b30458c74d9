# ruff: noqa: E501 - command lines are long
"""`vrag train`: the chain from a synthetic corpus to an answer, and what is said where something is missing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from extras import require
from stored_events import read_events, write_events
from typer import BadParameter
from typer.testing import CliRunner

from vrag.agent.runs.run_store import RunStore
from vrag.cli.root import create_app
from vrag.cli.train.local_jobs import open_weighted_scorer
from vrag.errors import SettingsError, TrainingError, VragError
from vrag.reward import UnidocReward
from vrag.reward.rules_judge import RulesJudge
from vrag.settings import load_settings

if TYPE_CHECKING:
    from typer.testing import Result

app = create_app()

require("train", "torch", "transformers")

RL = (
    *("--steps", "2", "--questions", "1", "--group", "2", "--lr", "1e-3", "--exact", "--save-every", "1"),
    *("--max-steps", "2", "--max-tokens", "8", "--evaluate-every", "2", "--device", "cpu"),
)


def invoke(*line: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in line])


def done(*line: object) -> str:
    result = invoke(*line)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus, its collection, a tiny model, demonstrations, and a model that was taught them a little."""
    import torch

    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("desk")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(folder / "data"))
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        done("data", "synthesize", folder / "corpus", "--template", "emblem", "--documents", 3, "--pages", 4,
             "--words", 6, "--colours", 4)  # fmt: skip
        done("index", "add", folder / "corpus" / "documents", "-c", folder / "collection")
        done(
            "train", "make-tiny", folder / "tiny", "--cases", folder / "corpus" / "train.json", "--hidden", 32
        )
        done("data", "demonstrate", folder / "corpus" / "train.json", "-o", folder / "shown", "-m", folder / "tiny",
             "-c", folder / "collection", "-n", 3)  # fmt: skip
        done("train", "local", "sft", folder / "shown", "-m", folder / "tiny", "-o", folder / "taught",
             "--steps", 2, "--lr", "1e-3", "--device", "cpu")  # fmt: skip
    return folder


def rl(desk: Path, out: Path, *more: object) -> Result:
    return invoke(
        "train", "local", "rl", desk / "corpus" / "train.json", "-m", desk / "taught" / "model", "-o", out,
        "-c", desk / "collection", *RL, *more,
    )  # fmt: skip


@pytest.fixture(scope="module")
def trained(desk: Path) -> Path:
    result = rl(desk, desk / "trained", "--held-out", desk / "corpus" / "held_out.json")
    assert result.exit_code == 0, (result.output, result.exception)
    return desk / "trained"


def refusal(result: Result) -> str:
    """What is said where a command refuses: an error of ours, or of its usage; never a fault of the program."""
    assert result.exit_code != 0
    assert isinstance(result.exception, VragError | SystemExit), repr(result.exception)
    said = result.exception
    return " ".join(f"{said} {getattr(said, 'hint', '')} {result.output}".split())


@pytest.mark.slow
class TestTheChain:
    def test_a_run_is_a_model_and_its_curves(self, trained: Path) -> None:
        assert {path.name for path in trained.iterdir()} >= {
            "checkpoints",
            "metrics.jsonl",
            "model",
            "training.json",
        }
        lines = [json.loads(line) for line in (trained / "metrics.jsonl").read_text().splitlines()]
        assert [line["step"] for line in lines] == [0, 1, 2]
        assert all(0 <= line["eval/accuracy"] <= 1 for line in lines if line["step"] != 1)
        assert [path.name for path in sorted((trained / "checkpoints").iterdir())] == [
            "step-000001",
            "step-000002",
        ]

    def test_one_that_is_done_says_so_and_changes_nothing(self, trained: Path, desk: Path) -> None:
        before = (
            (trained / "model" / "model.safetensors").read_bytes(),
            (trained / "metrics.jsonl").read_bytes(),
        )
        result = rl(desk, trained, "--held-out", desk / "corpus" / "held_out.json")
        assert result.exit_code == 0
        assert "Resumed after step 2 of 2" in result.output
        after = (
            (trained / "model" / "model.safetensors").read_bytes(),
            (trained / "metrics.jsonl").read_bytes(),
        )
        assert before == after

    def test_its_judge_is_closed(self, trained: Path, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A model that judges has connections."""
        closed: list[RulesJudge] = []

        async def noted(self: RulesJudge) -> None:
            closed.append(self)

        monkeypatch.setattr(RulesJudge, "aclose", noted)
        assert rl(desk, trained, "--held-out", desk / "corpus" / "held_out.json").exit_code == 0
        assert len(closed) == 1

    def test_one_that_was_stopped_goes_on(self, trained: Path, desk: Path, tmp_path: Path) -> None:
        shutil.copytree(trained, tmp_path / "run")
        shutil.rmtree(tmp_path / "run" / "checkpoints" / "step-000002")
        shutil.rmtree(tmp_path / "run" / "model")
        result = rl(desk, tmp_path / "run", "--held-out", desk / "corpus" / "held_out.json")
        assert result.exit_code == 0, result.output
        assert "Resumed after step 1 of 2" in result.output
        for name in ("model.safetensors", "tokenizer.json", "vrag_profile.json"):
            assert (tmp_path / "run" / "model" / name).read_bytes() == (trained / "model" / name).read_bytes()

    def test_it_is_plotted(self, trained: Path, tmp_path: Path) -> None:
        done("train", "plot", trained, "--out", tmp_path / "curves.svg")
        assert (tmp_path / "curves.svg").read_text().startswith("<svg")

    def test_its_rollouts_are_shown(self, trained: Path) -> None:
        told = json.loads(done("train", "show", trained, "--json"))
        assert (told["steps"], told["step"]) == ([2], 2), "the last one is kept"
        (best,) = told["best"]
        assert best["reward"]["parts"].keys() == {"retrieval", "answer", "pattern"}
        assert best["rollout"]["question"] in done("train", "show", trained, best["name"])
        assert json.loads(done("train", "show", trained, "--held-out", "--json"))["steps"] == [0, 2]

    def test_none_are_kept_where_none_are_wanted(self, desk: Path, tmp_path: Path) -> None:
        assert rl(desk, tmp_path / "run", "--steps", "1", "--keep-every", "0").exit_code == 0
        assert "has no kept rollouts" in refusal(invoke("train", "show", tmp_path / "run"))

    def test_its_measures_are_logged(self, desk: Path, tmp_path: Path) -> None:
        require("tensorboard", "tensorboard")
        assert rl(desk, tmp_path / "run", "--steps", "1", "--log", "tensorboard").exit_code == 0
        assert list((tmp_path / "run" / "tensorboard").glob("events.out.tfevents.*"))
        assert "excel is not one of tensorboard, wandb" in refusal(
            rl(desk, tmp_path / "run", "--log", "excel")
        )

    @pytest.mark.parametrize("more", [(), ("--blank",)])
    def test_it_is_evaluated(
        self,
        more: tuple[str, ...],
        trained: Path,
        desk: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("VRAG_MAX_TOKENS", "8")
        said = done("eval", "run", desk / "corpus" / "held_out.json", "-c", desk / "collection", "--model",
                    f"local:{trained / 'model'}", "-o", tmp_path / "out", "--exact", "--max-steps", 1, "--json",
                    *more)  # fmt: skip
        told: dict[str, Any] = json.loads(said[said.index("{") : said.rindex("}") + 1])
        assert told["questions"] == told["outcomes"]["wrong"] == 4
        assert told["measures"]["accuracy"]["mean"] == 0.0

    def test_it_is_asked(self, trained: Path, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """It knows nothing yet, and stammers; but it is asked, and says so within its steps."""
        monkeypatch.setenv("VRAG_MAX_TOKENS", "8")
        result = invoke("ask", "-c", desk / "collection", "--model", f"local:{trained / 'model'}", "--max-steps", 1,
                        'colour of "amber bridge" ?')  # fmt: skip
        assert result.exit_code in {0, 1}, (result.output, result.exception)
        assert result.exception is None or isinstance(result.exception, SystemExit | VragError)

    def test_a_graph_is_trained_on_as_well(self, desk: Path, tmp_path: Path) -> None:
        done("data", "demonstrate", desk / "corpus" / "train.json", "-o", tmp_path / "shown", "-m", desk / "tiny",
             "-c", desk / "collection", "-n", 2, "--agent", "vimrag")  # fmt: skip
        done("train", "local", "sft", tmp_path / "shown", "-m", desk / "tiny", "-o", tmp_path / "taught",
             "--steps", 1, "--freeze-vision", "--device", "cpu")  # fmt: skip
        result = rl(desk, tmp_path / "run", "--agent", "vimrag", "--algorithm", "ggpo", "--penalty", "0.5",
                    "--steps", "1", "--kl", "0.01", "--ratio", "segment", "--no-together")  # fmt: skip
        assert result.exit_code == 0, (result.output, result.exception)
        (line,) = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
        assert {"masked", "kl", "reward", "invalid"} <= line.keys()

    def test_updates_are_made_as_it_is_said(self, desk: Path, tmp_path: Path) -> None:
        """The run says that it was made so."""
        how = ("--warmup", 1, "--weight-decay", "0.01", "--lora-rank", 2, "--device", "cpu")
        done("train", "local", "sft", desk / "shown", "-m", desk / "tiny", "-o", tmp_path / "sft",
             "--steps", 1, *how)  # fmt: skip
        result = rl(
            desk, tmp_path / "rl", "--steps", 1, "--entropy", "0.01", "--batch", 1, "--truncate", 2, *how
        )
        assert result.exit_code == 0, (result.output, result.exception)
        for kind in ("sft", "rl"):
            made = json.loads((tmp_path / kind / "training.json").read_text())
            assert made["update"].items() >= {"warmup": 1, "weight_decay": 0.01, "lora_rank": 2}.items()
            line = json.loads((tmp_path / kind / "metrics.jsonl").read_text().splitlines()[-1])
            assert line["tokens_per_second/update"] > 0
        assert made["truncate"] == 2
        assert line["truncated"] == 0.0

    def test_teaching_ends_where_pages_are_found(self, desk: Path, tmp_path: Path) -> None:
        """A model that was taught for one step finds none, and the command says so."""
        line = ("train", "local", "sft", desk / "shown", "-m", desk / "tiny", "-o", tmp_path / "run",
                "--steps", 2, "--evaluate-every", 1, "--held-out", desk / "corpus" / "held_out.json",
                "-c", desk / "collection", "--max-steps", 2, "--max-tokens", 8, "--device", "cpu")  # fmt: skip
        assert "own searches find 0%" in refusal(invoke(*line, "--until-found", 1))
        lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
        assert [line["eval/reward/retrieval"] for line in lines] == [0.0, 0.0]
        done(*line)
        assert "--held-out" in refusal(invoke(*line[:8], "--until-found", 1))


class TestRefusals:
    def test_other_settings_are_named(self, trained: Path, desk: Path) -> None:
        said = refusal(rl(desk, trained, "--seed", 3))
        assert "held_out, seed" in said
        assert "--again" in said

    def test_runs_that_were_edited_are_other_ones(self, desk: Path, tmp_path: Path) -> None:
        shutil.copytree(desk / "shown", tmp_path / "shown")
        line = ("train", "local", "sft", tmp_path / "shown", "-m", desk / "tiny", "-o", tmp_path / "run",
                "--steps", 1, "--device", "cpu")  # fmt: skip
        done(*line)
        assert "Resumed after step 1" in done(*line)
        store = RunStore(tmp_path / "shown" / "runs")
        first, *others = read_events(store, store.ids()[0])
        write_events(store, store.ids()[0], [first.replace(b'"step":0', b'"step":1'), *others])
        assert "other settings: runs" in refusal(invoke(*line))

    def test_to_stop_at_an_accuracy_needs_questions(self, desk: Path, tmp_path: Path) -> None:
        line = (
            "train",
            "local",
            "rl",
            desk / "corpus" / "train.json",
            "-m",
            desk / "tiny",
            "-o",
            tmp_path / "run",
        )
        assert "Name them with --held-out" in refusal(invoke(*line, "--stop-at", 0.9))
        assert not (tmp_path / "run").exists()

    def test_again_begins_anew(self, trained: Path, desk: Path, tmp_path: Path) -> None:
        shutil.copytree(trained, tmp_path / "run")
        result = rl(desk, tmp_path / "run", "--steps", 1, "--again")
        assert result.exit_code == 0, result.output
        assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 1

    def test_a_folder_of_something_else_is_left_alone(self, desk: Path, tmp_path: Path) -> None:
        (tmp_path / "letter.txt").write_text("dear")
        assert "holds no run" in refusal(rl(desk, tmp_path, "--again"))
        assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]

    @pytest.mark.parametrize(
        ("more", "said"),
        [
            (("--weights", "0.2,0.8"), "three numbers"),
            (("--weights", "a,b,c"), "three numbers"),
            (("--weights", "answer=0.9,0.1"), "named weights"),
            (("--weights", "answer=0.9,pattern=0.2"), "sum to"),
            (("--weights", "answer=0.9,brevity=0.1"), "brevity"),
            (("--weights", "0.2,0.2,0.2"), "sum to"),
            (("--weights", "answer=0.9,pattern=0.1,answer=0.9"), "named twice"),
            (("--weights", "nan,0.5,0.5"), "0 or more"),
            (("--algorithm", "ppo"), "ppo"),
            (("--ratio", "word"), "not one of token, segment"),
            (("--stop-at", "2"), "stop"),
            (("--lr", "0"), "lr"),
            (("--truncate", "0"), "truncate"),
            (("--held-out", "gone.json"), "gone.json"),
            (("--collection", "gone"), "gone"),
            (("--model", "gone"), "gone"),
        ],
    )
    def test_what_cannot_be_is_said(
        self, more: tuple[str, ...], said: str, desk: Path, tmp_path: Path
    ) -> None:
        assert said in refusal(rl(desk, tmp_path / "run", *more))
        assert not (tmp_path / "run").exists(), "and nothing is begun"

    def test_parts_of_the_evidence_are_rewarded(self, desk: Path, tmp_path: Path) -> None:
        weights = "retrieval=0.2,answer=0.5,pattern=0.1,region=0.1,support=0.1"
        result = rl(desk, tmp_path / "run", "--steps", 1, "--weights", weights)
        assert result.exit_code == 0, result.output
        (line,) = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1:]
        assert 0 <= json.loads(line)["reward/region"] <= 1

    def test_support_needs_claims_that_are_checked(
        self, desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("VRAG_VERIFY", "off")
        result = rl(desk, tmp_path / "run", "--weights", "answer=0.9,support=0.1")
        assert "Set VRAG_VERIFY=tell" in refusal(result)

    def test_a_data_set_without_questions(self, desk: Path, tmp_path: Path) -> None:
        (tmp_path / "none.json").write_text('{"examples": []}')
        result = invoke("train", "local", "rl", tmp_path / "none.json", "-m", desk / "tiny", "-o", tmp_path / "run",
                        "-c", desk / "collection", *RL)  # fmt: skip
        assert "none.json" in refusal(result) or "no cases" in refusal(result)
        assert not (tmp_path / "run").exists()
        said = refusal(invoke("data", "demonstrate", tmp_path / "none.json", "-o", tmp_path / "shown",
                              "-c", desk / "collection"))  # fmt: skip
        assert "no questions" in said or "none.json" in said

    def test_questions_without_names_are_not_demonstrated(self, desk: Path, tmp_path: Path) -> None:
        row = {"uid": "a", "query": "How many?", "reference_answer": "2", "meta_info": {"file_name": "a.pdf"}}
        (tmp_path / "asked.json").write_text(json.dumps([row]))
        said = refusal(invoke("data", "demonstrate", tmp_path / "asked.json", "-o", tmp_path / "shown",
                              "-c", desk / "collection"))  # fmt: skip
        assert "names in quotes" in said

    def test_folders_without_runs_teach_nothing(self, desk: Path, tmp_path: Path) -> None:
        for folder in (tmp_path, tmp_path / "gone"):
            said = refusal(
                invoke("train", "local", "sft", folder, "-m", desk / "tiny", "-o", tmp_path / "run")
            )
            assert "no recorded runs" in said
        assert not (tmp_path / "run").exists()

    def test_a_model_without_weights(self, desk: Path, tmp_path: Path) -> None:
        bare = tmp_path / "bare"
        shutil.copytree(desk / "tiny", bare, ignore=shutil.ignore_patterns("*.safetensors"))
        for model in (bare, tmp_path / "gone"):
            said = refusal(
                invoke("train", "local", "sft", desk / "shown", "-m", model, "-o", tmp_path / "run")
            )
            assert model.name in said

    @pytest.mark.parametrize("name", ["gone.txt", "gone.json"])
    def test_words_that_are_not_there(self, name: str, tmp_path: Path) -> None:
        said = refusal(invoke("train", "make-tiny", tmp_path / "tiny", "--cases", tmp_path / name))
        assert name in said
        assert not (tmp_path / "tiny").exists()

    def test_a_folder_with_something_in_it_is_no_new_model(self, desk: Path) -> None:
        result = invoke("train", "make-tiny", desk / "tiny", "--cases", desk / "corpus" / "train.json")
        assert isinstance(result.exception, SettingsError)

    def test_a_damaged_checkpoint_is_told_of(self, trained: Path, desk: Path, tmp_path: Path) -> None:
        shutil.copytree(trained, tmp_path / "run")
        (tmp_path / "run" / "checkpoints" / "step-000002" / "optimizer.pt").write_bytes(b"")
        result = rl(desk, tmp_path / "run", "--held-out", desk / "corpus" / "held_out.json")
        assert isinstance(result.exception, TrainingError)
        assert "Remove it" in (result.exception.hint or "")


def test_a_text_gives_its_words(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("wunderbar\n")
    said = done(
        "train", "make-tiny", tmp_path / "tiny", "--cases", tmp_path / "words.txt", "--json", "--hidden", 32
    )
    told = json.loads(said)
    assert told["profile"] == "tiny-qwen3-vl"
    assert "wunderbar" in (tmp_path / "tiny" / "tokenizer.json").read_text()


def test_a_preset_of_the_reward_is_chosen_by_its_name() -> None:
    settings = load_settings().settings
    assert isinstance(open_weighted_scorer(settings, "unidoc", exact=False), UnidocReward)
    priced = open_weighted_scorer(settings, "answer=0.9,region=0.1,turn_cost=0.02", exact=False)
    assert (priced.weights.turn_cost, dict(priced.weights.extras)) == (0.02, {"region": 0.1})
    with pytest.raises(BadParameter, match=r"a preset \(vrag, vrag-after-sft, attribution, unidoc\)"):
        open_weighted_scorer(settings, "unidok", exact=False)
