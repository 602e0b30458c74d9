"""Elements of an HTML file that nobody sees: hidden by an attribute, by their style or by a rule of the file.

Of style sheets, those within the file count, and of these the rules that hold for every screen and select by
element, class and id: `.note`, `p.old`, `#menu`. Other rules, such as those with parents or states, decide
nothing: what they might hide is read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from selectolax.lexbor import LexborNode

DELETED = frozenset({"del", "s", "strike"})
"""Elements with text that is crossed out."""
MAX_STYLE_CHARS = 2_000_000
"""Characters of style sheets that are looked at."""
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_SELECTOR = re.compile(r"(?P<tag>[a-zA-Z][\w-]*|\*)?(?P<rest>(?:[.#][\w-]+)*)")
_PART = re.compile(r"([.#])([\w-]+)")
_EVERY_SCREEN = re.compile(
    r"@media\s+(?:all|screen)(?:\s*,\s*(?:all|screen|print))*\s*|@layer\b.*", re.DOTALL
)
_DECLARATION = re.compile(r"(?:^|;)\s*(?P<name>[\w-]+)\s*:\s*(?P<value>[^;]*)")
_FAR_AWAY = re.compile(r"-\d{4,}(?:\.\d+)?px|-\d{3,}(?:\.\d+)?r?em")
"""Where texts lie that are left or above of any screen."""
_NO_AREA = re.compile(r"rect\(\s*([01])(?:px)?(?:[\s,]+\1(?:px)?){3}\s*\)|inset\(\s*(?:50|100)%\s*\)")
"""Values that cut off all of an element."""


class StyleRule(NamedTuple):
    """A simple selector, and what it sets. Rules compare by their weight: later and more exact ones win."""

    is_important: bool
    specificity: tuple[int, int, int]
    order: int
    tag: str
    """The element that it selects; empty for any."""
    id: str
    classes: frozenset[str]
    name: str
    """The property: `display`, `visibility`, `text-decoration`, `clip`, or `place` for those that move it."""
    hides: bool
    """True if its value hides the text or strikes it through."""


class StyleRules:
    """The rules of a file that hide elements or show them."""

    def __init__(self, css: str = "") -> None:
        self._by_key: dict[str, list[StyleRule]] = {}
        for order, (selectors, body) in enumerate(_rules(_COMMENT.sub("", css[:MAX_STYLE_CHARS]))):
            declared = list(_declarations(body))
            for selector in selectors.split(",") if declared else ():
                self._add(selector.strip(), declared, order)

    def _add(self, selector: str, declared: list[tuple[str, bool, bool]], order: int) -> None:
        match = _SELECTOR.fullmatch(selector)
        if match is None or not selector:
            return
        parts = _PART.findall(match["rest"])
        ids = [name for sign, name in parts if sign == "#"]
        classes = frozenset(name for sign, name in parts if sign == ".")
        tag = "" if match["tag"] in {None, "*"} else match["tag"].lower()
        if len(ids) > 1:
            return
        weight = len(ids), len(classes), int(bool(tag))
        key = f"#{ids[0]}" if ids else f".{min(classes)}" if classes else tag
        for name, hides, is_important in declared:
            rule = StyleRule(is_important, weight, order, tag, "".join(ids), classes, name, hides)
            self._by_key.setdefault(key, []).append(rule)

    def hides(self, node: LexborNode, tag: str) -> bool:
        """Return whether nobody sees the text of an element, whatever is around it."""
        attributes = node.attributes
        style = attributes.get("style")
        if not (style or self._by_key or tag in DELETED or "hidden" in attributes):
            return False
        chosen = self._choose(tag, attributes) if self._by_key else {}
        own = {name: hides for name, hides, _ in _declarations(style or "")}
        for name, hides in own.items():
            if name not in chosen or not chosen[name].is_important:
                chosen[name] = StyleRule(False, (1, 0, 0), 0, "", "", frozenset(), name, hides)
        if tag in DELETED:
            return "text-decoration" not in chosen or chosen["text-decoration"].hides
        if any(rule.hides for rule in chosen.values()):
            return True
        if "display" in chosen:
            return False
        return "hidden" in attributes and (attributes["hidden"] or "").lower() != "until-found"

    def _choose(self, tag: str, attributes: Mapping[str, str | None]) -> dict[str, StyleRule]:
        """Return for each property the rule that wins for an element."""
        classes = frozenset((attributes.get("class") or "").split())
        own_id = attributes.get("id") or ""
        keys = [tag, "", *(f".{name}" for name in classes), *([f"#{own_id}"] if own_id else [])]
        chosen: dict[str, StyleRule] = {}
        for key in keys:
            for rule in self._by_key.get(key, ()):
                fits = rule.tag in {"", tag} and rule.id in {"", own_id} and rule.classes <= classes
                if fits and (rule.name not in chosen or chosen[rule.name] < rule):
                    chosen[rule.name] = rule
        return chosen


def _rules(css: str) -> Iterator[tuple[str, str]]:
    """Yield the selectors and declarations of the rules that hold for every screen."""
    at, depth, skipped, head = 0, 0, 0, ""
    for match in re.finditer(r"[{};]", css):
        sign, text = match[0], css[at : match.start()]
        if sign == "{":
            depth += 1
            head = text.strip()
            if skipped or (head.startswith("@") and not _EVERY_SCREEN.fullmatch(head)):
                skipped += 1
        elif sign == "}":
            if not skipped and head and not head.startswith("@"):
                yield head, text
            head = ""
            skipped = max(skipped - 1, 0)
            depth = max(depth - 1, 0)
        elif depth and head and not head.startswith("@"):
            continue  # a semicolon between declarations
        at = match.end()


def _declarations(body: str) -> Iterator[tuple[str, bool, bool]]:
    """Yield the properties that hide or show text, whether they hide it, and whether they are important."""
    for match in _DECLARATION.finditer(body.lower()):
        value = match["value"].strip()
        is_important = value.endswith("!important")
        words = value.removesuffix("!important").split()
        if not words:
            continue
        match match["name"]:
            case "display":
                yield "display", words[0] == "none", is_important
            case "visibility":
                yield "visibility", words[0] in {"hidden", "collapse"}, is_important
            case "text-decoration" | "text-decoration-line":
                yield "text-decoration", "line-through" in words, is_important
            case "left" | "top" | "text-indent" if _FAR_AWAY.fullmatch(words[0]):
                yield "place", True, is_important
            case "clip" | "clip-path" if _NO_AREA.fullmatch(value.removesuffix("!important").strip()):
                yield "clip", True, is_important
            case _:
                pass
