/** Opens the viewer, which is loaded when it is needed first. */

import { Problem } from "./api.js";
import { toast } from "./dom.js";
import { loadPart } from "./part-loading.js";

/** Loads the viewer, or waits until it is loaded. */
export const loadViewer = () => loadPart(() => import("./viewer/viewer.js"));

/** @type {typeof import("./viewer/viewer.js") | null} */
let viewer = null;
/** Counts what the viewer is to do: what it is told last holds. */
let wanted = 0;

/** @param {(viewer: typeof import("./viewer/viewer.js")) => void} act */
async function inViewer(act) {
  const now = ++wanted;
  try {
    viewer ??= await loadViewer();
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    toast(error.detail, { kind: "danger", hint: error.hint });
    return;
  }
  if (now === wanted) act(viewer);
}

/** Opens the viewer, or shows something else in it. @param {import("./viewer/viewer.js").Place} place */
export const openViewer = (place) => inViewer(({ open }) => open(place));

/** Opens a document at its first page. @param {{id: string, name: string}} document */
export const openDocument = (document) => inViewer((loaded) => loaded.openDocument(document));

/** Closes the viewer, if it is open. */
export function closeViewer() {
  wanted++;
  viewer?.close();
}
