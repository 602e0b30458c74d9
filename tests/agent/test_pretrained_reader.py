"""A pretrained reader, beside what transformers itself makes of the same checkpoint."""

from __future__ import annotations

import importlib
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from extras import require

require("models", "torch", "transformers")

from question_answering_models import LONG, QUESTION, TEXT, write_checkpoint  # noqa: E402

from vrag.agent.policies.pretrained_reader import PretrainedReader  # noqa: E402
from vrag.embed.options import EmbedOptions  # noqa: E402
from vrag.errors import ModelError  # noqa: E402
from vrag.factory.models import open_text_reader  # noqa: E402
from vrag.reading.spans.reader import load_span_model  # noqa: E402
from vrag.reading.text_reader import CombinedReader, SpanReader  # noqa: E402
from vrag.settings import Settings  # noqa: E402

CPU = EmbedOptions(device="cpu")
PIPELINE = {
    ("Bert", TEXT): (135, 156, 0.001035),
    ("Bert", LONG): (491, 591, 0.003205),
    ("DistilBert", TEXT): (188, 216, 0.029673),
    ("DistilBert", LONG): (537, 580, 0.006076),
}
"""The best answer of `pipeline("question-answering")` of transformers 4.57.6: offsets and score.

With max_seq_len=LENGTH, max_answer_len=30, top_k=8, align_to_words=False, and doc_stride half of the room for
the text. transformers 5 has no such pipeline.
"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: write_checkpoint(tmp_path_factory.mktemp(kind), kind) for kind in ("Bert", "DistilBert")}


@pytest.fixture(scope="module")
def bert(folders: dict[str, Path]) -> PretrainedReader:
    return PretrainedReader(str(folders["Bert"]), CPU)


def network_of(reader: Any) -> Any:  # noqa: ANN401
    return reader._network


class Counting:
    """A network that counts the inputs it is run on, and may favour one token."""

    def __init__(self, network: Any, favoured: int | None = None) -> None:  # noqa: ANN401
        self.network, self.favoured, self.inputs, self.config = network, favoured, 0, network.config

    def __call__(self, **inputs: Any) -> Any:  # noqa: ANN401
        self.inputs += len(inputs["input_ids"])
        outputs = self.network(**inputs)
        if self.favoured is not None:
            outputs.start_logits[:, self.favoured] += 40
            outputs.end_logits[:, self.favoured] += 40
        return outputs


class TestBesideTransformers:
    @pytest.mark.parametrize(("kind", "text"), PIPELINE)
    def test_the_best_span_is_that_of_the_pipeline(
        self, folders: dict[str, Path], kind: str, text: str
    ) -> None:
        start, end, score = PIPELINE[kind, text]
        best = PretrainedReader(str(folders[kind]), CPU).read(QUESTION, [text])[0][0]

        assert best.share == pytest.approx(score, abs=2e-6)
        assert best.start <= start < end <= best.end
        assert " " not in text[best.start : start] + text[end : best.end]  # completed to whole words

    def test_shares_are_those_of_its_function(self, folders: dict[str, Path], bert: PretrainedReader) -> None:
        torch, transformers = importlib.import_module("torch"), importlib.import_module("transformers")
        document = importlib.import_module("transformers.pipelines.document_question_answering")
        tokenizer = transformers.AutoTokenizer.from_pretrained(folders["Bert"])
        network = transformers.BertForQuestionAnswering.from_pretrained(folders["Bert"]).eval()
        text = "The ferry was launched in 1998."
        encoded = tokenizer(QUESTION, text, return_tensors="pt", return_offsets_mapping=True)
        offsets = encoded.pop("offset_mapping")[0].tolist()
        with torch.inference_mode():
            logits = network(**encoded)
        mask = np.asarray([[side != 1 for side in encoded.sequence_ids(0)]]).astype(int)
        mask[0, 0] = 0
        starts, ends, scores, _ = document.select_starts_ends(
            logits.start_logits.numpy(),
            logits.end_logits.numpy(),
            mask,
            encoded["attention_mask"].numpy(),
            max_answer_len=30,
        )

        best = bert.read(QUESTION, [text])[0][0]
        assert best[:2] == (offsets[starts[0]][0], offsets[ends[0]][1])
        assert best.share == pytest.approx(float(scores[0]), abs=1e-6)


class TestReading:
    def test_a_text_is_read_alike_in_any_company(self, folders: dict[str, Path]) -> None:
        texts = [TEXT, "Gas.", LONG, "", "   \n", TEXT]
        together = PretrainedReader(str(folders["Bert"]), EmbedOptions(device="cpu", batch=3))
        found = together.read(QUESTION, texts)

        alone = PretrainedReader(str(folders["Bert"]), EmbedOptions(device="cpu", batch=1))
        for text, spans in zip(texts, found, strict=True):
            expected = alone.read(QUESTION, [text])[0]
            assert [span[:2] for span in spans] == [span[:2] for span in expected]
            np.testing.assert_allclose(
                [span.probability for span in spans], [span.probability for span in expected], rtol=1e-3
            )
        assert found[3] == found[4] == ()

    def test_spans_are_words_of_the_text_apart_from_each_other(self, bert: PretrainedReader) -> None:
        spans = bert.read(QUESTION, [LONG])[0]

        assert len(spans) == 5
        for span in spans:
            assert LONG[span.start : span.end].strip() == LONG[span.start : span.end] != ""
            assert span.sentence[0] <= span.start < span.end <= span.sentence[1]
            assert 0 < span.share <= span.probability <= 1
        places = sorted(span[:2] for span in spans)
        assert all(one[1] <= other[0] for one, other in itertools.pairwise(places))

    def test_what_was_read_is_kept(self, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
        reader = PretrainedReader(str(folders["Bert"]), CPU)
        network = Counting(network_of(reader))
        monkeypatch.setattr(reader, "_network", network)
        first = reader.read(QUESTION, ["Gas.", TEXT, "Gas."])
        seen = network.inputs

        assert reader.read(QUESTION, [TEXT, "Gas."]) == (first[1], first[0])
        assert network.inputs == seen
        reader.read("Who?", ["Gas."])
        assert network.inputs == seen + 1

    def test_a_question_without_an_answer_leaves_little_probability(
        self, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        reader = PretrainedReader(str(folders["Bert"]), CPU)
        monkeypatch.setattr(reader, "_network", Counting(network_of(reader), favoured=0))

        assert max(span.probability for span in reader.read(QUESTION, [TEXT])[0]) < 1e-9

    def test_no_answer_crosses_a_segment(self, bert: PretrainedReader) -> None:
        edges = [0, 40, 87, 178, len(TEXT)]
        segments = list(itertools.pairwise(edges))
        spans = bert.read(QUESTION, [TEXT], [segments])[0]

        assert spans
        for span in spans:
            assert any(start <= span.start and span.end <= end for start, end in segments)
        assert [span[:2] for span in spans] != [span[:2] for span in bert.read(QUESTION, [TEXT])[0]]

    @pytest.mark.parametrize("question", ["", " ", "ferry " * 500, "[SEP] [CLS] [PAD]", "\x00", "渡轮"])
    def test_any_question_is_read(self, bert: PretrainedReader, question: str) -> None:
        (spans,) = bert.read(question, [LONG])

        assert bool(spans) is bool(question.strip())

    def test_names_of_special_tokens_are_text(self, bert: PretrainedReader) -> None:
        text = "[SEP] The ferry [CLS] was launched [PAD] in 1998. [SEP]"
        for span in bert.read(QUESTION, [text])[0]:
            assert span.end <= len(text)

    def test_a_long_text_is_read_in_part(
        self, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("vrag.agent.policies.pretrained_reader.MAX_TEXT", 2 * len(TEXT))
        reader = PretrainedReader(str(folders["Bert"]), CPU)
        network = Counting(network_of(reader))
        monkeypatch.setattr(reader, "_network", network)
        (spans,) = reader.read(QUESTION, [f"{TEXT} " * 400])

        assert spans
        assert network.inputs < 20
        assert max(span.end for span in spans) <= 2 * len(TEXT)


class TestRefusals:
    @pytest.mark.parametrize("name", ["./nowhere", "/nowhere/at all", "no model"])
    def test_a_missing_model_says_what_to_name(self, name: str) -> None:
        with pytest.raises(ModelError, match=r"cannot be used: There is no folder .* Set VRAG_READER"):
            PretrainedReader(name, CPU)

    def test_a_model_for_another_task_is_refused(self, tmp_path: Path) -> None:
        write_checkpoint(tmp_path, "Bert", "ForMaskedLM")
        with pytest.raises(ModelError, match="BertForMaskedLM was not trained to mark answers"):
            PretrainedReader(str(tmp_path), CPU)

    def test_weights_are_never_invented(self, tmp_path: Path) -> None:
        write_checkpoint(tmp_path, "Bert", "ForMaskedLM")
        config = json.loads((tmp_path / "config.json").read_text())
        (tmp_path / "config.json").write_text(json.dumps(config | {"architectures": None}))
        with pytest.raises(ModelError, match="lacks weights, which would be random"):
            PretrainedReader(str(tmp_path), CPU)

    def test_a_damaged_folder_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "config.json").write_text("{")
        with pytest.raises(ModelError, match=r"config.json cannot be read"):
            PretrainedReader(str(tmp_path), CPU)
        (tmp_path / "config.json").unlink()
        with pytest.raises(ModelError, match="cannot be loaded"):
            PretrainedReader(str(tmp_path), CPU)


class TestBySettings:
    def test_ours_reads_alone_without_the_setting(self) -> None:
        reader = open_text_reader(Settings())

        assert reader == SpanReader(load_span_model())

    def test_the_named_model_reads_beside_ours(self, folders: dict[str, Path]) -> None:
        settings = Settings(reader=str(folders["Bert"]), device="cpu")
        reader = open_text_reader(settings)

        assert isinstance(reader, CombinedReader)
        assert reader.name == str(folders["Bert"])
        assert isinstance(open_text_reader(settings), CombinedReader)
        assert reader.pretrained is getattr(open_text_reader(settings), "pretrained", None)
        assert reader.read(QUESTION, [TEXT])[0]

    def test_a_bad_name_is_an_error(self) -> None:
        with pytest.raises(ModelError, match="The reader nowhere cannot be used"):
            open_text_reader(Settings(reader="nowhere"))
