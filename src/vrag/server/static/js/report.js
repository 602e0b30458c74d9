/** The report of a conversation: one document to download. */

import { download } from "./api.js";
import { dialog, h, toast } from "./dom.js";
import { isUnderWay } from "./history.js";
import { attempt } from "./overlays.js";

/** Asks for title and format of a report of a conversation, and downloads it. @param {import("./history.js").Run[]} turns */
export async function report(turns) {
  const ended = turns.filter((run) => !isUnderWay(run));
  if (ended.length === 0) {
    toast("Wait until the answer is complete.");
    return;
  }
  const title = /** @type {HTMLInputElement} */ (h("input", { id: "report-title", maxlength: 200, dir: "auto", value: turns[0].question.slice(0, 200) }));
  const format = /** @type {HTMLSelectElement} */ (h("select", { id: "report-format" }, h("option", { value: "html", text: "Web page (HTML, with pictures)" }), h("option", { value: "markdown", text: "Markdown" })));
  const questions = ended.length === 1 ? "the question of this conversation" : `the ${ended.length} questions of this conversation`;
  const body = h("div", { class: "report-form" }, h("p", { text: `One document with ${questions}, the answers and their evidence.` }), h("label", { class: "field" }, "Title", title), h("label", { class: "field" }, "Format", format));
  const asked = () => ({ runs: ended.map((run) => run.id), title: title.value.trim() || undefined, format: format.value });
  const check = () => attempt(() => download("/reports", asked(), format.value === "html" ? "report.html" : "report.md"));
  await dialog({ title: "Report of this conversation", body, actions: [{ label: "Cancel" }, { label: "Download", kind: "primary", value: true, check }] });
}
