"""The form in which a client wants its answer: text, JSON, or the arguments of a function that it must call.

An answer is put into the fields of a client's schema by their names and types. Nothing else is made up: what
the schema asks for and an answer does not have is left out or null where the schema allows it. Otherwise the
request is refused before a run, or the reply is a refusal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from vrag.server.openai.errors import InvalidRequest

ALIASES: Mapping[str, tuple[str, ...]] = {
    "answer": ("answer", "final_answer", "response", "result", "output", "reply"),
    "sources": ("sources", "source", "citations", "references", "evidence"),
    "document": ("document", "file", "filename", "file_name", "name"),
    "page": ("page", "page_number"),
    "url": ("url", "link"),
    "quote": ("quote", "text", "excerpt"),
}
"""Further names that the fields of an answer and of its sources have in schemas."""
SOURCE_FIELDS = ("number", "document", "title", "page", "url", "quote")
"""Fields of a source."""
_ANNOTATIONS = frozenset(
    "$id $schema $comment $defs definitions title description default examples deprecated readOnly writeOnly "
    "type enum const properties required additionalProperties items anyOf oneOf $ref nullable strict".split()
)
"""Keywords of a schema that are followed, or say nothing about values."""
_NUMBER = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")
_BOOLEANS = {"yes": True, "true": True, "no": False, "false": False}
_MAX_NUMBER_CHARS = 30
_MAX_DEPTH, _MAX_STEPS = 16, 10_000
"""Levels of a schema that are followed, and parts of it that are looked at."""
_ANY = object()
"""Stands for a text that is not known yet, to find out whether a schema has a place for it."""


class UnfitError(ValueError):
    """A value has no place in a schema; the message says which part of it is the reason."""


@dataclass(frozen=True, slots=True)
class JsonForm:
    """A form other than text."""

    schema: Mapping[str, Any] | None = None
    """The schema of the JSON object; None for any object."""
    function: str = ""
    """Name of the function whose arguments the object is; empty if it is the content."""
    param: str = "response_format"
    """The field of the request that asks for it."""

    def check(self) -> None:
        """Raise `InvalidRequest` if the schema has no place for any answer."""
        try:
            self.fill({"answer": _ANY, "sources": [dict.fromkeys(SOURCE_FIELDS, _ANY)]}, "answer")
        except UnfitError as error:
            hint = "Give it a field for the answer, and let the others be null or absent."
            if self.function:
                hint = (
                    "Set tool_choice to auto: an agent answers by itself and calls no function of a client."
                )
            message = f"An answer about documents does not fit what {self.param} asks for: {error}."
            raise InvalidRequest(message, hint, param=self.param, code="unsupported_value") from error

    def fill(self, fields: Mapping[str, Any], main: str) -> str:
        """Return the JSON of the schema with these fields; that of the name `main` must have a place.

        Raises `UnfitError` if it has none, or the schema needs what is not among the fields.
        """
        if self.schema is None:
            return to_json(fields)
        filler = _Filler(self.schema, by_name_only=bool(self.function))
        return to_json(filler.fill(self.schema, fields, main))


def to_json(value: object) -> str:
    """Write JSON as people read it; what is not known yet as null."""
    return json.dumps(value, ensure_ascii=False, default=lambda _: None)


@dataclass(slots=True)
class _Filler:
    """Puts values into a schema. Raises `UnfitError`."""

    root: Mapping[str, Any]
    by_name_only: bool
    """True if a field takes the answer by its name only: arguments of functions often mean something else."""
    _steps: int = 0

    def fill(self, schema: object, fields: Mapping[str, Any], main: str) -> dict[str, Any]:
        """Fill the object that the whole schema describes."""
        schema, known, names = self._resolve(schema), _with_aliases(fields), ALIASES.get(main, (main,))
        properties, required = _object(schema.get("properties")), _names(schema.get("required"))
        if schema.get("type", "object") != "object" or not properties:
            raise UnfitError("its schema is not an object with properties")
        _check_keywords(schema)
        given = {name: known[name] for name in properties if name in known}
        if given.keys().isdisjoint(names) and not self.by_name_only:
            free = [name for name in properties if name not in known]
            free = [name for name in free if name in required] or free
            if len(free) == 1:  # whatever its name, it can only be the answer
                given[free[0]], names = fields[main], tuple(free)
        filled: dict[str, Any] = {}
        for name, value in given.items():
            try:
                filled[name] = self.convert(properties[name], value)
            except UnfitError as error:
                if name in names:
                    raise UnfitError(f"{_shown(name)} {error}") from None
        if filled.keys().isdisjoint(names):
            raise UnfitError(f"none of its fields is named {' or '.join(names)}")
        return filled | self._nulls(properties, required - filled.keys())

    def convert(self, schema: object, value: Any, depth: int = 0) -> Any:  # noqa: ANN401 - JSON
        """Return a value as a schema wants it, changed in its type at most."""
        schema = self._resolve(schema)
        _check_keywords(schema)
        self._steps += 1
        if depth > _MAX_DEPTH or self._steps > _MAX_STEPS:
            raise UnfitError("is nested too deeply")
        types = schema.get("type")
        members = _list(schema.get("anyOf", schema.get("oneOf")))
        if members or isinstance(types, list):
            members = members or [{**schema, "type": each} for each in _list(cast("object", types))]
            return self._first_fit(members, value, depth)
        if "enum" in schema or "const" in schema:
            return _one_of(_list(schema.get("enum", [schema.get("const")])), value)
        if value is None and types not in ("null", None) and schema.get("nullable") is not True:
            raise UnfitError("has no value here and cannot be null")
        match types:
            case _ if value is None or types is None:
                return value
            case "array":
                items = cast("list[Any]", value) if isinstance(value, list) else [value]
                return [self.convert(schema.get("items", {}), item, depth + 1) for item in items]
            case "object":
                return self._object(schema, _with_aliases(_object(value)), depth)
            case _:
                return _scalar(str(types), value)

    def _object(self, schema: Mapping[str, Any], known: Mapping[str, Any], depth: int) -> dict[str, Any]:
        """Fill a nested object by the names of its fields."""
        properties = _object(schema.get("properties"))
        filled = {
            name: self.convert(properties[name], known[name], depth + 1)
            for name in filter(known.__contains__, properties)
        }
        if not filled:
            raise UnfitError("is an object with none of the fields of an answer")
        return filled | self._nulls(properties, _names(schema.get("required")) - filled.keys())

    def _first_fit(self, schemas: Sequence[Any], value: Any, depth: int) -> Any:  # noqa: ANN401 - JSON
        reason = UnfitError("has no type")
        for schema in schemas:
            try:
                return self.convert(schema, value, depth + 1)
            except UnfitError as error:
                reason = error
        raise reason

    def _nulls(self, properties: Mapping[str, Any], names: Collection[str]) -> dict[str, None]:
        """Return required fields that an answer does not have, as null."""
        for name in sorted(names):
            try:
                self.convert(properties.get(name, {"type": "unknown"}), None)
            except UnfitError:
                message = f"it requires {_shown(name)}, which an answer does not have"
                raise UnfitError(message) from None
        return dict.fromkeys(names)

    def _resolve(self, schema: object) -> Mapping[str, Any]:
        """Follow references within the schema."""
        for _ in range(_MAX_DEPTH):
            fields = _object(schema)
            if "$ref" not in fields:
                return fields
            schema = self.root
            for part in str(fields["$ref"]).removeprefix("#").strip("/").split("/"):
                schema = _object(schema).get(part) if part else schema
        raise UnfitError("has references in a circle")


def _with_aliases(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields under all names that they may have; their own names win."""
    aliases = {alias: value for name, value in fields.items() for alias in ALIASES.get(name, ())}
    return {**aliases, **fields}


