/** Pictures that go with a question: attached by button, paste or drop, shown small, sent as data URLs. */

import { h, icon, iconButton, replace } from "./dom.js";

const TYPES = ["image/jpeg", "image/png", "image/webp"];

/**
 * True if a drag or a clipboard carries files.
 * @param {DataTransfer | null} data
 */
export const carriesFiles = (data) => data?.types.includes("Files") ?? false;

/** @param {File} file */
export const isPicture = (file) => TYPES.includes(file.type);

/** A tray of pictures. */
export class Pictures {
  /** @type {{name: string, url: string}[]} */
  #kept = [];

  /**
   * @param {{images: number, image_bytes: number}} limits
   * @param {{refuse: (sentence: string) => void, changed: () => void}} calls
   */
  constructor(limits, { refuse, changed }) {
    this.limits = limits;
    this.refuse = refuse;
    this.changed = changed;
    this.tray = h("ul", { class: "tray", "aria-label": "Attached pictures", hidden: true });
  }

  /** Data URLs in the order attached. @returns {readonly string[]} */
  get urls() {
    return this.#kept.map((picture) => picture.url);
  }

  /** @param {Iterable<File>} files */
  async add(files) {
    for (const file of files) {
      const fault = this.#fault(file);
      if (fault) this.refuse(fault);
      else this.#kept.push({ name: file.name, url: await dataUrl(file) });
    }
    this.#show();
  }

  /** Puts other pictures in the place of those that are attached. @param {readonly string[]} urls Data URLs. */
  set urls(urls) {
    this.#kept = urls.map((url, at) => ({ name: `picture-${at + 1}.jpg`, url }));
    this.#show();
  }

  clear() {
    this.urls = [];
  }

  /** A button that opens the file dialog. */
  button() {
    const input = /** @type {HTMLInputElement} */ (h("input", { type: "file", accept: TYPES.join(","), multiple: true, hidden: true, id: "picture-files" }));
    input.addEventListener("change", () => {
      this.add([...(input.files ?? [])]);
      input.value = "";
    });
    return [input, iconButton("image", "Attach pictures", { id: "attach", on: { click: () => input.click() } })];
  }

  /** @param {File} file @returns {string} Why it cannot be attached; empty when it can. */
  #fault(file) {
    if (!isPicture(file)) return `${file.name} is not a JPEG, PNG or WebP picture.`;
    if (this.#kept.length >= this.limits.images) return `A question can have at most ${this.limits.images} pictures.`;
    if (file.size > this.limits.image_bytes) return `${file.name} is larger than ${bytes(this.limits.image_bytes)}.`;
    return "";
  }

  #show() {
    this.tray.hidden = this.#kept.length === 0;
    replace(this.tray, this.#kept.map((picture, at) => this.#thumbnail(picture, at)));
    this.changed();
  }

  /** @param {{name: string, url: string}} picture @param {number} at */
  #thumbnail(picture, at) {
    const remove = () => {
      this.#kept.splice(at, 1);
      this.#show();
    };
    const name = picture.name || `Picture ${at + 1}`;
    const props = { type: "button", class: "square", title: `Remove ${name}`, "aria-label": `Remove ${name}`, on: { click: remove } };
    return h("li", h("img", { src: picture.url, alt: name }), h("button", props, icon("close")));
  }
}

/** A file as a data URL. @param {Blob} file @returns {Promise<string>} */
export function dataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve(String(reader.result)));
    reader.addEventListener("error", () => reject(reader.error));
    reader.readAsDataURL(file);
  });
}

/**
 * A size in the unit that fits.
 * @param {number} count
 * @returns {string}
 */
export function bytes(count) {
  const units = ["B", "KB", "MB", "GB"];
  const at = Math.min(Math.floor(Math.log(Math.max(count, 1)) / Math.log(1024)), units.length - 1);
  const value = count / 1024 ** at;
  return `${value >= 10 || at === 0 ? Math.round(value) : value.toFixed(1)} ${units[at]}`;
}
