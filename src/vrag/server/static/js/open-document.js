/** Opens a document at its first page, in the viewer of cited pages. */

import { get, Problem } from "./api.js";
import { toast } from "./dom.js";
import { open } from "./viewer/viewer.js";

/** @param {{id: string, name: string}} document */
export async function openDocument({ id, name }) {
  try {
    const { items } = await get(`/documents/${encodeURIComponent(id)}`);
    if (items.length > 0) open({ item: items[0].id, document: name });
    else toast(`Nothing of ${name} can be shown.`);
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (error.status !== 401) toast(error.detail, { kind: "danger", hint: error.hint });
  }
}
