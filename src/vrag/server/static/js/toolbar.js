/** The toolbar above a conversation: its questions to jump to, a link to share, the report. */

import { h, icon, iconButton, redraw } from "./dom.js";
import { isUnderWay, outcome } from "./history.js";
import { linkMenu } from "./menu.js";
import { report } from "./report.js";
import { runHash } from "./router.js";
import { openSidebar } from "./sidebar.js";

/**
 * @param {HTMLElement} toolbar
 * @param {{title?: string, turns?: import("./history.js").Run[], current?: string, share?: () => void}} [shown]
 */
export function showToolbar(toolbar, { title = "", turns = [], current, share } = {}) {
  const isOpen = toolbar.querySelector("#turns")?.hasAttribute("open") ?? false;
  const open = iconButton("sidebar", "Show past questions", { id: "sidebar-open", on: { click: () => openSidebar(true) } });
  redraw(
    toolbar,
    open,
    h("p", { class: "toolbar-title clip", dir: "auto", text: title }),
    h("span", { class: "grow" }),
    turns.length > 1 && jumpMenu(turns, current, isOpen),
    current && h("a", { href: "#/", id: "toolbar-new", class: "button quiet", title: "New question", "aria-label": "New question" }, icon("plus")),
    current && h("button", { type: "button", id: "share", class: "quiet", on: { click: share } }, icon("link"), h("span", { class: "toolbar-label", text: "Copy link" })),
    turns.length > 0 && h("button", { type: "button", id: "report", class: "quiet", on: { click: () => report(turns) } }, icon("report"), h("span", { class: "toolbar-label", text: "Report" })),
  );
}

/** The questions of the conversation, to jump to. @param {import("./history.js").Run[]} turns @param {string | undefined} current @param {boolean} open */
function jumpMenu(turns, current, open) {
  return linkMenu(
    { class: "turns-nav", id: "turns", open },
    h("summary", { class: "button quiet", "aria-label": `${turns.length} questions of this conversation` }, icon("menu"), `${turns.length} questions`),
    h("ol", turns.map((run, at) => h("li", turn(run, at, run.id === current)))),
  );
}

/** @param {import("./history.js").Run} run @param {number} at @param {boolean} here */
function turn(run, at, here) {
  const [kind, words] = outcome(run);
  return h(
    "a",
    { href: runHash(run.id), class: "turn", title: run.question.slice(0, 300), "aria-label": `Question ${at + 1}: ${run.question}. ${words}`, "aria-current": here ? "page" : null },
    h("span", { class: "turn-number", text: at + 1 }),
    h("span", { class: "clip", dir: "auto", text: run.question }),
    isUnderWay(run) && h("span", { class: `run-state ${kind}` }),
  );
}
