/** The report of a conversation: one document to download. */

import { download, Problem } from "./api.js";
import { dialog, h, toast } from "./dom.js";

/** Asks for title and format of a report of a conversation, and downloads it. @param {import("./history.js").Run[]} turns */
export async function report(turns) {
  const ended = turns.filter((run) => run.state !== "running");
  if (ended.length === 0) {
    toast("Wait until the run has ended.");
    return;
  }
  const title = /** @type {HTMLInputElement} */ (h("input", { id: "report-title", maxlength: 200, dir: "auto", value: turns[0].question.slice(0, 200) }));
  const format = /** @type {HTMLSelectElement} */ (h("select", { id: "report-format" }, h("option", { value: "html", text: "Web page (HTML, with pictures)" }), h("option", { value: "markdown", text: "Markdown" })));
  const questions = ended.length === 1 ? "the question of this conversation" : `the ${ended.length} questions of this conversation`;
  const body = h("div", { class: "report-form" }, h("p", { text: `One document with ${questions}, the answers and their evidence.` }), h("label", { class: "field" }, "Title", title), h("label", { class: "field" }, "Format", format));
  const check = () => made({ runs: ended.map((run) => run.id), title: title.value.trim() || undefined, format: format.value });
  await dialog({ title: "Report of this conversation", body, actions: [{ label: "Cancel" }, { label: "Download", kind: "primary", value: true, check }] });
}

/** @param {{runs: string[], title?: string, format: string}} asked @returns {Promise<boolean>} */
async function made(asked) {
  try {
    await download("/reports", asked, asked.format === "html" ? "report.html" : "report.md");
    return true;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    toast(error.detail, { kind: "danger", hint: error.hint });
    return false;
  }
}
