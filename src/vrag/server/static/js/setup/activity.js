/** What the server does now: runs in progress, files that are read, and the collections. */

import { h, icon, redraw } from "../dom.js";
import { clock, count, ordinal } from "../format.js";
import { runHash } from "../router.js";
import { METHODS } from "../run/wording.js";

/**
 * @param {HTMLElement} root
 * @param {{runs: any[], uploads: any[], collections: any[]}} activity
 */
export function showActivity(root, { runs, uploads, collections }) {
  redraw(
    root,
    runs.length === 0 && uploads.length === 0 && h("p", { class: "soft size-2", id: "setup-idle", text: "No question is being answered, and no file is being read." }),
    runs.length > 0 && h("ul", { class: "now-list", id: "setup-runs", "aria-label": "Questions being answered" }, runs.map(run)),
    uploads.length > 0 && h("ul", { class: "now-list", id: "setup-uploads", "aria-label": "Files being read" }, uploads.map(upload)),
    h("ul", { class: "now-list", id: "setup-collections", "aria-label": "Collections" }, collections.map(collection)),
  );
}

/** @param {any} one */
function run(one) {
  const facts = [one.position !== null && `waiting: ${ordinal(one.position)} in the queue`, one.owner, METHODS[one.agent] ?? one.agent, modelName(one.model), `since ${clock(one.started)}`, count(one.steps, "step")];
  return h("li", h("span", { class: `run-state ${one.state}` }), h("a", { href: runHash(one.id), class: "grow clip", dir: "auto", text: one.question }), h("span", { class: "now-facts faint size-1", dir: "auto", text: facts.filter(Boolean).join(" · ") }));
}

/** @param {any} one */
function upload(one) {
  const progress = one.total ? `${one.done} of ${one.total}` : one.message;
  return h("li", icon("page"), h("span", { class: "grow clip", dir: "auto", text: one.file }), h("span", { class: "now-facts faint size-1", dir: "auto", text: `${one.collection} · ${progress}` }));
}

/** @param {any} one */
function collection(one) {
  const searched = one.embedder ? `searched by words and by ${one.embedder}` : "searched by words";
  return h("li", icon("folder"), h("span", { class: "grow clip", dir: "auto", text: one.name }), h("span", { class: "now-facts faint size-1", dir: "auto", text: `${count(one.documents, "document")} · ${searched}` }));
}

/** @param {string} policy */
const modelName = (policy) => (policy === "extractive" ? "without a model" : policy.replace(/^(chat|local):/, ""));

