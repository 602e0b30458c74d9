/**
 * Markdown as a tree, with the place in the source of everything that is read. Pure.
 *
 * The blocks of CommonMark that models write, and tables: paragraphs, headings, lists, quotations, code, rules. No HTML, no
 * definitions of links: both stay text. Formulas between `$$` or `\[` are blocks of their own, so that no sign of theirs is
 * Markdown. Line by line, as the specification proposes: the time is linear in the text, and no word is lost.
 */

import { readInline } from "./inline-markdown.js";

/** @typedef {import("./inline-markdown.js").Inline} Inline */
/** @typedef {{text: string, at: number}} Piece Text, and where it stands in the source. */
/**
 * @typedef {{type: "paragraph" | "heading", level: number, children: Inline[], start: number, end: number}} Words
 * @typedef {{type: "code" | "math", info: string, pieces: Piece[], start: number, end: number}} Verbatim
 * @typedef {{type: "rule", start: number, end: number}} Rule
 * @typedef {{children: Inline[], start: number, end: number}} Cell
 * @typedef {{type: "table", aligns: string[], rows: Cell[][], start: number, end: number}} Table The first row is its head.
 * @typedef {{type: "quote" | "item", children: Block[], start: number, end: number}} Holder
 * @typedef {{type: "list", ordered: boolean, first: number, tight: boolean, children: Holder[], start: number, end: number}} List
 * @typedef {Words | Verbatim | Rule | Table | Holder | List} Block
 */

/** Containers within each other; what stands deeper is text. */
const MAX_DEPTH = 20;
const RULE = /^(?:(?:\*[ \t]*){3,}|(?:_[ \t]*){3,}|(?:-[ \t]*){3,})$/;
const FENCE = /^(?:(`{3,})([^`]*)|(~{3,})(.*))$/;
const HEADING = /^(#{1,6})(?:[ \t]|$)/;
const BULLET = /^[-+*](?=[ \t]|$)/;
const NUMBER = /^(\d{1,9})([.)])(?=[ \t]|$)/;
const ALIGN = /^:?-+:?$/;
const FORMULAS = [["$$", "$$"], ["\\[", "\\]"]];

/**
 * Reads Markdown. A single line is no list, heading or quotation: `- 5 %` is a number.
 * @param {string} text
 * @param {{open?: boolean, from?: number}} [how] `open`: the text is still being written, and what it ends in may be
 *   unfinished. `from`: the place of the line with which to begin.
 * @returns {Block[]} With places in UTF-16 units of the text.
 */
export function readMarkdown(text, { open = false, from = 0 } = {}) {
  const line = text.replace(/^[\r\n]+/, "").trimEnd();
  if (line.trim() && !/[\r\n]/.test(line)) {
    const at = text.indexOf(line);
    return [paragraph(at, at + line.length, inlineOf([{ text: line, at }], open))];
  }
  const reader = new BlockReader(text, from);
  const root = reader.read();
  const last = open ? reader.lastWords : null;
  return root.children.map((one) => built(one, last));
}

/**
 * Reads text without Markdown: its paragraphs, in which lines stay lines.
 * @param {string} text
 * @returns {Block[]} With places as those of `readMarkdown`.
 */
export function readPlain(text) {
  /** @type {Words[]} */
  const blocks = [];
  let isNew = true;
  for (const { at, end } of linesOf(text, 0)) {
    const isBlank = text.slice(at, end).trim() === "";
    if (!isBlank) {
      if (isNew) blocks.push(paragraph(at, end, []));
      const block = blocks[blocks.length - 1];
      if (!isNew) block.children.push({ type: "break", start: block.end, end: at });
      block.children.push({ type: "text", text: text.slice(at, end), start: at, end });
      block.end = end;
    }
    isNew = isBlank;
  }
  return blocks;
}

/** @param {number} start @param {number} end @param {Inline[]} children @returns {Words} */
const paragraph = (start, end, children) => ({ type: "paragraph", level: 0, children, start, end });

/** A container or a leaf while it is read. `first` and `last` are numbers of lines. */
/** @typedef {{type: string, first: number, last: number, start: number, end: number, lines: Line[], children: Draft[], rows: Piece[][][], content: number, mark: string, number: number, level: number, info: string, aligns: string[], empty: boolean}} Draft */
/** @typedef {Piece & {indent: number, lazy: boolean}} Line */

