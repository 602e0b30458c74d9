"""Declarations of style sheets within a page, and of `style` attributes, for its elements.

Selectors of one element with its classes and id are compared here. Those with parents, siblings and
attributes are answered by lexbor, within a limit: `a b c` takes the third power of the depth of a page. Other
selectors, such as those with states (`:hover`), set nothing.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple

from vrag.corpus.formats.texts.web.css_rules import read_declarations, read_rules

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from selectolax.lexbor import LexborHTMLParser, LexborNode

    from vrag.corpus.formats.texts.web.css_rules import Declaration

MAX_STEPS = 500_000_000
"""Elements that lexbor may look at for all selectors of a page, at most."""
MAX_FOUND = 2_000_000
"""Elements that lexbor finds for all selectors of a page, at most."""
MAX_SELECTOR_CHARS = 300
MAX_CACHED_STYLES = 20_000
_NAME = r"(?:[a-zA-Z0-9_-]|[^\x00-\x7f]|\\[^\n])+"
_SIMPLE = re.compile(rf"(?P<tag>[a-zA-Z][\w-]*|\*)?(?P<rest>(?:[.#]{_NAME})*)")
_PART = re.compile(rf"([.#])({_NAME})")
_ATTRIBUTE = r"""\[[\w:-]+(?:[~|^$*]?=(?:"[^"]*"|'[^']*'|[\w-]+))?\]"""
_COMPOUND = (
    rf"(?:[a-zA-Z][\w-]*|\*)?(?:[.#]{_NAME}|{_ATTRIBUTE}|:root|:first-child|:last-child|:not\([.\w-]+\))*"
)
_COMPLEX = re.compile(rf"{_COMPOUND}(?:\s*[>+]\s*{_COMPOUND}|\s+{_COMPOUND}){{0,3}}")
_NOT = re.compile(r":not\(([^()]*)\)")
_PSEUDO_ELEMENT = re.compile(r"::?(before|after)$")
_ESCAPED = re.compile(r"\\(.)")
_COMBINATOR = re.compile(r"\s*[>+]\s*|\s+")
_STATE = re.compile(r":(?:hover|focus|active|visited|target|checked|disabled|-|:)")
"""What no element of a page is in as it is stored, and parts of elements that hold no text."""

Weight = tuple[bool, tuple[int, int, int, int], int]
"""Weight of a declaration: importance, exactness, order. The heavier one wins."""
INLINE = (1, 0, 0, 0)
"""Exactness of a `style` attribute."""


class StyleRule(NamedTuple):
    """A selector of one element, and what it sets."""

    tag: str
    """The element that it selects; empty for any."""
    id: str
    classes: frozenset[str]
    exactness: tuple[int, int, int, int]
    order: int
    declarations: tuple[Declaration, ...]


class PageStyles:
    """The styles of a page."""

    def __init__(self, tree: LexborHTMLParser | None = None) -> None:
        self._rules: dict[str, list[StyleRule]] = {}
        """Rules by the id, class or tag that they need, of elements; and of `::before` and `::after`."""
        self._found: dict[tuple[int, str], list[StyleRule]] = {}
        """Rules that lexbor finds to fit, by the address of the element; likewise."""
        self._cache: dict[tuple[str, str, str], dict[str, tuple[Weight, str]]] = {}
        self.is_complete = True
        """False if other style sheets, or rules that are not understood, may set colors."""
        self.makes_text = False
        """True if rules add text before or behind elements."""
        if tree is not None:
            self._read(tree)

    def _read(self, tree: LexborHTMLParser) -> None:
        css = "\n".join(node.text() for node in tree.css("style"))
        linked = (node.attributes.get("rel") or "" for node in tree.css("link[href]"))
        self.is_complete = not any("stylesheet" in rel.lower() for rel in linked) and "@import" not in css
        others: list[tuple[str, str, StyleRule]] = []
        for order, rule in enumerate(rule for rule in read_rules(css) if rule.declarations):
            for selector in _split_selectors(rule.selectors):
                pseudo = _PSEUDO_ELEMENT.search(selector)
                plain = selector[: pseudo.start()] if pseudo else selector
                self.makes_text = self.makes_text or pseudo is not None
                suffix = f"::{pseudo[1]}" if pseudo else ""
                if not self._add_simple(plain, suffix, order, rule.declarations):
                    exactness = _measure_exactness(plain)
                    others.append(
                        (plain, suffix, StyleRule("", "", frozenset(), exactness, order, rule.declarations))
                    )
        if others:
            self._find(tree, others)

    def _add_simple(
        self, selector: str, suffix: str, order: int, declarations: tuple[Declaration, ...]
    ) -> bool:
        """Add a rule for one element with its classes and id; return False if its selector is another one."""
        match = _SIMPLE.fullmatch(selector)
        if match is None or (not selector and not suffix):
            return False
        parts = [(sign, _ESCAPED.sub(r"\1", name)) for sign, name in _PART.findall(match["rest"])]
        ids = [name for sign, name in parts if sign == "#"]
        classes = frozenset(name for sign, name in parts if sign == ".")
        tag = "" if match["tag"] in {None, "*"} else match["tag"].lower()
        if len(ids) > 1:
            return False
        key = f"#{ids[0]}" if ids else f".{min(classes)}" if classes else tag
        exactness = (0, len(ids), len(classes), int(bool(tag)))
        rule = StyleRule(tag, "".join(ids), classes, exactness, order, declarations)
        self._rules.setdefault(key + suffix, []).append(rule)
        return True

    def _find(self, tree: LexborHTMLParser, rules: Iterable[tuple[str, str, StyleRule]]) -> None:
        """Find the elements that rules select; those beyond the limit, or not understood, set nothing."""
        count, depth = _measure_tree(tree.root)
        names = set(re.findall(r"[\w-]+", tree.html or ""))
        steps_left, found_left = MAX_STEPS, MAX_FOUND
        for selector, suffix, rule in rules:
            if _STATE.search(selector) or not _names_in(selector) <= names:
                continue
            joints = len(_COMBINATOR.findall(selector))
            steps = count * max(depth, 1) ** joints // math.factorial(joints)
            is_known = len(selector) <= MAX_SELECTOR_CHARS and _COMPLEX.fullmatch(selector)
            if not is_known or steps > steps_left or found_left <= 0:
                self.is_complete = self.is_complete and not _sets_color(rule)
                continue
            nodes = _select(tree, selector)
            steps_left -= steps
            found_left -= len(nodes)
            for node in nodes:
                self._found.setdefault((node.mem_id, suffix), []).append(rule)

    def declared(self, node: LexborNode, tag: str, attributes: Mapping[str, str | None]) -> dict[str, str]:
        """Return what is set for an element, by property."""
        style = attributes.get("style")
        if not (style or self._rules or self._found):
            return {}
        chosen = self._choose(node, tag, attributes, "")
        for declaration in read_declarations(style or ""):
            _put(chosen, declaration, INLINE, 0)
        return {name: value for name, (_, value) in chosen.items()}

    def declared_beside(
        self, node: LexborNode, tag: str, attributes: Mapping[str, str | None], place: str
    ) -> dict[str, str]:
        """Return what is set for the text that rules put `before` or `after` the text of an element."""
        chosen = self._choose(node, tag, attributes, f"::{place}")
        return {name: value for name, (_, value) in chosen.items()}

    def _choose(
        self, node: LexborNode, tag: str, attributes: Mapping[str, str | None], suffix: str
    ) -> dict[str, tuple[Weight, str]]:
        key = tag + suffix, attributes.get("class") or "", attributes.get("id") or ""
        chosen = self._cache.get(key)
        if chosen is None:
            chosen = self._choose_simple(tag, key[1], key[2], suffix)
            if len(self._cache) < MAX_CACHED_STYLES:
                self._cache[key] = chosen
        chosen = dict(chosen)
        for rule in self._found.get((node.mem_id, suffix), ()) if self._found else ():
            for declaration in rule.declarations:
                _put(chosen, declaration, rule.exactness, rule.order)
        return chosen

    def _choose_simple(
        self, tag: str, class_names: str, own_id: str, suffix: str
    ) -> dict[str, tuple[Weight, str]]:
        classes = frozenset(class_names.split())
        keys = [tag, "", *(f".{name}" for name in classes), *([f"#{own_id}"] if own_id else [])]
        chosen: dict[str, tuple[Weight, str]] = {}
        for key in keys:
            for rule in self._rules.get(key + suffix, ()):
                if rule.tag in {"", tag} and rule.id in {"", own_id} and rule.classes <= classes:
                    for declaration in rule.declarations:
                        _put(chosen, declaration, rule.exactness, rule.order)
        return chosen


def _put(
    chosen: dict[str, tuple[Weight, str]],
    declaration: Declaration,
    exactness: tuple[int, int, int, int],
    order: int,
) -> None:
    """Set a property unless something heavier has set it."""
    weight = declaration.is_important, exactness, order
    if declaration.name not in chosen or chosen[declaration.name][0] <= weight:
        chosen[declaration.name] = weight, declaration.value


def _split_selectors(selectors: str) -> Iterator[str]:
    """Yield the selectors of a list. Those with commas in brackets come in parts, which select nothing."""
    return (selector.strip().replace(":link", "[href]") for selector in selectors.split(","))


def _sets_color(rule: StyleRule) -> bool:
    return any(name.startswith(("color", "background")) for name, _, _ in rule.declarations)


def _names_in(selector: str) -> set[str]:
    """Return the names of classes and ids, without escapes, that a page must have for a selector to fit."""
    names = (name for _, name in _PART.findall(_NOT.sub("", re.sub(r"\[[^\]]*\]", "", selector))))
    return {name for name in names if re.fullmatch(r"[\w-]+", name)}


def _measure_exactness(selector: str) -> tuple[int, int, int, int]:
    """Return how exact a selector is, by the rules of CSS: ids, classes and attributes, elements."""
    plain = _NOT.sub(r"\1", selector)
    attributes = re.findall(r"\[[^\]]*\]", plain)
    plain = re.sub(r"\[[^\]]*\]", "", plain)
    parts = [sign for sign, _ in _PART.findall(plain)]
    states = len(re.findall(r":[a-z]", plain))
    tags = re.findall(r"(?:^|[\s>+])[a-zA-Z]", plain)
    return 0, parts.count("#"), parts.count(".") + len(attributes) + states, len(tags)


def _measure_tree(root: LexborNode | None) -> tuple[int, int]:
    """Return the number of nodes of a page, and its depth."""
    count, depth, deepest = 0, 0, 0
    node = root
    while node is not None:
        count += 1
        if (child := node.first_child) is not None:
            node, depth = child, depth + 1
            deepest = max(deepest, depth)
            continue
        while node.next is None and node.parent is not None:
            node, depth = node.parent, depth - 1
        node = node.next
    return count, deepest


def _select(tree: LexborHTMLParser, selector: str) -> list[LexborNode]:
    from selectolax.lexbor import SelectolaxError

    try:
        return tree.css(selector)
    except SelectolaxError:
        return []
