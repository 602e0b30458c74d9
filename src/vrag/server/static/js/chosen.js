/** The documents that were chosen to be asked; kept while the page is open. */

import { get } from "./api.js";

const KEPT = "vrag.chosen";
/** Documents that are shown by their names. */
export const SHOWN = 6;

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

  /** Finds the names that are not known, of those that are shown, and their collections. */
  async complete() {
    const nameless = this.list.filter((one) => !one.name).slice(0, SHOWN);
    if (nameless.length === 0) return;
    const found = new Map(await Promise.all(nameless.map(async ({ id }) => /** @type {const} */ ([id, await describe(id)]))));
    this.set(this.list.map((one) => ({ ...one, name: found.get(one.id)?.name || one.name, collection: one.collection ?? found.get(one.id)?.collection ?? null })));
  }

  /** @param {ChosenDocument[]} documents */
  set(documents) {
    this.list = [...new Map(documents.map((one) => [one.id, one])).values()];
    if (this.#kept) sessionStorage.setItem(KEPT, JSON.stringify(this.list));
    this.changed();
  }
}

/** @type {Map<string, Promise<{name: string, collection: string | null}>>} */
const known = new Map();

/**
 * The name of a document, and its collection; empty if there is none of this id any more.
 * @param {string} id
 */
function describe(id) {
  const found = known.get(id) ?? get(`/documents/${encodeURIComponent(id)}`).then(({ name, collection }) => ({ name, collection })).catch(() => ({ name: "", collection: null }));
  known.set(id, found);
  return found;
}

/** @param {string} id @returns {Promise<string>} The name of a document; empty if there is none of this id any more. */
export const nameOf = (id) => describe(id).then(({ name }) => name);

/** @returns {ChosenDocument[]} */
function stored() {
  try {
    return JSON.parse(sessionStorage.getItem(KEPT) ?? "[]") ?? [];
  } catch {
    return [];
  }
}
