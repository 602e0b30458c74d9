/**
 * Answers as they are meant to be read: Markdown as elements, with the chips of citations and the marks of claims in their
 * places. All is text nodes: no HTML, no pictures; the address of a link is shown and never a link, since it may come from
 * a document.
 */

import { h } from "../dom.js";
import { readDraft } from "./draft.js";
import { setFormula } from "./formulas.js";
import { readMarkdown, readPlain } from "./markdown.js";

/** @typedef {import("./markdown.js").Block} Block */
/** @typedef {import("./inline-markdown.js").Inline} Inline */
/**
 * What is set into a text. Places are UTF-16 units of the text, in order.
 * @typedef {object} Marks
 * @property {readonly {at: number, numbers: number[]}[]} chips
 * @property {readonly {start: number, end: number}[]} claims None over another.
 * @property {(number: number) => Node} chip
 * @property {(index: number, words: string | Node) => Node} claim
 */

/** A narrow blank at which no line breaks: no chip begins one. */
const NARROW = "\u202f";
/** @type {Marks} */
const NONE = { chips: [], claims: [], chip: () => h("span"), claim: (_, words) => h("span", words) };
const TAGS = /** @type {const} */ ({ em: "em", strong: "strong", strike: "del" });
/** Level of the first heading of an answer: below the question and its answer. */
const TOP = 3;

/**
 * A text as elements.
 * @param {string} text
 * @param {Marks} [marks]
 */
export function prose(text, marks = NONE) {
  const blocks = readMarkdown(text);
  return blocks.map((_, index) => new Builder(text, marks, topOf(blocks)).top(blocks, index));
}

/** The words of a text, without its Markdown, in one line. @param {string} text */
export function plainText(text) {
  return readMarkdown(text).flatMap(wordsOf).join(" ").split(/\s+/).filter(Boolean).join(" ");
}

/** A text that grows, and is replaced in the end: only what changed is drawn again. */
export class ProseView {
  #text = "";
  /** @type {readonly Block[]} */
  #blocks = [];
  /** @type {string[]} What each element was drawn from. */
  #drawn = [];

  /** @param {HTMLElement} element That holds it, and nothing else. */
  constructor(element) {
    this.element = element;
  }

