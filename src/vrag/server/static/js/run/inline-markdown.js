/**
 * The Markdown within a paragraph, a heading or a cell: emphasis, code, links, escapes. Pure.
 *
 * As CommonMark with strikethrough, without HTML and without links by reference. Formulas stay as they were written.
 * Runs of delimiters are paired on a list, as the specification proposes; the time is linear in the text.
 */

/**
 * Text with its place in the content; escapes and entities are shorter than their place. Kinds: `text`, `math`, `image`
 * (as it was written), `code`.
 * @typedef {{type: "text" | "math" | "image" | "code", text: string, start: number, end: number}} Leaf
 */
/** @typedef {{type: "break", start: number, end: number}} Break A line that ends where the writer wanted it to. */
/** @typedef {{type: "em" | "strong" | "strike" | "link", address?: string, children: Inline[], start: number, end: number}} Span */
/** @typedef {Leaf | Break | Span} Inline */

/**
 * A run of delimiters. `left` is what is not paired yet; `opens` and `closes` are the lengths of the pairs that begin and end here, in
 * the order in which they were found.
 * @typedef {{type: "run", char: string, start: number, length: number, left: number, canOpen: boolean, canClose: boolean,
 *   opens: number[], closes: number[], before: Run | null, after: Run | null}} Run
 */
/** @typedef {{type: "begin", start: number, end: number, image: boolean, active: boolean, below: Run | null, matched: boolean}} Bracket */
/** @typedef {{type: "end", start: number, end: number, address: string}} End */
/** @typedef {Leaf | Break | Run | Bracket | End} Token */

