# ruff: noqa: ANN401 - the libraries are not typed
"""Checkpoints of a few thousand random weights, laid out on disk as the real ones are.

Weights are larger than a fresh network's, so that different inputs give clearly different vectors:
a network of tiny weights gives nearly the same for all, and no test over it could fail.
"""

from __future__ import annotations

import importlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

PAD, END, IMAGE, VIDEO = "<|endoftext|>", "<|im_end|>", "<|image_pad|>", "<|video_pad|>"
SPECIAL = [PAD, "<|im_start|>", END, "<|vision_start|>", "<|vision_end|>", IMAGE, VIDEO]
WORDS = "a red square and a blue circle on a white page; revenue grew by 12 % in 2023, 多少 收入"
SYSTEM, DEFAULT_INSTRUCTION = "You are a helpful assistant.", "Represent the user's input."
TEMPLATE = (
    "{% if messages[0].role != 'system' %}"
    '{{ "<|im_start|>system\\n' + SYSTEM + '<|im_end|>\\n" }}{% endif %}'
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' }}"
    "{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}"
    "{% if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif part.type == 'video' %}<|vision_start|><|video_pad|><|vision_end|>"
    "{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}{{ '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
HIDDEN = 32


def load(name: str) -> Any:
    return importlib.import_module(name)


def write(folder: Path, name: str, data: object) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(data))


def tokenizer() -> Any:
    """Bytes and a few merges, with the special tokens of Qwen."""
    tk, transformers = load("tokenizers"), load("transformers")
    bpe = tk.Tokenizer(tk.models.BPE())
    bpe.pre_tokenizer = tk.pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = tk.decoders.ByteLevel()
    alphabet = sorted(tk.pre_tokenizers.ByteLevel.alphabet())
    bpe.train_from_iterator(
        [WORDS], tk.trainers.BpeTrainer(vocab_size=320, initial_alphabet=alphabet, special_tokens=SPECIAL)
    )
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token=END, pad_token=PAD, additional_special_tokens=SPECIAL[3:]
    )
    made.chat_template = TEMPLATE
    return made


def token_ids(made: Any) -> dict[str, int]:
    names = {
        "image_token_id": IMAGE,
        "video_token_id": VIDEO,
        "vision_start_token_id": "<|vision_start|>",
        "vision_end_token_id": "<|vision_end|>",
    }
    return {name: made.convert_tokens_to_ids(token) for name, token in names.items()}


def text_settings(made: Any, **more: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "vocab_size": len(made),
        "hidden_size": HIDDEN,
        "intermediate_size": 2 * HIDDEN,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        "bos_token_id": None,
        "eos_token_id": made.eos_token_id,
        "pad_token_id": made.pad_token_id,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]},
    }
    return settings | more


def enlarge(model: Any, by: float = 4.0) -> Any:
    """Larger weights: what goes in shows in what comes out."""
    with load("torch").no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.mul_(by)
    return model.eval()


def seeded(seed: int) -> None:
    load("torch").manual_seed(seed)


def qwen2_vl(made: Any) -> Any:
    """The configuration of a tiny Qwen2-VL."""
    vision = {
        "depth": 2,
        "embed_dim": 16,
        "hidden_size": HIDDEN,
        "num_heads": 2,
        "mlp_ratio": 2,
        "patch_size": 14,
    }
    return load("transformers").Qwen2VLConfig(
        text_config=text_settings(made), vision_config=vision, **token_ids(made)
    )


def image_processor(patch: int, most: int = 64) -> Any:
    side = 2 * patch
    return load("transformers").Qwen2VLImageProcessorPil(
        min_pixels=4 * side**2, max_pixels=most * side**2, patch_size=patch
    )


def colqwen2(folder: Path, seed: int = 0) -> Path:
    """`ColQwen2ForRetrieval` as transformers saves it: the layout of vidore/colqwen2-v1.0-hf."""
    transformers = load("transformers")
    seeded(seed)
    made = tokenizer()
    made.padding_side = "left"
    model = transformers.ColQwen2ForRetrieval(
        transformers.ColQwen2Config(vlm_config=qwen2_vl(made), embedding_dim=16)
    )
    enlarge(model).save_pretrained(folder)
    transformers.ColQwen2Processor(image_processor=image_processor(14), tokenizer=made).save_pretrained(
        folder
    )
    return folder


