/** A page in the viewer: its picture as sharp as its size asks for, with rectangles that sit on it at any size. */

import { h, replace } from "../dom.js";
import { itemUrl, rectangle } from "../run/figures.js";

/** Pictures that are asked for, by the most pixels that they have: what a browser keeps is used again. */
const SHARPNESS = [400_000, 1_600_000, 6_400_000, 40_000_000];

/** @typedef {{box: import("../run/reducer.js").Sides, label?: string, kind?: string}} Box */

/** The picture of an item, and its rectangles. */
export class ViewerPage {
  #item = "";
  #level = -1;

  /** @param {{failed: () => void, ready: (width: number, height: number) => void}} calls */
  constructor({ failed, ready }) {
    this.failed = failed;
    this.ready = ready;
    this.image = /** @type {HTMLImageElement} */ (h("img", { alt: "", draggable: "false" }));
    this.boxes = h("div", { class: "leaf-boxes" });
    this.element = h("div", { class: "leaf", dataset: { leaf: "" } }, this.image, this.boxes);
  }

  /**
   * Another page.
   * @param {string} item
   * @param {string} alt
   * @param {readonly Box[]} boxes
   */
  show(item, alt, boxes) {
    this.#item = item;
    this.#level = -1;
    this.element.classList.add("loading");
    this.image.removeAttribute("src");
    this.image.alt = alt;
    replace(this.boxes, boxes.map(({ box, label, kind }, index) => rectangle(box, { label, kind: kind ?? "mark", index })));
  }

  /** Asks for a picture that is sharp enough for this width on the screen. @param {number} width @param {number} ratio Width by height. */
  async sharpen(width, ratio) {
    const pixels = (width * devicePixelRatio) ** 2 / ratio;
    const wanted = SHARPNESS.findIndex((most) => most >= pixels);
    const level = wanted < 0 ? SHARPNESS.length - 1 : wanted;
    if (level <= this.#level || this.#item === "") return;
    this.#level = level;
    const item = this.#item;
    const url = itemUrl(item, SHARPNESS[level]);
    const picture = new Image();
    picture.src = url;
    try {
      await picture.decode();
    } catch {
      if (item === this.#item && this.element.classList.contains("loading")) this.failed();
      return;
    }
    if (item !== this.#item || level !== this.#level) return;
    this.image.src = url;
    this.element.classList.remove("loading");
    this.ready(picture.naturalWidth, picture.naturalHeight);
  }

  /** Makes a rectangle flash and brings it into sight. @param {number} index @param {HTMLElement} window_ What scrolls. */
  flash(index, window_) {
    const box = /** @type {HTMLElement | undefined} */ (this.boxes.children[index]);
    if (box === undefined) return;
    const [frame, part] = [window_.getBoundingClientRect(), box.getBoundingClientRect()];
    window_.scrollLeft += (part.left + part.right) / 2 - (frame.left + frame.right) / 2;
    window_.scrollTop += (part.top + part.bottom) / 2 - (frame.top + frame.bottom) / 2;
    box.classList.remove("flash");
    void box.offsetWidth; // so that it begins anew
    box.classList.add("flash");
  }
}
