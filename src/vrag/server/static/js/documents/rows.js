/** One document, or one folder, of the list: as a row, or as a tile of the grid. */

import { h, icon, iconButton } from "../dom.js";
import { extentOf, kindOf, placed, plainName, typeOf } from "../file-names.js";
import { count } from "../format.js";
import { rewriteForPage } from "../messages.js";
import { bytes } from "../pictures.js";
import { openDocument } from "../viewer-opening.js";

const THUMBNAIL_PIXELS = 40_000;
const RETRY_PAUSE = 1_500;
const RETRIES = 3;
/** Problems of one document that are shown without being asked for. */
const MAX_OPEN_PROBLEMS = 3;

/** @typedef {import("./listing.js").DocumentInfo} DocumentInfo */

/**
 * @param {DocumentInfo} one
 * @param {object} how
 * @param {boolean} how.withFolder Whether its folder is not clear from where it stands.
 * @param {boolean} how.writable
 * @param {() => void} how.ask
 * @param {() => void} how.remove
 * @param {() => void} how.retry
 */
export function documentRow(one, { withFolder, writable, ask, remove, retry }) {
  const readable = one.items > 0;
  const name = h("span", { class: "held-name" }, h("span", { dir: "auto", text: plainName(one) }), withFolder && one.folder !== "" && h("span", { class: "held-folder", dir: "auto", text: one.folder }));
  const inside = [thumbnail(one), name];
  const facts = [typeOf(one.name), readable ? extentOf(one) : "", bytes(one.size), one.modified === null ? "" : day(one.modified)];
  return h(
    "li",
    { class: "held-row", dataset: { document: one.id, name: one.name, folder: one.folder, status: one.status } },
    h("label", { class: "held-tick" }, h("input", { type: "checkbox", "aria-label": `Choose ${placed(one)}` })),
    readable ? h("button", { type: "button", class: "quiet held-open", title: `Open ${placed(one)}`, on: { click: () => openDocument(one) } }, inside) : h("span", { class: "held-open" }, inside),
    statusChip(one.status),
    h("p", { class: "held-facts faint" }, facts.map((fact) => h("span", { text: fact }))),
    h(
      "div",
      { class: "held-actions" },
      readable && h("button", { type: "button", class: "quiet held-ask", "aria-label": `Ask ${placed(one)}`, text: "Ask", on: { click: ask } }),
      writable && (one.status === "failed" || one.status === "partial") && h("button", { type: "button", class: "quiet held-retry", "aria-label": `Try ${placed(one)} again`, text: "Try again", on: { click: retry } }),
      writable && iconButton("trash", `Remove ${placed(one)}`, { class: "held-remove", on: { click: remove } }),
    ),
    one.problems.length > 0 && problemList(one.problems),
    one.hidden_words > 0 && h("p", { class: "held-hidden", text: `${count(one.hidden_words, "word")} hidden or struck out: not searched.` }),
  );
}

/** @param {{name: string, path: string, documents: DocumentInfo[]}} folder @param {() => void} open */
export function folderRow({ name, path, documents }, open) {
  return h(
    "li",
    { class: "held-row folder", dataset: { path } },
    h("label", { class: "held-tick" }, h("input", { type: "checkbox", "aria-label": `Choose the folder ${name}` })),
    h("button", { type: "button", class: "quiet held-open", title: `Open the folder ${name}`, on: { click: open } }, h("span", { class: "held-thumb" }, icon("folder")), h("span", { class: "held-name" }, h("span", { dir: "auto", text: name }))),
    h("span"),
    h("p", { class: "held-facts faint" }, h("span", { text: "" }), h("span", { text: count(documents.length, "file") })),
    h("div", { class: "held-actions" }),
  );
}

/** @param {DocumentInfo} one A small picture of its first page; a sign where there is none. */
function thumbnail(one) {
  if (one.first === null) return h("span", { class: "held-thumb" }, icon(kindOf(one.name)));
  const src = `items/${encodeURIComponent(one.first)}/image?max_pixels=${THUMBNAIL_PIXELS}`;
  const image = /** @type {HTMLImageElement} */ (h("img", { src, alt: "", loading: "lazy", decoding: "async" }));
  let tries = 0;
  image.addEventListener("error", () => {
    if (tries++ === RETRIES) image.replaceWith(icon(kindOf(one.name)));
    else setTimeout(() => (image.src = `${src}&again=${tries}`), RETRY_PAUSE); // the server may have had too much to do
  });
  return h("span", { class: "held-thumb" }, image);
}

/** @param {string} status */
function statusChip(status) {
  /** @type {Record<string, [string, string]>} */
  const labels = { partial: ["mark", "Partly read"], failed: ["danger", "Not read"], pending: ["", "Waiting"] };
  return labels[status] ? h("span", { class: `chip ${labels[status][0]}`, text: labels[status][1] }) : h("span");
}

/** @param {string[]} problems */
export function problemList(problems) {
  const lines = problems.map((problem) => h("li", { dir: "auto", text: rewriteForPage(problem) }));
  if (lines.length <= MAX_OPEN_PROBLEMS) return h("ul", { class: "held-problems" }, lines);
  return h("details", { class: "held-problems" }, h("summary", { text: count(problems.length, "problem") }), h("ul", lines));
}

/** @param {number} seconds Since 1970. @returns {string} */
function day(seconds) {
  return new Date(seconds * 1000).toLocaleDateString("en-GB", { year: "numeric", month: "short", day: "numeric" });
}
