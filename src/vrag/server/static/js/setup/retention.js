/** Deletion of past questions by age, for administrators: a look at what would go, and a question before. */

import { del, get } from "../api.js";
import { dialog, h, toast } from "../dom.js";
import { count } from "../format.js";
import { attempt } from "../overlays.js";
import { bytes } from "../pictures.js";

/** Days that stand in the field at first. */
const DAYS = 30;

/** @returns {HTMLElement} */
export function retentionForm() {
  const days = /** @type {HTMLInputElement} */ (h("input", { type: "number", id: "purge-days", min: 0, max: 36500, step: 1, required: true, value: DAYS }));
  const owner = /** @type {HTMLInputElement} */ (h("input", { id: "purge-owner", maxlength: 64, autocomplete: "off", dir: "auto" }));
  const pinned = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", id: "purge-pinned" }));
  const kept = h("p", { class: "soft size-2", id: "purge-kept" });
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    attempt(() => purge(new URLSearchParams({ older_than: days.value, pinned: String(pinned.checked), ...(owner.value.trim() && { owner: owner.value.trim() }) })));
  };
  tellKept(kept);
  return h(
    "form",
    { class: "setup-form card", id: "purge", on: { submit } },
    kept,
    h("div", { class: "setup-fields" }, h("label", { class: "field" }, "Without a question for so many days", days), h("label", { class: "field" }, "Of one user (empty for all)", owner)),
    h("label", { class: "audience-option" }, pinned, h("span", { text: "Also pinned and shared conversations" })),
    h("div", { class: "row" }, h("button", { type: "submit", id: "purge-look", text: "Delete old conversations" })),
  );
}

/** @param {URLSearchParams} query Of the server: deletes after a question. */
async function purge(query) {
  const found = await get(`/retention?${query}`);
  if (found.runs === 0) return toast("No conversation is that old.");
  const day = (/** @type {number} */ seconds) => new Date(seconds * 1000).toLocaleDateString("en-GB", { year: "numeric", month: "short", day: "numeric" });
  const body = `${count(found.runs, "question")} from ${day(found.oldest)} to ${day(found.newest)}, with their answers and pictures (${bytes(found.bytes)}), are deleted from the server. This cannot be undone.`;
  const sure = await dialog({ title: `Delete ${count(found.runs, "question")}?`, body, actions: [{ label: "Cancel", value: false }, { label: "Delete", kind: "danger", value: true }] });
  if (!sure) return;
  const gone = await del(`/runs?${query}`);
  toast(`Deleted: ${count(gone.runs, "question")}.`, { kind: "ok" });
  window.dispatchEvent(new CustomEvent("vrag:run")); // has the list of past questions loaded again
}

/** @param {HTMLElement} kept Says after how many days the server deletes by itself. */
async function tellKept(kept) {
  await attempt(async () => {
    const { keep_days } = await get("/retention?older_than=36500");
    kept.textContent = keep_days ? `The server deletes conversations ${count(keep_days, "day")} after their last question, unless they are pinned or shared.` : "The server keeps conversations until somebody deletes them.";
  });
}
