/** The parts of the page that are loaded when they are needed, or as soon as the browser has nothing else to do. */

import { Problem } from "./api.js";
import { h, toast } from "./dom.js";

const AHEAD = 1_000;

const loadViewer = () => whole(() => import("./viewer/viewer.js"));
export const loadThread = () => whole(() => import("./run/thread.js"));
export const loadDocuments = () => whole(() => import("./documents/view.js"));
export const loadSetup = () => whole(() => import("./setup/setup.js"));

/** A part that did not arrive: the server does not answer, or has been replaced by another version. */
export class PartMissing extends Problem {
  constructor() {
    super(0, "A part of the page could not be loaded.", "The server may be unavailable or may have been updated. Load the page again.");
  }
}

/**
 * @template T
 * @param {() => Promise<T>} load
 * @returns {Promise<T>}
 */
async function whole(load) {
  try {
    return await load();
  } catch (error) {
    if (!(error instanceof TypeError || error instanceof SyntaxError)) throw error;
    throw new PartMissing();
  }
}

/** Loads all parts, so that nothing waits for them later; those that do not arrive are asked for again when they are needed. */
export function loadAhead() {
  const load = () => Promise.allSettled([loadThread(), loadViewer(), loadDocuments(), loadSetup()]);
  setTimeout(() => ("requestIdleCallback" in window ? requestIdleCallback(load, { timeout: AHEAD }) : load()), AHEAD);
}

/** A button that loads the page again. @param {import("./elements.js").Props} [props] */
export const reloadButton = (props = {}) => h("button", { type: "button", class: "primary", text: "Load the page again", on: { click: () => location.reload() }, ...props });

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
