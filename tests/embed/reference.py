# ruff: noqa: ANN401 - the libraries are not typed
"""The same models written down a second time, over bare networks of transformers.

Nothing here goes through sentence-transformers, chat templates, processors' prompts, batches or
padding: each prompt is spelt out, tokenized and run alone.
"""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from tiny_models import IMAGE, PAD, VIDEO, load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from PIL.Image import Image

SYSTEM = "<|im_start|>system\n{}<|im_end|>\n"


def tokens(folder: Path) -> Any:
    return load("transformers").AutoTokenizer.from_pretrained(folder)


def pictures(folder: Path) -> Any:
    module = load("transformers.models.qwen2_vl.image_processing_pil_qwen2_vl")
    return module.Qwen2VLImageProcessorPil.from_pretrained(folder)


def run(network: Any, tokenizer: Any, prompt: str, **pixels: Any) -> Any:
    """The states of the last layer, (tokens, hidden), of one prompt alone."""
    ids = tokenizer(prompt, return_tensors="pt", add_special_tokens=False)["input_ids"]
    image, video = tokenizer.convert_tokens_to_ids([IMAGE, VIDEO])
    kinds = (ids == image).int() + 2 * (ids == video).int()
    with load("torch").no_grad():
        return network(input_ids=ids, mm_token_type_ids=kinds, **pixels).last_hidden_state[0]


