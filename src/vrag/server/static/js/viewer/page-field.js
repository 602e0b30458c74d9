/** Which page is shown, of how many: to read, to type, and to go on from. */

import { announce, h, iconButton } from "../dom.js";

/** @typedef {import("./page.js").Part} Part */

const NOUNS = { page: "Page", clip: "Clip", passage: "Passage" };

/**
 * The part with this number, or with this label; where a number is missing, the next one that there is.
 * @param {readonly Part[]} parts In the order of their numbers.
 * @param {string} text What was typed.
 * @returns {number | null} Its place in the list.
 */
export function typedPage(parts, text) {
  const label = text.trim().toLowerCase();
  const labelled = parts.findIndex((part) => part.page_label?.toLowerCase() === label);
  if (labelled >= 0 && !/^\d+$/.test(label)) return labelled;
  const wanted = /^\s*\d{1,9}\s*$/.test(text) ? Number(text) : 0;
  if (wanted < 1 || wanted > (parts.at(-1)?.ordinal ?? 0)) return null;
  return parts.findIndex((part) => part.ordinal >= wanted);
}

/** The field, with the buttons beside it. */
export class PageField {
  /** @type {readonly Part[]} */
  #parts = [];
  #index = 0;
  #total = "";

  /** @param {{turn: (by: number) => void, go: (index: number) => void}} calls */
  constructor({ turn, go }) {
    this.go = go;
    this.previous = iconButton("back", "Previous page", { on: { click: () => turn(-1) } });
    this.next = iconButton("forward", "Next page", { on: { click: () => turn(1) } });
    this.noun = h("span", { class: "viewer-noun" });
    this.input = /** @type {HTMLInputElement} */ (h("input", { id: "viewer-page", inputmode: "numeric", autocomplete: "off", maxlength: 9, "aria-label": "Page" }));
    this.count = h("span", { class: "viewer-count" });
    this.input.addEventListener("focus", () => this.input.select());
    this.input.addEventListener("blur", () => this.mark(this.#index));
    const form = h("form", { class: "viewer-where", on: { submit: (/** @type {Event} */ event) => this.#typed(event) } }, this.noun, this.input, this.count);
    this.element = h("div", { class: "viewer-turn", role: "group", "aria-label": "Pages" }, this.previous, form, this.next);
  }

  /** @param {readonly Part[]} parts @param {boolean} known Whether they are all. */
  show(parts, known) {
    this.#parts = parts;
    const noun = NOUNS[/** @type {keyof typeof NOUNS} */ (parts[0]?.kind)] ?? "Page";
    this.noun.textContent = noun;
    this.input.setAttribute("aria-label", noun);
    for (const [button, word] of /** @type {const} */ ([[this.previous, "Previous"], [this.next, "Next"]])) {
      button.title = `${word} ${noun.toLowerCase()}`;
      button.setAttribute("aria-label", button.title);
    }
    const last = parts.at(-1)?.ordinal ?? 1;
    this.#total = known ? `of ${last}` : "";
    this.count.textContent = this.#total;
    this.input.inputMode = parts.some((part) => part.page_label) ? "text" : "numeric";
    this.input.style.width = `${Math.max(2, String(last).length) + 2.4}ch`;
  }

  /** @param {number} index */
  mark(index) {
    this.#index = index;
    const label = this.#parts[index]?.page_label;
    this.count.textContent = label ? `${this.#total} (printed ${label})`.trim() : this.#total;
    if (document.activeElement !== this.input) this.input.value = String(this.#parts[index]?.ordinal ?? "");
    /** @type {HTMLButtonElement} */ (this.previous).disabled = index <= 0;
    /** @type {HTMLButtonElement} */ (this.next).disabled = index >= this.#parts.length - 1;
  }

  /** @param {Event} event */
  #typed(event) {
    event.preventDefault();
    const index = typedPage(this.#parts, this.input.value);
    if (index !== null) this.go(index);
    else announce(`Enter a number from 1 to ${this.#parts.at(-1)?.ordinal ?? 1}.`);
    this.input.value = String(this.#parts[index ?? this.#index]?.ordinal ?? "");
    this.input.select();
  }
}
