"""What checkpoints are refused for, and how the tokens of a reply become text."""

from __future__ import annotations

import importlib
import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from extras import require
from hypothesis import given
from hypothesis import strategies as st
from local_models import ask, picture

from vrag.agent.policies import local
from vrag.agent.policies.local import LocalOptions, open_local
from vrag.agent.policies.local_model import Checkpoint, TextDecoder, open_checkpoint
from vrag.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


require("models", "torch", "transformers")


class TestOpening:
    def test_missing_weights_are_not_made_up(self, checkpoints: Path, tmp_path: Path) -> None:
        safetensors: Any = importlib.import_module("safetensors.torch")
        folder = shutil.copytree(checkpoints / "qwen2_5_vl", tmp_path / "cut")
        weights = safetensors.load_file(folder / "model.safetensors")
        del weights[next(name for name in weights if name.endswith("q_proj.weight"))]
        safetensors.save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        policy = open_local(str(folder))
        for _ in range(2):  # the second run is told as well
            with pytest.raises(ModelError, match="lacks weights"):
                ask(policy, "revenue?")

    @pytest.mark.parametrize("damage", ["model.safetensors", "tokenizer.json"])
    def test_damaged_files_are_told(self, checkpoints: Path, tmp_path: Path, damage: str) -> None:
        folder = shutil.copytree(checkpoints / "qwen3_vl", tmp_path / "damaged")
        (folder / damage).write_bytes((folder / damage).read_bytes()[:1000])
        with pytest.raises(ModelError):
            ask(open_local(str(folder)), "revenue?")

    def test_a_checkpoint_without_a_template_is_refused(self, checkpoints: Path, tmp_path: Path) -> None:
        folder = shutil.copytree(checkpoints / "qwen3_vl", tmp_path / "mute")
        (folder / "chat_template.jinja").unlink()
        with pytest.raises(ModelError, match="no chat template"):
            ask(open_local(str(folder)), "revenue?")

    def test_other_families_are_refused_at_once(self, tmp_path: Path) -> None:
        (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
        with pytest.raises(ModelError, match="holds llama"):
            open_local(str(tmp_path))

    def test_what_is_not_there_is_told(self, checkpoints: Path) -> None:
        with pytest.raises(ModelError, match="no folder"):
            open_local("./nowhere")
        with pytest.raises(ModelError, match="Unknown device"):
            open_local(str(checkpoints / "qwen3_vl"), device="abacus")

    def test_memory_that_does_not_suffice_is_told_and_the_next_run_goes_on(
        self, checkpoints: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        torch: Any = importlib.import_module("torch")
        policy = open_local(str(checkpoints / "qwen3_vl"), options=LocalOptions(max_tokens=2))
        ask(policy, "loads")

        def full(*_: object, **__: object) -> None:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

        with monkeypatch.context() as patched:
            generation: Any = importlib.import_module("transformers").GenerationMixin
            patched.setattr(generation, "generate", full)
            with pytest.raises(ModelError, match="not enough memory") as raised:
                ask(policy, "revenue?")
            assert raised.value.hint
        assert ask(policy, "revenue?").sampled.ids

    def test_policies_share_the_weights_of_a_checkpoint_until_its_files_change(
        self, checkpoints: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = shutil.copytree(checkpoints / "qwen3_vl", tmp_path / "shared")
        loaded: list[Checkpoint] = []

        def load(*values: Any) -> Checkpoint:  # noqa: ANN401
            loaded.append(open_checkpoint(*values))
            return loaded[-1]

        monkeypatch.setattr(local, "open_checkpoint", load)
        short = open_local(str(folder), options=LocalOptions(max_tokens=2))
        long = open_local(str(folder), options=LocalOptions(max_tokens=3))
        assert [len(ask(policy, "revenue?").sampled.ids) for policy in (short, long)] == [2, 3]
        assert len(loaded) == 1
        config = folder / "generation_config.json"
        config.write_text(config.read_text() + "\n")
        ask(open_local(str(folder), options=LocalOptions(max_tokens=2)), "revenue?")
        assert len(loaded) == 2

    def test_half_precision_replies_too(self, checkpoints: Path) -> None:
        options = LocalOptions(max_tokens=4)
        policy = open_local(str(checkpoints / "qwen2_5_vl"), dtype="bfloat16", options=options)
        assert len(ask(policy, picture(0, 2, 2), "revenue?").sampled.ids) == 4


def written(tokens: Sequence[bytes], stop: Sequence[str]) -> tuple[list[str], str, bool]:
    pieces: list[str] = []

    def decode(ids: Sequence[int]) -> str:
        return b"".join(tokens[token] for token in ids).decode(errors="replace")

    writing = TextDecoder(decode, stop, pieces.append)
    for token in range(len(tokens)):
        if not writing.stopped:
            writing.add(token)
    return pieces, writing.end(), writing.stopped


@st.composite
def cut_bytes(draw: st.DrawFn, contents: st.SearchStrategy[bytes]) -> list[bytes]:
    """Bytes cut into tokens anywhere, within characters as well."""
    whole = draw(contents)
    cuts = sorted(draw(st.sets(st.integers(0, len(whole)))))
    return [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True) if a < b]


class TestWriting:
    @given(cut_bytes(st.text().map(str.encode)))
    def test_no_piece_tears_a_character(self, tokens: list[bytes]) -> None:
        whole = b"".join(tokens).decode()
        pieces, text, _ = written(tokens, ())
        assert "".join(pieces) == text == whole
        assert all(pieces)
        assert sum(piece.count("�") for piece in pieces) == whole.count("�")

    @given(cut_bytes(st.binary()))
    def test_bytes_that_are_no_characters_give_what_decoding_the_whole_gives(
        self, tokens: list[bytes]
    ) -> None:
        pieces, text, _ = written(tokens, ())
        assert "".join(pieces) == text == b"".join(tokens).decode(errors="replace")

    @given(cut_bytes(st.text("ab</s>é", max_size=40).map(str.encode)), st.sampled_from(["</s>", "aab", "éé"]))
    def test_the_text_ends_before_the_first_stop_string(self, tokens: list[bytes], stop: str) -> None:
        before, found, _ = b"".join(tokens).decode().partition(stop)
        pieces, text, stopped = written(tokens, (stop, "zz"))
        assert "".join(pieces) == text == before
        assert stopped is bool(found)

    def test_what_is_no_beginning_of_a_stop_string_is_said_at_once(self) -> None:
        assert written([b"see <", b"b> </", b"answer", b"> more"], ("</answer>",))[0] == ["see ", "<b> "]
