/** The documents that were chosen to be asked; kept while the page is open. */

import { get } from "./api.js";

const KEPT = "vrag.chosen";

/** @typedef {{id: string, name: string, collection: string | null}} ChosenDocument `name`: empty, and `collection`: null, where they are not known. */

export class ChosenDocuments {
  /** Called after each change. */
  changed = () => {};
  #kept;

  /** @param {ChosenDocument[]} [own] Those of one conversation; without them, those of the next question, as they were kept. */
  constructor(own) {
    this.#kept = own === undefined;
    this.list = own ?? stored();
  }

  /** The collection of all of them; null if they lie in several. @returns {string | null} */
  get collection() {
    const names = new Set(this.list.map((one) => one.collection));
    return names.size === 1 ? ([...names][0] ?? null) : null;
  }

  /** @param {ChosenDocument[]} documents */
  set(documents) {
    this.list = [...new Map(documents.map((one) => [one.id, one])).values()];
    if (this.#kept) sessionStorage.setItem(KEPT, JSON.stringify(this.list));
    this.changed();
  }
}

/** @type {Map<string, Promise<string>>} */
const names = new Map();

/**
 * The name of a document; empty if there is none of this id any more.
 * @param {string} id
 * @returns {Promise<string>}
 */
export function nameOf(id) {
  const known = names.get(id) ?? get(`/documents/${encodeURIComponent(id)}`).then(({ name }) => name).catch(() => "");
  names.set(id, known);
  return known;
}

/** @returns {ChosenDocument[]} */
function stored() {
  try {
    return JSON.parse(sessionStorage.getItem(KEPT) ?? "[]") ?? [];
  } catch {
    return [];
  }
}