def show(processor: Any, image: Image) -> tuple[str, dict[str, Any]]:
    """The tokens that stand for a picture, and what the network is given of it."""
    made = dict(processor(images=[image], return_tensors="pt"))
    return IMAGE * (len(made["pixel_values"]) // 4), made


@functools.cache
def whole(kind: str, folder: Path) -> Any:
    """A network with its head, loaded once; not to be changed."""
    return getattr(load("transformers"), kind).from_pretrained(folder).eval()


def unit(states: Any) -> NDArray[np.float32]:
    return np.asarray(states / states.norm(dim=-1, keepdim=True))


def colqwen2(folder: Path) -> tuple[Any, Any, Any, Any]:
    """Backbone, projection, tokenizer and image processor of a native checkpoint."""
    made = load("transformers").ColQwen2ForRetrieval.from_pretrained(folder).eval()
    return made.vlm, made.embedding_proj_layer, tokens(folder), pictures(folder)


def colqwen2_modules(folder: Path, base: Path) -> tuple[Any, Any, Any, Any]:
    """The same of an adapter over its base, with the projection from its own file."""
    torch, transformers, peft = load("torch"), load("transformers"), load("peft")
    backbone = transformers.Qwen2VLModel.from_pretrained(base)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers by an old name
        merged = peft.PeftModel.from_pretrained(backbone, folder).merge_and_unload().eval()
    weights = load("safetensors.torch").load_file(folder / "1_Dense" / "model.safetensors")
    head = torch.nn.Linear(*reversed(weights["linear.weight"].shape))
    head.load_state_dict({name.removeprefix("linear."): weight for name, weight in weights.items()})
    return merged, head, tokens(folder), pictures(folder)


def colqwen2_page(parts: tuple[Any, Any, Any, Any], image: Image) -> NDArray[np.float32]:
    network, head, tokenizer, processor = parts
    shown, pixels = show(processor, image)
    prompt = f"<|im_start|>user\n<|vision_start|>{shown}<|vision_end|>Describe the image.<|im_end|>{PAD}"
    with load("torch").no_grad():
        return unit(head(run(network, tokenizer, prompt, **pixels)))


def colqwen2_query(parts: tuple[Any, Any, Any, Any], prompt: str) -> NDArray[np.float32]:
    network, head, tokenizer, _ = parts
    with load("torch").no_grad():
        return unit(head(run(network, tokenizer, prompt)))


def colpali(folder: Path, image: Image | None = None, text: str = "") -> NDArray[np.float32]:
    """The vectors of a picture, or of a text worded as a query."""
    torch, network = load("torch"), whole("ColPaliForRetrieval", folder)
    module = load("transformers.models.siglip.image_processing_pil_siglip")
    pixels: dict[str, Any] = {}
    prompt = f"<bos>Question: {text}{PAD * 10}\n"
    if image is not None:
        processor = module.SiglipImageProcessorPil.from_pretrained(folder)
        pixels = dict(processor(images=[image], return_tensors="pt"))
        prompt = "<image>" * 16 + "<bos>Describe the image.\n"
    ids = tokens(folder)(prompt, return_tensors="pt", add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        states = network.vlm(input_ids=ids, attention_mask=torch.ones_like(ids), **pixels).last_hidden_state[
            0
        ]
        return unit(network.embedding_proj_layer(states))


def states_of(folder: Path, kind: str, prompt: str) -> NDArray[np.float32]:
    """The vector of a prompt of text, spelt out."""
    return unit(run(whole(kind, folder).model, tokens(folder), prompt)[-1])


def qwen3_vl(
    folder: Path,
    instruction: str,
    text: str = "",
    image: Image | None = None,
    frames: Sequence[tuple[float, Image]] = (),
) -> NDArray[np.float32]:
    """The frames of a video with their seconds, in pairs; sides are multiples of 32."""
    torch = load("torch")
    network = whole("Qwen3VLForConditionalGeneration", folder).model
    processor = pictures(folder)
    processor.size = {"shortest_edge": 4 * 1024, "longest_edge": 1800 * 1024}
    seen, pixels = "", dict[str, Any]()
    if frames:
        grid, patches = video(processor, [frame for _, frame in frames], 16)
        tokens_of_step = VIDEO * (len(patches) // 4 // grid[0])
        for (first, _), (second, _) in zip(frames[::2], frames[1::2], strict=True):
            seen += f"<{(first + second) / 2:.1f} seconds><|vision_start|>{tokens_of_step}<|vision_end|>"
        pixels |= {"pixel_values_videos": torch.tensor(patches), "video_grid_thw": torch.tensor([grid])}
    if image:
        shown, given = show(processor, image)
        pixels |= given
        seen += f"<|vision_start|>{shown}<|vision_end|>"
    prompt = f"<|im_start|>user\n{seen}{text}<|im_end|>\n<|im_start|>assistant\n"
    return unit(run(network, tokens(folder), SYSTEM.format(instruction) + prompt, **pixels)[-1])


def gve(
    folder: Path, text: str = "", image: Image | None = None, frames: Sequence[Image] = (), closing: str = PAD
) -> NDArray[np.float32]:
    torch = load("torch")
    network = whole("Qwen2_5_VLForConditionalGeneration", folder).model
    processor = pictures(folder)
    processor.size = {"shortest_edge": 4 * 784, "longest_edge": 256 * 784}
    seen, pixels = "", dict[str, Any]()
    if frames:
        grid, patches = video(processor, frames)
        pixels["video_grid_thw"] = torch.tensor([grid])
        count = len(patches) // 4
        seen += f"<|vision_start|>{VIDEO * count}<|vision_end|>"
        pixels["pixel_values_videos"] = torch.tensor(patches)
        pixels["second_per_grid_ts"] = torch.tensor([2.0])
    if image:
        shown, given = show(processor, image)
        pixels |= given
        seen += f"<|vision_start|>{shown}<|vision_end|>"
    prompt = f"<|im_start|>user\n{seen}{text}<|im_end|>\n<|im_start|>assistant\n{closing}"
    prompt = SYSTEM.format("You are a helpful assistant.") + prompt
    if frames:
        ids = tokens(folder)(prompt, add_special_tokens=False)["input_ids"]
        video_id, image_id = tokens(folder).convert_tokens_to_ids([VIDEO, IMAGE])
        grids = {
            video_id: pixels["video_grid_thw"][0].tolist(),
            image_id: pixels["image_grid_thw"][0].tolist() if image else list[int](),
        }
        places = qwen2_5_places(ids, grids, {video_id: 2.0 * 2, image_id: 0.0})
        pixels["position_ids"] = torch.tensor(places).T[:, None]
    return unit(run(network, tokens(folder), prompt, **pixels)[-1])


def qwen2_5_places(
    ids: list[int], grids: dict[int, list[int]], steps: dict[int, float]
) -> list[tuple[int, int, int]]:
    """Time, row and column of every token, counted one by one.

    Args:
        ids: The tokens.
        grids: Time, rows and columns of patches of the one video and the one picture, by their tokens.
        steps: How much time passes from one step of each to the next.
    """
    places: list[tuple[int, int, int]] = []
    seen = dict.fromkeys(grids, 0)
    start = 0
    for place, token in enumerate(ids):
        if token in grids:
            _, rows, columns = grids[token]
            time, within = divmod(seen[token], rows // 2 * (columns // 2))
            row, column = divmod(within, columns // 2)
            places.append((start + int(time * steps[token]), start + row, start + column))
            seen[token] += 1
        else:
            after = place and ids[place - 1] in grids
            start = max(max(one) for one in places) + 1 if after else start
            places.append((start, start, start))
            start += 1
    return places


def video(processor: Any, frames: Sequence[Image], side: int = 14) -> tuple[list[int], NDArray[np.float32]]:
    """The patches of frames whose sides are multiples of two patches, spelt out number by number.

    Order: time, then blocks of 2 × 2 patches row by row, then the patches of a block row by row; within
    a patch colour, then time, then rows, then columns.
    """
    mean, deviation = (np.array(one, np.float32) for one in (processor.image_mean, processor.image_std))
    even = [*frames, *[frames[-1]] * (len(frames) % 2)]
    film = np.array([(np.asarray(frame, np.float32) / 255 - mean) / deviation for frame in even], np.float32)
    times, rows, columns = len(film) // 2, film.shape[1] // side, film.shape[2] // side
    made: list[NDArray[np.float32]] = []
    for time in range(times):
        for block_row in range(rows // 2):
            for block_column in range(columns // 2):
                for place in range(4):
                    row, column = 2 * block_row + place // 2, 2 * block_column + place % 2
                    cut = film[2 * time : 2 * time + 2, side * row :][:, :side, side * column :][:, :, :side]
                    made.append(cut.transpose(3, 0, 1, 2).ravel())
    return [times, rows, columns], np.stack(made)
