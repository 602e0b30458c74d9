"""Facts of items as JSON: in the index, in the replies of workers and over HTTP."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from functools import cache
from typing import TYPE_CHECKING

from vrag.types import ItemFacts

if TYPE_CHECKING:
    from pydantic import TypeAdapter


def encode_facts(facts: ItemFacts) -> str:
    """Write facts as a JSON object of those that are known; "" if none is.

    >>> encode_facts(ItemFacts(label="iv")), encode_facts(ItemFacts())
    ('{"label":"iv"}', '')
    """
    values = asdict(facts)
    known = {each.name: value for each in fields(facts) if (value := values[each.name]) != each.default}
    return json.dumps(known, separators=(",", ":")) if known else ""


def decode_facts(text: str) -> ItemFacts:
    """Read facts that were written by `encode_facts`. Raises `ValueError` if they were not.

    >>> decode_facts('{"label": "iv"}').label
    'iv'
    """
    return _adapter().validate_json(text) if text else ItemFacts()


@cache
def _adapter() -> TypeAdapter[ItemFacts]:
    from pydantic import TypeAdapter

    return TypeAdapter(ItemFacts)
