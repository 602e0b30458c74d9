/** The toolbar above a conversation: its questions to jump to, a link to share, the report. */

import { download, Problem } from "./api.js";
import { dialog, h, icon, iconButton, redraw, toast } from "./dom.js";
import { outcome } from "./history.js";
import { openSidebar } from "./sidebar.js";
import { runHash } from "./router.js";

/**
 * @param {HTMLElement} toolbar
 * @param {{title?: string, turns?: import("./history.js").Run[], current?: string}} [shown]
 */
export function showToolbar(toolbar, { title = "", turns = [], current } = {}) {
  const open = iconButton("sidebar", "Show the list of runs", { id: "sidebar-open", on: { click: () => openSidebar(true) } });
  redraw(
    toolbar,
    open,
    h("p", { class: "toolbar-title clip", dir: "auto", text: title }),
    h("span", { class: "grow" }),
    turns.length > 1 && jumpMenu(turns, current),
    current && h("a", { href: "#/", id: "toolbar-new", class: "button quiet", title: "New question", "aria-label": "New question" }, icon("plus")),
    current && h("button", { type: "button", id: "share", class: "quiet", on: { click: share } }, icon("link"), h("span", { class: "toolbar-label", text: "Copy link" })),
    turns.length > 0 && h("button", { type: "button", id: "report", class: "quiet", on: { click: () => report(turns) } }, icon("report"), h("span", { class: "toolbar-label", text: "Report" })),
  );
}

/** The questions of the conversation, to jump to. @param {import("./history.js").Run[]} turns @param {string | undefined} current */
function jumpMenu(turns, current) {
  const menu = h(
    "details",
    { class: "menu turns-nav", id: "turns" },
    h("summary", { class: "button quiet", "aria-label": `${turns.length} questions of this conversation` }, icon("menu"), `${turns.length} questions`),
    h("ol", { class: "menu-list card" }, turns.map((run, at) => h("li", turn(run, at, run.id === current)))),
  );
  const close = () => menu.removeAttribute("open");
  menu.addEventListener("click", (event) => /** @type {Element} */ (event.target).closest("a") && close());
  menu.addEventListener("focusout", (event) => !menu.contains(/** @type {Node | null} */ (event.relatedTarget)) && setTimeout(() => !menu.contains(document.activeElement) && close(), 150));
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.hasAttribute("open")) return;
    event.stopPropagation();
    close();
    menu.querySelector("summary")?.focus();
  });
  return menu;
}

/** @param {import("./history.js").Run} run @param {number} at @param {boolean} here */
function turn(run, at, here) {
  const [kind, words] = outcome(run);
  return h(
    "a",
    { href: runHash(run.id), class: "turn", title: run.question.slice(0, 300), "aria-label": `Question ${at + 1}: ${run.question}. ${words}`, "aria-current": here ? "page" : null },
    h("span", { class: "turn-number", text: at + 1 }),
    h("span", { class: "clip", dir: "auto", text: run.question }),
    kind === "running" && h("span", { class: "run-state running" }),
  );
}

async function share() {
  const url = location.href;
  try {
    await navigator.clipboard.writeText(url);
    toast("Link copied.", { kind: "ok", hint: "Anyone who can reach this server can open it." });
  } catch {
    const field = h("input", { readonly: true, value: url, "aria-label": "Link to this run", on: { focus: (/** @type {Event} */ event) => /** @type {HTMLInputElement} */ (event.target).select() } });
    await dialog({ title: "Link to this run", body: field });
  }
}

/** @param {import("./history.js").Run[]} turns */
async function report(turns) {
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