class BlockReader {
  #number = -1;
  /** @type {Draft[]} */
  #open;
  /** @type {Draft | null} */
  #leaf = null;
  /** Line up to which no formula is closed. */
  #unclosed = -1;

  /** @param {string} text @param {number} from */
  constructor(text, from) {
    this.text = text;
    this.lines = linesOf(text, from);
    this.#open = [this.#draft("root", 0)];
    /** @type {Draft | null} The paragraph, heading or cell that was read last. */
    this.lastWords = null;
  }

  read() {
    for (const { at, end } of this.lines) {
      this.#number++;
      this.#line(new Cursor(this.text, at, end));
    }
    const [root] = this.#open;
    const last = this.lines.findLast(({ at, end }) => this.text.slice(at, end).trim() !== "");
    this.lastWords = this.#leaf && last && this.#leaf.last >= this.lines.lastIndexOf(last) ? this.#leaf : null;
    return root;
  }

  /** @param {string} type @param {number} start @returns {Draft} */
  #draft(type, start) {
    return { type, first: this.#number, last: this.#number, start, end: start, lines: [], children: [], rows: [], content: 0, mark: "", number: 0, level: 0, info: "", aligns: [], empty: false };
  }

  /** @param {Cursor} cursor */
  #line(cursor) {
    let depth = this.#match(cursor);
    const whole = depth === this.#open.length;
    if (whole && this.#leaf && this.#goesOn(this.#leaf, cursor)) return this.#touch(cursor);
    let fresh = false;
    for (let container = true; container && !cursor.blank; fresh ||= container) {
      const paragraph = this.#leaf?.type === "paragraph" && !fresh && depth === this.#open.length ? this.#leaf : null;
      const begun = this.#begin(cursor, depth, paragraph, this.#leaf?.type === "paragraph" && !fresh);
      if (begun === "leaf") return this.#touch(cursor);
      container = begun === "container";
      if (container) depth = this.#open.length;
    }
    if (cursor.blank) return this.#blank(depth, whole, cursor);
    if (this.#leaf?.type === "paragraph" && !fresh) this.#leaf.lines.push({ ...cursor.rest(), indent: cursor.indent, lazy: depth < this.#open.length });
    else {
      const paragraph = this.#put("paragraph", depth, cursor);
      paragraph.lines.push({ ...cursor.rest(), indent: 0, lazy: false });
      this.#leaf = paragraph;
    }
    this.#touch(cursor);
  }

  /** Containers that go on in this line; the cursor stands behind their signs. @param {Cursor} cursor */
  #match(cursor) {
    let depth = 1;
    for (; depth < this.#open.length; depth++) {
      const one = this.#open[depth];
      if (one.type === "quote") {
        if (cursor.blank || cursor.indent > 3 || cursor.char !== ">") break;
        cursor.quote();
      } else if (one.type === "item") {
        if (cursor.blank && one.empty) break;
        if (!cursor.blank && cursor.indent < one.content) break;
        cursor.skip(cursor.blank ? cursor.indent : one.content);
      }
    }
    return depth;
  }

