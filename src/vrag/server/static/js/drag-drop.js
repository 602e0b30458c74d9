/** Files dropped anywhere on the page go into a collection; the question box keeps pictures for itself. */

import { h } from "./dom.js";
import { droppedFiles } from "./dropped-files.js";
import { carriesFiles } from "./pictures.js";

/**
 * @param {object} how
 * @param {() => string | null} how.target The collection that would take them.
 * @param {() => string} how.reason Why the user cannot add files; empty if only the collection decides.
 * @param {(files: import("./dropped-files.js").PlacedFile[], collection: string | null) => void} how.take
 * @param {AbortSignal} how.signal Ends it.
 */
export function receiveFiles({ target, reason, take, signal }) {
  const words = h("p", { dir: "auto" });
  const frame = document.body.appendChild(h("div", { id: "drop-frame", "aria-hidden": true, hidden: true }, words));
  let depth = 0; // entering a child comes before leaving its parent

  const show = (/** @type {boolean} */ over) => {
    frame.hidden = !over;
    const collection = target();
    words.textContent = collection ? `Drop to add to ${collection}. Drop pictures on the question box to attach them.` : reason() || "This collection does not accept uploads.";
  };
  const enters = (/** @type {DragEvent} */ event) => {
    if (carriesFiles(event.dataTransfer)) show(++depth > 0);
  };
  const leaves = (/** @type {DragEvent} */ event) => {
    if (carriesFiles(event.dataTransfer)) show(--depth > 0);
  };
  const ends = () => {
    depth = 0;
    frame.hidden = true;
  };
  window.addEventListener("dragenter", enters, { signal });
  window.addEventListener("dragleave", leaves, { signal });
  window.addEventListener("dragover", (event) => carriesFiles(event.dataTransfer) && event.preventDefault(), { signal });
  window.addEventListener("drop", ends, { capture: true, signal });
  window.addEventListener("drop", async (event) => {
    if (event.defaultPrevented || !event.dataTransfer || !carriesFiles(event.dataTransfer)) return;
    event.preventDefault();
    const collection = target();
    take(await droppedFiles(event.dataTransfer), collection);
  }, { signal });
}
