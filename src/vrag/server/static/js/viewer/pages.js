/** The strip of all pages of a document beside the page that is open. */

import { h, replace } from "../dom.js";
import { thumb } from "../run/figures.js";
import { moment } from "../run/wording.js";

/** Thumbnails of the items of a document. */
export class Pages {
  /** @param {(item: any) => void} go */
  constructor(go) {
    this.go = go;
    /** @type {any[]} */
    this.items = [];
    this.element = h("nav", { class: "viewer-pages", "aria-label": "Pages of the document", hidden: true });
  }

  /** @param {any[]} items */
  show(items) {
    this.items = items;
    this.element.hidden = items.length < 2;
    replace(this.element, items.map((item) => this.#thumb(item)));
  }

  /** Which of them is open. @param {string} id */
  mark(id) {
    for (const element of /** @type {HTMLCollectionOf<HTMLElement>} */ (this.element.children)) {
      const here = element.dataset.item === id;
      element.toggleAttribute("data-here", here);
      if (here) element.setAttribute("aria-current", "page");
      else element.removeAttribute("aria-current");
      if (here) reveal(element, this.element);
    }
  }

  /** The item so many pages after this one. @param {string} id @param {number} by */
  beside(id, by) {
    const index = this.items.findIndex((item) => item.id === id);
    return index < 0 ? null : (this.items[index + by] ?? null);
  }

  /** @param {any} item */
  #thumb(item) {
    const name = item.kind === "clip" ? moment(item.start ?? 0) : String(item.ordinal);
    return thumb({ item: item.id, kind: item.kind, label: `${item.kind} ${item.ordinal}`, caption: name, open: () => this.go(item) });
  }
}

/** @param {HTMLElement} element @param {HTMLElement} strip */
function reveal(element, strip) {
  const [part, frame] = [element.getBoundingClientRect(), strip.getBoundingClientRect()];
  if (part.top < frame.top || part.bottom > frame.bottom) strip.scrollTop += part.top - frame.top - frame.height / 2 + part.height / 2;
  if (part.left < frame.left || part.right > frame.right) strip.scrollLeft += part.left - frame.left - frame.width / 2 + part.width / 2;
}
