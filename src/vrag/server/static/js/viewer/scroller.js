/** All pages of a document one below the other. Those near what is seen have their pictures and words. */

import { h } from "../dom.js";
import { where } from "../format.js";
import { Column, MOST_HIGH } from "./column.js";
import { middle, openingScale } from "./opening-size.js";
import { ViewerPage } from "./page.js";
import { copyPlain, steadySelection } from "./text-layer.js";
import { watchGestures } from "./zoom.js";

/** @typedef {"read" | "width" | "page" | "free"} Fit `read`: a size at which words can be read, until somebody chooses another one. */
/** @typedef {import("./opening-size.js").OpeningPlace} OpeningPlace */
/** @typedef {import("./page.js").Part} Part */

const LEAST = 0.05;
const MOST = 6;
const STEP = 1.25;
/** Pixels between pages, and around them. */
const GAP = 16;
/** Milliseconds without scrolling after which pages that fly by are worth loading. */
const SETTLED = 120;

/** The pages of a document as a window that scrolls. */
export class PageScroller {
  /** @type {readonly Part[]} */
  #parts = [];
  #name = "";
  #scale = 1;
  /** @type {Fit} */
  #fit = "read";
  /** @type {OpeningPlace | null} What the current page was opened for. */
  #opened = null;
  #current = 0;
  /** Where a jump ended: as long as nobody scrolls, the page that it went to is the current one. */
  #landed = -1;
  #before = 0;
  #frame = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #settling;
  /** @type {Map<number, ViewerPage>} */
  #pages = new Map();