/** What stands between dollars that belong to amounts: a figure and no sign of a formula. It has further words, too. */
const AMOUNT = /^\d[^\\^_=+<>{}]*$/;
const PLAIN = /[^\n!$&*<[\\\]_`~]+/y;
const PUNCTUATION = /[!-/:-@[-`{-~]/;
const SYMBOL = /[\p{P}\p{S}]/u;
const SPACE = /[\t-\r \u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]/;
const ENTITY = /&(?:#x([0-9a-f]{1,6})|#([0-9]{1,7})|([a-z][a-z0-9]{1,31}));/iy;
const ADDRESS = /<([a-z][a-z0-9.+-]{1,31}:[^\s<>\x00-\x1f\x7f]*)>/iy;
const MAIL = /<([\w.!#$%&'*+/=?^`{|}~-]+@[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*)>/iy;
/** Of the brackets in the address of a link, and of what stands within another. */
const MAX_DEPTH = 20;
/** Named characters that models write. @type {Record<string, string>} */
const NAMED = {
  amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", ensp: "\u2002", emsp: "\u2003", thinsp: "\u2009", shy: "\u00ad",
  hellip: "…", ndash: "–", mdash: "—", lsquo: "‘", rsquo: "’", sbquo: "‚", ldquo: "“", rdquo: "”", bdquo: "„", laquo: "«", raquo: "»",
  bull: "•", middot: "·", dagger: "†", sect: "§", para: "¶", copy: "©", reg: "®", trade: "™", deg: "°", prime: "′", Prime: "″",
  times: "×", divide: "÷", minus: "−", plusmn: "±", le: "≤", ge: "≥", ne: "≠", asymp: "≈", equiv: "≡", infin: "∞", radic: "√", sum: "∑", prod: "∏", int: "∫", part: "∂", micro: "µ",
  frac12: "½", frac14: "¼", frac34: "¾", sup1: "¹", sup2: "²", sup3: "³", permil: "‰", euro: "€", pound: "£", yen: "¥", cent: "¢", curren: "¤",
  larr: "←", rarr: "→", uarr: "↑", darr: "↓", harr: "↔", rArr: "⇒", lArr: "⇐", hArr: "⇔", check: "✓", cross: "✗",
  alpha: "α", beta: "β", gamma: "γ", delta: "δ", epsilon: "ε", theta: "θ", lambda: "λ", mu: "μ", pi: "π", rho: "ρ", sigma: "σ", tau: "τ", phi: "φ", chi: "χ", psi: "ψ", omega: "ω", Delta: "Δ", Sigma: "Σ", Omega: "Ω",
  auml: "ä", ouml: "ö", uuml: "ü", Auml: "Ä", Ouml: "Ö", Uuml: "Ü", szlig: "ß", eacute: "é", egrave: "è", agrave: "à", ccedil: "ç", ntilde: "ñ", oslash: "ø", aring: "å",
};

/**
 * Reads the inline Markdown of a content.
 * @param {string} content Lines are parted by `\n`.
 * @param {boolean} [open] Whether it is still being written: what is not closed counts as closed at its end.
 * @returns {Inline[]} With places in the content.
 */
export function readInline(content, open = false) {
  return new InlineReader(content, open).read();
}

class InlineReader {
  #at = 0;
  /** @type {Token[]} */
  #tokens = [];
  /** @type {Run | null} The last run that may still be paired. */
  #top = null;
  /** @type {Bracket[]} */
  #brackets = [];
  /** @type {Map<number, number[]> | null} Places of the runs of backticks by their length. */
  #ticks = null;
  /** @type {Record<string, number>} From where on there is no more of a sign that closes a formula. */
  #missing = {};

  /** @param {string} content @param {boolean} open */
  constructor(content, open) {
    this.content = content;
    this.open = open;
  }

  /** @returns {Inline[]} */
  read() {
    while (this.#at < this.content.length) {
      PLAIN.lastIndex = this.#at;
      const plain = PLAIN.exec(this.content);
      if (plain) this.#text(plain[0].length);
      else this.#special();
    }
    this.#pair(null);
    return treeOf(this.#tokens, this.content, this.open);
  }

  #special() {
    const char = this.content[this.#at];
    if (char === "*" || char === "_" || char === "~") this.#run(char);
    else if (char === "\n") this.#newline();
    else if (char === "\\") this.#backslash();
    else if (char === "`") this.#code();
    else if (char === "$") this.#dollar() || this.#text(1);
    else if (char === "[") this.#bracket(false);
    else if (char === "]") this.#close();
    else if (char === "!" && this.content[this.#at + 1] === "[") this.#bracket(true);
    else if (char === "<") this.#autolink() || this.#text(1);
    else if (char === "&") this.#entity() || this.#text(1);
    else this.#text(1);
  }

  /** @param {number} length Characters that stand for themselves. */
  #text(length) {
    this.#leaf("text", length);
  }

  /** @param {Leaf["type"]} type @param {number} length @param {string} [text] */
  #leaf(type, length, text = this.content.slice(this.#at, this.#at + length)) {
    this.#tokens.push({ type, text, start: this.#at, end: this.#at + length });
    this.#at += length;
  }

  /** @param {string} char */
  #run(char) {
    const start = this.#at;
    let end = start + 1;
    while (this.content[end] === char) end++;
    const length = end - start;
    const before = characterBefore(this.content, start);
    const after = characterAt(this.content, end);
    const [spaceBefore, spaceAfter] = [SPACE.test(before), SPACE.test(after)];
    const [signBefore, signAfter] = [SYMBOL.test(before), SYMBOL.test(after)];
    const left = !spaceAfter && (!signAfter || spaceBefore || signBefore);
    const right = !spaceBefore && (!signBefore || spaceAfter || signAfter);
    const within = char === "_";
    /** @type {Run} */
    const run = { type: "run", char, start, length, left: length, canOpen: left && (!within || !right || signBefore), canClose: right && (!within || !left || signAfter), opens: [], closes: [], before: this.#top, after: null };
    if (this.#top) this.#top.after = run;
    this.#top = run;
    this.#tokens.push(run);
    this.#at = end;
  }

  /** A line that ends with two blanks ends there; blanks around a break are none of its lines. */
  #newline() {
    const last = this.#tokens.at(-1);
    let blanks = 0;
    if (last?.type === "text" && last.end - last.start === last.text.length) {
      blanks = last.text.length - last.text.replace(/ +$/, "").length;
      last.text = last.text.slice(0, last.text.length - blanks);
      last.end -= blanks;
    }
    if (blanks >= 2) this.#tokens.push({ type: "break", start: this.#at, end: this.#at + 1 });
    else this.#tokens.push({ type: "text", text: "\n", start: this.#at, end: this.#at + 1 });
    this.#at++;
    while (this.content[this.#at] === " ") this.#at++;
  }

  #backslash() {
    const next = this.content[this.#at + 1] ?? "";
    if (next === "\n") {
      this.#tokens.push({ type: "break", start: this.#at, end: this.#at + 2 });
      this.#at += 2;
      while (this.content[this.#at] === " ") this.#at++;
    } else if ((next === "(" && this.#formula("\\(", "\\)")) || (next === "[" && this.#formula("\\[", "\\]"))) {
      return;
    } else if (next !== "" && PUNCTUATION.test(next)) this.#leaf("text", 2, next);
    else this.#text(1);
  }

  #code() {
    const start = this.#at;
    let length = 1;
    while (this.content[start + length] === "`") length++;
    const end = this.#ticksAfter(start + length, length);
    if (end < 0 && !(this.open && start + length < this.content.length)) return this.#text(length);
    const inside = this.content.slice(start + length, end < 0 ? undefined : end).replaceAll("\n", " ");
    const padded = inside.length > 1 && inside.startsWith(" ") && inside.endsWith(" ") && inside.trim() !== "";
    const from = start + length + (padded ? 1 : 0);
    const text = padded ? inside.slice(1, -1) : inside;
    this.#tokens.push({ type: "code", text, start: from, end: from + text.length });
    this.#at = end < 0 ? this.content.length : end + length;
  }

  /** The next run of so many backticks; -1 where there is none. @param {number} from @param {number} length */
  #ticksAfter(from, length) {
    this.#ticks ??= ticksOf(this.content);
    const places = this.#ticks.get(length) ?? [];
    while (places.length > 0 && places[places.length - 1] < from) places.pop();
    return places.at(-1) ?? -1;
  }

  /** A formula between dollars: close to them, and no amounts of money. */
  #dollar() {
    if (this.content[this.#at + 1] === "$") return this.#formula("$$", "$$");
    if (SPACE.test(characterAt(this.content, this.#at + 1))) return false;
    for (let end = this.#closing("$", this.#at + 1); end > 0; end = this.#closing("$", end + 1)) {
      if (isEscaped(this.content, end)) continue;
      if (SPACE.test(this.content[end - 1]) || /[\d$]/.test(this.content[end + 1] ?? "")) return false;
      const inside = this.content.slice(this.#at + 1, end);
      if (AMOUNT.test(inside) && /\s/.test(inside)) return false;
      this.#leaf("math", end + 1 - this.#at);
      return true;
    }
    return false;
  }

  /** @param {string} begin @param {string} end */
  #formula(begin, end) {
    const place = this.#closing(end, this.#at + begin.length);
    if (place <= this.#at + begin.length) return false;
    this.#leaf("math", place + end.length - this.#at);
    return true;
  }

  /** @param {string} sign @param {number} from */
  #closing(sign, from) {
    if (from >= (this.#missing[sign] ?? Infinity)) return -1;
    const place = this.content.indexOf(sign, from);
    if (place < 0) this.#missing[sign] = from;
    return place;
  }

  /** @param {boolean} image */
  #bracket(image) {
    const end = this.#at + (image ? 2 : 1);
    /** @type {Bracket} */
    const bracket = { type: "begin", start: this.#at, end, image, active: true, below: this.#top, matched: false };
    this.#tokens.push(bracket);
    this.#brackets.push(bracket);
    this.#at = end;
  }

  #close() {
    const bracket = this.#brackets.pop();
    const found = bracket?.active ? addressAt(this.content, this.#at + 1, this.open) : null;
    if (!bracket || !found) return this.#text(1);
    const end = found.end;
    if (bracket.image) {
      this.#tokens.length = this.#tokens.lastIndexOf(bracket);
      this.#drop(bracket.below);
      this.#at = bracket.start;
      this.#leaf("image", end - bracket.start);
      return;
    }
    this.#pair(bracket.below);
    bracket.matched = true;
    this.#tokens.push({ type: "end", start: this.#at, end, address: found.address });
    this.#at = end;
    for (let index = this.#brackets.length - 1; index >= 0 && (this.#brackets[index].active || this.#brackets[index].image); index--) {
      if (!this.#brackets[index].image) this.#brackets[index].active = false; // no link within a link
    }
  }

  /** @param {Run | null} below Forgets all runs above it. */
  #drop(below) {
    this.#top = below;
    if (below) below.after = null;
  }

  #autolink() {
    for (const [kind, before] of /** @type {const} */ ([[ADDRESS, ""], [MAIL, "mailto:"]])) {
      kind.lastIndex = this.#at;
      const found = kind.exec(this.content);
      if (!found) continue;
      const [start, end] = [this.#at, this.#at + found[0].length];
      /** @type {Bracket} */
      const begin = { type: "begin", start, end: start + 1, image: false, active: false, below: this.#top, matched: true };
      this.#tokens.push(begin, { type: "text", text: found[1], start: start + 1, end: end - 1 }, { type: "end", start: end - 1, end, address: before + found[1] });
      this.#at = end;
      return true;
    }
    return false;
  }

  #entity() {
    ENTITY.lastIndex = this.#at;
    const found = ENTITY.exec(this.content);
    const character = found && named(found);
    if (!found || !character) return false;
    this.#leaf("text", found[0].length, character);
    return true;
  }

  /** Pairs the runs above one; those that find no other stay text. @param {Run | null} below */
  #pair(below) {
    /** @type {Map<string, Run | null>} */
    const bottoms = new Map();
    let closer = this.#top;
    if (closer === below) return;
    while (closer && closer.before !== below) closer = closer.before;
    while (closer) {
      if (!closer.canClose || closer.left < pairOf(closer)) {
        closer = closer.after;
        continue;
      }
      const key = `${closer.char}${closer.canOpen}${closer.length % 3}`;
      const bottom = bottoms.has(key) ? bottoms.get(key) : below;
      let opener = closer.before;
      while (opener && opener !== below && opener !== bottom && !fits(opener, closer)) opener = opener.before;
      if (opener && opener !== below && opener !== bottom) {
        const length = opener.left >= 2 && closer.left >= 2 ? 2 : 1;
        opener.opens.push(length);
        closer.closes.push(length);
        opener.left -= length;
        closer.left -= length;
        opener.after = closer;
        closer.before = opener;
        if (opener.left === 0) this.#remove(opener);
        if (closer.left > 0) continue;
        const next = closer.after;
        this.#remove(closer);
        closer = next;
      } else {
        const next = closer.after;
        bottoms.set(key, closer.before);
        if (!closer.canOpen) this.#remove(closer);
        closer = next;
      }
    }
    if (!this.open || below !== null) return this.#drop(below);
    this.#closeAll();
  }

  /** Of a text that is still written, what was opened ends at its end. */
  #closeAll() {
    for (let run = this.#top; run; run = run.before) {
      if (!run.canOpen || run.start + run.length >= this.content.length) continue;
      for (; run.left >= pairOf(run); run.left -= run.opens[run.opens.length - 1]) run.opens.push(run.left >= 2 ? 2 : 1);
    }
    this.#top = null;
  }

  /** @param {Run} run */
  #remove(run) {
    if (run.before) run.before.after = run.after;
    if (run.after) run.after.before = run.before;
    else this.#top = run.before;
  }
}

/** The fewest delimiters that begin or end something. @param {Run} run */
const pairOf = (run) => (run.char === "~" ? 2 : 1);

/** @param {Run} opener @param {Run} closer */
function fits(opener, closer) {
  if (opener.char !== closer.char || !opener.canOpen || opener.left < pairOf(opener)) return false;
  if (closer.char === "~") return true;
  const odd = (opener.canClose || closer.canOpen) && closer.length % 3 !== 0 && (opener.length + closer.length) % 3 === 0;
  return !odd;
}

/**
 * Tokens as a tree. What stands too deep is left in what holds it.
 * @param {Token[]} tokens
 * @param {string} content
 * @param {boolean} open
 * @returns {Inline[]}
 */
function treeOf(tokens, content, open) {
  /** @type {Span} */
  const root = { type: "em", children: [], start: 0, end: content.length };
  const stack = [root];
  const put = (/** @type {Inline} */ node) => stack[stack.length - 1].children.push(node);
  const begin = (/** @type {Span["type"]} */ type, /** @type {number} */ start) => {
    /** @type {Span} */
    const span = { type, children: [], start, end: content.length };
    const parent = stack[stack.length - 1];
    if (stack.length > MAX_DEPTH) return stack.push(parent);
    parent.children.push(span);
    return stack.push(span);
  };
  const finish = (/** @type {number} */ end, address = "") => {
    const span = stack.length > 1 ? stack.pop() : undefined;
    if (!span || span === stack[stack.length - 1]) return;
    span.end = end;
    if (span.type === "link") span.address = address;
  };
  for (const token of tokens) {
    if (token.type === "run") {
      let at = token.start;
      for (const length of token.closes) finish((at += length));
      if (token.left > 0) addText(stack[stack.length - 1].children, token.char.repeat(token.left), at, at + token.left);
      at += token.left;
      for (const length of token.opens.toReversed()) {
        begin(token.char === "~" ? "strike" : length === 2 ? "strong" : "em", at);
        at += length;
      }
    } else if (token.type === "begin") {
      if (token.matched) begin("link", token.start);
      else addText(stack[stack.length - 1].children, content.slice(token.start, token.end), token.start, token.end);
    } else if (token.type === "end") finish(token.end, token.address);
    else if (token.type === "text") addText(stack[stack.length - 1].children, token.text, token.start, token.end);
    else put(token);
  }
  while (open && stack.length > 1) finish(content.length);
  return root.children;
}

/** Adds text, to the text before it where both stand for themselves. @param {Inline[]} nodes @param {string} text @param {number} start @param {number} end */
function addText(nodes, text, start, end) {
  if (text === "") return;
  const last = nodes.at(-1);
  const plain = text.length === end - start;
  if (plain && last?.type === "text" && last.end === start && last.text.length === last.end - last.start) {
    last.text += text;
    last.end = end;
  } else nodes.push({ type: "text", text, start, end });
}

/** @param {string} content @returns {Map<number, number[]>} The last first. */
function ticksOf(content) {
  /** @type {Map<number, number[]>} */
  const places = new Map();
  for (const run of content.matchAll(/`+/g)) {
    const known = places.get(run[0].length);
    if (known) known.push(run.index);
    else places.set(run[0].length, [run.index]);
  }
  for (const one of places.values()) one.reverse();
  return places;
}

/** @param {RegExpExecArray} found @returns {string} Empty for what is not known. */
function named([, hex, decimal, name]) {
  if (name) return Object.hasOwn(NAMED, name) ? NAMED[name] : "";
  const code = Number.parseInt(hex ?? decimal, hex ? 16 : 10);
  const absent = code === 0 || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff);
  return absent ? "\ufffd" : String.fromCodePoint(code);
}

/**
 * The address and title of a link in round brackets.
 * @param {string} content
 * @param {number} at Where the bracket should open.
 * @param {boolean} open Whether it may end with the content.
 * @returns {{address: string, end: number} | null}
 */
function addressAt(content, at, open) {
  if (content[at] !== "(") return null;
  let place = afterBlanks(content, at + 1);
  const target = targetAt(content, place);
  if (target === null) return null;
  const { address } = target;
  place = afterBlanks(content, target.end);
  if (place > target.end) place = afterBlanks(content, afterTitle(content, place));
  if (content[place] === ")") return { address, end: place + 1 };
  return open && place >= content.length ? { address, end: place } : null;
}

/** @param {string} content @param {number} at @returns {{address: string, end: number} | null} */
function targetAt(content, at) {
  let address = "";
  const angled = content[at] === "<";
  let depth = 0;
  for (let place = at + (angled ? 1 : 0); ; place++) {
    const char = content[place];
    if (angled && char === ">") return { address, end: place + 1 };
    if (char === undefined || char === "\n" || (angled && char === "<")) return angled || depth > 0 ? null : { address, end: place };
    if (!angled && (char <= " " || char === "\x7f")) return depth > 0 ? null : { address, end: place };
    if (!angled && char === "(" && ++depth > MAX_DEPTH) return null;
    if (!angled && char === ")" && --depth < 0) return { address, end: place };
    if (char === "\\" && PUNCTUATION.test(content[place + 1] ?? "")) place++;
    address += content[place];
  }
}

/** The place after a title; the same where there is none. @param {string} content @param {number} at */
function afterTitle(content, at) {
  const begin = content[at];
  const end = begin === "(" ? ")" : begin;
  if (begin !== '"' && begin !== "'" && begin !== "(") return at;
  for (let place = at + 1; place < content.length; place++) {
    if (content[place] === end) return place + 1;
    if (content[place] === "(" && begin === "(") return at;
    if (content[place] === "\\") place++;
  }
  return at;
}

/** @param {string} content @param {number} at */
function afterBlanks(content, at) {
  while (content[at] === " " || content[at] === "\n" || content[at] === "\t") at++;
  return at;
}

/** True if backslashes before a place escape what stands there. @param {string} content @param {number} at */
function isEscaped(content, at) {
  let start = at;
  while (content[start - 1] === "\\") start--;
  return (at - start) % 2 === 1;
}

/** @param {string} content @param {number} at @returns {string} A blank beyond its ends. */
const characterAt = (content, at) => (at < content.length ? String.fromCodePoint(/** @type {number} */ (content.codePointAt(at))) : " ");

/** @param {string} content @param {number} at @returns {string} */
function characterBefore(content, at) {
  if (at === 0) return " ";
  const pair = at > 1 && /[\udc00-\udfff]/.test(content[at - 1]) && /[\ud800-\udbff]/.test(content[at - 2]);
  return pair ? content.slice(at - 2, at) : content[at - 1];
}
