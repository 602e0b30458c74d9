/** The documents: collections, what each holds, what was wrong with a file, uploads on their way, removal. */

import { del, get, post, Problem } from "./api.js";
import { counted } from "./run-options.js";
import { announce, dialog, h, icon, iconButton, redraw, replace, showList, toast } from "./dom.js";
import { kindOf, placed, typeOf } from "./file-names.js";
import { openDocument } from "./viewer/viewer.js";
import { showNotice } from "./overlays.js";
import { bytes } from "./pictures.js";
import { documentsHash, navigate } from "./router.js";
import { kinds, statusText } from "./uploads.js";

/** Rows that are seen at one glance: above that they can be filtered. */
const GLANCE = 12;

/**
 * @typedef {{id: string, name: string, folder: string | null, size: number | null, status: string, items: number,
 *   problems: string[], uploaded: boolean}} Held `folder` tells it from others of its name.
 */

/**
 * Shows the documents of one collection.
 * @param {HTMLElement} root
 * @param {object} how
 * @param {string | null} how.name Of the collection; null for the first.
 * @param {{collections: any[], creatable: boolean, reason?: string | null}} how.listing
 * @param {import("./uploads.js").Uploads} how.uploads
 * @param {() => Promise<void>} how.reload Loads the collections again.
 * @returns {{update: () => void, refresh: (listing: {collections: any[]}) => Promise<void>, target: () => string | null}}
 */
