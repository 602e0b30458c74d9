"""Lets torchvision be imported beside a torch for CPUs; lies as `sitecustomize.py` on a path of its own.

The wheel of torchvision that registries have goes with CUDA. Its operators cannot be loaded beside a torch
for CPUs, and importing it fails where it describes them. Declared, without anything that computes them,
they are enough for resizing pictures, which is all that is used of it.
"""

from __future__ import annotations

import importlib
import importlib.abc
import sys
from typing import Any

declared: list[Any] = []
"""Keeps the declarations: they go when their library object does."""


class BeforeTorchvision(importlib.abc.MetaPathFinder):
    """Declares the operators when torchvision is first looked for, and finds nothing itself."""

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        if name == "torchvision":
            sys.meta_path.remove(self)
            torch: Any = importlib.import_module("torch")
            library = torch.library.Library("torchvision", "DEF")
            for operator in ("nms", "qnms"):
                library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            declared.append(library)


sys.meta_path.insert(0, BeforeTorchvision())
