/** The search in a document: a field, which match it is, the next and the previous one, and the pages that have some. */

import { get, Problem } from "../api.js";
import { announce, h, icon, iconButton, replace } from "../dom.js";
import { amount, count } from "../format.js";

/** @typedef {{id: string, page: number, page_label?: string, matches: number, before: string, match: string, after: string}} FoundPage */
/** @typedef {{start: number, end: number, boxes: import("../run/reducer.js").Sides[]}} Match */

/** Milliseconds after the last letter. */
const PAUSE = 200;
/** Pages that are listed. */
const LISTED = 200;

/**
 * The page of a match, and which of its matches it is.
 * @param {readonly {matches: number}[]} pages
 * @param {number} at Number of the match in the document, from 0.
 * @returns {{page: number, within: number}}
 */
export function pageOf(pages, at) {
  let [page, within] = [0, at];
  while (page < pages.length - 1 && within >= pages[page].matches) within -= pages[page++].matches;
  return { page, within };
}

/**
 * The first match on a page or after it; the first of all where there is none.
 * @param {readonly {page: number, matches: number}[]} pages
 * @param {number} ordinal
 */
export function firstFrom(pages, ordinal) {
  let at = 0;
  for (const one of pages) {
    if (one.page >= ordinal) return at;
    at += one.matches;
  }
  return 0;
}

/** The bar below the tools of the viewer. */
export class FindBar {
  #document = "";
  #noun = "page";
  #asked = new AbortController();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #text = "";
  /** @type {FoundPage[]} */
  #pages = [];
  #total = 0;
  #at = -1;
  /** @type {Map<string, Promise<Match[]>>} Matches of items, for the text that is looked for. */
  #matches = new Map();

