"""Converters that misbehave, for the tests of the driver. They run in worker processes, which import
this module: a lambda or a nested class would not get there.
"""

from __future__ import annotations

import io
import os
import time
from typing import TYPE_CHECKING

from vrag.corpus.converter import OpenFile
from vrag.errors import CorpusError
from vrag.geometry import Size
from vrag.types import Item, ItemKind, item_id

if TYPE_CHECKING:
    from vrag.corpus.converter import ConversionContext, CorpusOptions, SourceFile


class ScriptedFile(OpenFile):
    """A file of text with one word per item: what happens to that item.

    `ok` succeeds, `bad` is refused, `odd` raises what nobody expects, `crash` ends the process, `hang`
    sleeps for ever, `spin` computes for ever, `pid` gives the process id as its text, `picture` stores one,
    `slow` takes a while, `nap` a longer one, `eat` wants 16 GiB, `input` tells what standard input has.
    The words `crash!` and `hang!` do so on opening.
    """

    def __init__(self, source: SourceFile, context: ConversionContext) -> None:
        self._source = source
        self._context = context
        with source.open() as file:
            self._words = file.read().decode().split()
        self.count = len(self._words)
        for word in self._words:
            if word.endswith("!"):
                _happen(word[:-1])

    def item(self, ordinal: int) -> Item:
        word = self._words[ordinal - 1]
        _happen(word)
        image = None
        if word == "picture":
            from PIL import Image

            encoded = io.BytesIO()
            Image.new("RGB", (9, 9)).save(encoded, format="PNG")
            image = self._context.store_picture(self._source, ordinal, ".png", encoded.getvalue())
        return Item(
            id=item_id(self._source.document, ordinal),
            document=self._source.document,
            document_name=self._source.name,
            kind=ItemKind.PASSAGE,
            ordinal=ordinal,
            text=str(os.getpid()) if word == "pid" else word,
            size=Size(9, 9) if image else None,
            image=image,
        )


def _happen(word: str) -> None:
    match word:
        case "bad":
            raise CorpusError("It is bad.")
        case "input":
            raise CorpusError(f"Standard input has {os.read(0, 1)!r}.")
        case "odd":
            raise ZeroDivisionError("odd")
        case "crash":
            os.abort()
        case "hang":
            time.sleep(1000)
        case "spin":
            while True:
                pass
        case "slow" | "nap":
            time.sleep(0.05 if word == "slow" else 2.5)
        case "eat":
            bytearray(16 * 2**30)
        case _:
            pass


class PatientPages(ScriptedFile):
    """A file whose items are made when there is a file of its name with the suffix `.go`."""

    def item(self, ordinal: int) -> Item:
        while not self._source.path.with_suffix(".go").exists():
            time.sleep(0.01)
        return super().item(ordinal)


class PatientFile(ScriptedFile):
    """A file that takes long to open: until there is a file of its name with the suffix `.go`."""

    def __init__(self, source: SourceFile, context: ConversionContext) -> None:
        while not source.path.with_suffix(".go").exists():
            time.sleep(0.01)
        super().__init__(source, context)

    @staticmethod
    def opening_seconds(source: SourceFile, options: CorpusOptions) -> float:  # noqa: ARG004 - a protocol's
        return 100.0