  /** @param {string} text @param {Marks} marks @param {boolean} open Whether it is still being written. @param {boolean} [isPlain] Whether it has no Markdown. */
  show(text, marks, open, isPlain = false) {
    const blocks = isPlain ? readPlain(text) : open ? readDraft(text, { text: this.#text, blocks: this.#blocks }) : readMarkdown(text);
    const top = topOf(blocks);
    const drawn = blocks.map((_, index) => drawnFrom(text, blocks, index, marks, top));
    const standing = [...this.element.children];
    const wanted = blocks.map((_, index) => (drawn[index] === this.#drawn[index] ? standing[index] : new Builder(text, marks, top).top(blocks, index)));
    morph(this.element, wanted);
    [this.#text, this.#blocks, this.#drawn] = [open ? text : "", open ? blocks : [], drawn];
  }
}

/** Levels of headings begin with that of the highest. @param {readonly Block[]} blocks */
function topOf(blocks) {
  return Math.min(...blocks.map((one) => (one.type === "heading" ? one.level : 6)));
}

/** All that the element of a block shows. @param {string} text @param {readonly Block[]} blocks @param {number} index @param {Marks} marks @param {number} top */
function drawnFrom(text, blocks, index, marks, top) {
  const [start, end] = reach(text, blocks, index);
  const chips = marks.chips.filter(({ at }) => start < at && at <= end).map(({ at, numbers }) => [at - start, ...numbers]);
  const claims = marks.claims.flatMap((one, number) => (one.start < end && one.end > start ? [[number, one.start - start, one.end - start]] : []));
  return JSON.stringify([blocks[index].type, top, text.slice(start, end), chips, claims, index === blocks.length - 1 && blocks[index]]);
}

/** From where to where a block, and what follows it, is of a text. @param {string} text @param {readonly Block[]} blocks @param {number} index */
function reach(text, blocks, index) {
  return [index === 0 ? -1 : blocks[index].start, blocks[index + 1]?.start ?? text.length];
}

/** Builds the elements of one block, with the chips and claims in it. */
class Builder {
  /** @type {readonly {at: number, numbers: number[]}[]} */
  #chips = [];
  #next = 0;

  /** @param {string} text @param {Marks} marks @param {number} top The highest level of a heading. */
  constructor(text, marks, top) {
    this.text = text;
    this.marks = marks;
    this.topLevel = top;
  }

  /** @param {readonly Block[]} blocks @param {number} index @returns {HTMLElement} */
  top(blocks, index) {
    const [start, end] = reach(this.text, blocks, index);
    this.#chips = this.marks.chips.filter(({ at }) => start < at && at <= end);
    const element = this.#block(blocks[index]);
    if (this.#next === this.#chips.length) return element;
    const line = h("p", { class: "prose-chips" });
    this.#chipsTo(Infinity, line);
    return h("div", { class: "prose-block" }, element, line);
  }

  /** @param {Block} block @returns {HTMLElement} */
  #block(block) {
    switch (block.type) {
      case "paragraph":
        return this.#words(h("p", { dir: "auto" }), block);
      case "heading":
        return this.#words(h(`h${Math.min(6, TOP + block.level - this.topLevel)}`, { dir: "auto", class: "prose-heading" }), block);
      case "rule":
        return h("hr");
      case "quote":
        return this.#fill(h("blockquote", { dir: "auto" }), block.children, false);
      case "list":
        return this.#list(block);
      case "item":
        return this.#fill(h("li", { dir: "auto" }), block.children, true);
      case "table":
        return this.#table(block);
      default:
        return this.#verbatim(block);
    }
  }

  /** @param {HTMLElement} element @param {import("./markdown.js").Words} block */
  #words(element, block) {
    this.#inline(block.children, element);
    this.#chipsTo(block.end, element);
    return element;
  }

  /** @param {HTMLElement} element @param {readonly Block[]} blocks @param {boolean} tight Whether paragraphs are set without a frame. */
  #fill(element, blocks, tight) {
    for (const block of blocks) {
      if (tight && block.type === "paragraph") this.#words(element, block);
      else element.append(this.#block(block));
    }
    return element;
  }

  /** @param {import("./markdown.js").List} list */
  #list({ ordered, first, tight, children }) {
    const items = children.map((item) => this.#fill(h("li", { dir: "auto" }), item.children, tight));
    return ordered ? h("ol", { start: first === 1 ? null : first }, items) : h("ul", items);
  }

  /** @param {import("./markdown.js").Table} table */
  #table({ aligns, rows }) {
    const built = rows.map((row, index) => {
      const frame = (/** @type {number} */ column) => h(index === 0 ? "th" : "td", { dir: "auto", scope: index === 0 ? "col" : null, class: aligns[column] ? `align-${aligns[column]}` : null });
      const cells = row.map((cell, column) => this.#words(frame(column), { type: "paragraph", level: 0, ...cell }));
      while (cells.length < aligns.length) cells.push(frame(cells.length));
      const next = rows[index + 1]?.[0]?.start;
      if (next !== undefined && cells.length > 0) this.#chipsTo(next - 1, cells[cells.length - 1]);
      return h("tr", cells);
    });
    return h("div", { class: "prose-table", role: "region", tabindex: "0", "aria-label": "Table of the answer" }, h("table", h("thead", built[0]), h("tbody", built.slice(1))));
  }

  /** @param {import("./markdown.js").Verbatim} block */
  #verbatim({ type, info, pieces }) {
    if (type === "math") return this.#formulaBlock(pieces);
    const code = h("code");
    pieces.forEach(({ text, at }, index) => {
      const words = index === pieces.length - 1 ? text.replace(/\n$/, "") : text;
      this.#leaf({ type: "text", text: words, start: at, end: at + words.length }, code);
    });
    return h("pre", { class: "prose-code", dir: "ltr", tabindex: "0", dataset: info ? { language: info.split(/\s/)[0] } : {} }, code);
  }

  /** @param {readonly {text: string, at: number}[]} pieces */
  #formulaBlock(pieces) {
    const block = h("div", { class: "prose-formula", dir: "ltr", tabindex: "0" });
    const last = pieces[pieces.length - 1];
    this.#formula({ type: "math", text: pieces.map(({ text }) => text).join("").trimEnd(), start: pieces[0].at, end: last.at + last.text.length }, block);
    return block;
  }

  /** A formula as a whole: a claim that is about a part of it marks all of it. @param {import("./inline-markdown.js").Leaf} leaf @param {HTMLElement} parent */
  #formula({ text, start, end }, parent) {
    const element = h("span", { class: "prose-math", dir: "ltr" }, text);
    setFormula(element);
    const claim = this.marks.claims.findIndex((one) => one.start < end && start < one.end);
    parent.append(claim < 0 ? element : this.marks.claim(claim, element));
  }

  /** @param {readonly Inline[]} nodes @param {HTMLElement} parent */
  #inline(nodes, parent) {
    for (const node of nodes) {
      this.#chipsTo(node.start, parent);
      if (node.type === "break") parent.append(h("br"));
      else if (node.type === "link") this.#link(node, parent);
      else if ("children" in node) {
        const element = h(TAGS[/** @type {keyof typeof TAGS} */ (node.type)]);
        this.#inline(node.children, element);
        parent.append(element);
      } else if (node.type === "math") this.#formula(node, parent);
      else if (node.type === "code") {
        const element = h("code");
        this.#leaf(node, element);
        parent.append(element);
      } else this.#leaf(node, parent);
    }
  }