def _check_keywords(schema: Mapping[str, Any]) -> None:
    """Refuse rules that a value may break, such as a pattern. No answer is empty."""
    kept = _ANNOTATIONS | ({"minLength"} if schema.get("minLength") in {0, 1} else set[str]())
    if unknown := sorted(schema.keys() - kept):
        raise UnfitError(f"has the rule {_shown(unknown[0])}, which cannot be promised")


def _scalar(type: str, value: Any) -> object:  # noqa: ANN401 - JSON
    if value is _ANY and type in {"string", "number", "integer", "boolean"}:
        return _ANY
    entries = cast("list[Any]", value) if isinstance(value, list) else [value]
    text = "; ".join(str(_object(entry).get("title", entry)) for entry in entries).strip()
    if type == "string" and text:
        return text
    if type in {"number", "integer"} and _NUMBER.fullmatch(text) and len(text) <= _MAX_NUMBER_CHARS:
        whole, _, fraction = text.replace(",", "").partition(".")
        if not fraction.strip("0"):
            return int(whole)
        if type == "number":
            return float(f"{whole}.{fraction}")
    if type == "boolean" and (truth := _BOOLEANS.get(text.rstrip(".").casefold())) is not None:
        return truth
    raise UnfitError(f"is of the type {_shown(type)}, and the answer is not")


