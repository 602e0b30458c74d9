/** The toolbar above a run: the turns of the conversation, a link to share, the report. */

import { h, icon, iconButton, redraw } from "./dom.js";
import { outcome } from "./history.js";
import { report } from "./report.js";
import { openSidebar } from "./sidebar.js";
import { runHash } from "./router.js";

/**
 * @param {HTMLElement} toolbar
 * @param {{title?: string, turns?: import("./history.js").Run[], current?: string, share?: () => void}} [shown]
 */
export function showToolbar(toolbar, { title = "", turns = [], current, share } = {}) {
  const open = iconButton("sidebar", "Show the list of runs", { id: "sidebar-open", on: { click: () => openSidebar(true) } });
  redraw(
    toolbar,
    open,
    turns.length > 1
      ? h("nav", { class: "turns-nav", "aria-label": "Questions of this conversation" }, turns.map((run, at) => turn(run, at, run.id === current)))
      : h("p", { class: "toolbar-title clip", dir: "auto", text: title }),
    h("span", { class: "grow" }),
    current && h("a", { href: "#/", id: "toolbar-new", class: "button quiet", title: "New question", "aria-label": "New question" }, icon("plus")),
    current && h("button", { type: "button", id: "share", class: "quiet", on: { click: share } }, icon("link"), h("span", { class: "toolbar-label", text: "Copy link" })),
    turns.length > 0 && h("button", { type: "button", id: "report", class: "quiet", on: { click: () => report(turns) } }, icon("report"), h("span", { class: "toolbar-label", text: "Report" })),
  );
}

/** @param {import("./history.js").Run} run @param {number} at @param {boolean} here */
function turn(run, at, here) {
  const [kind, words] = outcome(run);
  const label = `Question ${at + 1}: ${run.question}. ${words}`;
  return h(
    "a",
    { href: runHash(run.id), class: "turn", title: run.question.slice(0, 300), "aria-label": label, "aria-current": here ? "page" : null },
    h("span", { class: "turn-number", text: at + 1 }),
    h("span", { class: "clip", dir: "auto", text: run.question }),
    kind === "running" && h("span", { class: "run-state running" }),
  );
}
