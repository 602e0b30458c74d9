/** A page in the viewer: its picture as sharp as its size asks for, its words over it, and rectangles on both. */

import { get, Problem } from "../api.js";
import { h, icon, replace } from "../dom.js";
import { itemUrl, rectangle } from "../run/figures.js";
import { textLayer } from "./text-layer.js";

/** Pictures that are asked for in place of the stored one, by the most pixels that they have. */
const SMALLER = [400_000, 1_600_000, 6_400_000];
/** Part of the pixels of the stored picture from which that itself is asked for: it need not be drawn anew. */
const AS_STORED = 0.6;

/** @typedef {{box: import("../run/reducer.js").Sides, label?: string, kind?: string}} Box */
/** @typedef {Box & {here?: boolean, number?: string, index?: number}} Mark `here`: of the place that is looked at. */
/** @typedef {{id: string, kind: string, ordinal: number, page_label?: string, width?: number, height?: number, start?: number, end?: number}} Part */

/**
 * The address of a picture of an item that is sharp enough, and what that is: larger is sharper.
 * @param {Part} part
 * @param {number} pixels
 * @returns {{level: number, url: string}}
 */
export function pictureFor({ id, width = 0, height = 0 }, pixels) {
  const level = SMALLER.findIndex((most) => most >= pixels && most < AS_STORED * width * height);
  if (level >= 0) return { level, url: itemUrl(id, SMALLER[level]) };
  return { level: SMALLER.length, url: `items/${encodeURIComponent(id)}/image` };
}

/** The picture of an item with what lies on it. Its size is set from outside. */
export class ViewerPage {
  #level = -1;
  #hasWords = false;
  /** @type {HTMLImageElement | null} What is on its way. */
  #coming = null;
  #gone = new AbortController();

  /** @param {Part} part @param {string} name Of the page, in words. */
  constructor(part, name) {
    this.part = part;
    this.image = /** @type {HTMLImageElement} */ (h("img", { alt: name, draggable: "false" }));
    this.matches = h("div", { class: "leaf-boxes", "aria-hidden": true });
    this.boxes = h("div", { class: "leaf-boxes" });
    this.element = h("div", { class: "leaf loading", role: "group", "aria-label": name, dataset: { leaf: "", item: part.id } }, this.image, this.matches, this.boxes);
  }

  /** Rectangles on the page. @param {readonly Mark[]} marks */
  mark(marks) {
    replace(this.boxes, marks.map(markElement));
  }

  /**
   * Places where words were found. @param {readonly {boxes: import("../run/reducer.js").Sides[]}[]} matches
   * @param {number} current Number of the one that is looked at; -1 for none.
   */
  markMatches(matches, current) {
    replace(this.matches, matches.flatMap(({ boxes }, index) => boxes.map((box) => matchElement(box, index === current))));
  }

  /** Asks for a picture that is sharp enough for this width on the screen. @param {number} width In pixels of the page. */
  sharpen(width) {
    const { part } = this;
    const ratio = (part.width ?? 1) / Math.max(1, part.height ?? 1);
    const { level, url } = pictureFor(part, (width * devicePixelRatio) ** 2 / ratio);
    if (level <= this.#level || this.#gone.signal.aborted) return;
    this.#level = level;
    this.#coming?.removeAttribute("src");
    const picture = (this.#coming = /** @type {HTMLImageElement} */ (h("img", { draggable: "false", decoding: "sync" })));
    const { signal } = this.#gone; // events and not `decode`, whose promise holds the page for ever when it is dropped
    picture.addEventListener("load", () => picture === this.#coming && this.#put(picture), { signal });
    picture.addEventListener("error", () => picture === this.#coming && this.#fail(), { signal });
    picture.src = url;
  }

  /** @param {HTMLImageElement} picture */
  #put(picture) {
    this.#coming = null;
    picture.alt = this.image.alt;
    this.image.replaceWith(picture);
    this.image = picture;
    this.element.classList.remove("loading");
  }

  /** Lays its words over it, once. */
  async addWords() {
    const { id, width, height } = this.part;
    if (this.#hasWords || !width || !height || this.#gone.signal.aborted) return;
    this.#hasWords = true;
    try {
      const { lines } = await get(`/items/${encodeURIComponent(id)}/words`, { signal: this.#gone.signal });
      if (lines.length === 0) return;
      this.matches.before(textLayer(lines, width, height));
      this.image.alt = ""; // what it says is read now
    } catch (error) {
      if (error instanceof Problem) this.#hasWords = false; // it is tried again when the page comes near again
      else if (!(error instanceof DOMException)) throw error;
    }
  }

  /** Selects all its words. */
  selectAll() {
    const layer = this.element.querySelector(".leaf-text");
    if (layer) document.getSelection()?.selectAllChildren(layer);
    return layer !== null;
  }

  /** Stops what is on its way: the page is far from what is seen. */
  close() {
    this.#gone.abort();
    this.#coming?.removeAttribute("src");
  }

  /** Says that there is no picture; where a coarser one is shown, that stays. */
  #fail() {
    this.#coming = null;
    if (!this.element.classList.contains("loading")) return;
    const again = () => {
      failure.remove();
      this.#level = -1;
      this.element.classList.add("loading");
      this.sharpen(this.element.offsetWidth);
    };
    const failure = h("div", { class: "leaf-failed", role: "alert" }, icon("warn"), h("p", { text: "The picture of this page cannot be shown." }), h("p", { class: "size-2", text: "The document may have been changed or removed." }), h("button", { type: "button", text: "Try again", on: { click: again } }));
    this.element.classList.remove("loading");
    this.element.append(failure);
  }
}

/** @param {Mark} mark */
function markElement({ box, label, kind = "mark", here = false, number = "", index = 0 }) {
  const element = rectangle(box, { label, kind, index });
  element.toggleAttribute("data-here", here);
  if (number) element.append(h("span", { class: "box-number", "aria-hidden": true, text: number }));
  return element;
}

/** @param {import("../run/reducer.js").Sides} box @param {boolean} here */
function matchElement([x1, y1, x2, y2], here) {
  const style = { left: `${x1 * 100}%`, top: `${y1 * 100}%`, width: `${(x2 - x1) * 100}%`, height: `${(y2 - y1) * 100}%` };
  return h("span", { class: `match${here ? " here" : ""}`, style });
}
