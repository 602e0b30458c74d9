# pyright: basic
# ruff: noqa: ANN001, ANN201
"""Run by the Python that has vLLM: a Qwen2.5-VL of random weights, laid out as the real ones are.

Usage: python tiny_vllm_model.py FOLDER
"""

from __future__ import annotations

import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoProcessor,
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2_5_VLProcessor,
    Qwen2VLImageProcessor,
    Qwen2VLVideoProcessor,
)

NAMES = {
    "image_token_id": "<|image_pad|>",
    "video_token_id": "<|video_pad|>",
    "vision_start_token_id": "<|vision_start|>",
    "vision_end_token_id": "<|vision_end|>",
}
PAD, END = "<|endoftext|>", "<|im_end|>"
SPECIAL = [PAD, "<|im_start|>", END, *NAMES.values()]
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' }}"
    "{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}"
    "{% if part.type in ['image', 'image_url'] %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}{% endif %}"
    "{{ '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
HIDDEN = 128


def tokenizer():
    """Bytes and the marks of Qwen."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bpe.train_from_iterator(
        [], trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, special_tokens=SPECIAL)
    )
    made = PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token=END, pad_token=PAD, additional_special_tokens=SPECIAL[3:]
    )
    made.add_tokens(["<tool_call>", "</tool_call>"])  # which the parser of tool calls looks for
    made.chat_template = TEMPLATE
    return made


def network(made):
    """Two layers that see and two that write."""
    text = {
        "vocab_size": len(made),
        "hidden_size": HIDDEN,
        "intermediate_size": 2 * HIDDEN,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 32768,
        "bos_token_id": None,
        "eos_token_id": made.eos_token_id,
        "pad_token_id": made.pad_token_id,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [8, 4, 4]},
        "tie_word_embeddings": True,
    }
    vision = {
        "depth": 2,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_heads": 2,
        "out_hidden_size": HIDDEN,
        "window_size": 112,
        "fullatt_block_indexes": [1],
        "tokens_per_second": 2,
    }
    ids = {name: made.convert_tokens_to_ids(token) for name, token in NAMES.items()}
    config = Qwen2_5_VLConfig(text_config=text, vision_config=vision, tie_word_embeddings=True, **ids)
    torch.manual_seed(0)
    model = Qwen2_5_VLForConditionalGeneration(config)
    model.generation_config.eos_token_id = made.eos_token_id
    model.generation_config.pad_token_id = made.pad_token_id
    return model.bfloat16()


def main(folder):
    made = tokenizer()
    network(made).save_pretrained(folder)
    images = Qwen2VLImageProcessor(min_pixels=4 * 28**2, max_pixels=16384 * 28**2)
    processor = Qwen2_5_VLProcessor(
        image_processor=images,
        tokenizer=made,
        video_processor=Qwen2VLVideoProcessor(),
        chat_template=TEMPLATE,
    )
    processor.save_pretrained(folder)
    AutoProcessor.from_pretrained(folder)


if __name__ == "__main__":
    main(sys.argv[1])