def _one_of(allowed: Sequence[object], value: object) -> object:
    if value is _ANY and allowed:
        return _ANY
    text = str(value).strip().rstrip(".").casefold()
    for each in allowed:
        if each is value or (value is not None and str(each).casefold() == text):
            return each
    raise UnfitError("allows other values than the answer")


def _shown(name: object) -> str:
    return repr(str(name)[:60])


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: object) -> Sequence[Any]:
    return cast("Sequence[Any]", value) if isinstance(value, list) else ()


def _names(value: object) -> set[str]:
    return {str(name) for name in _list(value)}


def read_format(wanted: object, tools: object, choice: object, param: str) -> JsonForm | None:
    """Return the form that a request asks for by its format, tools and tool choice; None for text.

    Both of OpenAI's interfaces are read: one has the parts of a tool or format in an object of their own.
    `param` is the field that has the format. Raises `InvalidRequest` if the form is not known.
    """
    mode = _flat(choice, "allowed_tools").get("mode") if _object(choice) else choice
    demanded = _object(choice)
    # Tools that OpenAI runs, such as file_search, are ignored.
    is_function = demanded.get("type") == "function" or "function" in demanded
    if mode == "required" or is_function:
        name = _flat(choice, "function").get("name")
        return _called_function([_flat(tool, "function") for tool in _list(tools)], name)
    fields = _flat({"type": "text"} if wanted is None else wanted, "json_schema")
    match fields.get("type"):
        case "text":
            return None
        case "json_object":
            return JsonForm(None, "", param)
        case "json_schema" if isinstance(fields.get("schema"), dict):
            return JsonForm(fields["schema"], "", param)
        case _:
            hint = "Its type is text, json_object, or json_schema with a schema."
            raise InvalidRequest("This format of an answer is not supported.", hint, param=param)


def _called_function(tools: Sequence[Mapping[str, Any]], name: object) -> JsonForm:
    """Return the form of the named function, or of the first one that can take an answer."""
    found = [
        JsonForm(_object(tool.get("parameters")), tool["name"], "tool_choice")
        for tool in tools
        if isinstance(tool.get("name"), str) and name in (None, tool["name"])
    ]
    if not found:
        hint = "Name one of the functions in tools, or set tool_choice to auto."
        raise InvalidRequest("tool_choice demands a function that is not there.", hint, param="tool_choice")
    for each in found[:-1]:
        with suppress(InvalidRequest):
            each.check()
            return each
    return found[-1]


def _flat(value: object, part: str) -> Mapping[str, Any]:
    fields = _object(value)
    return {**fields, **_object(fields.get(part))}
