/** The documents: collections, what each holds, uploads on their way, and the choice of documents to ask. */

import { get, Problem } from "../api.js";
import { h, icon, iconButton, redraw, replace } from "../dom.js";
import { extentOf } from "../file-names.js";
import { count } from "../format.js";
import { rewriteForPage } from "../messages.js";
import { attempt, showNotice } from "../overlays.js";
import { bytes } from "../pictures.js";
import { documentsHash, navigate } from "../router.js";
import { kinds } from "../uploads.js";
import { createCollection, dropCollection, removeDocuments } from "./actions.js";
import { DocumentList } from "./list.js";
import { paramsOf, stateOf } from "./listing.js";
import { uploadButtons, uploadList } from "./upload-list.js";

/** Documents that are asked for at one time. */
const BATCH = 1000;

/** @typedef {import("./listing.js").DocumentInfo} DocumentInfo */

/**
 * Shows the documents of one collection.
 * @param {HTMLElement} root
 * @param {object} how
 * @param {string | null} how.name Of the collection; null for the first.
 * @param {URLSearchParams} how.params Of the address: how the list is shown.
 * @param {{collections: any[], creatable: boolean, not_creatable?: string | null, reason?: string | null}} how.listing
 * @param {import("../uploads.js").Uploads} how.uploads
 * @param {import("../chosen.js").ChosenDocuments} how.chosen
 * @param {() => Promise<void>} how.reload Loads the collections again.
 * @returns {{update: () => void, refresh: (listing: {collections: any[], creatable: boolean, not_creatable?: string | null}) => Promise<void>, target: () => string | null,
 *   follow: (name: string | null, params: URLSearchParams) => boolean}} `follow`: whether the address can be followed here.
 */
export function showDocuments(root, { name, params, listing, uploads, chosen, reload }) {
  let { collections } = listing;
  let current = collections.find((one) => one.name === name) ?? collections[0];
  const tabs = h("nav", { class: "tabs", "aria-label": "Collections" });
  const facts = h("div", { class: "about" });
  const held = h("div", { id: "documents-held" });
  const jobs = uploadList(uploads, () => current, () => reload());
  /** @type {DocumentInfo[]} */
  let documents = [];
  let visit = 0;

  const heading = h("header", { class: "documents-head" });
  const show = () => {
    redraw(heading, h("h1", { text: "Documents" }), h("span", { class: "grow" }), listing.creatable && h("button", { type: "button", id: "new-collection", on: { click: () => createCollection(reload) } }, icon("plus"), "New collection"), current?.writable && uploadButtons(uploads, current.name));
    replace(tabs, collections.map((one) => tab(one, one === current)));
    tellFacts();
  };
  const tellFacts = () => {
    const served = documents.filter((one) => one.items > 0).length;
    if (current) replace(facts, about(current, { limits: uploads.limits, extent: extentsOf(documents), sameContent: served > current.documents, remove: () => dropCollection(current, reload), refused: listing.not_creatable ?? "" }));
  };
  const remove = async (/** @type {DocumentInfo[]} */ those) => {
    if (await removeDocuments(current.name, those)) await reload();
  };
  const ask = (/** @type {DocumentInfo[]} */ those) => {
    chosen.set(those.map((one) => ({ id: one.id, name: one.name, collection: current.name })));
    navigate("#/");
  };
  const retry = (/** @type {DocumentInfo} */ one) => attempt(() => uploads.retryDocument(current.name, one));
  const list =
    current &&
    new DocumentList({
      collection: current,
      state: stateOf(params),
      ids: new Set(chosen.list.filter((one) => one.collection === current.name).map((one) => one.id)),
      changed: (state) => navigate(documentsHash(current.name, paramsOf(state)), { replace: true }),
      ask,
      remove,
      retry,
    });
  const load = async () => {
    if (!current.readable) return fail(rewriteForPage(current.reason ?? ""));
    const now = ++visit;
    try {
      documents = await everyDocument(current.name, (some) => {
        if (documents.length === 0 && now === visit) draw(some);
      });
      if (now === visit) draw(documents);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (error.status !== 401 && documents.length === 0) fail(`${error.detail} ${error.hint}`.trim());
    }
  };
  const fail = (/** @type {string} */ hint) => {
    documents = [];
    const again = h("button", { type: "button", text: "Try again", on: { click: reload } });
    showNotice(held, { id: "no-documents-read", title: `The collection “${current.name}” cannot be read`, hint, actions: [again] });
  };
  const draw = (/** @type {DocumentInfo[]} */ some) => {
    tellFacts();
    if (some.length === 0) {
      replace(held, emptyCollection(current));
      return;
    }
    if (!list.element.isConnected) replace(held, list.element);
    list.show(some);
  };

  replace(root, h("div", { class: "documents" }, heading, current ? [tabs, facts, jobs.element, held] : noCollections(listing, reload)));
  show();
  jobs.update();
  if (current) {
    replace(held, h("p", { class: "row soft" }, h("span", { class: "spinner" }), "Loading"));
    load();
    if (current.readable) attempt(() => uploads.adopt(current.name));
  }
  const refresh = async (/** @type {typeof listing} */ now) => {
    listing = now;
    collections = now.collections;
    current = collections.find((one) => one.name === current?.name) ?? current;
    if (list) list.collection = current;
    show();
    jobs.update();
    if (current) await load();
  };
  const follow = (/** @type {string | null} */ wanted, /** @type {URLSearchParams} */ given) => {
    if (!current || (wanted ?? collections[0]?.name) !== current.name) return false;
    list.follow(stateOf(given));
    return true;
  };
  return { update: jobs.update, refresh, target: () => (current?.writable ? current.name : null), follow };
}