def colqwen2_modules(folder: Path, native: Path, base: Path) -> Path:
    """The same network as a PEFT adapter over its backbone, with `modules.json`: the other route."""
    torch, transformers, peft = load("torch"), load("transformers"), load("peft")
    whole = transformers.ColQwen2ForRetrieval.from_pretrained(native)
    backbone = whole.vlm
    backbone.save_pretrained(base)
    made = tokenizer()
    adapted = peft.get_peft_model(
        backbone, peft.LoraConfig(r=2, target_modules=["q_proj"], task_type="FEATURE_EXTRACTION")
    )
    seeded(5)
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora" in name:
                weight.normal_(std=0.5)
    adapted.peft_config["default"].base_model_name_or_path = str(base)
    adapted.save_pretrained(folder)
    made.padding_side = "left"
    made.chat_template = (
        "{% for message in messages %}{% for part in message.content %}{% if part.type == 'image' %}"
        "{{ '<|im_start|>user\\n<|vision_start|><|image_pad|><|vision_end|>' }}"
        "Describe the image.<|im_end|><|endoftext|>{% else %}{{ part.text }}{{ '<|endoftext|>' * 10 }}"
        "{% endif %}{% endfor %}{% endfor %}"
    )
    made.save_pretrained(folder)
    (folder / "chat_template.jinja").write_text(made.chat_template)
    image_processor(14).save_pretrained(folder)
    processor = json.loads((folder / "preprocessor_config.json").read_text())
    write(folder, "preprocessor_config.json", processor | {"processor_class": "Qwen2VLProcessor"})
    head = whole.embedding_proj_layer
    projection(folder, head.weight.detach().clone(), head.bias.detach().clone())
    return folder


def projection(folder: Path, weight: Any, bias: Any) -> None:
    """`modules.json` of a model of many vectors, and the projection that it lists as `1_Dense`."""
    parts = ["base.modules.transformer.Transformer", "base.modules.dense.Dense"]
    parts += [
        "multi_vector_encoder.modules.multi_vector_mask.MultiVectorMask",
        "base.modules.normalize.Normalize",
    ]
    modules(folder, "MultiVectorEncoder", [f"sentence_transformers.{part}" for part in parts])
    dense = {
        "in_features": weight.shape[1],
        "out_features": weight.shape[0],
        "bias": True,
        "activation_function": "torch.nn.modules.linear.Identity",
        "module_input_name": "token_embeddings",
        "module_output_name": "token_embeddings",
    }
    write(folder / "1_Dense", "config.json", dense)
    weights = {"linear.weight": weight, "linear.bias": bias}
    load("safetensors.torch").save_file(weights, folder / "1_Dense" / "model.safetensors")
    write(folder / "2_MultiVectorMask", "config.json", {})
    names = {"module_input_name": "token_embeddings", "module_output_name": "token_embeddings"}
    write(folder / "3_Normalize", "config.json", names)
    modality_config(folder)


def colpali(folder: Path, seed: int = 7) -> Path:
    """`ColPaliForRetrieval`: PaliGemma, pictures of one size, a square of patches."""
    transformers = load("transformers")
    seeded(seed)
    made = tokenizer()
    made.chat_template = None
    made.add_special_tokens({"bos_token": "<bos>", "additional_special_tokens": ["<image>"]})
    made.image_token, made.image_token_id = "<image>", made.convert_tokens_to_ids("<image>")
    module = load("transformers.models.siglip.image_processing_pil_siglip")
    pictures = module.SiglipImageProcessorPil(size={"height": 56, "width": 56})
    pictures.image_seq_length = 16
    processor = transformers.ColPaliProcessor(image_processor=pictures, tokenizer=made)
    text = text_settings(made, model_type="gemma", vocab_size=len(processor.tokenizer), head_dim=8)
    text |= {
        "bos_token_id": made.bos_token_id,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
    }
    vision = {
        "model_type": "siglip_vision_model",
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": 56,
        "patch_size": 14,
        "projection_dim": HIDDEN,
        "vision_use_head": False,
    }
    config = transformers.PaliGemmaConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=processor.image_token_id,
        projection_dim=HIDDEN,
    )
    model = transformers.ColPaliForRetrieval(transformers.ColPaliConfig(vlm_config=config, embedding_dim=16))
    enlarge(model).save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def modules(folder: Path, kind: str, parts: list[str], **more: Any) -> None:
    """`modules.json` and `config_sentence_transformers.json`."""
    listed = [
        {"idx": i, "name": str(i), "path": f"{i}_{part.rpartition('.')[2]}" if i else "", "type": part}
        for i, part in enumerate(parts)
    ]
    write(folder, "modules.json", listed)
    settings: dict[str, Any] = {"model_type": kind, "prompts": {}}
    write(folder, "config_sentence_transformers.json", settings | more)


