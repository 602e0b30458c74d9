/** The parts of the page that are loaded when they are needed, or as soon as the browser has nothing else to do. */

import { loadPart } from "./part-loading.js";
import { loadViewer } from "./viewer-opening.js";

const AHEAD = 1_000;

export const loadThread = () => loadPart(() => import("./run/thread.js"));
export const loadDocuments = () => loadPart(() => import("./documents/view.js"));
export const loadSetup = () => loadPart(() => import("./setup/setup.js"));

/** Loads all parts, so that nothing waits for them later; those that do not arrive are asked for again when they are needed. */
export function loadAhead() {
  const load = () => Promise.allSettled([loadThread(), loadViewer(), loadDocuments(), loadSetup()]);
  setTimeout(() => ("requestIdleCallback" in window ? requestIdleCallback(load, { timeout: AHEAD }) : load()), AHEAD);
}