export function showDocuments(root, { name, listing, uploads, reload }) {
  let { collections } = listing;
  let current = collections.find((one) => one.name === name) ?? collections[0];
  const tabs = h("nav", { class: "tabs", "aria-label": "Collections" });
  const facts = h("div", { class: "about" });
  const jobs = h("ul", { class: "jobs", id: "jobs", "aria-label": "Uploads", hidden: true });
  const held = h("div", { id: "documents-held" });
  const count = h("span", { class: "faint", id: "documents-count", role: "status" });
  /** @type {Held[]} */
  let documents = [];

  const heading = h("header", { class: "documents-head" });
  const show = () => {
    redraw(heading, h("h1", { text: "Documents" }), count, h("span", { class: "grow" }), listing.creatable && h("button", { type: "button", id: "new-collection", on: { click: () => create(reload) } }, icon("plus"), "New collection"), current?.writable && uploadButton(uploads, current.name));
    replace(tabs, collections.map((one) => tab(one, one === current)));
    tellFacts();
  };
  const tellFacts = () => {
    const served = documents.filter((one) => one.items > 0).length;
    if (current) replace(facts, about(current, uploads.limits, served > current.documents, () => drop(current, reload)));
  };
  const update = () => {
    const own = uploads.list.filter((upload) => upload.collection === current?.name);
    jobs.hidden = own.length === 0;
    showList(jobs, own, (upload) => JSON.stringify(upload), (upload) => job(upload, () => uploads.dismiss(upload)));
  };
  const load = async () => {
    if (!current.readable) return fail(current.reason ?? "");
    try {
      ({ documents } = await get(`/collections/${encodeURIComponent(current.name)}/documents`));
      list();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (error.status !== 401 && documents.length === 0) fail(`${error.detail} ${error.hint}`.trim());
    }
  };
  const fail = (/** @type {string} */ hint) => {
    documents = [];
    count.textContent = "";
    const again = h("button", { type: "button", text: "Try again", on: { click: reload } });
    showNotice(held, { id: "no-documents-read", title: `The collection “${current.name}” cannot be read`, hint, actions: [again] });
  };
  const list = () => {
    const rows = documents.map((one) => documentRow(one, current, () => remove(one)));
    count.textContent = rows.length > 0 ? counted(rows.length, "file") : "";
    tellFacts();
    if (rows.length === 0) replace(held, emptyCollection(current));
    else redraw(held, rows.length > GLANCE && filterBox(held, count), h("ul", { class: "held", "aria-label": `Documents of ${current.name}` }, rows));
  };
  const remove = async (/** @type {Held} */ one) => {
    const body = `${placed(one)} and its ${counted(one.items, "item")} are removed from the collection. ${one.uploaded ? "The uploaded file is deleted too." : "The file itself is not deleted."}`;
    if (!(await confirmed("Remove this document?", body, "Remove"))) return;
    await tried(async () => {
      const meant = new URLSearchParams({ file: one.name, ...(one.folder !== null && { folder: one.folder }) });
      await del(`/collections/${encodeURIComponent(current.name)}/documents/${encodeURIComponent(one.id)}?${meant}`);
      announce(`${placed(one)} removed`);
      await reload();
    });
  };

  replace(root, h("div", { class: "documents" }, heading, current ? [tabs, facts, jobs, held] : noCollections(listing, reload)));
  show();
  update();
  if (current) {
    replace(held, h("p", { class: "row soft" }, h("span", { class: "spinner" }), "Loading"));
    load();
    if (current.readable) tried(() => uploads.adopt(current.name));
  }
  const refresh = async (/** @type {{collections: any[]}} */ now) => {
    collections = now.collections;
    current = collections.find((one) => one.name === current?.name) ?? current;
    show();
    if (current) await load();
  };
  return { update, refresh, target: () => (current?.writable ? current.name : null) };
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

/** @param {any} collection @param {any} limits @param {boolean} sameContent Whether files have the same content. @param {() => void} remove */
function about(collection, limits, sameContent, remove) {
  if (!collection.readable) return []; // what stands in the place of its documents says so
  const facts = [`${counted(collection.documents, "document")} and ${counted(collection.items, "item")}`, sameContent && "identical files count once", collection.embedder ? `searched by words and by ${collection.embedder}` : "searched by words"];
  const taken = `Drop files anywhere on this page, up to ${bytes(limits.upload_bytes)} each: ${kinds(limits.upload_types)}.`;
  return [
    h("p", { dir: "auto", text: facts.filter(Boolean).join(" · ") }),
    h("p", { class: "faint size-2", dir: "auto", text: collection.writable ? taken : (collection.reason ?? "This collection does not accept uploads.") }),
    collection.removable && iconButton("trash", `Remove the collection ${collection.name}`, { id: "remove-collection", on: { click: remove } }),
  ];
}

/** @param {Held} one @param {any} collection @param {() => void} remove */
function documentRow(one, collection, remove) {
  const readable = one.items > 0;
  const name = h("span", { class: "held-name" }, h("span", { dir: "auto", text: one.name }), one.folder !== null && h("span", { class: "held-folder", dir: "auto", text: one.folder }));
  const facts = [typeOf(one.name), one.size === null ? "" : bytes(one.size), readable ? counted(one.items, "item") : ""];
  return h(
    "li",
    { class: "held-row", dataset: { document: one.id, name: one.name, folder: one.folder ?? "", status: one.status } },
    readable
      ? h("button", { type: "button", class: "quiet held-open", title: `Open ${placed(one)}`, on: { click: () => openDocument(one) } }, icon(kindOf(one.name)), name)
      : h("span", { class: "held-open" }, icon("page"), name),
    statusChip(one.status),
    h("p", { class: "held-facts faint" }, facts.map((fact) => h("span", { text: fact }))),
    collection.writable ? iconButton("trash", `Remove ${placed(one)}`, { class: "held-remove", on: { click: remove } }) : h("span"),
    one.problems.length > 0 && problemList(one.problems),
  );
}

/** @param {string} status */
function statusChip(status) {
  /** @type {Record<string, [string, string]>} */
  const labels = { partial: ["mark", "Partly read"], failed: ["danger", "Failed"], pending: ["", "Waiting"] };
  return labels[status] ? h("span", { class: `chip ${labels[status][0]}`, text: labels[status][1] }) : h("span");
}

/** @param {string[]} problems */
function problemList(problems) {
  const lines = problems.map((problem) => h("li", { dir: "auto", text: problem }));
  if (lines.length === 1) return h("ul", { class: "held-problems" }, lines);
  return h("details", { class: "held-problems" }, h("summary", { text: counted(problems.length, "problem") }), h("ul", lines));
}

/** @param {import("./uploads.js").Upload} upload @param {() => void} dismiss */
function job(upload, dismiss) {
  const problems = upload.problems.filter((problem) => problem !== upload.message);
  const ended = upload.state === "finished" || upload.state === "failed";
  const known = upload.state === "sending" || upload.state === "running";
  const bar = known && upload.total ? { value: String(upload.done), max: upload.total } : {};
  return h(
    "li",
    { class: `job ${upload.state}`, dataset: { file: upload.file, state: upload.state } },
    ended ? icon(upload.state === "failed" ? "warn" : "check") : h("span", { class: "spinner" }),
    h("div", { class: "grow" }, h("p", { class: "job-name", dir: "auto", text: upload.file }), h("p", { class: "job-doing size-2", dir: "auto", text: statusText(upload) }), problems.length > 0 && problemList(problems)),
    ended && iconButton("close", `Dismiss ${upload.file}`, { on: { click: dismiss } }),
    !ended && h("progress", { ...bar, "aria-label": `${upload.file}: progress` }),
  );
}

/**
 * A button that opens the file dialog and uploads what is chosen.
 * @param {import("./uploads.js").Uploads} uploads
 * @param {string} collection
 */
export function uploadButton(uploads, collection) {
  const input = /** @type {HTMLInputElement} */ (h("input", { type: "file", id: "upload-files", multiple: true, hidden: true, accept: uploads.limits.upload_types.join(",") }));
  input.addEventListener("change", () => {
    uploads.add([...(input.files ?? [])], collection);
    input.value = "";
  });
  return [input, h("button", { type: "button", id: "upload", class: "primary", on: { click: () => input.click() } }, icon("upload"), "Upload files")];
}

/**
 * @param {HTMLElement} held
 * @param {HTMLElement} count Tells how many are left.
 */
function filterBox(held, count) {
  const kept = /** @type {HTMLInputElement | null} */ (held.querySelector("#filter-documents"))?.value ?? "";
  const none = h("p", { class: "soft size-2 held-none", hidden: true, text: "No file name matches." });
  const filter = () => {
    const words = box.value.trim().toLocaleLowerCase();
    const rows = [.../** @type {NodeListOf<HTMLElement>} */ (held.querySelectorAll(".held-row"))];
    for (const row of rows) row.hidden = !`${row.dataset.folder}/${row.dataset.name}`.toLocaleLowerCase().includes(words);
    const left = rows.filter((row) => !row.hidden).length;
    count.textContent = left === rows.length ? counted(left, "file") : `${left.toLocaleString("en")} of ${counted(rows.length, "file")}`;
    none.hidden = left > 0;
  };
  const box = /** @type {HTMLInputElement} */ (h("input", { type: "search", id: "filter-documents", placeholder: "Filter by name", "aria-label": "Filter documents by name", value: kept, on: { input: filter } }));
  if (kept) queueMicrotask(filter);
  return [box, none];
}

/** @param {any} collection */
function emptyCollection(collection) {
  return h("div", { class: "empty-drop" }, icon("upload"), h("p", { text: collection.writable ? "No documents yet. Drop files here." : "No documents in this collection." }));
}

/** @param {{creatable: boolean, reason?: string | null}} listing @param {() => Promise<void>} reload */
function noCollections({ creatable, reason }, reload) {
  return h("div", { class: "empty-drop" }, icon("folder"), h("p", { dir: "auto", text: reason ?? "There are no collections yet." }), creatable && h("button", { type: "button", class: "primary", text: "Create a collection", on: { click: () => create(reload) } }));
}

/** @param {() => Promise<void>} reload */
async function create(reload) {
  const input = /** @type {HTMLInputElement} */ (h("input", { id: "collection-name", autocomplete: "off", required: true, maxlength: 64 }));
  const problem = h("p", { class: "field-problem", role: "alert", hidden: true });
  const check = async () => {
    try {
      await post("/collections", { name: input.value.trim() });
      return true;
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      problem.hidden = false;
      problem.textContent = `${error.detail} ${error.hint}`.trim();
      return false;
    }
  };
  const body = h("div", h("label", { class: "field" }, "Name", input), problem);
  const made = await dialog({ title: "New collection", body, actions: [{ label: "Cancel" }, { label: "Create", kind: "primary", value: true, check }] });
  if (!made) return;
  await reload();
  navigate(documentsHash(input.value.trim()));
}

/** @param {any} collection @param {() => Promise<void>} reload */
async function drop(collection, reload) {
  const body = `“${collection.name}” with its ${counted(collection.documents, "document")} is deleted from this server. Past runs keep their pictures.`;
  if (!(await confirmed("Remove this collection?", body, "Remove collection"))) return;
  await tried(async () => {
    await del(`/collections/${encodeURIComponent(collection.name)}`);
    await reload();
    navigate("#/documents");
  });
}

/** @param {string} title @param {string} body @param {string} label @returns {Promise<boolean>} */
function confirmed(title, body, label) {
  return dialog({ title, body, actions: [{ label: "Cancel", value: false }, { label, kind: "danger", value: true }] });
}

/** @param {() => Promise<void>} act Tells what went wrong, and that is all. */
async function tried(act) {
  try {
    await act();
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (error.status !== 401) toast(error.detail, { kind: "danger", hint: error.hint });
  }
}
