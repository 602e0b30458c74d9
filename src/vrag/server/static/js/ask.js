/** The first page: what this is, the question box, examples, and the documents that it can look at. */

import { get, Problem } from "./api.js";
import { uploadButtons } from "./documents/upload-list.js";
import { h, icon, replace } from "./dom.js";
import { kindOf, placed, plainName } from "./file-names.js";
import { count } from "./format.js";
import { rewriteForPage } from "./messages.js";
import { showNotice } from "./overlays.js";
import { bytes } from "./pictures.js";
import { documentsHash } from "./router.js";
import { suggestions } from "./suggestions.js";
import { kinds } from "./uploads.js";
import { openDocument } from "./viewer-opening.js";

const FEW = 6;
/** Time for which the documents wait for the questions above them, in milliseconds. */
const PATIENCE = 500;

/**
 * @param {HTMLElement} root
 * @param {object} how
 * @param {any} how.offer
 * @param {import("./composer.js").Composer} how.box
 * @param {import("./uploads.js").Uploads} how.uploads
 * @returns {{update: () => void, renew: (offer: any) => void}} `renew` shows what is offered now around the same box.
 */
export function showAsk(root, { offer, box, uploads }) {
  const holds = h("section", { class: "holds", id: "holds", "aria-labelledby": "holds-title" });
  const suggested = suggestions({ examples: offer.examples, fill: (text) => box.fill(text) });
  const ask = h(
    "div",
    { class: "ask" },
    h("h1", { text: "Ask your documents" }),
    h("p", { class: "ask-lead", text: "Searches the pages, zooms in on details, and answers with the places that support the answer." }),
    box.element,
  );
  let empty = true;
  const update = () => {
    if (empty) return showEmpty(holds, offer, uploads);
    const chosen = box.collection();
    const above = suggested.show(chosen === null ? offer.collections.filter((/** @type {any} */ one) => one.documents > 0).map((/** @type {any} */ one) => one.name) : [chosen], box.documents());
    showCollections(holds, offer, chosen);
    if (holds.hidden) Promise.race([above, new Promise((resolve) => setTimeout(resolve, PATIENCE))]).then(() => (holds.hidden = false));
  };
  const renew = (/** @type {any} */ next) => {
    const inHolds = holds.contains(document.activeElement);
    offer = next;
    empty = offer.collections.every((/** @type {any} */ one) => one.documents === 0);
    while (box.element.nextSibling) box.element.nextSibling.remove();
    holds.hidden = !empty; // what comes above it is not to move it
    ask.append(...[modelLine(offer), !empty && suggested.element, holds].filter((part) => part instanceof HTMLElement));
    update();
    if (inHolds) box.focus(); // the button that had the focus is gone
  };
  replace(root, ask);
  renew(offer);
  return { update, renew };
}

/** @param {any} offer Says that there is no model yet, and the way to one. */
function modelLine(offer) {
  if (!offer.setup || offer.models.some((/** @type {any} */ one) => one.name)) return null;
  return h("p", { class: "no-model", id: "no-model" }, "Questions are answered without a model. ", h("a", { href: "#/setup", text: "Choose a model" }), " for full answers.");
}

/** @param {HTMLElement} holds @param {any} offer @param {import("./uploads.js").Uploads} uploads */
function showEmpty(holds, offer, uploads) {
  const target = offer.collections.find((/** @type {any} */ one) => one.writable);
  replace(
    holds,
    h(
      "div",
      { class: "empty-drop", id: "no-documents" },
      icon("pages"),
      h("h2", { id: "holds-title", text: "No documents yet" }),
      h("p", { class: "soft", text: target ? "Choose files, or drop them anywhere on this page. They are sent to this server and read there: you can ask questions as soon as the first one is ready." : (offer.no_uploads || "The collections on this server are empty and do not accept uploads.") }),
      target && h("p", { class: "faint size-2", text: `${kinds(uploads.limits.upload_types)}, up to ${bytes(uploads.limits.upload_bytes)} each` }),
      target && h("div", { class: "row" }, uploadButtons(uploads, target.name)),
    ),
  );
  if (!target) tellUnreadable(holds);
}

/** @param {HTMLElement} holds Of collections that cannot be read nobody knows that they are empty. */
async function tellUnreadable(holds) {
  try {
    const { collections } = await get("/collections");
    const unread = collections.filter((/** @type {any} */ one) => !one.readable);
    if (unread.length === 0) return;
    const [first] = unread;
    const title = unread.length === 1 ? `The collection “${first.name}” cannot be read` : `${unread.length} collections cannot be read`;
    const see = h("a", { href: documentsHash(first.name), class: "button", text: "See the documents" });
    showNotice(holds, { id: "unreadable", title, hint: unread.length === 1 ? rewriteForPage(first.reason) : "", actions: [see] });
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
  }
}

/** @param {HTMLElement} holds @param {any} offer @param {string | null} chosen */
async function showCollections(holds, offer, chosen) {
  const collection = offer.collections.find((/** @type {any} */ one) => one.name === chosen) ?? offer.collections.find((/** @type {any} */ one) => one.documents > 0);
  const all = chosen === null && offer.collections.length > 1;
  const title = all ? `${count(offer.collections.length, "collection")}` : collection.name;
  const documents = all ? offer.collections.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one.documents, 0) : collection.documents;
  const writable = [collection, ...offer.collections].find((/** @type {any} */ one) => one.writable);
  const list = h("ul", { class: "holds-list" });
  const add = h("p", { class: "soft size-2", id: "add-documents", hidden: true }, h("a", { href: documentsHash(writable?.name ?? ""), text: "Add documents" }), " of your own: they are stored on this server, and you can ask about each as soon as it has been read.");
  replace(
    holds,
    h(
      "header",
      h("h2", { id: "holds-title", class: "small-title", dir: "auto", text: title }),
      h("span", { class: "faint size-1", text: count(documents, "document") }),
      h("span", { class: "grow" }),
      h("a", { href: documentsHash(collection.name), class: "size-1", text: "See all", "aria-label": "See all documents" }),
    ),
    list,
    add,
  );
  if (all) replace(list, offer.collections.slice(0, FEW).map(collectionLink));
  else replace(list, await documentButtons(collection));
  add.hidden = !writable; // now nothing above it moves it any more
}

/** @param {any} one */
function collectionLink(one) {
  return h("li", h("a", { href: documentsHash(one.name), class: "button quiet" }, icon("folder"), h("span", { class: "clip", dir: "auto", text: one.name }), h("span", { class: "faint", text: one.documents })));
}

/** @param {any} collection */
async function documentButtons(collection) {
  try {
    const { documents, total } = await get(`/collections/${encodeURIComponent(collection.name)}/documents?limit=100`);
    const shown = documents.filter((/** @type {any} */ one) => one.items > 0);
    const rest = total - Math.min(shown.length, FEW);
    return [...shown.slice(0, FEW).map(documentButton), rest > 0 && h("li", h("a", { href: documentsHash(collection.name), class: "button quiet", text: `${rest} more` }))];
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    return collection.documents > 0 ? [] : [h("li", { class: "soft size-2", text: "The documents cannot be loaded at the moment." })]; // else the list will come again
  }
}

/** @param {any} one */
function documentButton(one) {
  return h("li", h("button", { type: "button", class: "quiet", title: `Open ${placed(one)}`, dataset: { document: one.id }, on: { click: () => openDocument(one) } }, icon(kindOf(one.name)), h("span", { class: "clip", dir: "auto", text: plainName(one) }), one.folder !== "" && h("span", { class: "clip faint", dir: "auto", text: one.folder })));
}
