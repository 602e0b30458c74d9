/** The documents that were chosen to be asked; kept while the page is open. */

const KEPT = "vrag.chosen";

/** @typedef {{id: string, name: string, collection: string | null}} ChosenDocument `collection`: null where it is not known. */

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

/** @returns {ChosenDocument[]} */
function stored() {
  try {
    return JSON.parse(sessionStorage.getItem(KEPT) ?? "[]") ?? [];
  } catch {
    return [];
  }
}
