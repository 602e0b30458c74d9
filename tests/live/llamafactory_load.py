# pyright: basic, reportMissingImports=false, reportOptionalMemberAccess=false
# ruff: noqa: ANN001, ANN002, ANN201, ANN204, E402
"""Run by the Python that has LLaMA-Factory: loads data sets with its own loader, without any weights.

Usage: python llamafactory_load.py RESULT FOLDER NAME...

RESULT becomes one JSON object: for each data set its rows, or why it was refused.
"""

from __future__ import annotations

import importlib.machinery
import json
import os
import sys
import types
from pathlib import Path

os.environ |= {
    "HF_HUB_OFFLINE": "1",
    "DISABLE_VERSION_CHECK": "1",
    "HF_DATASETS_CACHE": sys.argv[2] + "/.cache",
}

import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Seq2SeqTrainingArguments
from transformers.models.qwen2_5_vl.processing_qwen2_5_vl import Qwen2_5_VLProcessor
from transformers.processing_utils import ProcessorMixin

stub = types.ModuleType("torchaudio")  # it is imported, and nothing here has sound
stub.__spec__ = importlib.machinery.ModuleSpec("torchaudio", None)
sys.modules["torchaudio"] = stub

from llamafactory.data import get_dataset, get_template_and_fix_tokenizer
from llamafactory.hparams import DataArguments, ModelArguments

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>"]
PLACES = {"image": "<|image_pad|>", "video": "<|video_pad|>"}


class PictureProcessor(Qwen2_5_VLProcessor):
    """Pictures and text: what films need is not installed."""

    def __init__(self, image_processor=None, tokenizer=None, chat_template=None):
        for kind, token in PLACES.items():
            setattr(self, f"{kind}_token", token)
            setattr(self, f"{kind}_token_id", tokenizer.convert_tokens_to_ids(token))
        ProcessorMixin.__init__(self, image_processor, tokenizer, chat_template=chat_template)


def make_tokenizer():
    """Bytes and the marks of Qwen."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    special = [*SPECIAL, *PLACES.values()]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, special_tokens=special)
    bpe.train_from_iterator([], trainer)
    made = PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=special[3:],
    )
    made.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    return made


def make_processor(tokenizer):
    """With the limits that LLaMA-Factory has by itself, and Qwen2.5-VL's own."""
    pictures = transformers.Qwen2VLImageProcessorPil(min_pixels=56 * 56, max_pixels=12845056, patch_size=14)
    made = PictureProcessor(pictures, tokenizer, chat_template=tokenizer.chat_template)
    limits = {"image_max_pixels": 768 * 768, "image_min_pixels": 32 * 32}
    limits |= {
        "video_max_pixels": 256 * 256,
        "video_min_pixels": 16 * 16,
        "video_fps": 2.0,
        "video_maxlen": 128,
    }
    limits |= {"image_do_pan_and_scan": False, "crop_to_patches": False}
    limits |= {"use_audio_in_video": False, "audio_sampling_rate": 16000}
    for name, value in limits.items():
        setattr(made, name, value)
    return made


def load(folder, name, tokenizer, processor):
    """The rows of a data set as the trainer would take them."""
    arguments = DataArguments(
        dataset=name, dataset_dir=folder, template="qwen2_vl", cutoff_len=16384, overwrite_cache=True
    )
    training = Seq2SeqTrainingArguments(
        output_dir=f"{folder}/.out", use_cpu=True, do_train=True, report_to=[]
    )
    template = get_template_and_fix_tokenizer(tokenizer, arguments)
    model = ModelArguments(model_name_or_path="none")
    loaded = get_dataset(
        template, model, arguments, training, stage="sft", tokenizer=tokenizer, processor=processor
    )
    return [row(one, tokenizer) for one in loaded["train_dataset"]]


def row(one, tokenizer):
    """What is learned of a sample, stretch by stretch, and how many tokens its pictures have."""
    stretches: list[list[int]] = []
    before = -100
    for label in one["labels"]:
        if label != -100:
            if before == -100:
                stretches.append([])
            stretches[-1].append(label)
        before = label
    place = tokenizer.convert_tokens_to_ids(PLACES["image"])
    return {
        "tokens": len(one["input_ids"]),
        "learned": [tokenizer.decode(stretch) for stretch in stretches],
        "text": tokenizer.decode(one["input_ids"]),
        "images": len(one["images"]),
        "visual_tokens": one["input_ids"].count(place),
    }


def main(folder, *names):
    tokenizer = make_tokenizer()
    processor = make_processor(tokenizer)
    result = {}
    for name in names:
        try:
            result[name] = {"rows": load(folder, name, tokenizer, processor)}
        except Exception as error:  # noqa: BLE001 - what it refuses with is what is asked
            result[name] = {"refused": f"{type(error).__name__}: {error}"}
    return result


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(main(*sys.argv[2:])))
