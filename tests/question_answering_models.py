# ruff: noqa: ANN401 - the libraries are not typed
"""Tiny extractive question-answering checkpoints with two kinds of tokenizers.

Weights are drawn by NumPy, whose generators give the same numbers everywhere, so that what another
program computed with them can be written down.
"""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

TEXT = (
    "The ferry Petrel was launched in 1998 at Saltby. It carries 420 passengers and 60 cars. "
    "Captain Ilse Brandt has commanded it since 2011, and before that she sailed on the Fulmar. "
    "渡轮于1998年下水。 A crossing takes 2 h 35 min; tickets cost € 14.50 or more."
)
QUESTION = "When was the ferry launched?"
LONG = TEXT + (
    " The harbour of Saltby was dredged twice, in 1931 and again sixty years later, when the mole was "
    "lengthened by 85 metres. Its lighthouse, built of granite from Orla, is 31 m high and is lit by gas. "
    "Most visitors arrive in July; in winter the island has some 240 people, three cows and a post office. "
    "Mail comes by boat on Tuesdays, unless the wind is stronger than force nine, which happens often."
)
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LENGTH = 96
"""Tokens of an input."""


def word_pieces() -> Any:
    """A tokenizer like BERT's: words and their pieces, with a token for no answer."""
    tk, transformers = importlib.import_module("tokenizers"), importlib.import_module("transformers")
    words = sorted({word.lower() for word in re.findall(r"[A-Za-z]+|[^\sA-Za-z]", LONG + QUESTION)})
    letters = [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz0123456789"]
    plain = [*"abcdefghijklmnopqrstuvwxyz", *letters]
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys([*SPECIAL, *words, *plain]))}
    made = tk.Tokenizer(tk.models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.normalizer = tk.normalizers.BertNormalizer()
    made.pre_tokenizer = tk.pre_tokenizers.BertPreTokenizer()
    made.post_processor = tk.processors.BertProcessing(
        ("[SEP]", vocabulary["[SEP]"]), ("[CLS]", vocabulary["[CLS]"])
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=LENGTH,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )


def byte_pairs() -> Any:
    """A tokenizer of bytes, without a token for no answer and without one for padding."""
    tk, transformers = importlib.import_module("tokenizers"), importlib.import_module("transformers")
    made = tk.Tokenizer(tk.models.BPE())
    made.pre_tokenizer = tk.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tk.decoders.ByteLevel()
    made.post_processor = tk.processors.ByteLevel(trim_offsets=True)
    alphabet = sorted(tk.pre_tokenizers.ByteLevel.alphabet())
    trainer = tk.trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, special_tokens=["<end>"])
    made.train_from_iterator([LONG], trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made,
        eos_token="<end>",
        model_max_length=LENGTH,
        model_input_names=["input_ids", "attention_mask"],
    )


def write_checkpoint(folder: Path, kind: str, head: str = "ForQuestionAnswering") -> Path:
    """Write a checkpoint: `Bert` with pieces of words or `DistilBert` with bytes."""
    transformers, torch = importlib.import_module("transformers"), importlib.import_module("torch")
    tokenizer = word_pieces() if kind == "Bert" else byte_pairs()
    sizes = {
        "Bert": {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 64,
        },
        "DistilBert": {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64},
    }[kind]
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=len(tokenizer), max_position_embeddings=LENGTH, **sizes
    )
    network = getattr(transformers, f"{kind}{head}")(config)
    random = np.random.default_rng(7)
    with torch.no_grad():
        for name, weights in sorted(network.state_dict().items()):
            if weights.is_floating_point() and "LayerNorm" not in name and "layer_norm" not in name:
                drawn = random.normal(0, 0.35, tuple(weights.shape)).astype(np.float32)
                weights.copy_(torch.from_numpy(drawn))
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