  /** @param {Draft} leaf @param {Cursor} cursor @returns {boolean} Whether the line belongs to the leaf. */
  #goesOn(leaf, cursor) {
    if (leaf.type === "fence") {
      const mark = cursor.indent < 4 ? cursor.tail.trimEnd() : "";
      if (mark.length >= leaf.mark.length && mark === leaf.mark[0].repeat(mark.length)) this.#leaf = null;
      else leaf.lines.push(cursor.code(Math.min(cursor.indent, leaf.content)));
      return true;
    }
    if (leaf.type === "math") {
      leaf.lines.push(cursor.code(Math.min(cursor.indent, leaf.content)));
      if (cursor.tail.includes(leaf.mark)) this.#leaf = null;
      return true;
    }
    if (leaf.type === "indented") {
      if (cursor.indent < 4 && !cursor.blank) return false;
      leaf.lines.push(cursor.code(Math.min(cursor.indent, 4)));
      return true;
    }
    return false;
  }

  /**
   * Begins a block.
   * @param {Cursor} cursor
   * @param {number} depth Containers that go on.
   * @param {Draft | null} paragraph The one that the line could go on.
   * @param {boolean} lazy Whether a paragraph could go on, of a container too that does not.
   * @returns {"container" | "leaf" | null}
   */
  #begin(cursor, depth, paragraph, lazy) {
    if (cursor.indent >= 4) return lazy ? null : this.#indented(cursor, depth);
    const { char } = cursor;
    const row = paragraph && this.#table(cursor, paragraph);
    if (row) return "leaf";
    if (char === ">" && depth <= MAX_DEPTH) {
      this.#open.push(this.#put("quote", depth, cursor));
      cursor.quote();
      return "container";
    }
    if (char === "#" && this.#heading(cursor, depth)) return "leaf";
    if ((char === "`" || char === "~") && this.#fence(cursor, depth)) return "leaf";
    if ((char === "$" || char === "\\") && this.#formula(cursor, depth)) return "leaf";
    if (paragraph && (char === "=" || char === "-") && this.#underline(cursor, paragraph)) return "leaf";
    if ((char === "*" || char === "_" || char === "-") && RULE.test(cursor.tail)) {
      this.#put("rule", depth, cursor);
      return "leaf";
    }
    if (depth <= MAX_DEPTH && this.#item(cursor, depth, paragraph !== null)) return "container";
    if (this.#leaf?.type === "table" && depth === this.#open.length) {
      this.#leaf.rows.push(cellsOf(cursor.rest()));
      return "leaf";
    }
    return null;
  }

  /** @param {Cursor} cursor @param {number} depth @returns {"leaf"} */
  #indented(cursor, depth) {
    const code = this.#put("indented", depth, cursor);
    code.lines.push(cursor.code(4));
    this.#leaf = code;
    return "leaf";
  }

  /** @param {Cursor} cursor @param {number} depth */
  #heading(cursor, depth) {
    const found = HEADING.exec(cursor.tail);
    if (!found) return false;
    const heading = this.#put("heading", depth, cursor);
    heading.level = found[1].length;
    const { text, at } = cursor.rest();
    const inside = text.slice(found[1].length);
    const cut = withoutMarks(inside);
    const lead = cut.length - cut.trimStart().length;
    heading.lines.push({ text: cut.trim(), at: at + found[1].length + lead, indent: 0, lazy: false });
    return true;
  }

  /** @param {Cursor} cursor @param {number} depth */
  #fence(cursor, depth) {
    const found = FENCE.exec(cursor.tail);
    if (!found) return false;
    const { indent } = cursor;
    const fence = this.#put("fence", depth, cursor);
    fence.mark = found[1] ?? found[3];
    fence.info = (found[2] ?? found[4]).trim();
    fence.content = indent;
    this.#leaf = fence;
    return true;
  }

  /** A formula of several lines; without its end it is none. @param {Cursor} cursor @param {number} depth */
  #formula(cursor, depth) {
    const { tail, indent } = cursor;
    const signs = FORMULAS.find(([begin]) => tail.startsWith(begin));
    if (!signs || tail.includes(signs[1], signs[0].length) || !this.#isClosed(signs[1])) return false;
    const formula = this.#put("math", depth, cursor);
    formula.mark = signs[1];
    formula.content = indent;
    formula.lines.push(cursor.code(indent));
    this.#leaf = formula;
    return true;
  }

  /** @param {string} mark */
  #isClosed(mark) {
    for (let index = this.#number + 1; index < this.lines.length && index > this.#unclosed; index++) {
      const line = this.text.slice(this.lines[index].at, this.lines[index].end);
      if (line.includes(mark)) return true;
      if (line.trim() !== "") continue;
      this.#unclosed = index;
      return false;
    }
    this.#unclosed = Math.max(this.#unclosed, this.lines.length);
    return false;
  }

  /** The line below a heading of one or several lines. @param {Cursor} cursor @param {Draft} paragraph */
  #underline(cursor, paragraph) {
    const tail = cursor.tail.trimEnd();
    if (tail !== tail[0].repeat(tail.length)) return false;
    paragraph.type = "heading";
    paragraph.level = tail[0] === "=" ? 1 : 2;
    this.#leaf = null;
    this.#extend(paragraph, cursor);
    return true;
  }

  /** The line below the head of a table. @param {Cursor} cursor @param {Draft} paragraph */
  #table(cursor, paragraph) {
    const head = paragraph.lines[paragraph.lines.length - 1];
    if (head.lazy || head.indent >= 4 || !head.text.includes("|")) return false;
    const aligns = alignsOf(cursor.tail);
    const cells = aligns.length > 0 ? cellsOf(head) : [];
    if (aligns.length === 0 || aligns.length !== cells.length) return false;
    const table = this.#draft("table", head.at);
    table.first = this.#number - 1;
    table.aligns = aligns;
    table.rows.push(cells);
    const holder = this.#open[this.#open.length - 1];
    paragraph.lines.pop();
    if (paragraph.lines.length === 0) holder.children.pop();
    else {
      const before = paragraph.lines[paragraph.lines.length - 1];
      paragraph.end = before.at + before.text.length;
      paragraph.last = this.#number - 2;
    }
    holder.children.push(table);
    this.#leaf = table;
    return true;
  }

  /** @param {Cursor} cursor @param {number} depth @param {boolean} interrupts Whether it would end a paragraph. */
  #item(cursor, depth, interrupts) {
    const tail = cursor.tail;
    const found = BULLET.exec(tail) ?? NUMBER.exec(tail);
    if (!found) return false;
    const ordered = found.length > 1;
    const empty = tail.slice(found[0].length).trim() === "";
    if (interrupts && (empty || (ordered && Number(found[1]) !== 1))) return false;
    const mark = ordered ? found[2] : found[0];
    const { indent } = cursor;
    let list = this.#open[depth - 1];
    if (list.type !== "list" || list.mark !== mark) {
      list = this.#put("list", depth, cursor);
      list.mark = mark;
      list.number = ordered ? Number(found[1]) : -1;
      this.#open.push(list);
    }
    const item = this.#put("item", this.#open.indexOf(list) + 1, cursor);
    cursor.skip(indent + found[0].length);
    const blanks = cursor.indent;
    const wide = empty || blanks < 1 || blanks > 4 ? 1 : blanks;
    cursor.skip(empty ? blanks : wide);
    item.content = indent + found[0].length + wide;
    item.empty = true; // until something stands in it
    this.#open.push(item);
    return true;
  }

  /**
   * A new block in the container of this depth; all that stands deeper ends.
   * @param {string} type @param {number} depth @param {Cursor} cursor
   */
  #put(type, depth, cursor) {
    let level = depth;
    while (type !== "item" && this.#open[level - 1].type === "list") level--;
    if (type === "list" && this.#open[level - 1].type === "list") level--;
    this.#open.length = level;
    this.#leaf = null;
    const one = this.#draft(type, cursor.start);
    const holder = this.#open[level - 1];
    holder.children.push(one);
    holder.empty = false;
    this.#extend(one, cursor);
    return one;
  }

  /** A line without words: containers that need a sign end, and so does a paragraph. @param {number} depth @param {boolean} whole @param {Cursor} cursor */
  #blank(depth, whole, cursor) {
    if (!whole) this.#open.length = depth;
    if (this.#leaf && (!whole || this.#leaf.type === "paragraph" || this.#leaf.type === "table")) this.#leaf = null;
    const holder = this.#open[this.#open.length - 1];
    if (holder.first === this.#number) this.#touch(cursor); // an item that has nothing yet
  }

  /** What is open has come to this line. @param {Cursor} cursor */
  #touch(cursor) {
    if (cursor.isEmpty && this.#leaf?.type !== "fence") return;
    for (const one of this.#open) this.#extend(one, cursor);
    if (this.#leaf) this.#extend(this.#leaf, cursor);
    const last = this.#open[this.#open.length - 1].children.at(-1);
    if (last && !this.#leaf && last.first <= this.#number && ["fence", "math"].includes(last.type)) this.#extend(last, cursor);
  }

  /** @param {Draft} one @param {Cursor} cursor */
  #extend(one, cursor) {
    one.last = this.#number;
    one.end = cursor.end;
  }
}

/** A place in a line, in characters and in columns: a tab goes to the next multiple of four. */
class Cursor {
  #column = 0;
  /** Columns of a tab that are left. */
  #rest = 0;
  /** Place of the first character that is no blank. */
  start = 0;
  /** Columns before it. */
  indent = 0;
  /** True if nothing else comes. */
  blank = true;

  /** @param {string} text @param {number} at @param {number} end */
  constructor(text, at, end) {
    this.text = text;
    this.at = at;
    this.end = end;
    this.#look();
  }

  #look() {
    let [place, column] = [this.at, this.#column];
    if (this.#rest > 0) {
      place++;
      column += this.#rest;
    }
    for (; place < this.end; place++) {
      if (this.text[place] === " ") column++;
      else if (this.text[place] === "\t") column += 4 - (column % 4);
      else break;
    }
    this.start = place;
    this.indent = column - this.#column;
    this.blank = place >= this.end;
  }

  get char() {
    return this.text[this.start];
  }

  /** The line from its first character that is no blank. */
  get tail() {
    return this.text.slice(this.start, this.end);
  }

  /** True if the whole line has no words. */
  get isEmpty() {
    return this.blank && this.text.slice(this.text.lastIndexOf("\n", this.at - 1) + 1, this.end).trim() === "";
  }

  /** @param {number} columns */
  skip(columns) {
    for (let left = columns; left > 0 && this.at < this.end; ) {
      if (this.#rest > 0 || this.text[this.at] === "\t") {
        const wide = this.#rest || 4 - (this.#column % 4);
        const step = Math.min(left, wide);
        this.#column += step;
        left -= step;
        this.#rest = wide - step;
        if (this.#rest === 0) this.at++;
      } else {
        this.#column++;
        this.at++;
        left--;
      }
    }
    this.#look();
  }

  /** Goes behind the sign of a quotation. */
  quote() {
    this.skip(this.indent + 1);
    if (this.indent > 0) this.skip(1);
  }

  /** @returns {Piece} The line without the blanks before it. */
  rest() {
    return { text: this.tail, at: this.start };
  }

  /** A line of code. @param {number} columns Blanks that are not of it. @returns {Line} */
  code(columns) {
    this.skip(columns);
    const tab = this.#rest > 0 ? 1 : 0;
    return { text: " ".repeat(this.#rest) + this.text.slice(this.at + tab, this.end), at: this.at + tab - this.#rest, indent: 0, lazy: false };
  }
}

/** @param {string} text @param {number} from @returns {{at: number, end: number}[]} */
function linesOf(text, from) {
  const lines = [];
  const ends = /\r\n|\n|\r/g;
  let at = (ends.lastIndex = from);
  for (let found = ends.exec(text); found; found = ends.exec(text)) {
    lines.push({ at, end: found.index });
    at = ends.lastIndex;
  }
  if (at < text.length) lines.push({ at, end: text.length });
  return lines;
}

/** A heading without the marks that may end it. @param {string} text */
function withoutMarks(text) {
  const line = text.trimEnd();
  let end = line.length;
  while (line[end - 1] === "#") end--;
  const closes = end < line.length && (end === 0 || line[end - 1] === " " || line[end - 1] === "\t");
  return closes ? line.slice(0, end) : line;
}

/** The directions of the columns of a table; none if the line does not stand below a head. @param {string} line */
function alignsOf(line) {
  if (!/^[|:-][|: \t-]+$/.test(line) || /^-\s/.test(line)) return [];
  const columns = line.split("|").map((part) => part.trim());
  if (columns[0] === "") columns.shift();
  if (columns.at(-1) === "") columns.pop();
  if (!columns.every((part) => ALIGN.test(part))) return [];
  return columns.map((part) => (part.endsWith(":") ? (part.startsWith(":") ? "center" : "right") : part.startsWith(":") ? "left" : ""));
}

/** The cells of a row: a bar behind a backslash parts none. @param {Piece} row @returns {Piece[][]} */
function cellsOf({ text, at }) {
  /** @type {Piece[][]} */
  const cells = [];
  /** @type {Piece[]} */
  let cell = [];
  let from = 0;
  const line = text.trimEnd();
  for (let place = 0; place < line.length; place++) {
    if (line[place] !== "|") continue;
    const escaped = line[place - 1] === "\\";
    cell.push({ text: line.slice(from, escaped ? place - 1 : place), at: at + from });
    from = escaped ? place : place + 1;
    if (escaped) continue;
    cells.push(trimmed(cell));
    cell = [];
  }
  cell.push({ text: line.slice(from), at: at + from });
  cells.push(trimmed(cell));
  const isBlank = (/** @type {Piece[] | undefined} */ one) => one !== undefined && one.length === 1 && one[0].text === "";
  if (isBlank(cells[0])) cells.shift();
  if (isBlank(cells.at(-1))) cells.pop();
  return cells;
}

/** @param {Piece[]} cell */
function trimmed(cell) {
  const [first] = cell;
  const lead = first.text.length - first.text.trimStart().length;
  cell[0] = { text: first.text.slice(lead), at: first.at + lead };
  const last = cell.length - 1;
  cell[last] = { ...cell[last], text: cell[last].text.trimEnd() };
  return cell;
}

/** @param {Draft} draft @param {Draft | null} open The one that may end unfinished. @returns {Block} */
function built(draft, open) {
  const { start, end } = draft;
  switch (draft.type) {
    case "quote":
    case "item":
      return { type: draft.type, children: draft.children.map((one) => built(one, open)), start, end };
    case "list":
      return { type: "list", ordered: draft.number >= 0, first: draft.number, tight: isTight(draft), children: draft.children.map((one) => /** @type {Holder} */ (built(one, open))), start, end };
    case "rule":
      return { type: "rule", start, end };
    case "table": {
      const last = draft === open ? draft.rows.at(-1)?.at(-1) : undefined;
      const cell = (/** @type {Piece[]} */ pieces) => ({ children: inlineOf(pieces, pieces === last), start: pieces[0].at, end: endOf(pieces) });
      return { type: "table", aligns: draft.aligns, rows: draft.rows.map((row) => row.map(cell)), start, end };
    }
    case "paragraph":
    case "heading":
      return { type: draft.type, level: draft.level, children: inlineOf(wordLines(draft.lines), draft === open), start, end };
    default:
      return { type: draft.type === "math" ? "math" : "code", info: draft.info, pieces: codeLines(draft), start, end };
  }
}

/** @param {Piece[]} pieces */
function endOf(pieces) {
  const last = pieces[pieces.length - 1];
  return last.at + last.text.length;
}

/** @param {Line[]} lines @returns {Piece[]} */
function wordLines(lines) {
  return lines.map(({ text, at }, index) => (index < lines.length - 1 ? { text: `${text}\n`, at } : { text: text.trimEnd(), at }));
}

/** Blank lines at the end of indented code are none of it. @param {Draft} draft @returns {Piece[]} */
function codeLines({ type, lines }) {
  const end = type === "indented" ? lines.findLastIndex(({ text }) => text.trim() !== "") + 1 : lines.length;
  return lines.slice(0, end).map(({ text, at }) => ({ text: `${text}\n`, at }));
}

/** True if no blank line parts the items of a list, nor the blocks of one of them. @param {Draft} list */
function isTight(list) {
  const apart = (/** @type {Draft[]} */ blocks) => blocks.some((one, index) => index > 0 && blocks[index - 1].last < one.first - 1);
  return !apart(list.children) && !list.children.some((item) => apart(item.children));
}

/** @param {Piece[]} pieces @param {boolean} open @returns {Inline[]} With places in the source. */
function inlineOf(pieces, open) {
  const content = pieces.map((piece) => piece.text).join("");
  const starts = [0];
  for (const piece of pieces) starts.push(starts[starts.length - 1] + piece.text.length);
  let part = 0;
  const before = (/** @type {number} */ place, /** @type {boolean} */ isEnd) => {
    while (part > 0 && starts[part] > place - (isEnd ? 1 : 0)) part--;
    while (part < pieces.length - 1 && starts[part + 1] <= place - (isEnd ? 1 : 0)) part++;
    return pieces[part].at + place - starts[part];
  };
  const place = (/** @type {Inline} */ node) => {
    node.start = before(node.start, false);
    if ("children" in node) node.children.forEach(place);
    node.end = before(node.end, true);
  };
  const nodes = readInline(content, open);
  nodes.forEach(place);
  return nodes;
}
