/** Loads a part of the page; what to do where one does not arrive. */

import { Problem } from "./api.js";
import { h } from "./dom.js";

/** A part that did not arrive: the server does not answer, or has been replaced by another version. */
export class PartMissing extends Problem {
  constructor() {
    super(0, "A part of the page could not be loaded.", "The server may be unavailable or may have been updated. Load the page again.");
  }
}

/**
 * Waits for a part. Throws `PartMissing` if it does not arrive.
 * @template T
 * @param {() => Promise<T>} load
 * @returns {Promise<T>}
 */
export async function loadPart(load) {
  try {
    return await load();
  } catch (error) {
    if (!(error instanceof TypeError || error instanceof SyntaxError)) throw error;
    throw new PartMissing();
  }
}

/** A button that loads the page again. @param {import("./elements.js").Props} [props] */
export const reloadButton = (props = {}) => h("button", { type: "button", class: "primary", text: "Load the page again", on: { click: () => location.reload() }, ...props });
