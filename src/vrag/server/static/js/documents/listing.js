/** The list of documents without its elements: what is shown of it, in which order, and how its address says so. */

import { typeOf } from "../file-names.js";

/**
 * @typedef {object} DocumentInfo As the server describes it.
 * @property {string} id
 * @property {string} name
 * @property {string} folder Empty at the top.
 * @property {number} size In bytes.
 * @property {number | null} modified In seconds since 1970.
 * @property {"pending" | "ready" | "partial" | "failed"} status
 * @property {number} items Pages, clips or passages that can be found.
 * @property {"page" | "clip" | "passage"} kind
 * @property {string | null} first Id of the first page or clip.
 * @property {number | null} seconds Length of a video.
 * @property {string[]} problems
 * @property {number} hidden_words That are hidden or struck out.
 * @property {boolean} uploaded
 */

/**
 * @typedef {object} ListState
 * @property {string} folder
 * @property {string} words Parts of the names.
 * @property {string} type As `typeOf` says; empty for all.
 * @property {string} status Empty for all.
 * @property {"name" | "modified" | "size" | "pages"} sort
 * @property {boolean} reversed
 * @property {"list" | "grid"} view
 */

/** @type {ListState} */
const USUAL = { folder: "", words: "", type: "", status: "", sort: "name", reversed: false, view: "list" };
const SORTS = /** @type {const} */ (["name", "modified", "size", "pages"]);
const NAMES = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

/**
 * @param {URLSearchParams} params Of the address.
 * @returns {ListState}
 */
export function stateOf(params) {
  const text = (/** @type {string} */ key) => params.get(key) ?? "";
  const sort = SORTS.find((name) => name === text("sort")) ?? "name";
  return { folder: text("folder"), words: text("words"), type: text("type"), status: text("status"), sort, reversed: params.has("reversed"), view: text("view") === "grid" ? "grid" : "list" };
}

/**
 * What is not as usual, for the address.
 * @param {ListState} state
 * @returns {Record<string, string>}
 */
export function paramsOf(state) {
  const changed = Object.entries(state).filter(([key, value]) => value !== USUAL[/** @type {keyof ListState} */ (key)]);
  return Object.fromEntries(changed.map(([key, value]) => [key, value === true ? "" : String(value)]));
}

/** @param {ListState} state @returns {boolean} Whether some documents are left out. */
export const isFiltered = ({ words, type, status }) => Boolean(words.trim() || type || status);

/**
 * The folders and documents that are shown: those of one folder, or, where a filter is set, of all below it.
 * @param {DocumentInfo[]} documents
 * @param {ListState} state
 * @returns {{folders: {name: string, path: string, documents: DocumentInfo[]}[], rows: DocumentInfo[]}}
 */
export function shownOf(documents, state) {
  const below = documents.filter((one) => isBelow(one.folder, state.folder));
  if (isFiltered(state)) return { folders: [], rows: sorted(below.filter((one) => fits(one, state)), state) };
  const depth = state.folder ? state.folder.split("/").length : 0;
  /** @type {Map<string, DocumentInfo[]>} */
  const inside = new Map();
  for (const one of below) {
    if (one.folder === state.folder) continue;
    const path = one.folder.split("/").slice(0, depth + 1).join("/");
    inside.set(path, [...(inside.get(path) ?? []), one]);
  }
  const folders = [...inside].map(([path, own]) => ({ name: path.split("/").at(-1) ?? path, path, documents: own }));
  return { folders: folders.sort((a, b) => NAMES.compare(a.name, b.name)), rows: sorted(below.filter((one) => one.folder === state.folder), state) };
}

/** @param {string} folder @param {string} above */
function isBelow(folder, above) {
  return above === "" || folder === above || folder.startsWith(`${above}/`);
}

/** @param {DocumentInfo} one @param {ListState} state */
function fits(one, { words, type, status }) {
  const where = `${one.folder}/${one.name}`.toLocaleLowerCase();
  const wanted = words.toLocaleLowerCase().split(/\s+/).filter(Boolean);
  return (!type || typeOf(one.name) === type) && (!status || one.status === status) && wanted.every((word) => where.includes(word));
}

/** @param {DocumentInfo[]} documents @param {ListState} state */
function sorted(documents, { sort, reversed }) {
  const numbers = { modified: (/** @type {DocumentInfo} */ one) => one.modified ?? 0, size: (/** @type {DocumentInfo} */ one) => one.size, pages: (/** @type {DocumentInfo} */ one) => one.items };
  const byName = (/** @type {DocumentInfo} */ a, /** @type {DocumentInfo} */ b) => NAMES.compare(a.name, b.name) || NAMES.compare(a.folder, b.folder);
  const by = sort === "name" ? byName : (/** @type {DocumentInfo} */ a, /** @type {DocumentInfo} */ b) => numbers[sort](b) - numbers[sort](a) || byName(a, b);
  return documents.toSorted((a, b) => (reversed ? by(b, a) : by(a, b)));
}

/**
 * The types of files that there are, the most frequent first.
 * @param {DocumentInfo[]} documents
 * @returns {[string, number][]}
 */
export function typesOf(documents) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const one of documents) counts.set(typeOf(one.name), (counts.get(typeOf(one.name)) ?? 0) + 1);
  return [...counts].sort(([a, m], [b, n]) => n - m || NAMES.compare(a, b));
}

/** @param {DocumentInfo} one @returns {string} Tells files of the same content apart. */
export const keyOf = (one) => `${one.id} ${one.folder}/${one.name}`;