def modality_config(folder: Path, task: str = "feature-extraction", output: str = "token_embeddings") -> None:
    method = {
        "method": "forward",
        "method_output_name": "logits" if task == "any-to-any" else "last_hidden_state",
    }
    write(
        folder,
        "sentence_bert_config.json",
        {
            "transformer_task": task,
            "modality_config": {
                "text": method,
                "image": method,
                "image+text": method,
                "message": method | {"format": "structured"},
            },
            "module_output_name": output,
            "processing_kwargs": {"chat_template": {"add_generation_prompt": True}},
        },
    )


def qwen3_vl(made: Any) -> Any:
    vision = {
        "depth": 2,
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_heads": 2,
        "out_hidden_size": HIDDEN,
        "patch_size": 16,
        "num_position_embeddings": 64,
        "deepstack_visual_indexes": [0],
    }
    text = text_settings(made, head_dim=8, tie_word_embeddings=True)
    text["rope_parameters"]["mrope_interleaved"] = True
    return load("transformers").Qwen3VLConfig(
        text_config=text, vision_config=vision, tie_word_embeddings=True, **token_ids(made)
    )


def vision_files(folder: Path, made: Any, patch: int, processor_class: str) -> None:
    """Tokenizer, template and the settings of pictures, as Qwen's repositories lay them out."""
    made.save_pretrained(folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    side = 2 * patch
    pictures = {
        "size": {"shortest_edge": 4 * side**2, "longest_edge": 64 * side**2},
        "patch_size": patch,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "image_mean": [0.5] * 3,
        "image_std": [0.5] * 3,
        "processor_class": processor_class,
        "image_processor_type": "Qwen2VLImageProcessorFast",
    }
    write(folder, "preprocessor_config.json", pictures)


def qwen3_vl_embedding(folder: Path, seed: int = 1, prompts: dict[str, str] | None = None) -> Path:
    """The layout of Qwen/Qwen3-VL-Embedding-2B; with prompts of its own, that of a model made from it."""
    seeded(seed)
    made = tokenizer()
    enlarge(load("transformers").Qwen3VLForConditionalGeneration(qwen3_vl(made))).save_pretrained(folder)
    vision_files(folder, made, 16, "Qwen3VLProcessor")
    (folder / "chat_template.jinja").write_text(TEMPLATE.replace(SYSTEM, DEFAULT_INSTRUCTION))
    parts = ["Transformer", "Pooling", "Normalize"]
    modules(
        folder,
        "SentenceTransformer",
        [f"sentence_transformers.models.{part}" for part in parts],
        prompts=prompts or {"default": DEFAULT_INSTRUCTION},
        similarity_fn_name="cosine",
    )
    pooling = {"embedding_dimension": HIDDEN, "pooling_mode": "lasttoken", "include_prompt": True}
    write(folder / "1_Pooling", "config.json", pooling)
    write(folder / "2_Normalize", "config.json", {})
    modality_config(folder)
    return folder


def qwen3_vl_reranker(folder: Path, seed: int = 2) -> Path:
    """A reranker of pairs of text and picture: the log-odds of one token against another."""
    seeded(seed)
    made = tokenizer()
    enlarge(load("transformers").Qwen3VLForConditionalGeneration(qwen3_vl(made)), 3.0).save_pretrained(folder)
    vision_files(folder, made, 16, "Qwen3VLProcessor")
    parts = ["base.modules.transformer.Transformer", "cross_encoder.modules.logit_score.LogitScore"]
    modules(folder, "CrossEncoder", [f"sentence_transformers.{part}" for part in parts])
    yes, no = made.convert_tokens_to_ids(["a", "b"])
    write(folder / "1_LogitScore", "config.json", {"true_token_id": yes, "false_token_id": no})
    modality_config(folder, "any-to-any", "causal_logits")
    return folder


def gve(folder: Path, seed: int = 3) -> Path:
    """The layout of Alibaba-NLP/GVE-3B: a Qwen2.5-VL under another name of class."""
    transformers = load("transformers")
    seeded(seed)
    made = tokenizer()
    config = qwen2_5_vl(made)
    enlarge(transformers.Qwen2_5_VLForConditionalGeneration(config)).save_pretrained(folder)
    vision_files(folder, made, 14, "Qwen2_5_VLProcessor")
    settings = json.loads((folder / "config.json").read_text())
    write(folder, "config.json", settings | {"architectures": ["Qwen25VLForEmbedding"]})
    return folder


def bert(folder: Path, head: str, seed: int = 4, **more: Any) -> Path:
    """A tiny BERT with the tokenizer from above; `head` is its class in transformers."""
    transformers = load("transformers")
    seeded(seed)
    made = tokenizer()
    made.chat_template = None
    config = transformers.BertConfig(
        vocab_size=len(made),
        hidden_size=HIDDEN,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=2 * HIDDEN,
        pad_token_id=made.pad_token_id,
        **more,
    )
    enlarge(getattr(transformers, head)(config), 8.0).save_pretrained(folder)
    made.save_pretrained(folder)
    return folder


def cross_encoder(folder: Path, seed: int = 4) -> Path:
    """A reranker of text alone, as most are."""
    return bert(folder, "BertForSequenceClassification", seed, num_labels=1)


def text_embedder(folder: Path) -> Path:
    """A model of sentences, as all-MiniLM-L6-v2 is laid out."""
    bert(folder, "BertModel", 6)
    parts = ["Transformer", "Pooling"]
    modules(
        folder,
        "SentenceTransformer",
        [f"sentence_transformers.models.{part}" for part in parts],
        similarity_fn_name="cosine",
    )
    write(
        folder / "1_Pooling",
        "config.json",
        {"word_embedding_dimension": HIDDEN, "pooling_mode_mean_tokens": True},
    )
    write(folder, "sentence_bert_config.json", {"max_seq_length": 64, "do_lower_case": False})
    return folder


def chat(folder: Path, family: str, seed: int = 8, template: str = TEMPLATE) -> Path:
    """A model that writes, laid out as Qwen's repositories: `qwen2_vl`, `qwen2_5_vl` or `qwen3_vl`.

    Words out are apart from words in, or it would repeat itself. What it recommends for sampling is what
    Qwen2.5-VL does, and stronger, so that it shows.
    """
    transformers = load("transformers")
    seeded(seed)
    made = tokenizer()
    config, patch, name = {
        "qwen2_vl": (qwen2_vl, 14, "Qwen2VL"),
        "qwen2_5_vl": (qwen2_5_vl, 14, "Qwen2_5_VL"),
        "qwen3_vl": (qwen3_vl, 16, "Qwen3VL"),
    }[family]
    settings = config(made)
    settings.tie_word_embeddings = settings.text_config.tie_word_embeddings = False
    network = getattr(transformers, f"{name}ForConditionalGeneration")(settings)
    enlarge(network, 12.0).save_pretrained(folder)
    vision_files(folder, made, patch, f"{name}Processor")
    (folder / "chat_template.jinja").write_text(template)
    ends = [made.eos_token_id, made.pad_token_id]
    advice = {"do_sample": True, "repetition_penalty": 3.0, "temperature": 0.5, "top_k": 2}
    write(folder, "generation_config.json", advice | {"eos_token_id": ends, "pad_token_id": ends[1]})
    return folder


def qwen2_5_vl(made: Any) -> Any:
    """The configuration of a tiny Qwen2.5-VL."""
    vision = {
        "depth": 2,
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_heads": 2,
        "out_hidden_size": HIDDEN,
        "window_size": 112,
        "fullatt_block_indexes": [1],
        "tokens_per_second": 2,
    }
    return load("transformers").Qwen2_5_VLConfig(
        text_config=text_settings(made, tie_word_embeddings=True),
        vision_config=vision,
        tie_word_embeddings=True,
        **token_ids(made),
    )