  /**
   * @param {{ordinal: () => number, show: (item: string, within: number) => void, changed: () => void, closed: () => void}} calls
   *   `ordinal`: of the page that is looked at. `show`: a match. `changed`: other things are looked for.
   */
  constructor({ ordinal, show, changed, closed }) {
    this.ordinal = ordinal;
    this.show = show;
    this.changed = changed;
    this.closed = closed;
    this.input = /** @type {HTMLInputElement} */ (h("input", { type: "search", id: "viewer-find", placeholder: "Find in the document", "aria-label": "Find in the document", autocomplete: "off", spellcheck: "false", maxlength: 200 }));
    this.state = h("span", { class: "find-state", role: "status" });
    this.previous = iconButton("up", "Previous match (Shift+Enter)", { on: { click: () => this.step(-1) } });
    this.next = iconButton("down", "Next match (Enter)", { on: { click: () => this.step(1) } });
    this.listButton = h("button", { type: "button", class: "quiet find-pages", "aria-expanded": "false", "aria-controls": "find-list", hidden: true, on: { click: () => this.#toggleList() } });
    this.list = h("ol", { class: "find-list", id: "find-list", "aria-label": "Pages with matches", hidden: true });
    this.element = h(
      "search",
      { class: "viewer-find", hidden: true },
      h("div", { class: "find-row" }, icon("search"), this.input, this.state, this.listButton, h("span", { class: "find-steps" }, this.previous, this.next), iconButton("close", "Close the search (Esc)", { on: { click: () => this.close() } })),
      this.list,
    );
    this.input.addEventListener("input", () => this.#typed());
    this.element.addEventListener("keydown", (event) => this.#key(event));
    this.#tell("");
  }

  /** True while the bar is open. */
  get open() {
    return !this.element.hidden;
  }

  /** Opens it, with the words that are selected if there are some. @param {string} [words] */
  reveal(words = "") {
    const opened = !this.open;
    this.element.hidden = false;
    if (words && words !== this.input.value) this.input.value = words;
    this.input.focus();
    this.input.select();
    if (words || (opened && this.input.value)) this.#find();
  }

  /** Closes it; nothing is marked any more. */
  close() {
    if (!this.open) return;
    this.element.hidden = true;
    this.#forget();
    this.changed();
    this.closed();
  }

  /**
   * Another document: what was looked for is looked for in it.
   * @param {string} id Empty for one that cannot be searched.
   * @param {string} noun What it is made of: page, clip, passage.
   */
  of(id, noun) {
    this.#noun = noun;
    if (id === this.#document) return;
    this.#document = id;
    if (this.open && this.input.value.trim()) this.#find();
    else this.#forget();
  }

  /** The next match or the previous one. @param {number} by */
  step(by) {
    if (this.#text !== this.input.value.trim()) return this.#find();
    if (this.#total > 0) this.#go((this.#at + by + this.#total) % this.#total);
  }

  /**
   * The matches of an item, and which of them is looked at.
   * @param {string} item
   * @returns {Promise<{matches: Match[], current: number}>}
   */
  async matchesOf(item) {
    const text = this.#text;
    const found = this.#pages.some((page) => page.id === item);
    if (!found) return { matches: [], current: -1 };
    const known = this.#matches.get(item) ?? this.#load(item);
    const matches = await known;
    if (text !== this.#text) return { matches: [], current: -1 };
    const { page, within } = pageOf(this.#pages, this.#at);
    return { matches, current: this.#pages[page]?.id === item ? within : -1 };
  }

  /** @param {string} item */
  #load(item) {
    const query = new URLSearchParams({ text: this.#text });
    const asked = get(`/items/${encodeURIComponent(item)}/find?${query}`).then(({ matches }) => matches).catch((error) => {
      if (!(error instanceof Problem)) throw error;
      this.#matches.delete(item);
      return [];
    });
    this.#matches.set(item, asked);
    return asked;
  }

  #typed() {
    clearTimeout(this.#timer);
    if (this.input.value.trim() === "") {
      this.#forget();
      this.changed();
    } else this.#timer = setTimeout(() => this.#find(), PAUSE);
  }

  async #find() {
    const text = this.input.value.trim();
    this.#forget();
    if (text === "" || this.#document === "") return this.changed();
    const { signal } = (this.#asked = new AbortController());
    this.#tell("Searching …");
    try {
      const { matches, pages } = await get(`/documents/${encodeURIComponent(this.#document)}/find?${new URLSearchParams({ text })}`, { signal });
      this.#text = text;
      [this.#pages, this.#total] = [pages, matches];
      this.changed();
      this.#listPages();
      if (matches > 0) return this.#go(firstFrom(pages, this.ordinal()));
      this.#tell("No match");
    } catch (error) {
      if (error instanceof Problem) this.#tell(`${error.detail} ${error.hint}`.trim());
      else if (!(error instanceof DOMException)) throw error;
    }
  }

  #forget() {
    clearTimeout(this.#timer);
    this.#asked.abort();
    this.#matches.clear();
    this.#text = "";
    [this.#pages, this.#total, this.#at] = [[], 0, -1];
    this.#tell("");
    this.#listPages();
  }

  /** @param {number} at */
  #go(at) {
    this.#at = at;
    const { page, within } = pageOf(this.#pages, at);
    this.#tell(`${amount(at + 1)} of ${amount(this.#total)}`);
    announce(`Match ${at + 1} of ${this.#total}, ${this.#noun} ${this.#pages[page].page}`);
    this.#markListed();
    this.show(this.#pages[page].id, within);
  }

  /** @param {string} text */
  #tell(text) {
    this.state.textContent = text;
    const none = this.#total === 0;
    for (const button of [this.previous, this.next]) /** @type {HTMLButtonElement} */ (button).disabled = none;
    this.listButton.hidden = none;
    this.listButton.textContent = count(this.#pages.length, this.#noun);
  }

  #toggleList() {
    this.list.hidden = !this.list.hidden;
    this.listButton.setAttribute("aria-expanded", String(!this.list.hidden));
    this.#markListed();
  }

  #listPages() {
    let at = 0;
    const rest = this.#pages.length - LISTED;
    replace(
      this.list,
      this.#pages.slice(0, LISTED).map((page) => {
        const first = at;
        at += page.matches;
        return h("li", foundPage(page, () => this.#go(first)));
      }),
      rest > 0 && h("li", { class: "faint size-2", text: `${count(rest, this.#noun)} more` }),
    );
    if (this.#pages.length > 0) return;
    this.list.hidden = true;
    this.listButton.setAttribute("aria-expanded", "false");
  }

  #markListed() {
    const here = pageOf(this.#pages, this.#at).page;
    [...this.list.querySelectorAll("button")].forEach((button, index) => {
      if (index === here) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    });
    if (!this.list.hidden) this.list.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.key === "Escape") this.close();
    else if (event.key === "Enter" && event.target === this.input) this.step(event.shiftKey ? -1 : 1);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

/** @param {FoundPage} page @param {() => void} open */
function foundPage({ page, page_label, matches, before, match, after }, open) {
  return h(
    "button",
    { type: "button", class: "quiet found", on: { click: open } },
    h("span", { class: "found-page", text: page_label ? `${page} (${page_label})` : page }),
    h("span", { class: "found-text", dir: "auto" }, before && `…${before}`, h("mark", { text: match }), after),
    matches > 1 && h("span", { class: "faint size-1", text: `${amount(matches)} ×`, "aria-label": count(matches, "match") }),
  );
}
