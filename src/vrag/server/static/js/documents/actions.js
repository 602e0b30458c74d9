/** Removal of documents, creation and deletion of collections, and the dialogs before them. */

import { del, post, Problem } from "../api.js";
import { announce, dialog, h } from "../dom.js";
import { placed } from "../file-names.js";
import { count } from "../format.js";
import { attempt } from "../overlays.js";
import { documentsHash, navigate } from "../router.js";

/** @typedef {import("./listing.js").DocumentInfo} DocumentInfo */

/**
 * Removes documents, after a question.
 * @param {string} collection
 * @param {DocumentInfo[]} documents
 * @returns {Promise<boolean>} Whether it was begun.
 */
export async function removeDocuments(collection, documents) {
  const [first] = documents;
  const files = documents.filter((one) => one.uploaded).length;
  const what = documents.length === 1 ? placed(first) : count(documents.length, "document");
  const kept = files === 0 ? "The files themselves are not deleted." : files === documents.length ? "Uploaded files are deleted too." : `${count(files, "uploaded file")} will be deleted too; the other files stay where they are.`;
  const title = documents.length === 1 ? "Remove this document?" : `Remove ${count(documents.length, "document")}?`;
  if (!(await confirmed(title, `${what} can no longer be asked. ${kept}`, "Remove"))) return false;
  await attempt(async () => {
    for (const one of documents) {
      const meant = new URLSearchParams({ file: one.name, folder: one.folder });
      await del(`/collections/${encodeURIComponent(collection)}/documents/${encodeURIComponent(one.id)}?${meant}`);
    }
    announce(`${what} removed`);
  });
  return true;
}

/** @param {() => Promise<void>} reload Creates a collection, under a name that is asked for. */
export async function createCollection(reload) {
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

/** @param {any} collection @param {() => Promise<void>} reload Deletes a collection, after a question. */
export async function dropCollection(collection, reload) {
  const body = `“${collection.name}” with its ${count(collection.documents, "document")} is deleted from this server. Past answers keep their pictures.`;
  if (!(await confirmed("Remove this collection?", body, "Remove collection"))) return;
  await attempt(async () => {
    await del(`/collections/${encodeURIComponent(collection.name)}`);
    await reload();
    navigate("#/documents");
  });
}

/** @param {string} title @param {string} body @param {string} label @returns {Promise<boolean>} */
function confirmed(title, body, label) {
  return dialog({ title, body, actions: [{ label: "Cancel", value: false }, { label, kind: "danger", value: true }] });
}
