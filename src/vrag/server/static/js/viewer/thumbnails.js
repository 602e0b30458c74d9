/** Small pictures of all pages of a document beside the one that is open. */

import { h, icon } from "../dom.js";
import { moment, where } from "../format.js";
import { thumb } from "../run/figures.js";
import { Column } from "./column.js";

/** Width of a picture, its least and most height, and what stands below it, in pixels; as in viewer.css. */
const [WIDE, LOW, HIGH, CAPTION] = [66, 40, 94, 21];
const GAP = 8;
/** Milliseconds after which the strip follows the pages: those that fly by are not drawn. */
const SETTLED = 100;

/** @typedef {import("./page.js").Part} Part */

/** Thumbnails of the items of a document: those that are near exist, and the one that is open can be reached by Tab. */
export class Thumbnails {
  /** @type {readonly Part[]} */
  #parts = [];
  #current = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #settling;
  /** @type {ReadonlyMap<string, readonly string[]>} Numbers of the citations of each item. */
  #cited = new Map();

  /** @param {(index: number) => void} go */
  constructor(go) {
    this.go = go;
    this.content = h("div", { class: "thumbs" });
    this.element = h("nav", { class: "viewer-pages", "aria-label": "Pages of the document", id: "viewer-pages", hidden: true, on: { keydown: (/** @type {KeyboardEvent} */ event) => this.#key(event) } }, this.content);
    this.column = new Column(this.element, this.content, { build: (index) => this.#build(index), drop: (_, element) => element.querySelector("img")?.removeAttribute("src") });
    this.element.addEventListener("scroll", () => this.column.update());
    new ResizeObserver(() => this.column.update()).observe(this.element);
  }

  /** @param {readonly Part[]} parts */
  show(parts) {
    this.column.clear();
    this.#parts = parts;
    this.#current = 0;
    this.column.set(parts.map(heightOf), GAP);
    this.column.update();
  }

  /** Which of them is open. @param {number} index */
  mark(index) {
    this.#current = index;
    for (const [at, element] of this.column.built) this.#tell(at, element);
    clearTimeout(this.#settling);
    this.#settling = setTimeout(() => this.#reveal(this.#current), SETTLED);
  }

  /** Which pages are cited. @param {ReadonlyMap<string, readonly string[]>} numbers By item. */
  cite(numbers) {
    this.#cited = numbers;
    for (const [at, element] of this.column.built) this.#tell(at, element);
  }

  /** Brings the one that is open into sight, after the strip was hidden. */
  update() {
    this.column.update();
    this.#reveal(this.#current);
  }

  /** @param {number} index */
  #reveal(index) {
    const [top, bottom] = [this.column.top(index), this.column.top(index + 1)];
    const { scrollTop, clientHeight } = this.element;
    if (clientHeight === 0) return;
    if (top < scrollTop || bottom > scrollTop + clientHeight) this.element.scrollTop = (top + bottom - clientHeight) / 2;
    this.column.update();
  }

  /** @param {number} index */
  #build(index) {
    const part = this.#parts[index];
    const caption = part.kind === "clip" ? moment(part.start ?? 0) : part.page_label ? `${part.ordinal} (${part.page_label})` : String(part.ordinal);
    const element = thumb({ item: part.id, kind: part.kind, label: nameOf(part), caption, open: () => this.go(index) });
    if (part.kind !== "passage") /** @type {HTMLElement} */ (element.querySelector(".thumb-frame")).style.height = `${heightOf(part) - CAPTION}px`;
    this.#tell(index, element);
    return element;
  }

  /** @param {number} index @param {HTMLElement} element */
  #tell(index, element) {
    const part = this.#parts[index];
    const here = index === this.#current;
    element.toggleAttribute("data-here", here);
    if (here) element.setAttribute("aria-current", "page");
    else element.removeAttribute("aria-current");
    element.tabIndex = here ? 0 : -1;
    const numbers = this.#cited.get(part.id) ?? [];
    const cited = numbers.length > 0 ? `, cited as ${numbers.join(", ")}` : "";
    element.setAttribute("aria-label", `${nameOf(part)}${cited}. Open`);
    element.querySelector(".thumb-cited")?.remove();
    if (cited) element.append(h("span", { class: "thumb-cited", "aria-hidden": true, text: numbers.join(" ") }));
  }

  /** Arrows go through them. @param {KeyboardEvent} event */
  #key(event) {
    const by = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1 }[event.key];
    if (by === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    const index = Math.min(Math.max(0, this.#current + by), this.#parts.length - 1);
    this.go(index);
    this.#reveal(index);
    this.column.built.get(index)?.focus({ preventScroll: true });
  }
}

/** @param {Part} part */
function nameOf({ kind, ordinal, page_label }) {
  return where({ kind, page: ordinal, page_label });
}

/** @param {Part} part How high a thumbnail is, with what stands below. */
function heightOf({ kind, width, height }) {
  if (kind === "passage" || !width || !height) return WIDE + CAPTION;
  return Math.min(HIGH, Math.max(LOW, (WIDE * height) / width)) + CAPTION;
}

/** The button that shows and hides the strip. @param {(open: boolean) => void} toggled */
export function stripButton(toggled) {
  const button = h("button", { type: "button", class: "quiet square", id: "viewer-strip", title: "Thumbnails", "aria-label": "Thumbnails", "aria-controls": "viewer-pages", "aria-pressed": "false" }, icon("sidebar"));
  button.addEventListener("click", () => toggled(button.getAttribute("aria-pressed") !== "true"));
  return button;
}