/**
 * @param {string} collection
 * @param {(documents: DocumentInfo[]) => void} some Called with the first ones as soon as they are there.
 * @returns {Promise<DocumentInfo[]>}
 */
async function everyDocument(collection, some) {
  /** @type {DocumentInfo[]} */
  const all = [];
  for (;;) {
    const { documents, total } = await get(`/collections/${encodeURIComponent(collection)}/documents?offset=${all.length}&limit=${BATCH}`);
    all.push(...documents);
    if (documents.length === 0 || all.length >= total) return all;
    some([...all]);
  }
}

/** @param {any} one @param {boolean} current */
function tab(one, current) {
  return h(
    "a",
    { href: documentsHash(one.name), "aria-current": current ? "page" : null, dataset: { collection: one.name } },
    h("span", { class: "clip", dir: "auto", text: one.name }),
    one.readable ? h("span", { class: "tab-count", text: one.documents }) : icon("warn"),
  );
}

/**
 * How much there is of each kind: `46 pages, 2 clips`.
 * @param {DocumentInfo[]} documents
 */
function extentsOf(documents) {
  const contents = [...new Map(documents.map((one) => [one.id, one])).values()];
  const kinds = /** @type {const} */ (["page", "clip", "passage"]);
  const counts = kinds.map((kind) => ({ kind, items: contents.reduce((sum, one) => sum + (one.kind === kind ? one.items : 0), 0) }));
  return counts.filter(({ items }) => items > 0).map(extentOf).join(", ");
}

/**
 * @param {any} collection
 * @param {{limits: any, extent: string, sameContent: boolean, remove: () => void, refused: string}} how `sameContent`: files have the same content;
 *   `refused`: why the user cannot create or delete collections.
 */
function about(collection, { limits, extent, sameContent, remove, refused }) {
  if (!collection.readable) return []; // what stands in the place of its documents says so
  const facts = [count(collection.documents, "document"), extent, sameContent && "identical files count once", collection.embedder ? `searched by words and by ${collection.embedder}` : "searched by words"];
  const taken = `Drop files or folders anywhere on this page, up to ${bytes(limits.upload_bytes)} each: ${kinds(limits.upload_types)}.`;
  return [
    h("p", { dir: "auto", text: facts.filter(Boolean).join(" · ") }),
    h("p", { class: "faint size-2", dir: "auto", text: collection.writable ? taken : (rewriteForPage(collection.reason ?? "") || "This collection does not accept uploads.") }),
    refused && collection.writable && h("p", { class: "faint size-2", id: "not-creatable", dir: "auto", text: refused }),
    collection.writable && (limits.unreadable ?? []).map((/** @type {any} */ missing) => h("p", { class: "faint size-2 missing", text: `Not ${kinds(missing.types)}: ${missing.needs} is not installed on this server.`, title: missing.install })),
    collection.removable && iconButton("trash", `Remove the collection ${collection.name}`, { id: "remove-collection", on: { click: remove } }),
  ];
}

/** @param {any} collection */
function emptyCollection(collection) {
  return h("div", { class: "empty-drop" }, icon("upload"), h("p", { text: collection.writable ? "No documents yet. Drop files or a folder here." : "No documents in this collection." }));
}

/** @param {{creatable: boolean, not_creatable?: string | null, reason?: string | null}} listing @param {() => Promise<void>} reload */
function noCollections({ creatable, not_creatable, reason }, reload) {
  return h("div", { class: "empty-drop" }, icon("folder"), h("p", { dir: "auto", text: reason ?? ["There are no collections yet.", not_creatable].filter(Boolean).join(" ") }), creatable && h("button", { type: "button", class: "primary", text: "Create a collection", on: { click: () => createCollection(reload) } }));
}