  /**
   * @param {{moved: (index: number) => void, sized: (scale: number, fit: Fit) => void, built: (page: ViewerPage) => void}} calls
   *   `moved`: to another page. `built`: a page exists, and what lies on it may be drawn.
   */
  constructor({ moved, sized, built }) {
    this.moved = moved;
    this.sized = sized;
    this.builtPage = built;
    this.content = h("div", { class: "leaves" });
    this.window = h("div", { class: "viewer-window", tabindex: "0", role: "group", "aria-label": "Pages" }, this.content);
    this.column = new Column(this.window, this.content, {
      build: (index) => this.#build(index),
      drop: (index) => this.#drop(index),
      place: (index, element, _, height) => this.#place(index, element, height),
    });
    this.window.addEventListener("scroll", () => this.#scrolled());
    this.window.addEventListener("copy", copyPlain);
    watchGestures(this.window, (factor, about) => this.to(this.#scale * factor, about));
    steadySelection(this.content);
    new ResizeObserver(() => this.#resized()).observe(this.window);
  }

  /** Number of the page that is looked at. */
  get current() {
    return this.#current;
  }

  /** @returns {ViewerPage | undefined} */
  get currentPage() {
    return this.#pages.get(this.#current);
  }

  /** The pages that exist. */
  get pages() {
    return [...this.#pages.values()];
  }

  /**
   * Shows a document. Where it is the one that is shown already, with pages that were not known, what is seen stays.
   * @param {readonly Part[]} parts
   * @param {string} name
   * @param {number} index The page to begin with.
   * @param {OpeningPlace | null} place What it is opened for.
   */
  show(parts, name, index, place) {
    this.#name = name;
    const same = this.#parts[this.#current]?.id === parts[index]?.id;
    const kept = same ? this.#pages.get(this.#current) : undefined;
    if (kept) this.#pages.delete(this.#current); // it is moved to its number, not dropped
    this.column.clear();
    this.#parts = parts;
    this.#current = index;
    this.#opened = place;
    if (kept) this.#pages.set(index, kept);
    this.#refit();
    this.#toTop(index);
    this.moved(index);
  }

  /** Goes to a page. @param {number} index */
  goTo(index) {
    this.#opened = null;
    this.#toTop(index);
  }

  /** @param {number} index */
  #toTop(index) {
    this.#land(index, this.column.top(index) - GAP);
  }

  /**
   * Opens a page at a place, at a size that suits both unless somebody has chosen one.
   * @param {number} index
   * @param {OpeningPlace} place
   */
  open(index, place) {
    this.#opened = place;
    if (this.#fit === "read") this.#refit(index);
    this.reveal(index, place);
  }

  /**
   * Brings a page into the window; where it is too large, a place of it into the middle.
   * @param {number} index
   * @param {OpeningPlace} place
   */
  reveal(index, place) {
    const { width = 1, height = 1 } = this.#parts[index];
    const [wide, high] = [width * this.#scale, height * this.#scale];
    const { clientWidth, clientHeight } = this.window;
    const top = this.column.top(index);
    if (high <= clientHeight - 2 * GAP + 1) this.#toTop(index); // all of it is seen
    else this.#land(index, top + middle(place, 1, high, clientHeight - 2 * GAP) - clientHeight / 2);
    this.window.scrollLeft = this.#left(wide) + middle(place, 0, wide, clientWidth - 2 * GAP) - clientWidth / 2;
  }

  /** @param {number} by Pages. */
  turn(by) {
    this.goTo(Math.min(Math.max(0, this.#current + by), this.#parts.length - 1));
  }

  /** @param {number} by Pixels. */
  scrollBy(by) {
    this.window.scrollBy({ top: by, behavior: "instant" });
  }

  /** @param {Fit} fit */
  fit(fit) {
    this.#fit = fit;
    this.#keeping({ x: this.window.clientWidth / 2, y: GAP }, () => this.#refit());
    if (fit === "page") this.goTo(this.#current);
  }

  larger() {
    this.to(this.#scale * STEP);
  }

  smaller() {
    this.to(this.#scale / STEP);
  }

  /**
   * @param {number} scale 1 for the natural size.
   * @param {import("./zoom.js").Point} [about] What stays where it is.
   */
  to(scale, about = { x: this.window.clientWidth / 2, y: this.window.clientHeight / 2 }) {
    this.#fit = "free";
    this.#keeping(about, () => this.#setScale(scale));
  }

  /** The element of a page, if it exists. @param {number} index */
  page(index) {
    return this.#pages.get(index);
  }

  /** Makes rectangles of the current place flash. @param {number} index */
  flash(index) {
    for (const box of this.#pages.get(index)?.boxes.querySelectorAll("[data-here]") ?? []) {
      box.classList.remove("flash");
      void (/** @type {HTMLElement} */ (box).offsetWidth); // so that it begins anew
      box.classList.add("flash");
    }
  }

  /** Changes sizes while a point of a page stays where it is. @param {import("./zoom.js").Point} about @param {() => void} change */
  #keeping(about, change) {
    const index = this.column.at(this.window.scrollTop + about.y);
    const part = this.#parts[index];
    if (part === undefined) return;
    const wide = (part.width ?? 1) * this.#scale;
    const place = { x: (this.window.scrollLeft + about.x - this.#left(wide)) / wide, y: (this.window.scrollTop + about.y - this.column.top(index)) / this.#scale };
    change();
    const now = (part.width ?? 1) * this.#scale;
    const current = this.#current;
    this.#land(current, this.column.top(index) + place.y * this.#scale - about.y);
    this.window.scrollLeft = this.#left(now) + place.x * now - about.x;
  }

  #resized() {
    if (this.window.clientWidth === 0 || this.#parts.length === 0) return;
    const still = this.#landed >= 0; // nobody has scrolled since
    this.#keeping({ x: this.window.clientWidth / 2, y: GAP }, () => this.#refit());
    if (still && this.#fit === "page") this.goTo(this.#current);
    else if (still && this.#fit === "read" && this.#opened) this.reveal(this.#current, this.#opened);
  }

  /** @param {number} [index] The page that the size is for. */
  #refit(index = this.#current) {
    const { width = 1, height = 1 } = this.#parts[index] ?? {};
    const seen = { width: this.window.clientWidth - 2 * GAP, height: this.window.clientHeight - 2 * GAP };
    const [wide, high] = [seen.width / width, seen.height / height];
    if (this.#fit === "free" || wide <= 0 || high <= 0) this.#setScale(this.#scale);
    else if (this.#fit === "read") this.#setScale(openingScale({ width, height }, seen, this.#opened), 0);
    else this.#setScale(this.#fit === "width" ? wide : Math.min(wide, high), 0);
  }

  /** @param {number} wanted @param {number} [least] */
  #setScale(wanted, least = LEAST) {
    const high = this.#parts.reduce((sum, part) => sum + (part.height ?? 1), 1);
    this.#scale = Math.min(MOST, MOST_HIGH / high, Math.max(least, wanted));
    this.content.style.setProperty("--scale", String(this.#scale));
    const widest = Math.max(0, ...this.#parts.map((part) => part.width ?? 1)) * this.#scale + 2 * GAP;
    this.content.style.width = `${Math.max(widest, this.window.clientWidth)}px`;
    this.column.set(this.#parts.map((part) => (part.height ?? 1) * this.#scale), GAP);
    this.sized(this.#scale, this.#fit);
    this.#update(true);
  }

  /** Where a page of this width begins in the content. @param {number} wide */
  #left(wide) {
    const content = Math.max(this.content.offsetWidth, this.window.clientWidth);
    return (content - wide) / 2;
  }

  /** @param {number} index @param {number} top */
  #land(index, top) {
    this.window.scrollTop = Math.max(0, top);
    this.#landed = this.#before = this.window.scrollTop;
    this.#update(true);
    this.#setCurrent(index);
  }

  #scrolled() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      const { scrollTop, clientHeight } = this.window;
      const slow = Math.abs(scrollTop - this.#before) < clientHeight / 4;
      this.#before = scrollTop;
      this.#update(slow);
      if (Math.abs(scrollTop - this.#landed) <= 1) return;
      this.#landed = -1;
      this.#setCurrent(this.#mostSeen());
    });
  }

  /** The page that has most of the window. */
  #mostSeen() {
    const { scrollTop, clientHeight } = this.window;
    let [best, most] = [this.#current, 0];
    for (let index = this.column.at(scrollTop); index < this.#parts.length && this.column.top(index) < scrollTop + clientHeight; index++) {
      const top = this.column.top(index);
      const seen = Math.min(scrollTop + clientHeight, top + (this.#parts[index].height ?? 1) * this.#scale) - Math.max(scrollTop, top);
      if (seen > most + 1) [best, most] = [index, seen];
    }
    return best;
  }

  /** @param {number} index */
  #setCurrent(index) {
    const moved = index !== this.#current;
    this.#current = index;
    for (const [other, page] of this.#pages) page.element.toggleAttribute("data-current", other === index);
    if (moved) this.moved(index);
  }

  /** @param {boolean} load Whether pages are loaded at once, and not when the scrolling has settled. */
  #update(load) {
    this.column.update();
    clearTimeout(this.#settling);
    if (load) this.#load();
    else this.#settling = setTimeout(() => this.#load(), SETTLED);
  }

  /** Loads what exists, the current page first. */
  #load() {
    const near = [...this.#pages].sort(([a], [b]) => Math.abs(a - this.#current) - Math.abs(b - this.#current));
    for (const [, page] of near) {
      page.sharpen((page.part.width ?? 1) * this.#scale);
      page.addWords();
    }
  }

  /** @param {number} index */
  #build(index) {
    const part = this.#parts[index];
    const kept = this.#pages.get(index);
    const page = kept ?? new ViewerPage(part, `${this.#name}, ${where({ page: part.ordinal, page_label: part.page_label })}`);
    page.element.dataset.page = String(part.ordinal);
    page.element.toggleAttribute("data-current", index === this.#current);
    this.#pages.set(index, page);
    this.builtPage(page);
    return page.element;
  }

  /** @param {number} index */
  #drop(index) {
    this.#pages.get(index)?.close();
    this.#pages.delete(index);
  }

  /** @param {number} index @param {HTMLElement} element @param {number} height */
  #place(index, element, height) {
    element.style.width = `${(this.#parts[index].width ?? 1) * this.#scale}px`;
    element.style.height = `${height}px`;
  }
}
