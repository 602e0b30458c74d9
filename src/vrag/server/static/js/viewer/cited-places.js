/** The places that an answer cites: gone through one by one, all of them or one drawn on the pages. */

import { h, iconButton } from "../dom.js";

/** @typedef {import("./viewer.js").Place} Place */
/** @typedef {import("./page.js").Mark} Mark */

const KEPT = "vrag.cited";

/**
 * The rectangles on a page: of all places, each with its number, or of the one that is looked at.
 * @param {string} item
 * @param {readonly Place[]} places
 * @param {Place | null} current
 * @param {boolean} all
 * @returns {Mark[]}
 */
export function marksOn(item, places, current, all) {
  const shown = all ? places.filter((place) => place.item === item) : [];
  if (current?.item === item && !shown.includes(current)) shown.unshift(current);
  return shown.flatMap((place) => {
    const here = place === current;
    const number = places.length > 1 ? (place.label ?? "") : "";
    const boxes = (place.boxes ?? []).map((box, index) => ({ ...box, index, here, number: index === 0 ? number : "" }));
    if (boxes.length > 0 || !number) return boxes;
    return [{ box: /** @type {[number, number, number, number]} */ ([0, 0, 1, 1]), label: `Evidence ${number}`, here, number, index: 0 }]; // the whole page
  });
}

/**
 * The numbers of the places on each page.
 * @param {readonly Place[]} places
 * @returns {Map<string, string[]>} By item.
 */
export function numbersByItem(places) {
  /** @type {Map<string, string[]>} */
  const numbers = new Map();
  for (const { item, label } of places) if (label) numbers.set(item, [...(numbers.get(item) ?? []), label]);
  return numbers;
}

/** The control: which place it is, the next and the previous one, and whether all are drawn. */
export class CitedPlaces {
  /** @type {readonly Place[]} */
  places = [];
  at = -1;
  all = localStorage.getItem(KEPT) !== "one";

  /** @param {{go: (place: Place) => void, changed: () => void}} calls `changed`: all or one. */
  constructor({ go, changed }) {
    this.go = go;
    this.changed = changed;
    this.count = h("span", { class: "cited-count" });
    this.buttons = [true, false].map((all) => h("button", { type: "button", class: "quiet", text: all ? "All" : "One", title: all ? "Show all cited places" : "Show only this place", on: { click: () => this.#switch(all) } }));
    this.element = h(
      "div",
      { class: "viewer-cited", role: "group", "aria-label": "Citations", hidden: true },
      iconButton("back", "Previous citation (p)", { on: { click: () => this.step(-1) } }),
      this.count,
      iconButton("forward", "Next citation (n)", { on: { click: () => this.step(1) } }),
      h("span", { class: "cited-which", role: "group", "aria-label": "Citations on the pages" }, this.buttons),
    );
  }

  /** @param {readonly Place[]} places @param {number} at */
  show(places, at) {
    this.places = places;
    this.at = at;
    this.#tell();
  }

  /** @param {number} by */
  step(by) {
    const { length } = this.places;
    if (length < 2) return;
    this.at = (this.at + by + length) % length;
    this.#tell();
    this.go(this.places[this.at]);
  }

  /** @param {boolean} all */
  #switch(all) {
    this.all = all;
    localStorage.setItem(KEPT, all ? "all" : "one");
    this.#tell();
    this.changed();
  }

  #tell() {
    const { length } = this.places;
    this.element.hidden = length < 2;
    const label = this.places[this.at]?.label;
    this.count.textContent = `${this.at + 1} of ${length}`;
    this.count.setAttribute("aria-label", `Citation ${label ?? this.at + 1}: ${this.at + 1} of ${length}`);
    this.buttons.forEach((button, index) => button.setAttribute("aria-pressed", String(this.all === (index === 0))));
  }
}