  /** The words of a link, and where it would lead. @param {import("./inline-markdown.js").Span} link @param {HTMLElement} parent */
  #link({ children, address = "" }, parent) {
    const words = h("span", { class: "prose-link" });
    this.#inline(children, words);
    parent.append(words);
    if (address && address.replace(/^mailto:/, "") !== words.textContent) parent.append(" ", h("span", { class: "prose-address", dir: "ltr", text: `(${address})` }));
  }

  /** Text, parted where a chip stands in it or a claim begins or ends. @param {import("./inline-markdown.js").Leaf} leaf @param {HTMLElement} parent */
  #leaf({ text, start, end }, parent) {
    const whole = text.length !== end - start; // an escape or an entity
    for (let at = start; at < end; ) {
      const claim = this.marks.claims.findIndex((one) => one.start <= at && at < one.end);
      const stops = [end, this.#chips[this.#next]?.at ?? end, claim < 0 ? (this.marks.claims.find((one) => one.start > at)?.start ?? end) : this.marks.claims[claim].end];
      const stop = whole ? end : Math.min(...stops.filter((one) => one > at));
      const words = whole ? text : text.slice(at - start, stop - start);
      parent.append(claim < 0 ? words : this.marks.claim(claim, words));
      if (stop < end) this.#chipsTo(stop, parent);
      at = stop;
    }
  }

  /** Appends the chips up to a place. @param {number} at @param {HTMLElement} parent */
  #chipsTo(at, parent) {
    for (; this.#next < this.#chips.length && this.#chips[this.#next].at <= at; this.#next++) {
      parent.append(NARROW, ...this.#chips[this.#next].numbers.map((number) => this.marks.chip(number)));
    }
  }
}

/** @param {Block} block @returns {string[]} */
function wordsOf(block) {
  if (block.type === "rule") return [];
  if (block.type === "table") return block.rows.flat().map((cell) => textOf(cell.children));
  if (block.type === "code" || block.type === "math") return block.pieces.map((piece) => piece.text);
  if (block.type === "paragraph" || block.type === "heading") return [textOf(block.children)];
  return "children" in block ? block.children.flatMap((one) => wordsOf(/** @type {Block} */ (one))) : [];
}

/** @param {readonly Inline[]} nodes @returns {string} */
const textOf = (nodes) => nodes.map((node) => (node.type === "break" ? " " : "children" in node ? textOf(node.children) : node.text)).join("");

/**
 * Gives an element these children, and keeps what stands there already: nodes, the selection, the focus.
 * @param {Element} parent
 * @param {readonly Node[]} wanted
 */
function morph(parent, wanted) {
  let standing = parent.firstChild;
  wanted.forEach((node, index) => {
    const next = wanted[index + 1];
    if (standing === node) standing = node.nextSibling;
    else if (standing && isLike(standing, node)) {
      update(standing, node);
      standing = standing.nextSibling;
    } else if (standing?.nextSibling && isLike(standing.nextSibling, node) && !(next && isLike(standing, next))) {
      const old = standing.nextSibling;
      parent.removeChild(standing);
      update(old, node);
      standing = old.nextSibling;
    } else parent.insertBefore(node, standing);
  });
  while (standing) {
    const old = standing;
    standing = old.nextSibling;
    parent.removeChild(old);
  }
}

/** @param {Node} old @param {Node} node */
function isLike(old, node) {
  if (old instanceof Text && node instanceof Text) return old.data.startsWith(node.data) || node.data.startsWith(old.data);
  if (!(old instanceof HTMLElement && node instanceof HTMLElement) || old.dataset.formula !== node.dataset.formula) return false;
  const named = old.tagName === "SPAN" || old.tagName === "DIV" ? old.className === node.className : true;
  return old.tagName === node.tagName && named && old.dataset.marker === node.dataset.marker;
}

/** @param {Node} old @param {Node} node */
function update(old, node) {
  if (old instanceof Text && node instanceof Text) {
    if (old.length > node.length) old.splitText(node.length);
    else if (old.length < node.length) old.appendData(node.data.slice(old.length));
  } else if (old instanceof HTMLElement && node instanceof HTMLElement) {
    if (old.dataset.formula !== undefined) return; // the same one
    for (const { name } of [...old.attributes]) if (!node.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of [...node.attributes]) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    morph(old, [...node.childNodes]);
  }
}
