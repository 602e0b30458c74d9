/** The left sidebar: new question, documents, past runs and their search, theme. A drawer on narrow screens. */

import { del, Problem } from "./api.js";
import { h, icon, iconButton, replace, toast } from "./dom.js";
import { showHistory } from "./history.js";
import { themeToggle } from "./theme-toggle.js";

const KEPT = "vrag.rail";
const ROOM = window.matchMedia("(min-width: 1100px)");
/** Room for the viewer as well. */
const BOTH = window.matchMedia("(min-width: 1500px)");

/**
 * @param {HTMLElement} rail
 * @param {{version: string, secured: boolean, loadMore: () => void}} how `secured`: there is a session to leave.
 */
export function buildSidebar(rail, { version, secured, loadMore }) {
  /** @typedef {Omit<Parameters<typeof showHistory>[1], "words"> & {fault: string}} Shown `fault`: why there are none. */
  /** @type {Shown} */
  let shown = { runs: [], current: null, more: false, fault: "" };
  const list = h("div", { class: "rail-list", id: "past-runs", tabindex: "-1" });
  const search = /** @type {HTMLInputElement} */ (h("input", { type: "search", id: "search-runs", placeholder: "Search past runs", "aria-label": "Search past runs", autocomplete: "off" }));
  const uploading = h("span", { class: "uploading", hidden: true });
  const links = {
    ask: h("a", { href: "#/", id: "new-question", class: "rail-link" }, icon("plus"), "New question", h("kbd", { "aria-hidden": true, text: "/" })),
    documents: h("a", { href: "#/documents", id: "to-documents", class: "rail-link" }, icon("pages"), "Documents", uploading),
  };
  const draw = () => {
    if (shown.fault && shown.runs.length === 0) replace(list, h("p", { class: "rail-empty", text: shown.fault }));
    else showHistory(list, { ...shown, words: search.value.trim() }, loadMore);
  };
  search.addEventListener("input", draw);
  replace(
    rail,
    h("div", { class: "rail-brand" }, h("a", { href: "#/", class: "brand" }, h("img", { src: "/static/icon.svg", alt: "", width: 24, height: 24 }), "vrag"), h("span", { class: "grow" }), iconButton("rail", "Hide the list of runs", { id: "rail-close", on: { click: () => openSidebar(false) } })),
    h("div", { class: "rail-links" }, links.ask, links.documents),
    h("div", { class: "rail-search" }, icon("search"), search),
    list,
    h("div", { class: "rail-foot" }, themeToggle(), h("span", { class: "faint size-1 grow", text: `vrag ${version}` }), secured && iconButton("leave", "Sign out", { id: "sign-out", on: { click: signOut } })),
  );
  drawer();
  return {
    /** @param {Shown} next */
    show(next) {
      shown = next;
      draw();
    },
    /** @param {"ask" | "run" | "documents"} name */
    mark(name) {
      links.ask.toggleAttribute("data-here", name === "ask");
      links.documents.toggleAttribute("data-here", name === "documents");
      if (!ROOM.matches) openSidebar(false);
    },
    /** @param {number} count */
    uploads(count) {
      uploading.hidden = count === 0;
      replace(uploading, h("span", { class: "spinner" }), h("span", { "aria-label": `${count} uploading`, text: count }));
    },
  };
}

function drawer() {
  const settle = () => {
    const room = ROOM.matches && (BOTH.matches || !("viewer" in document.documentElement.dataset));
    openSidebar(room && localStorage.getItem(KEPT) !== "closed", false);
  };
  for (const screen of [ROOM, BOTH]) screen.addEventListener("change", settle);
  window.addEventListener("vrag:viewer", settle);
  document.getElementById("rail-shade")?.addEventListener("click", () => openSidebar(false));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && element("column").inert && !document.querySelector("dialog[open]")) openSidebar(false);
  });
  settle();
}

/**
 * Opens or closes the sidebar. As a drawer it takes the focus, and gives it back.
 * @param {boolean} open
 * @param {boolean} [byHand] Whether a person did it: then it is kept, and the focus moves.
 */
export function openSidebar(open, byHand = true) {
  const was = document.documentElement.dataset.rail === "open";
  document.documentElement.dataset.rail = open ? "open" : "closed";
  const modal = open && !ROOM.matches;
  element("rail").inert = !open;
  element("column").inert = modal;
  element("rail-shade").hidden = !modal;
  if (!byHand || was === open) return;
  if (ROOM.matches) localStorage.setItem(KEPT, open ? "open" : "closed");
  element(open ? "rail-close" : "rail-open").focus();
}

/** @param {string} id */
function element(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

async function signOut() {
  try {
    await del("/session");
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (error.status !== 401) toast("You are still signed in.", { kind: "danger", hint: error.detail });
    return;
  }
  sessionStorage.clear(); // drafts of questions
  window.dispatchEvent(new CustomEvent("vrag:signed-out", { detail: { byHand: true } }));
}
